"""The leader's loop, one step at a time, on a store that can be told to fail."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from servo.config import Settings
from servo.controllers.dispatch import IdleWorker
from servo.core.definitions import definitions_bytes, definitions_digest
from servo.core.events.assets import (
    AssetDefinition,
    AssetReported,
    DefinitionsDeployed,
    DynamicPartitionsChanged,
)
from servo.core.events.codec import encode_batch
from servo.core.events.envelope import Answer, Batch, Event, Status
from servo.core.events.runs import (
    PlanCreated,
    PlanSegment,
    PlanSegmentExpanded,
    RunCancelRequested,
    RunRequested,
    SensorSource,
)
from servo.core.events.tasks import CommittedOutput, TaskFinished, TaskOutcome, TaskStarted
from servo.core.freshness import FreshnessState
from servo.core.keys import place_of
from servo.core.plan import chunk_bytes, chunk_digest, normalize, split
from servo.core.state.rows.assets import DynamicPartitionRow, PartitionStatusRow
from servo.core.state.rows.execution import TaskHeartbeatRow
from servo.core.state.rows.system import DeadLetterRow
from servo.core.state.states import RunState, TaskState
from servo.errors import Corrupt, Fenced, Invalid, Unavailable
from servo.leader.assignments import Assignment, PinnedInput
from servo.leader.engine import Engine
from servo.leader.heartbeats import BeatReply
from servo.leader.requests import Beat
from servo.leader.takeover import take_over
from servo.ledger.reader import LedgerReader
from servo.ports.object_store import Blob, ObjectMeta
from servo.projection.read.cold import ColdRows
from servo.projection.read.reader import Reader
from servo.projection.upkeep.rebuild import rebuild
from servo.storage.memory import MemoryStore
from servo.testing.builders import specs, task_key
from servo.testing.clock import ManualClock
from servo.testing.leader import HandLeader

SECOND = timedelta(seconds=1)


def _cheerful(key: str) -> Unavailable | None:
    del key
    return None


class MoodyStore(MemoryStore):
    """A store whose creates fail while `mood` says how, and reads of what is `unreadable`."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self.mood: Callable[[str], Unavailable | None] = _cheerful
        self.unreadable = ""

    def get(self, key: str) -> Blob:
        if self.unreadable and self.unreadable in key:
            raise Unavailable("not now", remedy="later", may_have_applied=False)
        return super().get(key)

    def create(self, key: str, data: bytes) -> ObjectMeta:
        error = self.mood(key)
        if error is not None:
            raise error
        return super().create(key, data)


def new_store() -> MoodyStore:
    return MoodyStore(ManualClock())


def request(run_id: str = "run_1", **fields: Any) -> RunRequested:
    values: dict[str, Any] = {"run_key": f"key-{run_id}", "request_fingerprint": "fp", **fields}
    return RunRequested(run_id=run_id, **values)


def plan(run_id: str = "run_1", **dag: tuple[str, ...]) -> PlanCreated:
    graph = dag or {"a": (), "b": ("a",)}
    tasks = specs(graph, heartbeat_timeout_ms=10_000)
    return PlanCreated(run_id=run_id, fingerprint="plan", tasks=tasks)


def answered(value: object) -> Answer:
    assert isinstance(value, Answer), value
    return value


def entries(leader: HandLeader) -> list[int]:
    reader = LedgerReader(leader.ports.store, leader.paths)
    return [entry.seq for entry, _ in reader.forward(0)]


def test_a_committed_batch_is_in_the_ledger_when_it_is_answered() -> None:
    leader = HandLeader(new_store())
    answer = answered(leader.tell(request()))
    entry = LedgerReader(leader.ports.store, leader.paths).read(answer.seq)
    assert entry is not None
    assert [type(e).__name__ for b in entry[0].batches for e in b.events] == ["RunRequested"]


def test_a_ready_task_is_dispatched_in_the_entry_that_planned_it() -> None:
    leader = HandLeader(new_store())
    leader.tell(request(), plan())
    (sent,) = leader.queue.sent
    row = leader.engine.state.tasks.rows["run_1", task_key("a")]
    assert (sent.attempt_id, row.state) == (row.attempt_id, TaskState.DISPATCHED)
    assert entries(leader) == [1, 2]


