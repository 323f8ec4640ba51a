"""Evaluating one tick of a schedule."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import msgspec

from servo.code.evaluator.loaded_location import (
    UP_TO_DATE,
    LoadedLocation,
    Trigger,
    told,
)
from servo.code.evaluator.messages import Evaluated, EvaluatedMany, EvaluateTick, EvaluateTicks
from servo.core.events.runs import ScheduleSource
from servo.core.tags import SCHEDULE_LABEL
from servo.errors import Unavailable
from servo.sdk.triggers.resolution import find_schedule
from servo.sdk.triggers.run_requests import RunRequest, SensorResult
from servo.sdk.triggers.schedules import ScheduleDefinition, ScheduleEvaluationContext


def tick_id(schedule_id: str, scheduled_for: datetime, request_id: str = "") -> str:
    """The id of a tick; that of a manual tick contains the id of the request."""
    name = f"{schedule_id}:{_epoch(scheduled_for)}"
    return f"{name}:manual:{request_id}" if request_id else name


def evaluate_ticks(loaded: LoadedLocation, asked: EvaluateTicks) -> EvaluatedMany:
    """The answers to several ticks."""
    return EvaluatedMany(answers=tuple(evaluate_tick(loaded, tick) for tick in asked.ticks))


def evaluate_tick(loaded: LoadedLocation, asked: EvaluateTick) -> Evaluated:
    """The runs of a tick, or why there are none, or the error."""
    try:
        schedule = find_schedule(loaded.project, asked.schedule_id)
        found = _answer(loaded, schedule, asked)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - user code has run
        return Evaluated(error=told(error))
    try:
        return _requested(loaded, schedule, asked, found)
    except Unavailable as error:
        return Evaluated(error=told(error), unasked=True)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - mappings of users have run
        return Evaluated(error=told(error))


def _answer(
    loaded: LoadedLocation, schedule: ScheduleDefinition, asked: EvaluateTick
) -> SensorResult:
    zone = ZoneInfo(schedule.execution_timezone or "UTC")
    needed = {*schedule.signature().resources, *(schedule.required_resource_keys or ())}
    with loaded.resources(sorted(needed)) as resources:
        context = ScheduleEvaluationContext(
            scheduled_execution_time=asked.scheduled_for.astimezone(zone),
            schedule_name=schedule.name,
            instance=loaded.instance() if schedule.execution_fn is not None else None,
            resources=resources,
            log=loaded.log,
        )
        return schedule.evaluate(context)


def _requested(
    loaded: LoadedLocation, schedule: ScheduleDefinition, asked: EvaluateTick, found: SensorResult
) -> Evaluated:
    if not found.run_requests:
        return Evaluated(skipped=_reason(found))
    trigger = Trigger(
        what=f"schedule {schedule.name}",
        source=ScheduleSource(schedule_id=schedule.name, tick_id=asked.tick_id),
        target=schedule.to_target(),
        labels={SCHEDULE_LABEL: schedule.name},
    )
    several = len(found.run_requests) > 1
    runs = [
        loaded.run(trigger, _with_tags(schedule, request), _run_key(asked, request, n, several))
        for n, request in enumerate(found.run_requests)
    ]
    wanted = tuple(run for run in runs if run is not None)
    return Evaluated(runs=wanted, skipped="" if wanted else UP_TO_DATE)


def _reason(found: SensorResult) -> str:
    message = getattr(found.skip_reason, "skip_message", None)
    return message or "no run was requested"


def _with_tags(schedule: ScheduleDefinition, request: RunRequest) -> RunRequest:
    """A request with the tags of its schedule; its own tags override them."""
    tags = {**(schedule.tags or {}), **(request.tags or {})}
    config = request.run_config if request.run_config is not None else schedule.run_config
    return msgspec.structs.replace(request, tags=tags, run_config=config)


def _run_key(asked: EvaluateTick, request: RunRequest, number: int, several: bool) -> str:
    """The key of a run; a key from user code is scoped to its schedule."""
    if request.run_key is not None:
        return f"sched:{asked.schedule_id}:key:{request.run_key}"
    key = f"sched:{asked.tick_id}"
    return f"{key}:{number}" if several else key


def _epoch(instant: datetime) -> int:
    return int(instant.astimezone(UTC).timestamp())
