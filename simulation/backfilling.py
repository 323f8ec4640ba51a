"""Backfills under faults: hosts that race to plan their chunks, and people who change their minds.

A host decides by the real controller, from what is published, which may be old. Its code is edited
now and then: some partitions cannot be planned any more, and their chunks end as failed ones. A
person creates a backfill, perhaps twice, pauses, resumes and now and then cancels it, and repeats
what failed of it in another.
"""

from random import Random
from typing import Any

from msgspec.structs import replace

from servo.controllers.backfills import chunk_slice, reconcile
from servo.core.events.backfills import (
    BackfillCreated,
    BackfillState,
    BackfillStateChanged,
    ExplicitSelector,
)
from servo.core.events.runs import PlanCreated, PlanFailed
from servo.core.ids import TaskKeyStr
from servo.core.plan import TaskSpec
from servo.core.state.rows.automation import BackfillRow
from servo.core.state.state import State
from simulation.chunking import chunk_head
from simulation.kernel import Process
from simulation.oracle import LEASE_MS
from simulation.published import Published
from simulation.swarm import Swarm, draw, idle
from simulation.world import RETRY, SimulatedWorld

TABLES = ("backfills", "backfill_chunks", "quotas")
SCRIPTS = ("owner", "host")
ASSET = "sim/filled"


def world_of_backfills(seed: int) -> Swarm:
    """The world of a seed, with backfills in it and little else to do."""
    rng = Random(f"backfills-{seed}")
    return replace(
        idle(draw(seed)),
        faulty_ms=30_000,
        workers=rng.choice((2, 4)),
        runs=1,
        longest_task_ms=rng.choice((200, 1500)),
        hosts=rng.choice((1, 2, 3)),
        owners=rng.choice((1, 2)),
        failure_rate=rng.choice((0.0, 0.3, 0.6)),
    )


# --- people ---------------------------------------------------------------------------------------


def owner(world: SimulatedWorld, process: Process, number: int) -> None:
    """Creates a backfill, meddles with it while there are faults, and repeats what failed."""
    dice = world.dice("owner", number)
    keys = tuple(f"p=i:{i}" for i in range(dice.randint(0, 11)))
    event = _created(f"bf_{number}", keys, dice)
    _create(world, process, event, dice)
    published = Published(world, process)
    row = _meddle(world, process, published, event.backfill_id)
    chunks = published.rows("backfill_chunks")
    while chunks is None or len(_mine(chunks, row)) < row.planned_chunks:
        process.sleep(300)
        chunks = published.rows("backfill_chunks")
    failed = tuple(key for chunk in _mine(chunks, row) for key in chunk.failed_partition_keys)
    if failed:
        again = _created(f"bf_{number}_again", failed, dice, parent=row.backfill_id)
        _create(world, process, again, dice)


def _created(
    name: str, keys: tuple[str, ...], dice: Random, *, parent: str | None = None
) -> BackfillCreated:
    return BackfillCreated(
        backfill_id=name,
        client_request_id=name,
        request_fingerprint="fp",
        asset_selection=(ASSET,),
        selector=ExplicitSelector(count=len(keys)),
        partition_keys=keys,
        total_partitions=len(keys),
        chunk_size=dice.randint(1, 4),
        max_concurrent_runs=dice.randint(1, 3),
        stop_on_failure=dice.random() < 0.1,
        max_failed_partitions=dice.choice((None, None, 2)),
        priority=dice.choice((0, 5)),
        parent_backfill_id=parent,
    )


def _create(world: SimulatedWorld, process: Process, event: BackfillCreated, dice: Random) -> None:
    _ = world.network.insist(process, world.batch(event))
    if dice.random() < 0.3:  # asked twice, and once for something else
        _ = world.network.insist(process, world.batch(event))
        other = replace(event, request_fingerprint="other")
        _ = world.network.insist(process, world.batch(other))


def _meddle(
    world: SimulatedWorld, process: Process, published: Published, name: str
) -> BackfillRow:
    """Pause, resume and now and then cancel a backfill until it is over."""
    rng = world.kernel.random
    while True:
        process.sleep(rng.uniform(300, 2500))
        row: BackfillRow | None = (published.rows("backfills") or {}).get(name)
        if row is None:
            continue
        if row.finished_at is not None:
            return row
        to = BackfillState.PAUSED if row.state is BackfillState.RUNNING else BackfillState.RUNNING
        if not world.kernel.faulty:
            to = BackfillState.RUNNING
        elif rng.random() < 0.05:
            to = BackfillState.CANCELLED
        elif rng.random() < 0.3:
            continue
        if to is not row.state:
            version = row.state_version if rng.random() < 0.7 else None
            event = BackfillStateChanged(
                backfill_id=name, to_state=to, expected_state_version=version
            )
            _ = world.network.submit(process, world.batch(event))


def _mine(chunks: dict[Any, Any], row: BackfillRow) -> list[Any]:
    return [c for c in chunks.values() if c.backfill_id == row.backfill_id]


# --- hosts ----------------------------------------------------------------------------------------


def host(world: SimulatedWorld, process: Process) -> None:
    """Plans the chunks that the controller says, for as long as anything may come."""
    rng = world.kernel.random
    published = Published(world, process)
    while True:
        process.sleep(rng.uniform(50, 600))
        found = {name: published.rows(name) for name in TABLES}
        if any(rows is None for rows in found.values()):
            continue
        state = State("sim", "world")
        for name, rows in found.items():
            state.hydrate(name, (rows or {}).values())
        for wanted in reconcile(state):
            for index in range(wanted.first, wanted.stop):
                batch = world.batch(*chunk_events(world, wanted.backfill, index))
                _ = world.network.submit(process, batch)


def chunk_events(world: SimulatedWorld, row: BackfillRow, index: int) -> list[Any]:
    """The batch of a chunk, with a plan or with why there is none."""
    keys = row.partition_keys[chunk_slice(row, index)]
    head, request = chunk_head(row, index, keys)
    run_id = request.run_id
    if _is_edited(world, keys):
        return [head, request, PlanFailed(run_id=run_id, error="unknown partition")]
    tasks = tuple(_task(world, key) for key in keys)
    return [head, request, PlanCreated(run_id=run_id, fingerprint="plan", tasks=tasks)]


def _is_edited(world: SimulatedWorld, keys: tuple[str, ...]) -> bool:
    """Whether the code, as it is at the moment, cannot plan one of these."""
    gone = world.dice("edited", int(world.kernel.ms) // 4_000).random()
    return world.kernel.faulty and gone < 0.3 and any(key.endswith(("3", "7")) for key in keys)


def _task(world: SimulatedWorld, key: str) -> TaskSpec:
    task_key = TaskKeyStr(f"{ASSET}[{key}]:materialize")
    return TaskSpec(
        task_key=task_key,
        asset_key=ASSET,
        also_makes=world.also_makes(task_key),
        partition=key,
        retry=replace(RETRY, max_attempts=2),
        heartbeat_timeout_ms=LEASE_MS,
        dispatch_ack_timeout_ms=world.swarm.ack_timeout_ms,
    )
