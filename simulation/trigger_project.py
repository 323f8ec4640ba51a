"""A project as people write it: schedules, sensors, and assets with conditions and policies.

Its functions look at the simulated world where real ones look at a folder or a table, and fail now
and then, as real ones do.
"""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from msgspec.structs import replace

from servo.core.automation.condition import AutomationCondition
from servo.core.declared import Declared
from servo.core.freshness import MaxAge, policy_text
from servo.core.keys import AssetKey
from servo.sdk.assets.asset import asset
from servo.sdk.definitions.project import Project
from servo.sdk.partitions.definition import StaticPartitionsDefinition
from servo.sdk.triggers.push_sensors import push_sensor
from servo.sdk.triggers.resolution import add_triggers, declared
from servo.sdk.triggers.run_requests import (
    DefaultScheduleStatus,
    DefaultSensorStatus,
    RunRequest,
    RunStatus,
    SensorResult,
    SkipReason,
)
from servo.sdk.triggers.schedules import ScheduleDefinition
from servo.sdk.triggers.sensors import run_status_sensor, sensor
from simulation.swarm import Triggering
from simulation.world import SimulatedWorld

ITEMS, SEEN, MESSAGES, ECHO = "items", "all_seen", "messages", "echo"
ECHOED = ("item", "message")
"""Labels of the runs after which another run is asked for."""
RAW = AssetKey("raw")
FRESH = ("raw", "top")
POLICY = policy_text(MaxAge(fail_ms=20_000, warn_ms=8_000))
LOCATION = "sim"
MOST_AT_ONCE = 3
FIRST_MINUTE = "0 0 1 3 *"
"""The rest of an expression that is due in the first minute of every world, and then in a year."""


def project_of(world: SimulatedWorld, options: Triggering) -> Project:
    """The code that is deployed in a world."""
    project = Project(_assets(options))
    sensors = [_items(world), _all_seen(world)] if options.polls else []
    sensors += [_messages(world)] if options.pushes else []
    sensors += [_echo(world)] if options.echoes else []
    add_triggers(project, _schedules(world, options) if options.schedules else (), sensors)
    return project


def declared_by(world: SimulatedWorld, options: Triggering) -> Declared:
    """What its deployment tells, with policies that are shorter than people can write them."""
    found = declared(project_of(world, options)).located(LOCATION)
    assets = tuple(
        replace(one, freshness_policy=POLICY) if one.asset_key in FRESH else one
        for one in found.assets
    )
    return replace(found, assets=assets)


def _assets(options: Triggering) -> list[Any]:
    eager = AutomationCondition.eager() if options.conditions else None
    missing = AutomationCondition.on_missing() if options.conditions else None
    letters = StaticPartitionsDefinition(["a", "b", "c"])

    @asset
    def raw() -> None: ...

    @asset(deps=[raw], automation_condition=eager)
    def mid() -> None: ...

    @asset(deps=[mid], automation_condition=eager)
    def top() -> None: ...

    @asset(partitions_def=letters, automation_condition=missing)
    def parts() -> None: ...

    @asset(deps=[parts], partitions_def=letters, automation_condition=eager)
    def below() -> None: ...

    return [raw, mid, top, parts, below]


def _schedules(world: SimulatedWorld, options: Triggering) -> list[ScheduleDefinition]:
    """One that is due by the calendar alone, and one whose function decides."""

    def decide(context: Any) -> Iterator[RunRequest]:
        fail_now_and_then(world)
        second = context.scheduled_execution_time.second
        if second % 2:
            return  # nothing to do this time
        for part in ("one", "two"):
            yield RunRequest(run_key=f"{second}-{part}", tags={"part": part})

    running = DefaultScheduleStatus.RUNNING
    plain = ScheduleDefinition(
        name="pulse",
        cron_schedule=f"*/{options.every_s} {FIRST_MINUTE}",
        target=[RAW],
        default_status=running,
        max_catchup_ticks=options.max_catchup_ticks,
        catchup_window=timedelta(minutes=1),
    )
    decided = ScheduleDefinition(
        name="decided",
        cron_schedule=f"*/7 {FIRST_MINUTE}",
        target=[RAW],
        execution_fn=decide,
        default_status=running,
        max_catchup_ticks=2,
    )
    return [plain, decided]


def _items(world: SimulatedWorld) -> Any:
    @sensor(
        name=ITEMS,
        target=[RAW],
        minimum_interval_seconds=1,
        default_status=DefaultSensorStatus.RUNNING,
    )
    def items(context: Any) -> SensorResult:
        """One run for every item that appeared since the cursor."""
        fail_now_and_then(world)
        first = int(context.cursor or 0)
        last = min(world.items, first + MOST_AT_ONCE)
        runs = [RunRequest(tags={"item": str(item)}) for item in range(first, last)]
        return SensorResult(run_requests=runs, cursor=str(last))

    return items


def _all_seen(world: SimulatedWorld) -> Any:
    @sensor(
        name=SEEN,
        target=[RAW],
        minimum_interval_seconds=3,
        default_status=DefaultSensorStatus.RUNNING,
    )
    def all_seen(context: Any) -> list[RunRequest]:
        """Everything that it sees, every time; what is asked of the first changes meanwhile."""
        del context
        edition = "old" if world.kernel.ms < world.swarm.faulty_ms / 2 else "new"
        return [
            RunRequest(run_key=str(number), tags={"edition": edition if number == 0 else ""})
            for number in range(min(world.items // 3, 4))
        ]

    return all_seen


def _messages(world: SimulatedWorld) -> Any:
    @push_sensor(name=MESSAGES, target=[RAW], default_status=DefaultSensorStatus.RUNNING)
    def messages(context: Any) -> RunRequest:
        """One run for every message."""
        fail_now_and_then(world)
        return RunRequest(tags={"message": context.message_id, "said": context.payload["says"]})

    return messages


def _echo(world: SimulatedWorld) -> Any:
    @run_status_sensor(
        name=ECHO,
        run_status=RunStatus.SUCCESS,
        target=[RAW],
        minimum_interval_seconds=1,
        default_status=DefaultSensorStatus.RUNNING,
    )
    def echo(context: Any) -> RunRequest | SkipReason:
        """One run after every run of an item or a message that succeeded."""
        fail_now_and_then(world)
        if not any(label in context.run.tags for label in ECHOED):
            return SkipReason("of no interest")
        return RunRequest(tags={"after": context.run.run_id})

    return echo


def fail_now_and_then(world: SimulatedWorld) -> None:
    """Raise as user code does, while there are faults."""
    options = world.swarm.triggers
    if options is not None and world.kernel.chance(options.code_fails):
        world.kernel.fault("user_code_fails")
        raise ConnectionError("the other side did not answer")
