"""From a caller's batch to its durable answer, on the disk of the temporary folder."""

import time
from collections.abc import Callable, Iterator

from benchmarks import plans
from benchmarks.floors import BareDisk
from benchmarks.leader import PATHS, ByHand, ports, service
from benchmarks.measure import Result, Samples, in_turn, latency, throughput
from benchmarks.scratch import Scratch
from servo.core.events.envelope import Batch
from servo.core.events.quotas import QuotaSet
from servo.core.plan import normalize
from servo.leader.service import Service
from servo.storage.local import LocalStore

ENTRY = b"x" * 700  # about what an entry with one event takes


def local_create(scratch: Scratch, *, quick: bool) -> list[Result]:
    """An object in a folder."""
    rounds = 20 if quick else 500
    store, bare = LocalStore(scratch.folder()), BareDisk(scratch.folder())
    keys = (f"ledger/{number:020d}.json" for number in range(rounds + 1))
    _ = store.create(next(keys), ENTRY)
    measured, floor = in_turn(
        [lambda: store.create(next(keys), ENTRY), lambda: bare.create(ENTRY)], rounds
    )
    return [latency("local_create", measured, floor, most=1.5)]


def commit_latency(scratch: Scratch, *, quick: bool) -> list[Result]:
    """A batch of one event: by the engine's own thread, and through the service from another."""
    rounds = 20 if quick else 500
    return [*_engine_latency(scratch, rounds), *_service_latency(scratch, rounds)]


def _engine_latency(scratch: Scratch, rounds: int) -> list[Result]:
    bare = BareDisk(scratch.folder())
    with ports(LocalStore(scratch.folder())) as held:
        leader = ByHand(held)
        batches = _one_event_each("run_1", rounds)
        _ = leader.commit(next(batches))
        measured, floor = in_turn(
            [lambda: leader.commit(next(batches)), lambda: bare.create(ENTRY)], rounds
        )
    return [latency("commit_latency.engine", measured, floor, most=3)]


def _service_latency(scratch: Scratch, rounds: int) -> list[Result]:
    bare = BareDisk(scratch.folder())
    with service(scratch.folder()) as led:
        batches = _one_event_each("run_1", rounds)
        _ = led.commit(next(batches))
        measured, floor = in_turn(
            [lambda: led.commit(next(batches)), lambda: bare.create(ENTRY)], rounds
        )
    return [latency("commit_latency.service", measured, floor, most=3)]


def _one_event_each(run: str, count: int) -> Iterator[Batch]:
    """A plan, then so many batches: each task started, then finished."""
    tasks = count // 2 + 1
    yield plans.planned(run, [plans.spec(number) for number in range(tasks)])
    for number in range(tasks):
        yield Batch(id=f"start-{number}", events=(plans.started(run, number),), actor="worker:b")
        yield Batch(id=f"end-{number}", events=(plans.finished(run, number),), actor="worker:b")


def large_batch(scratch: Scratch, *, quick: bool) -> list[Result]:
    """Ten thousand events in one batch, from submitting it to its answer."""
    tasks, rounds = (500, 2) if quick else (10_000, 7)
    starts, ends = Samples(), Samples()
    folder = scratch.folder()
    with service(folder) as led:
        _ = led.commit(Batch(id="quota", events=(QuotaSet(max_concurrent_tasks=10**6),)))
        for number in range(rounds):
            _time_run(led, LocalStore(folder), f"run_{number}", tasks, (starts, ends))
    return [
        throughput("large_batch.started", tasks, starts, least=50_000),
        throughput("large_batch.finished", tasks, ends, least=50_000),
    ]


def _time_run(
    led: Service, store: LocalStore, run: str, tasks: int, samples: tuple[Samples, Samples]
) -> None:
    plan = normalize([plans.spec(number) for number in range(tasks)])
    _ = led.commit(plans.stored(store, PATHS, run, plan, 1_000))
    _until(lambda: not led.engine.state.index.runs_expanding)
    starts = Batch(id=f"{run}-s", events=tuple([plans.started(run, n) for n in range(tasks)]))
    ends = Batch(id=f"{run}-e", events=tuple([plans.finished(run, n) for n in range(tasks)]))
    for held, batch in zip(samples, (starts, ends), strict=True):
        _until(lambda: led.engine.maintenance.manifest.applied_seq == led.engine.state.seq)
        held.time(lambda todo=batch: _applied(led, todo))


def _applied(led: Service, batch: Batch) -> None:
    answer = led.commit(batch)
    assert answer.applied, answer


def _until(holds: Callable[[], bool]) -> None:
    """Wait for the leader, so that what it does besides is not measured."""
    while not holds():
        time.sleep(0.01)