def test_what_waits_together_is_committed_together() -> None:
    leader = HandLeader(new_store())
    answers = leader.send(*(leader.batch(request(f"run_{n}")) for n in range(50)))
    leader.engine.step()
    assert {answered(answer).seq for answer in answers} == {2}


def test_an_idle_leader_writes_nothing() -> None:
    leader = HandLeader(new_store())
    leader.tell(request(), plan(a=()))
    leader.run_for(3 * SECOND)
    before = [meta.key for meta in leader.ports.store.list_after("")]
    leader.run_for(20 * SECOND)
    after = [meta.key for meta in leader.ports.store.list_after("")]
    assert [key for key in after if key not in before and "/ledger/" in key] == []
    assert after == before


def test_a_full_disk_is_told_and_nothing_is_blocked_after_it() -> None:
    store = new_store()
    leader = HandLeader(store)
    full = Unavailable("full", may_have_applied=False)
    store.mood = lambda key: full if "ledger" in key else None
    refused = leader.tell(request())
    assert isinstance(refused, Unavailable)
    assert not leader.engine.state.runs.rows
    store.mood = _cheerful
    assert answered(leader.tell(request())).applied
    assert entries(leader) == [1, 2]


def test_a_durable_entry_is_never_reported_as_not_applied_when_ownership_cannot_be_read() -> None:
    store = new_store()
    leader = HandLeader(store)
    batch = leader.batch(request())
    leader.clock.advance(timedelta(hours=13))
    store.unreadable = "/manifests/"
    (answer,) = _send_and_step(leader, batch)
    assert isinstance(answer, Unavailable)
    assert answer.may_have_applied
    store.unreadable = ""
    successor = HandLeader(store, seed=1, clock=leader.clock)
    assert "run_1" in successor.engine.state.runs.rows
    answers = successor.send(batch)
    successor.engine.step()
    assert answered(answers[0]).applied


def test_an_unknown_outcome_ends_the_term_and_the_successor_finds_out() -> None:
    store = new_store()
    leader = HandLeader(store)
    applied: list[str] = []

    def lost_answer(key: str) -> Unavailable | None:
        if "ledger" not in key or applied:
            return Unavailable("lost") if "ledger" in key else None
        applied.append(key)
        return None

    batch = leader.batch(request())
    store.mood = lost_answer
    applied.append("nothing is applied")
    (answer,) = _send_and_step(leader, batch)
    assert isinstance(answer, Unavailable)
    assert answer.may_have_applied
    store.mood = _cheerful
    successor = HandLeader(store, seed=1)
    answers = successor.send(batch)
    successor.engine.step()
    assert answered(answers[0]).applied


def _send_and_step(leader: HandLeader, batch: Batch) -> list[object]:
    answers = leader.send(batch)
    with pytest.raises(Unavailable):
        leader.engine.step()
    return list(answers)


def test_a_former_leader_is_fenced_and_its_caller_told() -> None:
    store = new_store()
    old = HandLeader(store)
    new = HandLeader(store, seed=1)
    answers = old.send(old.batch(request()))
    with pytest.raises(Fenced):
        old.engine.step()
    assert isinstance(answers[0], Fenced)
    assert answered(new.tell(request())).applied


def test_a_former_leader_does_not_even_refuse() -> None:
    """What it does not know, its successor may: only the leader may say no."""
    store = new_store()
    old = HandLeader(store)
    HandLeader(store, seed=1)
    nonsense = TaskStarted(run_id="run_x", task_key="t", attempt_id="a", exec_id="e")
    answers = old.send(old.batch(nonsense))
    with pytest.raises(Fenced):
        old.engine.step()
    assert isinstance(answers[0], Fenced)


def test_a_former_leader_does_not_acknowledge_signs_of_life() -> None:
    store = new_store()
    old = HandLeader(store)
    _start(old)
    HandLeader(store, seed=1)
    old.clock.advance(timedelta(seconds=4))
    with pytest.raises(Fenced):
        old.beat(_beat(old))


def _start(leader: HandLeader, name: str = "a") -> None:
    leader.tell(request(), plan())
    row = leader.engine.state.tasks.rows["run_1", task_key(name)]
    leader.tell(
        TaskStarted(
            run_id="run_1", task_key=row.task_key, attempt_id=row.attempt_id, exec_id="mine"
        )
    )


