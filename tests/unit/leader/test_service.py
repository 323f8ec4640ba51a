"""The service: a leader on a thread, as the rest of a process meets it."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from queue import Queue

import pytest
from msgspec.structs import replace

from servo.config import Settings
from servo.controllers.dispatch import IdleWorker
from servo.core.events.assets import CheckEvaluated
from servo.core.events.dispatch import DispatchRequested, Handover
from servo.core.events.envelope import Answer, Batch, Event
from servo.core.events.quotas import QuotaSet
from servo.core.events.runs import PlanCreated, RunCancelRequested, RunRequested
from servo.core.events.tasks import CommittedOutput, TaskFinished, TaskOutcome
from servo.core.positions import Position
from servo.core.state.rows.execution import TaskRow
from servo.errors import Corrupt, Fenced, Internal, Invalid, ServoError, Unavailable
from servo.leader import requests
from servo.leader.assignments import Assignment
from servo.leader.heartbeats import BeatReply
from servo.leader.leases.lease import LeaderLease
from servo.leader.requests import Beat
from servo.leader.service import Service
from servo.leader.workers import Workers
from servo.ledger.paths import Paths
from servo.ledger.reader import LedgerReader
from servo.ports.clock import Clock
from servo.ports.object_store import Blob, ObjectMeta, ObjectStore
from servo.ports.world import World
from servo.projection.read.reader import Reader
from servo.projection.upkeep.verify import verify
from servo.storage.local import LocalStore
from servo.storage.memory import MemoryStore
from servo.testing.builders import specs, task_key
from servo.testing.eventually import eventually
from servo.testing.workspaces import StoredStory
from servo.workspace.system import SystemClock, SystemEntropy

PATHS = Paths("acme", "prod")
SOON = 30.0  # seconds: longer than anything here takes on the slowest machine
LOST = 3.0  # seconds after which an answer that is known to get lost is given up
HOUR = timedelta(hours=1)

CLOCK = SystemClock()
RARELY = Settings(publish_every=HOUR)


@pytest.fixture(params=["memory", "local"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    return MemoryStore(CLOCK) if request.param == "memory" else LocalStore(tmp_path / "store")


@pytest.fixture
def memory() -> MemoryStore:
    return MemoryStore(CLOCK)


def service_on(
    store: ObjectStore,
    settings: Settings | None = None,
    *,
    clock: Clock = CLOCK,
    workers: Callable[[Service], Workers] | None = None,
    shared: bool = False,
) -> Service:
    world = World(store, clock, SystemEntropy())
    lease = None
    if shared:
        holder = world.entropy.token_bytes(8).hex()
        lease = LeaderLease(world.store, world.clock, PATHS, settings or Settings(), holder=holder)
    return Service(world, PATHS, settings, workers=workers, right=lease)


def plan(number: int, names: Sequence[str] = ()) -> Batch:
    """Ask for a run of these assets, each depending on the one before."""
    run = f"run_{number}"
    dag = {name: names[place - 1 : place] for place, name in enumerate(names)}
    request = RunRequested(run_id=run, run_key=f"key-{number}", request_fingerprint="fp")
    tasks = specs(dag, heartbeat_timeout_ms=5_000)
    return batch(f"plan-{number}", request, PlanCreated(run_id=run, fingerprint="p", tasks=tasks))


def batch(name: str, *events: Event) -> Batch:
    return Batch(id=name, events=events)


def start(service: Service, run_id: str = "run_1") -> str:
    """Grant the task of asset `a` to the execution `x`; its attempt."""
    handover = Handover(exec_id="x", worker_id="w")
    event = DispatchRequested(run_id=run_id, task_key=task_key("a"), attempt=1, handover=handover)
    return str(service.commit(batch(f"start-{run_id}", event), SOON).data["attempt_id"])


def entries(store: ObjectStore) -> list[list[str]]:
    """The ids of the batches in every entry of the ledger."""
    ledger = LedgerReader(store, PATHS).forward(0)
    return [[found.id for found in entry.batches] for entry, _ in ledger]


def insist(service: Service, sent: Batch) -> Answer:
    """Commit a batch, however often the service does not lead for a moment."""
    answers: list[Answer] = []

    def committed() -> bool:
        try:
            answers.append(service.commit(sent, SOON))
        except Unavailable:
            return False
        return True

    eventually(committed)
    return answers[0]


def published_by(store: ObjectStore, seq: int) -> None:
    """Wait until readers see an entry."""
    reader = Reader(store, PATHS)
    eventually(lambda: reader.snapshot().applied_seq >= seq)


def task(service: Service, run_id: str = "run_1", name: str = "a") -> TaskRow:
    return service.engine.state.tasks.rows[run_id, task_key(name)]


# --- committing -----------------------------------------------------------------------------------


def test_a_commit_is_answered_when_it_is_in_the_ledger(store: ObjectStore) -> None:
    with service_on(store) as service:
        answer = service.commit(plan(1))

        assert answer.applied
        assert answer.data["run_id"] == "run_1"
        assert entries(store)[answer.seq - 1] == ["plan-1"]


def test_a_batch_that_is_sent_again_is_answered_and_not_written_again(store: ObjectStore) -> None:
    with service_on(store) as service:
        first = service.commit(plan(1))
        second = service.commit(plan(1))

        assert (first.repeated, second.repeated) == (False, True)
        assert second.data == first.data
        assert sum("plan-1" in ids for ids in entries(store)) == 1


def test_many_threads_commit_at_once_and_everything_is_in_the_ledger_once(
    store: ObjectStore,
) -> None:
    answers: Queue[tuple[str, int]] = Queue()
    with service_on(store) as service:

        def commit(thread: int) -> None:
            for number in range(20):
                sent = plan(thread * 100 + number)
                answers.put((sent.id, service.commit(sent, SOON).seq))

        threads = [threading.Thread(target=commit, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    told = dict([answers.get() for _ in range(160)])
    found = {name: seq for seq, ids in enumerate(entries(store), 1) for name in ids}
    assert told == found
    report = verify(store, PATHS)
    assert report.problems == ()


def test_stopping_commits_what_was_submitted_and_publishes_it(store: ObjectStore) -> None:
    service = service_on(store, RARELY).start()
    futures = [service.submit(plan(number)) for number in range(50)]
    service.stop()

    last = max(future.result(timeout=0).seq for future in futures)
    snapshot = Reader(store, PATHS).snapshot(min_seq=last)
    assert snapshot.table("runs").num_rows == 50


def test_a_batch_that_cannot_go_into_the_ledger_is_refused_at_once(memory: MemoryStore) -> None:
    with service_on(memory) as service:
        before = entries(memory)
        with pytest.raises(Invalid, match="empty"):
            _ = service.submit(batch("nothing"))
        with pytest.raises(Invalid, match="relative path"):
            _ = service.submit(batch("escape", RunCancelRequested(run_id="../x")))
        assert entries(memory) == before


def test_a_refusal_is_an_answer_and_not_an_error(memory: MemoryStore) -> None:
    with service_on(memory) as service:
        answer = service.commit(batch("b", RunCancelRequested(run_id="unknown")))
        assert (answer.status, answer.reason) == ("rejected", "unknown_run")


def test_a_successor_answers_a_repetition_as_its_predecessor_did(store: ObjectStore) -> None:
    limit = batch("limit", QuotaSet(max_concurrent_tasks=7))
    with service_on(store) as service:
        first = service.commit(limit)
    with service_on(store) as service:
        again = service.commit(limit)

    assert (again.status, again.seq, again.repeated) == (first.status, first.seq, True)


def test_the_result_of_a_check_is_committed(memory: MemoryStore) -> None:
    with service_on(memory) as service:
        _ = service.commit(plan(1, ["a"]))
        checked = CheckEvaluated(
            run_id="run_1",
            task_key=task_key("a"),
            attempt_id=start(service),
            exec_id="x",
            asset_key="ns/a",
            check_name="rows",
            passed=True,
        )
        assert service.commit(batch("check", checked), LOST).applied


# --- executions -----------------------------------------------------------------------------------


def test_a_beat_is_answered_with_what_the_execution_should_do(memory: MemoryStore) -> None:
    with service_on(memory) as service:
        _ = service.commit(plan(1, ["a"]))
        attempt = start(service)
        mine = Beat(run_id="run_1", task_key=task_key("a"), attempt_id=attempt, exec_id="x")
        others = Beat(run_id="run_1", task_key=task_key("a"), attempt_id=attempt, exec_id="y")

        assert service.beat(mine).result(SOON) is BeatReply.GO_ON
        assert service.beat(others).result(SOON) is BeatReply.LOST
        _ = service.commit(batch("cancel", RunCancelRequested(run_id="run_1")))
        assert service.beat(mine).result(SOON) is BeatReply.CANCEL


class OneWorker:
    """A pool with one place, which somebody else works off."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._count = 0
        self._idle = True
        self.work: Queue[Assignment] = Queue()

    def idle(self) -> Sequence[IdleWorker]:
        if not self._idle:
            return ()
        return (IdleWorker(worker_id="w", exec_id=f"x{self._count}"),)

    def assign(self, assignments: Sequence[Assignment]) -> None:
        self._idle = False
        (assignment,) = assignments
        self._count += 1
        self.work.put(assignment)

    def done(self) -> None:
        self._idle = True
        self._service.wake()


