"""Worlds of triggers: schedules, sensors, messages and conditions, and their users.

A user deploys a project. Messages are sent, and sent again. A user pauses and resumes triggers,
from what is published, which may be old; in the end nothing is left paused.
"""

from random import Random
from typing import Any

from msgspec.structs import replace

from servo.controllers.schedules import missed_while_paused
from servo.core.events.assets import DefinitionsDeployed
from servo.core.events.envelope import Answer, Event
from servo.core.events.schedules import SchedulePaused, ScheduleResumed
from servo.core.events.sensors import SensorMessageReceived, SensorPaused, SensorResumed
from servo.core.state.rows.automation import ScheduleStateRow, SensorStateRow
from servo.core.state.states import ScheduleStatus, SensorStatus
from simulation.kernel import Process
from simulation.network import RPC_TIMEOUT_MS
from simulation.published import Published
from simulation.swarm import Swarm, Triggering, draw, idle
from simulation.trigger_project import LOCATION, MESSAGES, declared_by
from simulation.world import SimulatedWorld


def world_of_triggers(seed: int) -> Swarm:
    """The world of a seed, with triggers in it and little else to do."""
    rng = Random(f"triggers-{seed}")
    options = _options(rng)
    return replace(
        idle(draw(seed)),
        faulty_ms=rng.choice((20_000, 35_000, 50_000)),
        workers=rng.choice((2, 4)),
        runs=1,
        task_cap=None,
        longest_task_ms=rng.choice((100, 1000)),
        failure_rate=rng.choice((0.0, 0.0, 0.3)),
        cancel_rate=0.0,
        triggers=options,
    )


def _options(rng: Random) -> Triggering:
    """What there is: always something, and seldom all of it."""
    kinds = ["schedules", "polls", "pushes", "conditions"]
    chosen = set(rng.sample(kinds, rng.choice((1, 2, 2, 3))))
    told = chosen & {"polls", "pushes"} or chosen == {"conditions"}
    beside = rng.random() < 0.8
    return Triggering(
        schedules="schedules" in chosen,
        polls="polls" in chosen or chosen == {"conditions"},
        pushes="pushes" in chosen,
        conditions="conditions" in chosen,
        beside_leaders=beside,
        hosts=rng.choice((0, 1, 2)) if beside else rng.choice((1, 2)),
        every_s=rng.choice((3, 5)),
        max_catchup_ticks=rng.choice((1, 3)),
        senders=rng.choice((1, 2)),
        pausers=rng.choice((0, 1, 1)),
        code_fails=rng.choice((0.0, 0.05, 0.2)),
        evaluator_dies=rng.choice((0.0, 0.05)),
        evaluator_slow=rng.choice((0.0, 0.2, 0.5)),
        echoes=bool(told) and rng.random() < 0.3,
    )


# --- people ---------------------------------------------------------------------------------------


def deployer(world: SimulatedWorld, process: Process, options: Triggering) -> None:
    """Tells the workspace what the project declares."""
    found = declared_by(world, options)
    assets = DefinitionsDeployed(deployment_id="d1", location=LOCATION, assets=found.assets)
    batch = world.batch(assets, *found.schedules, *found.sensors, key="deploy")
    _ = world.network.insist(process, batch)


def sender(world: SimulatedWorld, process: Process, number: int) -> None:
    """Sends messages, each until it is taken, and some of them again, now or later."""
    dice = world.dice("sender", number)
    while not _is_taken(world, process, number, 0):
        process.sleep(300)  # the sensor is not there yet
    told = [0]
    for message in range(1, dice.randint(3, 9)):
        process.sleep(dice.uniform(200, world.swarm.faulty_ms / 6))
        _ = _is_taken(world, process, number, message)
        told.append(message)
        if dice.random() < 0.3:
            _ = _is_taken(world, process, number, dice.choice(told))


def _is_taken(world: SimulatedWorld, process: Process, number: int, message: int) -> bool:
    name = f"message-{number}-{message}"
    payload = f'{{"says": "{name}"}}'
    event = SensorMessageReceived(sensor_id=MESSAGES, message_id=name, payload=payload)
    answer = world.network.insist(process, world.batch(event))
    return answer is not None and answer.applied


def pauser(world: SimulatedWorld, process: Process) -> None:
    """Pauses and resumes schedules and sensors while there are faults; then resumes them all."""
    rng = world.kernel.random
    published = Published(world, process)
    while world.kernel.faulty:
        process.sleep(rng.uniform(200, 2500))
        if rows := _rows(published):
            _turn(world, process, published, rng.choice(rows))
    process.sleep(RPC_TIMEOUT_MS * 2)  # whatever is still on its way
    while not (rows := _rows(published)):
        process.sleep(500)
    for row in rows:
        _ = world.network.insist(process, world.batch(_resumed(row)))


def _rows(published: Published) -> list[Any]:
    schedules, sensors = published.rows("schedule_state"), published.rows("sensor_state")
    return [*(schedules or {}).values(), *(sensors or {}).values()]


def _resumed(row: ScheduleStateRow | SensorStateRow) -> Event:
    if isinstance(row, SensorStateRow):
        return SensorResumed(sensor_id=row.sensor_id)
    return ScheduleResumed(schedule_id=row.schedule_id)


def _turn(world: SimulatedWorld, process: Process, published: Published, row: Any) -> None:
    """Pause what runs, or resume it as the command line does."""
    answer = world.network.submit(process, world.batch(*_turning(world, process, published, row)))
    if isinstance(answer, Answer) and not answer.applied:
        world.kernel.note("not turned", answer.reason)


def _turning(
    world: SimulatedWorld,
    process: Process,
    published: Published,
    row: ScheduleStateRow | SensorStateRow,
) -> list[Event]:
    if isinstance(row, SensorStateRow):
        paused = row.status is SensorStatus.PAUSED
        return [_resumed(row) if paused else SensorPaused(sensor_id=row.sensor_id)]
    if row.status is not ScheduleStatus.PAUSED:
        return [SchedulePaused(schedule_id=row.schedule_id)]
    if world.kernel.random.random() < 0.5:
        return [ScheduleResumed(schedule_id=row.schedule_id, catchup=True)]
    definition = (published.rows("schedule_definitions") or {}).get(row.schedule_id)
    if definition is None:
        return [_resumed(row)]
    missed = missed_while_paused(definition, row, process.wall())
    skipped = [] if missed is None else [missed]
    return [*skipped, _resumed(row)]