def _beat(leader: HandLeader) -> Beat:
    row = leader.engine.state.tasks.rows["run_1", task_key("a")]
    return Beat(run_id="run_1", task_key=row.task_key, attempt_id=row.attempt_id, exec_id="mine")


def test_an_execution_that_beats_keeps_its_task() -> None:
    leader = HandLeader(new_store())
    _start(leader)
    for _ in range(30):
        leader.clock.advance(SECOND)
        assert leader.beat(_beat(leader)) is BeatReply.GO_ON
    assert leader.engine.state.tasks.rows["run_1", task_key("a")].attempt == 1


def test_who_was_heard_of_can_be_read_and_is_forgotten_at_the_end() -> None:
    leader = HandLeader(new_store())
    _start(leader)
    for _ in range(40):
        leader.clock.advance(SECOND)
        leader.beat(_beat(leader))
    reader = Reader(leader.ports.store, leader.paths)
    (row,) = reader.snapshot().rows("task_heartbeats")
    assert isinstance(row, TaskHeartbeatRow)
    assert (row.exec_id, row.beats > 20) == ("mine", True)
    leader.run_for(timedelta(seconds=60))
    assert reader.snapshot().rows("task_heartbeats") == []


def test_an_execution_that_falls_silent_loses_its_task() -> None:
    leader = HandLeader(new_store())
    _start(leader)
    leader.run_for(timedelta(seconds=13))
    row = leader.engine.state.tasks.rows["run_1", task_key("a")]
    assert (row.state, row.infra_losses) == (TaskState.RETRY_WAIT, 1)
    assert leader.beat(_beat(leader)) is BeatReply.LOST


def test_silence_of_the_leader_is_not_silence_of_the_worker() -> None:
    leader = HandLeader(new_store())
    _start(leader)
    leader.clock.advance(timedelta(minutes=10))
    leader.engine.step()
    row = leader.engine.state.tasks.rows["run_1", task_key("a")]
    assert row.state is TaskState.RUNNING
    assert row.lease_expires_at is not None
    assert row.lease_expires_at > leader.engine.state.ts


@pytest.mark.parametrize("hours", [1, -1])
def test_a_clock_that_jumps_expires_nothing(hours: int) -> None:
    leader = HandLeader(new_store())
    _start(leader)
    leader.clock.jump(timedelta(hours=hours))
    for _ in range(5):
        leader.clock.advance(SECOND)
        assert leader.beat(_beat(leader)) is BeatReply.GO_ON
    assert leader.engine.state.tasks.rows["run_1", task_key("a")].state is TaskState.RUNNING


def test_after_a_clock_was_set_back_time_still_passes() -> None:
    leader = HandLeader(new_store())
    _start(leader)
    leader.clock.jump(timedelta(hours=-1))
    leader.run_for(timedelta(seconds=13))
    assert leader.engine.state.tasks.rows["run_1", task_key("a")].state is TaskState.RETRY_WAIT


def test_a_cancelled_execution_is_told_with_its_next_beat() -> None:
    leader = HandLeader(new_store())
    _start(leader)
    leader.tell(RunCancelRequested(run_id="run_1"))
    assert leader.beat(_beat(leader)) is BeatReply.CANCEL


def test_a_cancelled_execution_that_says_nothing_is_given_up_after_its_grace() -> None:
    leader = HandLeader(new_store())
    _start(leader)
    leader.tell(RunCancelRequested(run_id="run_1"))
    for _ in range(33):
        leader.clock.advance(SECOND)
        leader.beat(_beat(leader))
    assert leader.engine.state.runs.rows["run_1"].state is RunState.CANCELLED


def test_a_published_projection_is_read_back_by_others() -> None:
    leader = HandLeader(new_store())
    leader.tell(request(), plan())
    leader.run_for(2 * SECOND)
    snapshot = Reader(leader.ports.store, leader.paths).snapshot(min_seq=2)
    assert [getattr(row, "run_id", "") for row in snapshot.rows("runs")] == ["run_1"]