def test_ready_tasks_are_handed_to_an_idle_worker_one_after_the_other(store: ObjectStore) -> None:
    pools: list[OneWorker] = []

    def pool_of(service: Service) -> OneWorker:
        pools.append(OneWorker(service))
        return pools[0]

    with service_on(store, workers=pool_of) as service:
        _ = service.commit(plan(1, ["a", "b", "c"]))
        for name in ("a", "b", "c"):
            given = pools[0].work.get(timeout=SOON)
            assert given.task_key == task_key(name)
            pools[0].done()
            answer = service.commit(batch(f"end-{name}", finished(given)))
            assert answer.data["task_state"] == "SUCCEEDED"

        run = service.engine.state.runs.rows["run_1"]
        assert (run.state, run.tasks_succeeded) == ("SUCCEEDED", 3)


def finished(given: Assignment) -> TaskFinished:
    return TaskFinished(
        run_id=given.run_id,
        task_key=given.task_key,
        attempt_id=given.attempt_id,
        exec_id=given.exec_id,
        outcome=TaskOutcome.SUCCEEDED,
        output=CommittedOutput(materialization_id=given.exec_id),
    )


# --- clocks ---------------------------------------------------------------------------------------


class JumpingClock:
    """A wall clock that somebody sets, beside a monotonic one that nobody can."""

    def __init__(self) -> None:
        self.offset = timedelta()

    def now(self) -> datetime:
        return CLOCK.now() + self.offset

    def monotonic(self) -> float:
        return CLOCK.monotonic()


