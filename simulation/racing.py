"""A sensor and a schedule that several processes race to evaluate, from what is published."""

from servo.core.events.envelope import Batch, Event
from servo.core.events.runs import (
    PlanCreated,
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
from servo.core.state.states import ScheduleStatus
from simulation.kernel import Process, SimClock
from simulation.published import Published
from simulation.world import SimulatedWorld


def sensor(world: SimulatedWorld, process: Process) -> None:
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


def _evaluation(world: SimulatedWorld, version: int, cursor: str | None, seen: int) -> Batch:
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


def ticker(world: SimulatedWorld, process: Process) -> None:
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