def test_a_successor_resumes_where_the_leader_died() -> None:
    store = new_store()
    first = HandLeader(store)
    _start(first)
    state = first.engine.state
    second = HandLeader(store, seed=1)
    row = second.engine.state.tasks.rows["run_1", task_key("a")]
    assert row.exec_id == "mine"
    finished = TaskFinished(
        run_id="run_1",
        task_key=row.task_key,
        attempt_id=row.attempt_id,
        exec_id="mine",
        outcome=TaskOutcome.SUCCEEDED,
    )
    assert answered(second.tell(finished)).applied
    assert second.engine.state.tasks.rows["run_1", task_key("b")].state is TaskState.DISPATCHED
    assert state.tasks.rows["run_1", task_key("b")].state is TaskState.BLOCKED


def test_inbox_objects_are_sequenced_once_and_removed() -> None:
    leader = HandLeader(new_store())
    batch = leader.batch(request(), plan())
    key = leader.paths.inbox_item("01ABC")
    leader.ports.store.create(key, encode_batch(batch))
    leader.run_for(3 * SECOND)
    assert "run_1" in leader.engine.state.runs
    assert list(leader.ports.store.list_after(leader.paths.inbox_prefix)) == []
    leader.ports.store.create(key, encode_batch(batch))
    before = leader.engine.state.seq
    leader.run_for(3 * SECOND)
    assert leader.engine.state.seq == before
    assert list(leader.ports.store.list_after(leader.paths.inbox_prefix)) == []


def test_an_inbox_object_stays_until_its_batch_is_durable() -> None:
    store = new_store()
    leader = HandLeader(store)
    full = Unavailable("full", may_have_applied=False)
    store.mood = lambda key: full if "ledger" in key else None
    key = leader.paths.inbox_item("01ABC")
    _ = MemoryStore.create(store, key, encode_batch(Batch(id="b", events=(request(),))))
    leader.run_for(timedelta(seconds=5))
    assert [meta.key for meta in store.list_after(leader.paths.inbox_prefix)] == [key]
    store.mood = _cheerful
    leader.run_for(timedelta(seconds=5))
    assert "run_1" in leader.engine.state.runs.rows
    assert list(store.list_after(leader.paths.inbox_prefix)) == []


def test_an_inbox_object_that_is_no_batch_becomes_a_dead_letter() -> None:
    leader = HandLeader(new_store())
    leader.ports.store.create(leader.paths.inbox_item("junk"), b"\xff not json")
    leader.run_for(3 * SECOND)
    (row,) = Reader(leader.ports.store, leader.paths).snapshot().rows("dead_letter")
    assert isinstance(row, DeadLetterRow)
    assert "invalid batch" in row.reason
    assert answered(leader.tell(request())).applied


MISSING = "0" * 64


@pytest.mark.parametrize(
    "event",
    [
        PlanSegmentExpanded(run_id="run_1", index=0, digest=MISSING),
        DefinitionsDeployed(deployment_id="d", definitions_digest=MISSING),
        RunRequested(run_id="run_9", run_key="k", request_fingerprint="x" * 300_000),
    ],
)
def test_an_inbox_object_that_cannot_be_used_is_set_aside_and_replays(event: Event) -> None:
    store = new_store()
    leader = HandLeader(store)
    raw = msgspec.json.encode(Batch(id="hostile", events=(event,)))
    store.create(leader.paths.inbox_item("hostile"), raw)
    leader.run_for(3 * SECOND)
    assert not list(store.list_after(leader.paths.inbox_prefix))
    assert answered(leader.tell(request(), plan())).applied
    assert rebuild(store, leader.paths, from_genesis=True).state.seq == leader.engine.state.seq
    second = HandLeader(store, seed=1)
    assert "run_1" in second.engine.state.runs


def test_a_request_that_names_what_is_not_stored_is_refused_and_leaves_no_entry() -> None:
    leader = HandLeader(new_store())
    before = leader.engine.state.seq
    event = DefinitionsDeployed(deployment_id="d", definitions_digest=MISSING)
    answer = answered(leader.tell(event))
    assert answer.status is Status.REJECTED
    assert answer.reason.startswith("not_stored")
    assert leader.engine.state.seq == before


def test_definitions_may_stand_in_the_store() -> None:
    leader = HandLeader(new_store())
    data = definitions_bytes([AssetDefinition(asset_key=f"a{n}") for n in range(3)])
    digest = definitions_digest(data)
    leader.ports.store.put(leader.paths.plan(digest), data)
    event = DefinitionsDeployed(deployment_id="d", location="here", definitions_digest=digest)
    assert answered(leader.tell(event)).applied
    assert [row.location for row in leader.engine.state.assets.values()] == ["here"] * 3
    again = rebuild(leader.ports.store, leader.paths, from_genesis=True).state
    assert again.assets.rows.keys() == {"a0", "a1", "a2"}


