"""The schedules and sensors of a project, with every target resolved."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any

import msgspec

from servo.core.declared import EVALUATED_LABEL, KIND_LABEL, Declared
from servo.core.events.schedules import ScheduleUpserted
from servo.core.events.sensors import SensorMode, SensorUpserted
from servo.core.keys import AssetKey
from servo.errors import Invalid, NotFound
from servo.sdk.automation.sensors import declared_sensors
from servo.sdk.checks.definition import AssetCheckKey
from servo.sdk.checks.selection import chosen_of
from servo.sdk.definitions.jobs import AssetJob
from servo.sdk.definitions.project import Project
from servo.sdk.selection.selection import AssetSelection
from servo.sdk.triggers.push_sensors import PushSensorDefinition
from servo.sdk.triggers.run_requests import DefaultScheduleStatus, DefaultSensorStatus
from servo.sdk.triggers.schedules import PartitionedSchedule, ScheduleDefinition
from servo.sdk.triggers.sensors import (
    MINIMUM_INTERVAL_S,
    AssetSensorDefinition,
    MultiAssetSensorDefinition,
    RunStatusSensorDefinition,
    SensorDefinition,
)
from servo.sdk.triggers.targets import Target

MOST_LISTED = 100
MOST_NAMED = 3
"""Up to this number a schedule or a sensor is shown with its assets, otherwise with its selection.
"""


class Resolved(msgspec.Struct, frozen=True, kw_only=True):
    """What a target means in a project: assets, and the job whose settings apply.

    `checks` are those to run, also of assets that are not materialized; None for all checks of the
    assets.
    """

    keys: tuple[AssetKey, ...]
    job: AssetJob | None = None
    checks: frozenset[AssetCheckKey] | None = None

    def only(self, keys: Sequence[AssetKey]) -> "Resolved":
        """The target reduced to these assets and their checks."""
        checks = self.checks
        if checks is not None:
            checks = frozenset(check for check in checks if check.asset_key in keys)
        return Resolved(keys=tuple(keys), job=self.job, checks=checks)


def add_triggers(project: Project, schedules: Iterable[Any], sensors: Iterable[Any]) -> None:
    """Add schedules and sensors to a project; `Invalid` if one of them is not valid."""
    for given in schedules:
        made = _schedule(project, given)
        if made.name in project.schedules:
            raise _twice("schedules", made.name)
        _add_targets(project, _of(made), what=f"schedule {made.name}")
        project.schedules[made.name] = made
    for sensor in sensors:
        name = getattr(sensor, "name", None)
        if not isinstance(name, str) or not hasattr(sensor, "default_status"):
            raise Invalid(f"{sensor!r} is not a sensor", remedy="decorate a function with @sensor")
        if name in project.sensors:
            raise _twice("sensors", name)
        targets = sensor.targets() if isinstance(sensor, SensorDefinition) else ()
        _add_targets(project, targets, what=f"sensor {name}")
        if isinstance(sensor, MultiAssetSensorDefinition):
            _ = AssetSelection.from_coercible(sensor.monitored_assets).resolve(project)
        project.sensors[name] = sensor


def _add_targets(project: Project, targets: Iterable[Target], *, what: str) -> None:
    """Check targets, and add jobs that only a schedule or a sensor mentions."""
    for target in targets:
        job = resolve(project, target, what=what).job
        if job is not None:
            _ = project.jobs.setdefault(job.name, job)


def _schedule(project: Project, given: Any) -> ScheduleDefinition:
    if isinstance(given, ScheduleDefinition):
        return given
    if not isinstance(given, PartitionedSchedule):
        raise Invalid(f"{given!r} is not a schedule", remedy="use ScheduleDefinition or @schedule")
    keys = resolve(project, Target(job=given.job), what=f"schedule {given.name}").keys
    divided = [project.specs[key].partitions_def for key in keys]
    found = [one for one in divided if one is not None]
    if len(set(found)) > 1:
        raise Invalid(
            f"schedule {given.name}: the assets of its job have different partitions",
            remedy="pass a partitions_def to the job, or schedule them separately",
        )
    return given.resolved(found[0] if found else None)


def _of(schedule: ScheduleDefinition) -> tuple[Target, ...]:
    target = schedule.to_target()
    return () if target is None else (target,)


def resolve(project: Project, target: Target, *, what: str) -> Resolved:
    """The assets of a target; `Invalid` or `NotFound` if the project lacks them."""
    job = target.job if target.job_name is None else _job(project, target.job_name, what)
    if isinstance(job, AssetJob):
        return Resolved(keys=tuple(job.keys(project)), job=job, checks=job.checks(project))
    try:
        selection = AssetSelection.from_coercible(target.selection)
        chosen, checks = selection.resolve(project), chosen_of(selection, project)
    except (Invalid, NotFound) as error:
        raise type(error)(f"{what}: {error.message}", remedy=error.remedy) from None
    if not project.executable(chosen) and not checks:
        raise Invalid(f"{what} selects no executable asset", remedy="change its target")
    return Resolved(keys=tuple(chosen), checks=checks)


def _job(project: Project, name: str, what: str) -> AssetJob:
    try:
        return project.job(name)
    except NotFound as error:
        raise NotFound(f"{what}: {error.message}", remedy=error.remedy) from None


def find_schedule(project: Project, name: str) -> ScheduleDefinition:
    """The schedule of this name."""
    return _find(project.schedules, name, "schedule")


def find_sensor(project: Project, name: str) -> Any:
    """The sensor of this name."""
    return _find(project.sensors, name, "sensor")


def _find(known: dict[str, Any], name: str, what: str) -> Any:
    if name not in known:
        close = get_close_matches(name, known, n=1)
        listed = ", ".join(sorted(known)) or "none"
        remedy = f"did you mean {close[0]!r}?" if close else f"available: {listed}"
        raise NotFound(f"the code has no {what} {name}", remedy=remedy)
    return known[name]


def _twice(what: str, name: str) -> Invalid:
    return Invalid(f"two {what} are called {name}", remedy="rename one of the two")


# --- what a deployment tells of them --------------------------------------------------------------


def declared(project: Project) -> Declared:
    """Everything that a deployment of a project records."""
    return Declared(
        assets=project.definitions(),
        schedules=tuple(_declared_schedule(project, one) for one in project.schedules.values()),
        sensors=(
            *(
                _declared_sensor(project, one)
                for one in project.sensors.values()
                if isinstance(one, SensorDefinition)
            ),
            *declared_sensors(project),
        ),
    )


def _declared_schedule(project: Project, schedule: ScheduleDefinition) -> ScheduleUpserted:
    cron = schedule.cron()
    decides = schedule.execution_fn or schedule.should_execute
    decides = decides or schedule.run_config_fn or schedule.tags_fn
    return ScheduleUpserted(
        schedule_id=schedule.name,
        cron_expressions=cron.expressions,
        timezone=cron.timezone,
        asset_selection=_listed(project, _of(schedule), f"schedule {schedule.name}"),
        catchup_window_minutes=round(schedule.catchup_window.total_seconds() / 60),
        max_catchup_ticks=schedule.max_catchup_ticks,
        enabled=schedule.default_status is DefaultScheduleStatus.RUNNING,
        labels={EVALUATED_LABEL: "function"} if decides else {},
        target=_described(project, _of(schedule), f"schedule {schedule.name}"),
    )


def _declared_sensor(project: Project, sensor: SensorDefinition) -> SensorUpserted:
    seconds = sensor.minimum_interval_seconds
    interval = MINIMUM_INTERVAL_S if seconds is None else seconds
    return SensorUpserted(
        sensor_id=sensor.name,
        asset_selection=_listed(project, sensor.targets(), f"sensor {sensor.name}"),
        mode=SensorMode.PUSH if isinstance(sensor, PushSensorDefinition) else SensorMode.POLL,
        min_interval_ms=round(interval * 1000),
        timeout_ms=max(round(sensor.timeout_seconds * 1000), 1),
        enabled=sensor.default_status is DefaultSensorStatus.RUNNING,
        labels={KIND_LABEL: kind_of(sensor)},
        target=_described(project, sensor.targets(), f"sensor {sensor.name}"),
    )


def kind_of(sensor: SensorDefinition) -> str:
    """The kind of a sensor."""
    if isinstance(sensor, PushSensorDefinition):
        return "push"
    if isinstance(sensor, AssetSensorDefinition | MultiAssetSensorDefinition):
        return "assets"
    return "runs" if isinstance(sensor, RunStatusSensorDefinition) else "poll"


def _listed(project: Project, targets: tuple[Target, ...], what: str) -> tuple[str, ...]:
    keys = [key for target in targets for key in resolve(project, target, what=what).keys]
    names = tuple(dict.fromkeys(key.canonical() for key in keys))
    return names if len(names) <= MOST_LISTED else ()


def _described(project: Project, targets: tuple[Target, ...], what: str) -> str:
    """Targets as users write them: a job, a selection as text, or the assets."""
    return ", ".join(_one_described(project, target, what) for target in targets)


def _one_described(project: Project, target: Target, what: str) -> str:
    if target.name:
        return f"job {target.name}"
    if isinstance(target.selection, str):
        return target.selection
    names = [key.canonical() for key in resolve(project, target, what=what).keys]
    more = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