@pytest.mark.parametrize(
    "jumps",
    [(HOUR,), (-HOUR,), (HOUR, -HOUR, HOUR), (-HOUR, 2 * HOUR, -2 * HOUR)],
    ids=["forward", "back", "forward and back", "back and forward"],
)
def test_no_lease_expires_and_commits_go_on_when_the_clock_jumps(
    store: ObjectStore, jumps: Sequence[timedelta]
) -> None:
    clock = JumpingClock()
    with service_on(store, clock=clock) as service:
        _ = service.commit(plan(1, ["a"]))
        attempt = start(service)
        mine = Beat(run_id="run_1", task_key=task_key("a"), attempt_id=attempt, exec_id="x")
        for number, jump in enumerate(jumps):
            clock.offset += jump
            assert service.commit(plan(100 + number), SOON).applied
            assert service.beat(mine).result(SOON) is BeatReply.GO_ON
        row = task(service)
        assert (row.state, row.attempt, row.infra_losses) == ("RUNNING", 1, 0)
    with service_on(store, clock=clock) as service:
        assert service.commit(plan(200), SOON).applied
        assert task(service).state == "RUNNING"

    times = [entry.ts for entry, _ in LedgerReader(store, PATHS).forward(0)]
    assert all(before < after for before, after in pairwise(times))