def test_a_fact_that_comes_before_its_run_waits_for_it() -> None:
    leader = HandLeader(new_store())
    early = leader.batch(RunCancelRequested(run_id="run_1"))
    leader.ports.store.create(leader.paths.inbox_item("early"), encode_batch(early))
    leader.run_for(3 * SECOND)
    assert list(leader.engine.state.parked.rows) == [early.id]
    leader.tell(request(), plan())
    assert leader.engine.state.runs.rows["run_1"].state is RunState.CANCELLED
    assert not leader.engine.state.parked.rows


def test_a_large_plan_is_expanded_segment_by_segment() -> None:
    leader = HandLeader(new_store())
    graph = {f"t{n}": (f"t{n - 1}",) if n else () for n in range(10)}
    segments: list[PlanSegment] = []
    for chunk in split(normalize(specs(graph)), 3):
        data = chunk_bytes(chunk)
        digest = chunk_digest(data)
        leader.ports.store.put(leader.paths.plan(digest), data)
        segments.append(PlanSegment(digest=digest, count=len(chunk.tasks)))
    event = PlanCreated(run_id="run_1", fingerprint="plan", segments=tuple(segments))
    leader.tell(request(), event)
    leader.run_for(5 * SECOND)
    assert len(leader.engine.state.index.run_tasks["run_1"]) == 10
    successor = HandLeader(leader.ports.store, seed=1)
    assert len(successor.engine.state.index.run_tasks["run_1"]) == 10


@pytest.mark.parametrize("data", [None, b"other bytes"])
def test_a_run_whose_stored_plan_is_missing_or_damaged_ends(data: bytes | None) -> None:
    leader = HandLeader(new_store())
    digest = "0" * 64
    if data is not None:
        leader.ports.store.put(leader.paths.plan(digest), data)
    event = PlanCreated(
        run_id="run_1", fingerprint="plan", segments=(PlanSegment(digest=digest, count=1),)
    )
    leader.tell(request(), event)
    leader.run_for(3 * SECOND)
    run = leader.engine.state.runs.rows["run_1"]
    assert run.state is RunState.CANCELLED
    assert run.error


def test_new_runs_wait_while_publishing_is_behind_and_reports_do_not() -> None:
    leader = HandLeader(new_store(), settings=Settings(slow_at_l0_files=0))
    refused = leader.tell(request())
    leader.engine.step()
    refused = leader.tell(request("run_2"))
    assert isinstance(refused, Unavailable)
    assert not refused.may_have_applied
    report = RunCancelRequested(run_id="nothing")
    assert answered(leader.tell(report)).status is Status.REJECTED


def test_a_batch_with_a_hostile_id_is_refused_before_it_is_queued() -> None:
    leader = HandLeader(new_store())
    for run_id in ("../other", "a\\b", "a\x00b", "e\u0301", "a%2e%2e/b", "", "\u202egnp"):
        with pytest.raises(Invalid):
            leader.tell(request(run_id))
    assert answered(leader.tell(request())).applied


def test_a_lost_ledger_entry_is_never_taken_for_the_end() -> None:
    store = new_store()
    leader = HandLeader(store)
    for number in range(4):
        leader.tell(request(f"run_{number}"))
    store.delete(leader.paths.ledger_entry(3))
    for meta in store.list_after(leader.paths.manifest_prefix):
        if not meta.key.endswith("1.json"):
            store.delete(meta.key)
    with pytest.raises(Corrupt, match="entry 3 is missing"):
        HandLeader(store, seed=1)


@pytest.mark.parametrize("loss", ["damaged", "gone"])
def test_a_projection_that_is_damaged_or_gone_is_made_again(loss: str) -> None:
    store = new_store()
    leader = HandLeader(store)
    leader.tell(request(), plan())
    leader.run_for(3 * SECOND)
    for meta in store.list_after(f"{leader.paths.state_prefix}tasks/"):
        if loss == "gone":
            store.delete(meta.key)
        else:
            store.put(meta.key, b"PAR1 not really")
    successor = HandLeader(store, seed=1)
    assert successor.engine.state.tasks.rows.keys() == leader.engine.state.tasks.rows.keys()
    successor.run_for(3 * SECOND)
    rows = Reader(store, leader.paths).snapshot().rows("tasks")
    assert len(rows) == 2


