"""Plans of any size, and the batches that carry them out."""

from collections.abc import Iterator, Sequence

from servo.core.events.dispatch import DispatchEnqueued, DispatchRequested, Handover
from servo.core.events.envelope import Batch, Event
from servo.core.events.runs import PlanCreated, PlanSegment, RunRequested
from servo.core.events.tasks import CommittedOutput, TaskFinished, TaskOutcome, TaskStarted
from servo.core.ids import RunId, TaskKeyStr, attempt_id
from servo.core.plan import Plan, TaskSpec, chunk_bytes, chunk_digest, split
from servo.ledger.paths import Paths
from servo.ports.object_store import ObjectStore
from servo.testing.builders import task_key


def spec(number: int, upstream: Sequence[int] = ()) -> TaskSpec:
    return TaskSpec(
        task_key=key(number),
        asset_key=f"ns/t{number:06d}",
        upstream=tuple([key(above) for above in upstream]),
    )


def key(number: int) -> TaskKeyStr:
    return task_key(f"t{number:06d}")


def layered(tasks: int, width: int) -> list[TaskSpec]:
    """Layers of `width` tasks, each task depending on two of the layer before."""
    specs: list[TaskSpec] = []
    for number in range(tasks):
        first = number - number % width - width
        place = number % width
        above = sorted({first + place, first + (place + 1) % width}) if first >= 0 else []
        specs.append(spec(number, above))
    return specs


def chain(tasks: int) -> list[TaskSpec]:
    return [spec(number, [number - 1] if number else []) for number in range(tasks)]


def fan_in(width: int) -> list[TaskSpec]:
    """So many tasks, and one that depends on all of them."""
    return [*[spec(number) for number in range(width)], spec(width, range(width))]


# --- events ---------------------------------------------------------------------------------------


def requested(run: str) -> RunRequested:
    return RunRequested(run_id=run, run_key=f"key-{run}", request_fingerprint="fp")


def planned(run: str, specs: Sequence[TaskSpec]) -> Batch:
    """A run and its plan in one batch."""
    plan = PlanCreated(run_id=run, fingerprint="plan", tasks=tuple(specs))
    return Batch(id=f"plan-{run}", events=(requested(run), plan))


def stored(store: ObjectStore, paths: Paths, run: str, plan: Plan, size: int) -> Batch:
    """A run whose plan is in the store, in segments of `size` tasks."""
    segments: list[PlanSegment] = []
    for chunk in split(plan, size):
        data = chunk_bytes(chunk)
        digest = chunk_digest(data)
        _ = store.put(paths.plan(digest), data)
        segments.append(PlanSegment(digest=digest, count=len(chunk.tasks)))
    created = PlanCreated(run_id=run, fingerprint="plan", segments=tuple(segments))
    return Batch(id=f"plan-{run}", events=(requested(run), created))


def started(run: str, number: int) -> DispatchRequested:
    """The task is handed to a worker that waits."""
    handover = Handover(exec_id=execution(run, number), worker_id=f"worker-{number % 16}")
    return DispatchRequested(run_id=run, task_key=key(number), attempt=1, handover=handover)


def queued(run: str, number: int) -> tuple[Event, ...]:
    """The task is sent through a queue, and a worker claims it."""
    task, attempt = key(number), attempt_of(run, number)
    return (
        DispatchRequested(run_id=run, task_key=task, attempt=1),
        DispatchEnqueued(run_id=run, task_key=task, attempt_id=attempt, delivery=1),
        TaskStarted(
            run_id=run,
            task_key=task,
            attempt_id=attempt,
            exec_id=execution(run, number),
            worker_id=f"worker-{number % 16}",
        ),
    )


def finished(run: str, number: int, outcome: TaskOutcome = TaskOutcome.SUCCEEDED) -> TaskFinished:
    exec_id = execution(run, number)
    made = CommittedOutput(
        materialization_id=exec_id,
        uri=f"assets/ns/t{number:06d}/{exec_id}",
        format="parquet",
        row_count=number,
    )
    return TaskFinished(
        run_id=run,
        task_key=key(number),
        attempt_id=attempt_of(run, number),
        exec_id=exec_id,
        outcome=outcome,
        output=made if outcome is TaskOutcome.SUCCEEDED else None,
    )


def execution(run: str, number: int) -> str:
    return f"{run}-exec-{number:06d}"


def attempt_of(run: str, number: int) -> str:
    return attempt_id(RunId(run), key(number), 1)


def one_each(name: str, events: Sequence[Event]) -> Iterator[Batch]:
    """A batch for every event, as workers send them."""
    for number, event in enumerate(events):
        yield Batch(id=f"{name}-{number}", events=(event,), actor="worker:b")