# --- no longer leading ----------------------------------------------------------------------------


def test_a_service_that_was_never_started_says_that_it_does_not_lead(memory: MemoryStore) -> None:
    service = service_on(memory)
    with pytest.raises(Unavailable, match="does not lead") as refused:
        _ = service.submit(plan(1))
    assert not refused.value.may_have_applied


def test_a_service_that_has_stopped_says_that_it_does_not_lead(memory: MemoryStore) -> None:
    service = service_on(memory).start()
    service.stop()
    with pytest.raises(Unavailable) as refused:
        _ = service.commit(plan(1), LOST)
    assert not refused.value.may_have_applied


def test_a_service_that_was_replaced_is_fenced_and_says_why(store: ObjectStore) -> None:
    with service_on(store) as old, service_on(store) as new:
        with pytest.raises(Fenced):
            _ = old.commit(plan(1), SOON)
        assert new.commit(plan(1), SOON).applied
        eventually(lambda: isinstance(old.failure, Fenced))
        with pytest.raises(Fenced):
            _ = old.submit(plan(2))

    assert [ids for ids in entries(store) if ids] == [["plan-1"]]


def test_a_service_that_was_replaced_answers_no_repetition_from_memory(store: ObjectStore) -> None:
    with service_on(store) as old:
        # Otherwise publishing could be what finds out that somebody else leads.
        published_by(store, old.commit(plan(1)).seq)
        with service_on(store), pytest.raises(Fenced):
            _ = old.commit(plan(1), LOST)


class Partition(MemoryStore):
    """A store on the other side of a network that can be cut: what is sent arrives all the same."""

    def __init__(self) -> None:
        super().__init__(CLOCK)
        self.cut = False

    def create(self, key: str, data: bytes) -> ObjectMeta:
        try:
            return super().create(key, data)
        finally:
            self._lose_answer()

    def get(self, key: str) -> Blob:
        self._lose_answer()
        return super().get(key)

    def _lose_answer(self) -> None:
        if self.cut:
            raise Unavailable("no answer", remedy="wait", may_have_applied=True)


def test_a_service_that_cannot_know_what_became_of_a_write_takes_over_from_what_it_finds() -> None:
    store = Partition()
    with service_on(store) as service:
        before = service.commit(plan(1)).seq
        store.cut = True
        with pytest.raises(Unavailable) as unknown:
            _ = service.commit(plan(2), SOON)
        assert unknown.value.may_have_applied
        store.cut = False

        assert insist(service, plan(2)).repeated
        assert insist(service, plan(3)).seq > before + 2, "the fence is an entry too"
        assert service.failure is None
    assert [ids for ids in entries(store) if ids] == [["plan-1"], ["plan-2"], ["plan-3"]]


class SlowToRefuse(MemoryStore):
    """A store that takes its time over a new entry, and then has no room for it."""

    def __init__(self) -> None:
        super().__init__(CLOCK)
        self.armed = False
        self.asked = threading.Event()
        self.answer = threading.Event()

    def create(self, key: str, data: bytes) -> ObjectMeta:
        if not self.armed or "/ledger/" not in key:
            return super().create(key, data)
        self.asked.set()
        assert self.answer.wait(SOON)
        raise Unavailable("the disk is full", remedy="free some space", may_have_applied=False)