def test_ids_inside_other_values_are_checked_too() -> None:
    leader = HandLeader(new_store())
    row: dict[str, Any] = {"run_id": "r", "task_key": "t", "attempt_id": "a", "exec_id": "e"}
    for event in (
        request(source=SensorSource(sensor_id="../x", eval_id="e")),
        request(asset_selection=("a/../b",)),
        PlanCreated(
            run_id="r", fingerprint="f", segments=(PlanSegment(digest="no such", count=1),)
        ),
        TaskFinished(
            **row,
            outcome=TaskOutcome.SUCCEEDED,
            output=CommittedOutput(materialization_id="..\\x"),
        ),
    ):
        with pytest.raises(Invalid):
            leader.tell(event)


def test_an_asset_that_grows_stale_is_noticed_when_it_does() -> None:
    leader = HandLeader(new_store())
    policy = '{"fail_ms":7200000,"kind":"time_window","warn_ms":3600000}'
    asset = AssetDefinition(asset_key="ns/a", freshness_policy=policy)
    leader.tell(DefinitionsDeployed(deployment_id="d", assets=(asset,)))
    leader.tell(AssetReported(asset_key="ns/a", materialization_id="m1"))
    leader.run_for(3 * SECOND)
    rows = leader.engine.state.freshness.rows
    assert rows["ns/a"].state is FreshnessState.PASS
    written = entries(leader)
    leader.run_for(20 * SECOND)
    assert entries(leader) == written
    for state in (FreshnessState.WARN, FreshnessState.FAIL):
        leader.run_for(timedelta(minutes=61), step=timedelta(minutes=1))
        assert rows["ns/a"].state is state
    assert len(entries(leader)) == len(written) + 2
    told = leader.engine.state.freshness.rows["ns/a"]
    made = leader.engine.state.assets.rows["ns/a"].last_materialization_at
    assert made is not None
    assert told.changed_at - made == timedelta(hours=2, microseconds=1)


DAY = "day=d:2025-01-15"


def _publish(leader: HandLeader) -> None:
    leader.engine.maintenance.flush(leader.engine.state)


def _partition_of_a_silent_task(store: MoodyStore) -> HandLeader:
    """A partition was made, has left memory, and is being made again by a worker that is gone."""
    leader = HandLeader(store)
    made = AssetReported(asset_key="ns/a", partition_key=DAY, materialization_id="first")
    assert answered(leader.tell(made)).applied
    tasks = specs({"a": ()}, heartbeat_timeout_ms=10_000, partition=DAY)
    leader.tell(request(), PlanCreated(run_id="run_1", fingerprint="plan", tasks=tasks))
    _start(leader)
    _publish(leader)
    assert not leader.engine.state.partitions.rows
    return leader


def test_what_the_leader_gives_up_is_noted_on_a_partition_that_had_left_memory() -> None:
    leader = _partition_of_a_silent_task(new_store())
    leader.run_for(15 * SECOND)
    _publish(leader)
    (row,) = Reader(leader.ports.store, leader.paths).snapshot().rows("partition_status")
    assert isinstance(row, PartitionStatusRow)
    assert row.last_attempt_outcome is TaskOutcome.INTERRUPTED
    assert row.last_materialization_id == "first"


def test_a_lease_whose_partition_cannot_be_read_runs_out_later() -> None:
    store = new_store()
    leader = _partition_of_a_silent_task(store)
    leader.engine.maintenance.hydrator.cold = ColdRows(store)  # as after a new start
    store.unreadable = "partition_status"
    leader.run_for(15 * SECOND)
    assert leader.engine.state.tasks.rows["run_1", task_key("a")].state is TaskState.RUNNING
    store.unreadable = ""
    leader.run_for(15 * SECOND)
    assert leader.engine.state.tasks.rows["run_1", task_key("a")].infra_losses == 1
    _publish(leader)
    (row,) = Reader(leader.ports.store, leader.paths).snapshot().rows("partition_status")
    assert isinstance(row, PartitionStatusRow)
    assert row.last_materialization_id == "first"


