"""Who lives in a simulated world besides leaders: workers, clients, sensors, schedules, backfills.

They are scripts: what a real worker or client must do to be safe is what they do, and no more.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Protocol

from servo.core.events.backfills import (
    BackfillChunkPlanned,
    BackfillCreated,
    BackfillState,
    BackfillStateChanged,
    ExplicitSelector,
)
from servo.core.events.codec import encode_batch
from servo.core.events.envelope import Answer, Batch, Event
from servo.core.events.quotas import QuotaSet
from servo.core.events.runs import (
    BackfillSource,
    PlanCreated,
    PlanSegment,
    RunCancelRequested,
    RunRequested,
    ScheduleSource,
    SensorSource,
)
from servo.core.events.schedules import ScheduleTicked, ScheduleUpserted, TickStatus
from servo.core.events.sensors import (
    PollTrigger,
    SensorEvalStatus,
    SensorEvaluated,
    SensorUpserted,
)
from servo.core.events.tasks import Output, TaskError, TaskFinished, TaskOutcome, TaskStarted
from servo.core.ids import TaskKeyStr
from servo.core.manifest import TableFiles
from servo.core.plan import TaskSpec, chunk_bytes, chunk_digest, normalize, split
from servo.core.retry import RetryPolicy
from servo.core.state.rows.automation import BackfillRow
from servo.core.state.states import ScheduleStatus
from servo.core.state.tables import TABLES
from servo.errors import ServoError
from servo.ledger.paths import Paths
from servo.ports.object_store import ObjectStore
from servo.ports.task_queue import Delivery
from servo.projection.reader import Reader
from servo.runtime.heartbeats import Verdict
from servo.runtime.requests import Beat
from servo.runtime.workers import Assignment
from servo.testing.simulation.faults import FaultyQueue, FaultyStore
from servo.testing.simulation.kernel import Kernel, Process, SimClock
from servo.testing.simulation.network import Network
from servo.testing.simulation.oracle import LEASE_MS, Oracle
from servo.testing.simulation.swarm import Swarm
from servo.testing.simulation.workloads import GRAPHS

BEAT_MS = 1_000
RETRY = RetryPolicy(max_attempts=6, max_infra_retries=50, delay_ms=300, cap_ms=2_000)
PATIENT = RetryPolicy(max_attempts=1, max_infra_retries=1_000)


class Link(Protocol):
    """A way to reach a leader."""

    def beat(self, process: Process, beat: Beat) -> Verdict | ServoError: ...

    def insist(self, process: Process, batch: Batch, *, tries: int = 1) -> Answer | None: ...


class World:
    """What actors share."""

    def __init__(
        self, kernel: Kernel, swarm: Swarm, network: Network, queue: FaultyQueue, paths: Paths
    ) -> None:
        self.kernel = kernel
        self.swarm = swarm
        self.network = network
        self.oracle: Oracle = network.oracle
        self.queue = queue
        self.paths = paths
        self.items = 0
        self.requested_runs: dict[str, None] = {}
        self.store_of: Callable[[Process], FaultyStore] = _unset

    def nonce(self) -> str:
        return self.kernel.random.randbytes(8).hex()

    def batch(self, *events: Event, key: str = "") -> Batch:
        return Batch(id=f"b-{self.nonce()}", events=events, key=key, actor="sim")

    def dice(self, *names: object) -> Random:
        """Choices of an actor that it makes again when it is started again."""
        return Random(f"{self.kernel.seed}-{names}")

    def also_makes(self, task_key: str) -> tuple[str, ...]:
        """Now and then a task makes a second asset."""
        second = self.dice("also", task_key).random() < 0.2
        return (f"{task_key.partition(':')[0].partition('[')[0]}_too",) if second else ()

    def tasks(self, name: str, most: int) -> tuple[TaskSpec, ...]:
        """A small graph, the same whenever it is asked for."""
        rng = self.dice("tasks", name)
        workload = GRAPHS.get(self.swarm.workload)
        count = rng.randint(1, most) if workload is None else len(workload)
        keys = [TaskKeyStr(f"sim/{name}_{i}:materialize") for i in range(count)]

        def above(i: int) -> Sequence[int]:
            if workload is None:
                return rng.sample(range(i), rng.randint(0, min(i, 2)))
            return workload[i]

        specs = [
            TaskSpec(
                task_key=keys[i],
                asset_key=f"sim/{name}_{i}",
                also_makes=self.also_makes(keys[i]),
                upstream=tuple(keys[up] for up in above(i)),
                retry=RETRY if workload is None else PATIENT,
                heartbeat_timeout_ms=LEASE_MS,
                dispatch_ack_timeout_ms=self.swarm.ack_timeout_ms,
                priority=rng.choice((0, 0, 5)),
            )
            for i in range(count)
        ]
        return normalize(specs).tasks


def _unset(process: Process) -> FaultyStore:
    raise NotImplementedError(process.name)


# --- executing ------------------------------------------------------------------------------------


def worker(world: World, process: Process) -> None:
    """Takes deliveries, claims, beats, reports."""
    while True:
        delivery = world.queue.take()
        if delivery is None:
            process.sleep(60)
            continue
        exec_id = f"x-{world.nonce()}"
        if claim(world, process, delivery, exec_id):
            execute(world, process, world.network, delivery, exec_id)


def claim(world: World, process: Process, delivery: Delivery, exec_id: str) -> bool:
    """Ask to be the one that runs an attempt."""
    event = TaskStarted(
        run_id=delivery.run_id,
        task_key=delivery.task_key,
        attempt_id=delivery.attempt_id,
        exec_id=exec_id,
        worker_id=process.name,
    )
    answer = world.network.insist(process, world.batch(event), tries=5)
    return answer is not None and answer.data.get("grant") == "granted"


def execute(
    world: World, process: Process, link: Link, task: Delivery | Assignment, exec_id: str
) -> None:
    """Run user code for a while, beating, and report how it ended."""
    world.oracle.started(task.attempt_id, exec_id, task.run_id, task.task_key)
    longest = 12_000 if world.kernel.random.random() < 0.25 else 2_500
    longest = world.swarm.longest_task_ms or longest
    remaining = world.kernel.random.uniform(20, longest)
    while remaining > 0:
        nap = min(BEAT_MS, remaining)
        process.sleep(nap)
        remaining -= nap
        verdict = link.beat(process, _beat(task, exec_id, process.name))
        if verdict is Verdict.LOST:
            return
        if verdict is Verdict.CANCEL:
            break
    report = world.batch(finished(world, task, exec_id))
    link.insist(process, report, tries=40)


def _beat(task: Delivery | Assignment, exec_id: str, worker_id: str) -> Beat:
    return Beat(
        run_id=task.run_id,
        task_key=task.task_key,
        attempt_id=task.attempt_id,
        exec_id=exec_id,
        worker_id=worker_id,
    )


def finished(world: World, task: Delivery | Assignment, exec_id: str) -> TaskFinished:
    """A report, sometimes of a failure."""
    failed = world.kernel.faulty and world.kernel.random.random() < world.swarm.failure_rate
    outcome = TaskOutcome.FAILED if failed else TaskOutcome.SUCCEEDED
    first = Output(materialization_id=exec_id, uri="sim", row_count=1)
    more = [
        Output(materialization_id=f"{exec_id}-{n}", asset_key=key, uri="sim")
        for n, key in enumerate(world.also_makes(task.task_key))
    ]
    return TaskFinished(
        run_id=task.run_id,
        task_key=task.task_key,
        attempt_id=task.attempt_id,
        exec_id=exec_id,
        outcome=outcome,
        output=None if failed or more else first,
        outputs=(first, *more) if more and not failed else (),
        error=TaskError(code="UserCodeException", types=("ValueError",)) if failed else None,
    )


# --- asking for runs ------------------------------------------------------------------------------


def client(world: World, process: Process, number: int) -> None:
    """Asks for one run, perhaps twice, perhaps under two fingerprints, perhaps cancels it."""
    rng = world.dice("client", number)
    process.sleep(rng.uniform(0, world.swarm.faulty_ms / 2))
    run_id = f"run_c{number}"
    request = RunRequested(run_id=run_id, run_key=f"client-{number}", request_fingerprint="fp")
    tasks = world.tasks(f"c{number}", 7)
    world.requested_runs[run_id] = None
    plan = _plan(world, process, run_id, tasks)
    world.network.insist(process, world.batch(request, plan, key=f"client-{number}"))
    if rng.random() < world.swarm.cancel_rate:
        process.sleep(rng.uniform(100, 8_000))
        cancel = RunCancelRequested(run_id=run_id, requested_by="sim")
        world.network.insist(process, world.batch(cancel))
    if rng.random() < 0.3:
        other = RunRequested(run_id=run_id, run_key=f"client-{number}", request_fingerprint="other")
        world.network.insist(process, world.batch(other))


def _plan(world: World, process: Process, run_id: str, tasks: tuple[TaskSpec, ...]) -> PlanCreated:
    """A plan, inline or in stored segments."""
    if len(tasks) < 3 or world.dice("plan", run_id).random() < 0.7:
        return PlanCreated(run_id=run_id, fingerprint="plan", tasks=tasks)
    segments: list[PlanSegment] = []
    for chunk in split(normalize(tasks), 2):
        data = chunk_bytes(chunk)
        digest = chunk_digest(data)
        _store(process, world.store_of(process), world.paths.plan(digest), data)
        segments.append(PlanSegment(digest=digest, count=len(chunk.tasks)))
    return PlanCreated(run_id=run_id, fingerprint="plan", segments=tuple(segments))


def _store(process: Process, store: ObjectStore, key: str, data: bytes) -> None:
    while True:
        try:
            store.put(key, data)
        except ServoError:
            process.sleep(50)
        else:
            return


def limiter(world: World, process: Process) -> None:
    """Sets how many tasks may be in flight."""
    event = QuotaSet(max_concurrent_tasks=world.swarm.task_cap)
    world.network.insist(process, world.batch(event, key="quota"))


def dropper(world: World, process: Process, number: int) -> None:
    """Has no way to reach the leader and leaves a request in the inbox."""
    process.sleep(world.kernel.random.uniform(0, world.swarm.faulty_ms))
    run_id = f"run_i{number}"
    request = RunRequested(run_id=run_id, run_key=f"inbox-{number}", request_fingerprint="fp")
    plan = PlanCreated(run_id=run_id, fingerprint="plan", tasks=world.tasks(f"i{number}", 2))
    data = encode_batch(Batch(id=f"dropped-{number}", events=(request, plan)))
    name = f"01SIM{number:04d}"
    _store(process, world.store_of(process), world.paths.inbox_item(name), data)
    world.requested_runs[run_id] = None


# --- automation -----------------------------------------------------------------------------------


class Published:
    """What is published, as an actor outside the leader reads it."""

    def __init__(self, world: World, process: Process) -> None:
        self._reader = Reader(world.store_of(process), world.paths)
        self._seen: dict[str, tuple[TableFiles | None, dict[Any, Any]]] = {}

    def rows(self, table: str) -> dict[Any, Any] | None:
        """The rows of a table by key; None if the store is not to be reached."""
        try:
            snapshot = self._reader.snapshot()
            files = snapshot.manifest.tables.get(table)
            known = self._seen.get(table)
            if known is not None and known[0] == files:
                return known[1]
            rows = snapshot.rows(table)
        except ServoError:
            return None
        key_of = TABLES[table].key_of
        self._seen[table] = (files, {key_of(row): row for row in rows})
        return self._seen[table][1]


def sensor(world: World, process: Process) -> None:
    """Polls for items that appear outside and asks for one run an item, from the cursor it saw."""
    rng = world.kernel.random
    published = Published(world, process)
    world.network.insist(process, world.batch(SensorUpserted(sensor_id="items"), key="sensor"))
    while True:
        process.sleep(rng.uniform(200, 1500))
        state = (published.rows("sensor_state") or {}).get("items")
        seen = world.items
        if state is None or seen <= int(state.cursor or 0):
            continue
        process.sleep(rng.uniform(1, 300))
        world.network.submit(process, _evaluation(world, state.state_version, state.cursor, seen))


def _evaluation(world: World, version: int, cursor: str | None, seen: int) -> Batch:
    eval_id = f"eval-{world.nonce()}"
    first = int(cursor or 0)
    items = range(first, min(seen, first + 3))
    head = SensorEvaluated(
        sensor_id="items",
        eval_id=eval_id,
        trigger=PollTrigger(poll_epoch=int(world.kernel.ms)),
        expected_state_version=version,
        cursor_before=cursor,
        cursor_after=str(items.stop),
        status=SensorEvalStatus.TRIGGERED,
        run_keys=tuple(f"{eval_id}-{item}" for item in items),
    )
    followers: list[Event] = []
    for item in items:
        run_id = f"run_s{world.nonce()}"
        followers.append(
            RunRequested(
                run_id=run_id,
                run_key=f"{eval_id}-{item}",
                request_fingerprint="fp",
                source=SensorSource(sensor_id="items", eval_id=eval_id),
                labels={"item": str(item)},
            )
        )
        followers.append(
            PlanCreated(run_id=run_id, fingerprint="plan", tasks=world.tasks(f"s{item}", 1))
        )
    return world.batch(head, *followers)


def ticker(world: World, process: Process) -> None:
    """Evaluates a schedule that is due every two seconds; several of these race."""
    rng = world.kernel.random
    published = Published(world, process)
    upsert = ScheduleUpserted(schedule_id="pulse", cron_expressions=("* * * * *",))
    world.network.insist(process, world.batch(upsert, key="schedule"))
    clock = SimClock(process)
    while True:
        process.sleep(rng.uniform(300, 2500))
        state = (published.rows("schedule_state") or {}).get("pulse")
        if state is None or state.status is not ScheduleStatus.ACTIVE:
            continue
        due = clock.now().replace(microsecond=0, second=clock.now().second // 2 * 2)
        if due <= state.low_water or not world.kernel.faulty:
            continue
        tick_id = f"pulse:{int(due.timestamp())}"
        run_id = f"run_t{int(due.timestamp())}"
        head = ScheduleTicked(
            schedule_id="pulse",
            tick_id=tick_id,
            scheduled_for=due,
            definition_version=1,
            status=TickStatus.TRIGGERED,
            run_key=f"sched:{tick_id}",
            request_fingerprint="fp",
        )
        request = RunRequested(
            run_id=run_id,
            run_key=f"sched:{tick_id}",
            request_fingerprint="fp",
            source=ScheduleSource(schedule_id="pulse", tick_id=tick_id),
        )
        plan = PlanCreated(run_id=run_id, fingerprint="plan", tasks=world.tasks("tick", 1))
        world.network.submit(process, world.batch(head, request, plan))


def backfiller(world: World, process: Process, number: int) -> None:
    """Creates a backfill and works it off chunk by chunk from what is published."""
    rng = world.dice("backfill", number)
    backfill_id = f"bf_{number}"
    partitions = tuple(f"p=s:{i}" for i in range(rng.randint(0, 7)))
    created = BackfillCreated(
        backfill_id=backfill_id,
        client_request_id=f"request-{number}",
        request_fingerprint="fp",
        asset_selection=("sim/backfilled",),
        selector=ExplicitSelector(count=len(partitions)),
        partition_keys=partitions,
        total_partitions=len(partitions),
        chunk_size=2,
        max_concurrent_runs=2,
    )
    world.network.insist(process, world.batch(created, key=f"backfill-{number}"))
    published = Published(world, process)
    while True:
        process.sleep(rng.uniform(200, 1200))
        row = (published.rows("backfills") or {}).get(backfill_id)
        chunks = published.rows("backfill_chunks")
        if row is None or chunks is None:
            continue
        if row.finished_at is not None:
            return
        if row.state is BackfillState.RUNNING:
            missing = next(
                (i for i in range(row.total_chunks) if (backfill_id, i) not in chunks), None
            )
            if missing is not None:
                keys = partitions[missing * 2 : missing * 2 + 2]
                world.network.submit(process, _chunk(world, row, missing, keys))


def chunk_head(
    backfill: BackfillRow, index: int, keys: tuple[str, ...]
) -> tuple[BackfillChunkPlanned, RunRequested]:
    """What every chunk of a backfill begins with: its turn, and the run that it asks for."""
    backfill_id = backfill.backfill_id
    run_key = f"backfill:{backfill_id}:chunk:{index}"
    head = BackfillChunkPlanned(
        backfill_id=backfill_id,
        chunk_index=index,
        expected_state_version=backfill.state_version,
        partition_keys=keys,
        run_key=run_key,
        request_fingerprint="fp",
    )
    request = RunRequested(
        run_id=f"run_{backfill_id}_{index}",
        run_key=run_key,
        request_fingerprint="fp",
        source=BackfillSource(backfill_id=backfill_id, chunk_index=index),
    )
    return head, request


def _chunk(world: World, backfill: BackfillRow, index: int, keys: tuple[str, ...]) -> Batch:
    head, request = chunk_head(backfill, index, keys)
    run_id = request.run_id
    tasks = tuple(
        TaskSpec(
            task_key=TaskKeyStr(f"sim/backfilled[{key}]:materialize"),
            asset_key="sim/backfilled",
            also_makes=world.also_makes(f"sim/backfilled[{key}]:materialize"),
            partition=key,
            retry=RETRY,
            heartbeat_timeout_ms=LEASE_MS,
            dispatch_ack_timeout_ms=world.swarm.ack_timeout_ms,
        )
        for key in keys
    )
    return world.batch(head, request, PlanCreated(run_id=run_id, fingerprint="plan", tasks=tasks))


def meddler(world: World, process: Process, number: int) -> None:
    """Pauses, resumes and now and then cancels a backfill."""
    rng = world.kernel.random
    published = Published(world, process)
    while world.kernel.faulty:
        process.sleep(rng.uniform(500, 4000))
        row = (published.rows("backfills") or {}).get(f"bf_{number}")
        if row is None or row.finished_at is not None:
            continue
        choice = {BackfillState.RUNNING: BackfillState.PAUSED}.get(row.state, BackfillState.RUNNING)
        if rng.random() < 0.1:
            choice = BackfillState.CANCELLED
        event = BackfillStateChanged(
            backfill_id=row.backfill_id,
            to_state=choice,
            expected_state_version=row.state_version,
        )
        world.network.submit(process, world.batch(event))
    resume = BackfillStateChanged(backfill_id=f"bf_{number}", to_state=BackfillState.RUNNING)
    while True:
        answer: Answer | None = world.network.insist(process, world.batch(resume))
        if answer is not None:
            return
