"""Schedules: run assets at the ticks of a cron expression.

    ScheduleDefinition(name="nightly", target="*", cron_schedule="0 2 * * *")

    @schedule(cron_schedule="0 * * * *", target="orders")
    def hourly(context):
        return RunRequest(run_key=context.scheduled_execution_time.isoformat())

A definition is an immutable value, validated when it is created. Its function runs on a worker,
never in the leader.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import Enum
from typing import Any

import msgspec

from servo.core.cron import Cron
from servo.errors import Invalid
from servo.sdk.assets.signature import Signature
from servo.sdk.assets.specs import check_tags
from servo.sdk.option_kinds import of_kind
from servo.sdk.partitions.time_partitions import TimeWindowPartitionsDefinition
from servo.sdk.resources.resources import Resources, Silence
from servo.sdk.resources.run_config import RunConfig
from servo.sdk.triggers.run_requests import (
    DefaultScheduleStatus,
    RunRequest,
    SensorResult,
    collected,
)
from servo.sdk.triggers.targets import Target, called, default_name, evaluated_by, one_target

_Fn = Callable[..., Any]


class ScheduleEvaluationContext(msgspec.Struct, frozen=True, kw_only=True):
    """The context of a schedule's function: the tick that it is evaluated for."""

    __servo_context__ = True

    scheduled_execution_time: datetime | None = None
    schedule_name: str = ""
    instance: Any = None
    resources: Any = msgspec.field(default_factory=Resources)
    log: Any = msgspec.field(default_factory=Silence)


class MissedTicks(Enum):
    """What happens to ticks that were missed while no leader was running."""

    CATCH_UP = "CATCH_UP"
    """Run the last `max_catchup_ticks` ticks within the `catchup_window`."""
    LATEST = "LATEST"
    """Run only the last tick, if it is within the `catchup_window`."""
    SKIP = "SKIP"
    """Run none: a tick that is more than ten minutes late is skipped."""


ON_TIME = timedelta(minutes=10)


class ScheduleDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule: what to run, and when.

        ScheduleDefinition(name="nightly", target="*", cron_schedule="0 2 * * *")

    Args:
        name: by default `<job name>_schedule`.
        cron_schedule: one cron expression, or several.
        job_name: the name of the job to run; or pass `job` or `target`.
        job: the job to run.
        target: the assets to run: a selection, assets or keys.
        run_config: the run config of its runs, or `run_config_fn(context)`.
        run_config_fn: returns the run config for a tick.
        tags: the tags of its runs, or `tags_fn(context)`.
        tags_fn: returns the tags for a tick.
        should_execute: a function of the context; if it returns False, the tick is skipped.
        execution_timezone: the time zone of the cron expression; UTC by default.
        execution_fn: returns run requests for a tick; `@schedule` sets it.
        description: what the schedule is for.
        default_status: whether the schedule is running as soon as it is deployed.
        required_resource_keys: the resources that its function uses through
            `context.resources`.
        missed_ticks: what happens to ticks that were missed while no leader was running.
        catchup_window: how late a missed tick may still run.
        max_catchup_ticks: how many missed ticks run at most.
    """

    name: str = ""
    cron_schedule: str | Sequence[str]
    job_name: str | None = None
    job: Any = None
    target: Any = None
    run_config: Any = None
    run_config_fn: _Fn | None = None
    tags: Mapping[str, str] | None = None
    tags_fn: _Fn | None = None
    should_execute: _Fn | None = None
    execution_timezone: str | None = None
    execution_fn: _Fn | None = None
    description: str | None = None
    default_status: DefaultScheduleStatus = DefaultScheduleStatus.STOPPED
    required_resource_keys: Sequence[str] | frozenset[str] | set[str] | None = None
    environment_vars: Mapping[str, str] | None = None
    metadata: Mapping[str, Any] | None = None
    owners: Sequence[str] | None = None
    missed_ticks: MissedTicks = MissedTicks.CATCH_UP
    catchup_window: timedelta = timedelta(days=1)
    max_catchup_ticks: int = 3

    def __post_init__(self) -> None:
        target = self.to_target()
        named = target.name if target is not None else None
        what = "schedule"
        name = default_name(self.name, f"{named}_schedule" if named else None, what)
        set_field = msgspec.structs.force_setattr
        set_field(self, "name", name)
        crons: Any = self.cron_schedule
        of_kind(crons, str | Sequence, what="cron_schedule", remedy='use a string like "0 2 * * *"')
        set_field(self, "cron_schedule", _one_or_all(self.cron().expressions))
        set_field(self, "tags", check_tags(self.tags or {}, what=f"schedule {name}"))
        _check_pairs(self)
        _settle_missed(self)
        if target is None and self.execution_fn is None:
            raise Invalid(f"schedule {name} has no job or target", remedy="pass job=… or target=…")
        if self.execution_fn is not None:
            _ = self.signature()
        if self.run_config is not None:
            set_field(self, "run_config", RunConfig.of(self.run_config).to_config_dict())

    def cron(self) -> Cron:
        """The cron expression with its time zone."""
        return Cron(self.cron_schedule, self.execution_timezone or "UTC")

    def to_target(self) -> Target | None:
        """The target; None if the function names it in its run requests."""
        what = f"schedule {self.name}".strip()
        return one_target(what, job_name=self.job_name, job=self.job, target=self.target)

    def signature(self) -> Signature:
        """The parameters of its function."""
        return evaluated_by(self.execution_fn or _nothing, f"schedule {self.name}")

    def evaluate(self, context: ScheduleEvaluationContext) -> SensorResult:
        """The runs to request for a tick, or the reason for none."""
        if self.should_execute is not None and not self.should_execute(context):
            return SensorResult(skip_reason="should_execute returned false")
        if self.execution_fn is None:
            config = self.run_config_fn(context) if self.run_config_fn else self.run_config
            tags = self.tags_fn(context) if self.tags_fn else self.tags
            return SensorResult(run_requests=[RunRequest(run_config=config, tags=tags)])
        found = collected(self(context), what=f"schedule {self.name}")
        if found.cursor is not None or found.dynamic_partitions_requests or found.asset_events:
            raise Invalid(
                f"schedule {self.name} returned a cursor, dynamic partitions or asset events",
                remedy="return run requests or a SkipReason, or use @sensor instead",
            )
        return found

    def __call__(self, context: Any = None, **resources: Any) -> Any:
        """Call the function directly, as a test does."""
        if self.execution_fn is None:
            raise Invalid(f"schedule {self.name} has no function", remedy="use evaluate(context)")
        held = Resources(resources) if resources else getattr(context, "resources", Resources())
        return called(self.execution_fn, self.signature(), (context,), held)


class PartitionedSchedule(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule that ticks when a partition of its job ends, before the partitions are known."""

    job: Any
    name: str
    minute_of_hour: int | None = None
    hour_of_day: int | None = None
    day_of_week: int | None = None
    day_of_month: int | None = None
    description: str | None = None
    default_status: DefaultScheduleStatus = DefaultScheduleStatus.STOPPED
    tags: Mapping[str, str] | None = None
    execution_timezone: str | None = None

    def resolved(self, partitions_def: Any) -> ScheduleDefinition:
        """The schedule for a job with these partitions."""
        if not isinstance(partitions_def, TimeWindowPartitionsDefinition):
            raise Invalid(
                f"schedule {self.name}: the partitions of its job are {partitions_def!r}",
                remedy="use time-based partitions, or write a schedule with a cron_schedule",
            )
        cron = partitions_def.get_cron_schedule(
            self.minute_of_hour, self.hour_of_day, self.day_of_week, self.day_of_month
        )
        return ScheduleDefinition(
            name=self.name,
            cron_schedule=cron,
            job=self.job,
            tags=self.tags,
            execution_timezone=self.execution_timezone or partitions_def.timezone,
            execution_fn=_last_window(partitions_def),
            description=self.description,
            default_status=self.default_status,
        )


def _last_window(partitions_def: TimeWindowPartitionsDefinition) -> _Fn:
    def last_window(context: ScheduleEvaluationContext) -> Any:
        key = partitions_def.get_last_partition_key(context.scheduled_execution_time)
        return [] if key is None else [RunRequest(run_key=key, partition_key=key)]

    return last_window


