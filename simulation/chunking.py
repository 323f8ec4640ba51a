"""A backfill driven by what is published, while a user pauses, resumes and cancels it."""

from servo.core.events.backfills import (
    BackfillChunkPlanned,
    BackfillCreated,
    BackfillState,
    BackfillStateChanged,
    ExplicitSelector,
)
from servo.core.events.envelope import Answer, Batch
from servo.core.events.runs import (
    BackfillSource,
    PlanCreated,
    RunRequested,
)
from servo.core.ids import TaskKeyStr
from servo.core.plan import TaskSpec
from servo.core.state.rows.automation import BackfillRow
from simulation.kernel import Process
from simulation.oracle import LEASE_MS
from simulation.published import Published
from simulation.world import RETRY, SimulatedWorld


def backfiller(world: SimulatedWorld, process: Process, number: int) -> None:
    """Creates a backfill and plans it chunk by chunk from what is published."""
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
    """The first events of every chunk: its head, and the request of its run."""
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


def _chunk(
    world: SimulatedWorld, backfill: BackfillRow, index: int, keys: tuple[str, ...]
) -> Batch:
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


def meddler(world: SimulatedWorld, process: Process, number: int) -> None:
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