def test_nobody_sees_what_is_folded_and_not_yet_durable() -> None:
    store = SlowToRefuse()
    with service_on(store, RARELY) as service, ThreadPoolExecutor(1) as threads:
        before = service.read(lambda state: (state.seq, set(state.runs.rows)))
        store.armed = True
        refused = service.submit(plan(1))
        assert store.asked.wait(SOON)
        assert "run_1" in service.engine.state.runs.rows, "folded, and on its way to the store"
        looked = threads.submit(service.read, lambda state: (state.seq, set(state.runs.rows)))
        assert not looked.done()
        store.answer.set()
        with pytest.raises(Unavailable):
            _ = refused.result(SOON)
        assert looked.result(SOON) == before
        store.armed = False


def test_a_reader_sees_what_it_was_told_before_and_gets_its_own_mistakes_back(
    memory: MemoryStore,
) -> None:
    with service_on(memory) as service:
        seq = service.commit(plan(1)).seq
        assert service.read(lambda state: (state.seq >= seq, "run_1" in state.runs.rows)) == (
            True,
            True,
        )
        with pytest.raises(KeyError, match="nobody"):
            _ = service.read(lambda state: state.runs.rows["nobody"])
        assert service.commit(plan(2)).applied, "the leader goes on"


def test_a_read_that_waits_when_the_leader_ends_is_told_so() -> None:
    store = Partition()
    with service_on(store) as service:
        store.cut = True
        unknown = service.submit(plan(1))
        assert isinstance(eventually(lambda: failure_of_a_read(service)), Unavailable)
        assert unknown.exception(SOON) is not None
        store.cut = False


def failure_of_a_read(service: Service) -> ServoError | None:
    try:
        _ = service.read(lambda state: state.seq)
    except ServoError as error:
        return error
    return None


def test_a_watcher_may_read_too(memory: MemoryStore) -> None:
    seen: list[int] = []
    service = service_on(memory)
    service.watch(lambda state: seen.append(service.read(lambda same: same.seq) - state.seq))
    with service:
        _ = service.commit(plan(1))
    assert set(seen) == {0}


def test_starting_on_a_damaged_ledger_raises_what_is_wrong_with_it(memory: MemoryStore) -> None:
    story = StoredStory(memory)
    _ = story.plan({"a": []}, run_id="run_1")
    _ = story.publish()
    _ = story.plan({"a": []}, run_id="run_2")
    key = PATHS.ledger_entry(story.state.seq)
    _ = memory.put(key, memory.get(key).data.replace(b"run_2", b"run_3"))

    with pytest.raises(Corrupt, match="do not match their hash"):
        _ = service_on(memory).start()


# --- callers that do not behave -------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_caller_that_no_longer_waits_does_not_stop_the_leader(memory: MemoryStore) -> None:
    with service_on(memory) as service:
        futures = [service.submit(plan(number)) for number in range(20)]
        cancelled = [future.cancel() for future in futures]
        assert any(cancelled)
        assert service.commit(plan(100), LOST).applied


class Broken(OneWorker):
    """A pool with a bug."""

    def idle(self) -> Sequence[IdleWorker]:
        raise ZeroDivisionError


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_bug_in_the_leader_is_told_to_whoever_waits(memory: MemoryStore) -> None:
    with service_on(memory, workers=Broken) as service:
        with pytest.raises(Internal):
            _ = service.commit(plan(1, ["a"]), LOST)
        assert isinstance(service.failure, Internal)