def test_a_dynamic_partition_can_be_removed_and_added_again_at_any_time() -> None:
    leader = HandLeader(new_store())
    leader.tell(DynamicPartitionsChanged(set_name="s", added=("x", "y")))
    _publish(leader)
    leader.tell(DynamicPartitionsChanged(set_name="s", removed=("x",)))
    leader.tell(DynamicPartitionsChanged(set_name="s", added=("x",), removed=("y",)))
    leader.tell(DynamicPartitionsChanged(set_name="s", removed=("x", "y")))
    _publish(leader)
    leader.tell(DynamicPartitionsChanged(set_name="s", added=("y",)))
    _publish(leader)
    (row,) = Reader(leader.ports.store, leader.paths).snapshot().rows("dynamic_partitions")
    assert isinstance(row, DynamicPartitionRow)
    assert (row.partition_key, row.row_version) == ("y", leader.engine.state.seq)


def test_a_partition_dropped_while_it_is_published_does_not_come_back() -> None:
    """Between capture and release the published files still have the row."""
    leader = HandLeader(new_store())
    leader.tell(DynamicPartitionsChanged(set_name="s", added=("x",)))
    _publish(leader)
    state = leader.engine.state
    leader.engine.maintenance.hydrator.prepare(
        state, [Batch(id="b", events=(DynamicPartitionsChanged(set_name="s", removed=("x",)),))]
    )
    state.dynamic_partitions.drop(("s", "x"))
    state.seal()
    table = state.dynamic_partitions
    table.publishing, table.dirty = table.dirty, {}
    added = DynamicPartitionsChanged(set_name="s", added=("x",))
    assert answered(leader.tell(added)).applied
    assert table.rows["s", "x"].row_version == state.seq


class Idle:
    """A worker that takes whatever it is given."""

    def __init__(self) -> None:
        self.given: list[Assignment] = []

    def idle(self) -> Sequence[IdleWorker]:
        return (IdleWorker(worker_id="w", exec_id=f"x{len(self.given)}"),)

    def assign(self, assignments: Sequence[Assignment]) -> None:
        self.given += assignments


def test_a_task_whose_inputs_cannot_be_read_is_granted_later_by_the_same_leader() -> None:
    store, worker = new_store(), Idle()
    leader = HandLeader(store)
    alone = replace(leader.ports, queue=None)
    term = take_over(alone, leader.paths)
    leader.engine = Engine(alone, leader.paths, leader.settings, term, workers=worker)
    assets = (
        AssetDefinition(asset_key="ns/up", partitions='{"kind":"daily"}'),
        AssetDefinition(asset_key="ns/a", upstream=("ns/up",), partitions='{"kind":"daily"}'),
    )
    leader.tell(DefinitionsDeployed(deployment_id="d", assets=assets))
    leader.tell(AssetReported(asset_key="ns/up", partition_key=DAY, materialization_id="m"))
    _publish(leader)
    leader.engine.maintenance.hydrator.cold = ColdRows(store)  # as after a new start
    store.unreadable = "partition_status"
    tasks = specs({"a": ()}, partition=DAY)
    leader.tell(request(), PlanCreated(run_id="run_1", fingerprint="plan", tasks=tasks))
    leader.engine.step()
    assert (leader.engine.state.tasks.rows["run_1", task_key("a")].state, worker.given) == (
        TaskState.READY,
        [],
    )
    store.unreadable = ""
    leader.engine.step()
    (given,) = worker.given
    assert given.inputs == {place_of("ns/up", DAY): PinnedInput("m", "")}


@pytest.mark.parametrize(
    ("told", "actor"),
    [
        ("user:ada@laptop", "user:ada@laptop"),
        ("cron", "inbox:cron"),
        ("", "inbox:01ABC"),
    ],
)
def test_what_comes_from_the_inbox_has_an_actor_and_keeps_its_origin(told: str, actor: str) -> None:
    leader = HandLeader(new_store())
    batch = replace(leader.batch(request(), plan()), actor=told, cause="1.0", correlation="o-7")
    leader.ports.store.create(leader.paths.inbox_item("01ABC"), encode_batch(batch))
    leader.run_for(3 * SECOND)
    run = leader.engine.state.runs.rows["run_1"]
    assert (run.requested_by, run.cause, run.correlation) == (actor, "1.0", "o-7")
