"""Clients that request runs, producers that cannot reach a leader, and changes of the limit."""

from servo.core.events.codec import encode_batch
from servo.core.events.envelope import Batch
from servo.core.events.quotas import PoolLimitSet, QuotaSet
from servo.core.events.runs import (
    PlanCreated,
    PlanSegment,
    RunCancelRequested,
    RunRequested,
)
from servo.core.plan import TaskSpec, chunk_bytes, chunk_digest, normalize, split
from servo.errors import ServoError
from servo.ports.object_store import ObjectStore
from simulation.kernel import Process
from simulation.world import POOL, SimulatedWorld


def client(world: SimulatedWorld, process: Process, number: int) -> None:
    """Requests one run, perhaps twice, perhaps with two fingerprints, and perhaps cancels it."""
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
        cancel = RunCancelRequested(run_id=run_id, requested_by="sim", force=number % 3 == 0)
        world.network.insist(process, world.batch(cancel))
    if rng.random() < 0.3:
        other = RunRequested(run_id=run_id, run_key=f"client-{number}", request_fingerprint="other")
        world.network.insist(process, world.batch(other))


def _plan(
    world: SimulatedWorld, process: Process, run_id: str, tasks: tuple[TaskSpec, ...]
) -> PlanCreated:
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


def limiter(world: SimulatedWorld, process: Process) -> None:
    """Sets how many tasks may be in flight, and how many of one pool."""
    if world.swarm.task_cap is not None:
        event = QuotaSet(max_concurrent_tasks=world.swarm.task_cap)
        world.network.insist(process, world.batch(event, key="quota"))
    if world.swarm.pool_limit is not None:
        limit = PoolLimitSet(pool=POOL, limit=world.swarm.pool_limit)
        world.network.insist(process, world.batch(limit, key="pool limit"))


def dropper(world: SimulatedWorld, process: Process, number: int) -> None:
    """Cannot reach the leader, and leaves a request in the inbox."""
    process.sleep(world.kernel.random.uniform(0, world.swarm.faulty_ms))
    run_id = f"run_i{number}"
    request = RunRequested(run_id=run_id, run_key=f"inbox-{number}", request_fingerprint="fp")
    plan = PlanCreated(run_id=run_id, fingerprint="plan", tasks=world.tasks(f"i{number}", 2))
    data = encode_batch(Batch(id=f"dropped-{number}", events=(request, plan)))
    name = f"01SIM{number:04d}"
    _store(process, world.store_of(process), world.paths.inbox_item(name), data)
    world.requested_runs[run_id] = None