def test_a_request_that_comes_as_the_leader_leaves_is_answered(
    memory: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = service_on(memory, RARELY).start()
    told: Queue[Answer | BaseException] = Queue()
    looked, go_on = threading.Event(), threading.Event()
    check_batch = requests.check_batch

    def take_time(batch: Batch, raw: bytes) -> None:
        if batch.id == "late":
            looked.set()
            assert go_on.wait(SOON)
        check_batch(batch, raw)

    monkeypatch.setattr(requests, "check_batch", take_time)

    def submit() -> None:
        late = Batch(id="late", events=plan(1).events)
        try:
            told.put(old.commit(late, LOST))
        except (ServoError, TimeoutError) as error:
            told.put(error)

    thread = threading.Thread(target=submit)
    thread.start()
    assert looked.wait(SOON)
    with service_on(memory):
        with pytest.raises(Fenced):
            _ = old.commit(plan(2), SOON)
        eventually(lambda: old.failure is not None)
        go_on.set()
        thread.join()
    old.stop()

    assert isinstance(told.get(), Fenced)


# --- several processes ----------------------------------------------------------------------------


def test_a_standby_leads_when_the_leader_has_left(store: ObjectStore) -> None:
    leader = service_on(store, shared=True).start()
    standby = service_on(store, shared=True)
    waiting = threading.Thread(target=standby.start)
    waiting.start()
    assert leader.commit(plan(1), SOON).applied
    leader.stop()
    waiting.join(SOON)

    assert standby.commit(plan(1), SOON).repeated
    assert standby.commit(plan(2), SOON).applied
    standby.stop()
    assert leader.failure is None


class Watched(MemoryStore):
    """A store that tells when somebody looks at the lease."""

    def __init__(self) -> None:
        super().__init__(CLOCK)
        self.asked = threading.Event()

    def get(self, key: str) -> Blob:
        if key == PATHS.lease:
            self.asked.set()
        return super().get(key)


def test_a_standby_can_be_stopped_while_it_waits() -> None:
    store = Watched()
    with service_on(store, shared=True) as leader:
        store.asked.clear()
        standby = service_on(store, shared=True)
        waiting = threading.Thread(target=standby.start)
        waiting.start()
        assert store.asked.wait(SOON)
        standby.stop()
        waiting.join(SOON)
        assert not waiting.is_alive()
        assert leader.commit(plan(1), SOON).applied


def test_a_batch_without_an_actor_is_that_of_the_process_that_submits_it(
    memory: MemoryStore,
) -> None:
    clock = SystemClock()
    world = World(memory, clock, SystemEntropy(), identity="user:ada@laptop")
    with Service(world, Paths("t", "w")) as service:
        anonymous, signed = plan(1), replace(plan(2), actor="worker:etl")
        assert service.commit(anonymous).position == Position(2, 0)
        assert service.commit(signed).applied
        runs = service.engine.state.runs.rows
        assert [runs[name].requested_by for name in runs] == ["user:ada@laptop", "worker:etl"]


@pytest.mark.parametrize(
    ("field", "value", "wrong"),
    [
        ("actor", "somebody", "KIND:NAME"),
        ("cause", "yesterday", "such as 123.4"),
        ("correlation", "a\nb", "correlation"),
    ],
)
def test_an_origin_that_cannot_be_is_refused_at_once(
    memory: MemoryStore, field: str, value: str, wrong: str
) -> None:
    with service_on(memory) as service, pytest.raises(Invalid, match=wrong):
        service.submit(replace(plan(1), **{field: value}))


class Resumed:
    """The right of a process that was suspended after it took the right, and lost it meanwhile."""

    def __init__(self) -> None:
        self.tries = 0

    def acquire(self) -> bool:
        self.tries += 1
        return True

    def is_current(self) -> bool:
        return self.tries > 1

    def renew_if_due(self) -> bool:
        return True

    def release(self) -> None:
        return


def test_who_was_suspended_before_its_takeover_claims_nothing_and_tries_again() -> None:
    world = World(MemoryStore(CLOCK), CLOCK, SystemEntropy())
    right = Resumed()
    service = Service(world, PATHS, RARELY, right=right)
    with pytest.raises(Unavailable, match="was suspended before it could take over"):
        _ = service.start()
    try:
        eventually(lambda: service.leads)
        entries = [entry for entry, _ in LedgerReader(world.store, PATHS).forward(0)]
        assert [(entry.seq, entry.epoch) for entry in entries] == [(1, 1)]
        assert right.tries == 2
    finally:
        service.stop()