def build_schedule_from_partitioned_job(  # noqa: PLR0913 - the options people know
    job: Any,
    description: str | None = None,
    name: str | None = None,
    minute_of_hour: int | None = None,
    hour_of_day: int | None = None,
    day_of_week: int | None = None,
    day_of_month: int | None = None,
    default_status: DefaultScheduleStatus = DefaultScheduleStatus.STOPPED,
    tags: Mapping[str, str] | None = None,
    cron_schedule: str | None = None,
    execution_timezone: str | None = None,
) -> ScheduleDefinition | PartitionedSchedule:
    """Build a schedule that runs each time-based partition of a job when its window ends.

        daily = define_asset_job("daily_orders", selection="orders")
        build_schedule_from_partitioned_job(daily, hour_of_day=3)

    `minute_of_hour`, `hour_of_day`, `day_of_week` and `day_of_month` delay the tick after the end
    of the window. With `cron_schedule` the schedule ticks at those times instead.
    """
    _ = one_target("build_schedule_from_partitioned_job", job=job)
    named = default_name(name, f"{job.name}_schedule", "schedule")
    if cron_schedule is not None:
        return ScheduleDefinition(
            name=named,
            cron_schedule=cron_schedule,
            job=job,
            tags=tags,
            execution_timezone=execution_timezone,
            description=description,
            default_status=default_status,
        )
    planned = PartitionedSchedule(
        job=job,
        name=named,
        minute_of_hour=minute_of_hour,
        hour_of_day=hour_of_day,
        day_of_week=day_of_week,
        day_of_month=day_of_month,
        description=description,
        default_status=default_status,
        tags=tags,
        execution_timezone=execution_timezone,
    )
    partitions_def = getattr(job, "partitions_def", None)
    return planned if partitions_def is None else planned.resolved(partitions_def)


def schedule(
    cron_schedule: str | Sequence[str], *, name: str | None = None, **options: Any
) -> Callable[[_Fn], ScheduleDefinition]:
    """Define a schedule by a function that returns run requests for each tick.

        @schedule(cron_schedule="0 * * * *", target="orders")
        def hourly(context):
            if is_holiday(context.scheduled_execution_time):
                return SkipReason("a holiday")
            return RunRequest(run_key=context.scheduled_execution_time.isoformat())

    The function returns a `RunRequest`, a list of them, or a `SkipReason`. The other options are
    those of `ScheduleDefinition`.
    """

    def define(fn: _Fn) -> ScheduleDefinition:
        given: dict[str, Any] = {"description": (fn.__doc__ or "").strip() or None, **options}
        try:
            return ScheduleDefinition(
                name=name or fn.__name__, cron_schedule=cron_schedule, execution_fn=fn, **given
            )
        except TypeError as error:
            raise Invalid(f"@schedule: {error}", remedy="see `help(servo.schedule)`") from None

    return define


def build_schedule_context(
    instance: Any = None,
    scheduled_execution_time: datetime | None = None,
    resources: Mapping[str, Any] | None = None,
    **rest: Any,
) -> ScheduleEvaluationContext:
    """Build a context to call the function of a schedule in a test."""
    del rest
    return ScheduleEvaluationContext(
        scheduled_execution_time=scheduled_execution_time,
        instance=instance,
        resources=Resources(resources),
    )


def _nothing() -> None:
    return None


def _one_or_all(expressions: tuple[str, ...]) -> str | tuple[str, ...]:
    return expressions[0] if len(expressions) == 1 else expressions


def _settle_missed(definition: ScheduleDefinition) -> None:
    """Express `missed_ticks` as a window and a maximum number."""
    what, set_field = f"schedule {definition.name}", msgspec.structs.force_setattr
    most: Any = definition.max_catchup_ticks
    if isinstance(most, bool) or not isinstance(most, int) or most < 1:
        raise Invalid(
            f"{what}: max_catchup_ticks is {most!r}", remedy="use a whole number of at least 1"
        )
    window: Any = definition.catchup_window
    if not isinstance(window, timedelta) or window < timedelta(minutes=1):
        raise Invalid(f"{what}: catchup_window is {window!r}", remedy="use a minute or more")
    if definition.missed_ticks is not MissedTicks.CATCH_UP:
        set_field(definition, "max_catchup_ticks", 1)
    if definition.missed_ticks is MissedTicks.SKIP:
        set_field(definition, "catchup_window", ON_TIME)


def _check_pairs(definition: ScheduleDefinition) -> None:
    for name in ("run_config", "tags"):
        if getattr(definition, name) and getattr(definition, f"{name}_fn") is not None:
            raise Invalid(
                f"schedule {definition.name} has both {name} and {name}_fn",
                remedy="pass only one of the two",
            )
