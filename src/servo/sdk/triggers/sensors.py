"""Sensors: run assets when something has happened.

    @sensor(target="orders", minimum_interval_seconds=60)
    def new_files(context):
        ...
        return SensorResult(run_requests=[RunRequest(run_key=name)], cursor=name)

The function of a sensor is evaluated at intervals. It reads the cursor of the last evaluation
(`context.cursor`), and returns run requests or a reason for none. It runs on a worker, never in the
leader.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from math import isfinite
from typing import Any

import msgspec

from servo.core.keys import AssetKey
from servo.errors import Invalid
from servo.sdk.assets.signature import Signature
from servo.sdk.assets.specs import check_tags, to_key
from servo.sdk.resources.resources import Resources, Silence
from servo.sdk.triggers.run_requests import DefaultSensorStatus, RunStatus, SensorResult, collected
from servo.sdk.triggers.targets import Target, called, default_name, evaluated_by, one_target

SensorFunction = Callable[..., Any]

MINIMUM_INTERVAL_S = 30
TIMEOUT_S = 60


class SensorEvaluationContext:
    """The context of a sensor's function: its cursor, the instance, resources and a log."""

    __servo_context__ = True

    def __init__(  # noqa: PLR0913 - all that a function may be told
        self,
        *,
        cursor: str | None = None,
        last_run_key: str | Callable[[], str | None] | None = None,
        sensor_name: str = "",
        instance: Any = None,
        resources: Any = None,
        log: Any = None,
        evaluation_time: datetime | None = None,
    ) -> None:
        self.cursor = cursor
        self.evaluation_time = evaluation_time
        self._last_run_key = last_run_key
        self.sensor_name = sensor_name
        self._instance = instance
        self.resources = resources if resources is not None else Resources()
        self.log = log or Silence()

    @property
    def last_run_key(self) -> str | None:
        """The run key of the last run that the sensor requested."""
        held = self._last_run_key
        return held() if callable(held) else held

    @property
    def instance(self) -> Any:
        """The `ServoInstance`, to query materializations, runs and dynamic partitions."""
        return self._instance() if callable(self._instance) else self._instance

    def update_cursor(self, cursor: str | None) -> None:
        """Set the cursor that the next evaluation reads."""
        value: Any = cursor
        if value is not None and not isinstance(value, str):
            raise Invalid(f"the cursor is {cursor!r}", remedy="use a string, such as json.dumps(…)")
        self.cursor = cursor


class RunStatusSensorContext(SensorEvaluationContext):
    """The context of a run status sensor: the run, and the event that changed its status."""

    def __init__(
        self,
        *,
        run: Any = None,
        event: Any = None,
        failures: Callable[[], Sequence[Any]] = tuple,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.run = run
        self.event = event
        self._failures = failures

    @property
    def dagster_run(self) -> Any:
        """The run."""
        return self.run

    @property
    def dagster_event(self) -> Any:
        """The event that changed the status of the run."""
        return self.event

    @property
    def failure_event(self) -> Any:
        """The event of the failure, if the run failed."""
        return self.event

    def for_run_failure(self) -> "RunStatusSensorContext":
        """This context, for code written for failure sensors."""
        return self

    def get_step_failure_events(self) -> Sequence[Any]:
        """The failures of the run: the task and its asset, and the error as `message`."""
        return self._failures()


class SensorDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """A sensor: a function that is evaluated at intervals and may request runs.

    Use `@sensor` to create one.

    Args:
        name: the name of the function, with `@sensor`.
        evaluation_fn: the function; `@sensor` sets it.
        job_name: the name of the job to run; or pass `job`, `jobs` or `target`.
        job: the job to run.
        jobs: several jobs; each run request names one.
        target: the assets to run: a selection, assets or keys.
        asset_selection: another name of `target`.
        minimum_interval_seconds: the minimum time between two evaluations.
        timeout_seconds: the time after which an evaluation is stopped.
        description: what the sensor is for.
        default_status: whether the sensor is running as soon as it is deployed.
        required_resource_keys: the resources that its function uses through
            `context.resources`.
        tags: the tags of the sensor.
    """

    name: str = ""
    evaluation_fn: SensorFunction
    job_name: str | None = None
    job: Any = None
    jobs: Sequence[Any] | None = None
    target: Any = None
    asset_selection: Any = None
    minimum_interval_seconds: float | None = None
    timeout_seconds: float = TIMEOUT_S
    description: str | None = None
    default_status: DefaultSensorStatus = DefaultSensorStatus.STOPPED
    required_resource_keys: Sequence[str] | frozenset[str] | set[str] | None = None
    tags: Mapping[str, str] | None = None
    metadata: Mapping[str, Any] | None = None
    owners: Sequence[str] | None = None

    def __post_init__(self) -> None:
        set_field = msgspec.structs.force_setattr
        name = default_name(self.name, getattr(self.evaluation_fn, "__name__", None), "sensor")
        set_field(self, "name", name)
        set_field(self, "tags", check_tags(self.tags or {}, what=f"sensor {name}"))
        seconds: Any = self.minimum_interval_seconds
        if seconds is not None and (not _is_finite(seconds) or seconds < 0):
            raise Invalid(
                f"sensor {name}: minimum_interval_seconds is {seconds!r}",
                remedy="use 0 or more seconds",
            )
        limit: Any = self.timeout_seconds
        if not _is_finite(limit) or limit <= 0:
            raise Invalid(
                f"sensor {name}: timeout_seconds is {limit!r}",
                remedy="pass a number of seconds greater than 0",
            )
        _ = self.targets(), self.signature()

    def targets(self) -> tuple[Target, ...]:
        """What it may run; with several jobs, each run request names one."""
        what = f"sensor {self.name}"
        chosen = self.target if self.target is not None else self.asset_selection
        if self.jobs:
            _ = one_target(what, job_name=self.job_name, job=self.job, target=chosen)
            found = [one_target(what, job=job) for job in self.jobs]
        else:
            found = [one_target(what, job_name=self.job_name, job=self.job, target=chosen)]
        return tuple(target for target in found if target is not None)

    def signature(self) -> Signature:
        """The parameters of its function."""
        return evaluated_by(self.evaluation_fn, f"sensor {self.name}")

    def evaluate(self, context: SensorEvaluationContext) -> SensorResult:
        """The runs to request, or the reason for none, and the new cursor."""
        before = context.cursor
        found = collected(self(context), what=f"sensor {self.name}")
        if found.cursor is None and context.cursor != before:
            return msgspec.structs.replace(found, cursor=context.cursor)
        return found

    def __call__(self, context: Any = None, event: Any = None, **resources: Any) -> Any:
        """Call the function directly, as a test does."""
        held = Resources(resources) if resources else getattr(context, "resources", Resources())
        return called(self.evaluation_fn, self.signature(), (context, event), held)


class AssetSensorDefinition(SensorDefinition, frozen=True, kw_only=True):
    """A sensor that is evaluated when an asset was materialized; its function takes the event too.

    After several materializations it sees only the last, or, with `each_event=True`, each in order.
    """

    asset_key: AssetKey
    each_event: bool = False

    def signature(self) -> Signature:
        """The parameters of its function: a context, the event, and resources."""
        return evaluated_by(self.evaluation_fn, f"sensor {self.name}", events=1)


class MultiAssetSensorDefinition(SensorDefinition, frozen=True, kw_only=True):
    """A sensor that monitors the materializations of several assets."""

    monitored_assets: Any


class RunStatusSensorDefinition(SensorDefinition, frozen=True, kw_only=True):
    """A sensor that is evaluated when a run reaches a status."""

    run_status: RunStatus
    monitored_jobs: Sequence[Any] | None = None
    monitor_all_code_locations: bool = False

    def job_names(self) -> tuple[str, ...] | None:
        """The jobs whose runs it monitors; None for all runs."""
        if self.monitored_jobs is None:
            return None
        return tuple(str(getattr(job, "name", job)) for job in self.monitored_jobs)


class AutomationConditionSensorDefinition(msgspec.Struct, frozen=True):
    """A sensor that evaluates the automation conditions of a selection and requests runs.

        AutomationConditionSensorDefinition("sales", target="group:sales", run_tags={"team": "a"})

    Conditions that no such sensor targets are evaluated by the default sensor.
    """

    name: str
    target: Any
    minimum_interval_seconds: int | None = None
    run_tags: Mapping[str, str] | None = None
    default_status: DefaultSensorStatus = DefaultSensorStatus.STOPPED
    description: str | None = None
    metadata: Mapping[str, Any] | None = None
    use_user_code_server: bool = False
    emit_backfills: bool = True

    def __post_init__(self) -> None:
        _ = default_name(self.name, None, "sensor")
        if self.target is None:
            raise Invalid(f"sensor {self.name} has no target", remedy='use target="*" for all')
        tags = check_tags(self.run_tags or {}, what=f"sensor {self.name}")
        msgspec.structs.force_setattr(self, "run_tags", tags)


def sensor(fn: SensorFunction | None = None, /, *, name: str | None = None, **options: Any) -> Any:
    """Define a sensor by a function that is evaluated at intervals.

        @sensor(target="orders", minimum_interval_seconds=60)
        def new_files(context):
            names = sorted(name for name in os.listdir("/data") if name > (context.cursor or ""))
            if not names:
                return SkipReason("no new files")
            return SensorResult([RunRequest(run_key=name) for name in names], cursor=names[-1])

    The function returns or yields `RunRequest`s, a `SkipReason` or a `SensorResult`. The options
    are those of `SensorDefinition`.
    """
    return decorator_of(fn, SensorDefinition, name, options)


def asset_sensor(
    asset_key: Any, *, name: str | None = None, **options: Any
) -> Callable[[SensorFunction], AssetSensorDefinition]:
    """Define a sensor by a function that is called when an asset was materialized.

        @asset_sensor("orders", target="report")
        def on_orders(context, asset_event):
            return RunRequest()

    The other options are those of `AssetSensorDefinition`.
    """
    given = {"asset_key": to_key(asset_key, what="asset_sensor"), **options}
    return decorator_of(None, AssetSensorDefinition, name, given)


def multi_asset_sensor(
    monitored_assets: Any, *, name: str | None = None, **options: Any
) -> Callable[[SensorFunction], MultiAssetSensorDefinition]:
    """Define a sensor that monitors the materializations of several assets.

        @multi_asset_sensor(monitored_assets=["orders", "customers"], target="report")
        def both(context):
            if all(context.latest_materialization_records_by_key().values()):
                context.advance_all_cursors()
                return RunRequest()

    The other options are those of `SensorDefinition`.
    """
    given = {"monitored_assets": monitored_assets, **_renamed(options)}
    return decorator_of(None, MultiAssetSensorDefinition, name, given)


def run_status_sensor(
    run_status: RunStatus, *, name: str | None = None, **options: Any
) -> Callable[[SensorFunction], RunStatusSensorDefinition]:
    """Define a sensor by a function that is called when a run reaches a status.

        @run_status_sensor(run_status=RunStatus.SUCCESS, monitored_jobs=[nightly])
        def announce(context):
            print(context.dagster_run.run_id)

    Without `monitored_jobs`, it monitors all runs. The other options are those of
    `SensorDefinition`.
    """
    status: Any = run_status
    if not isinstance(status, RunStatus):
        raise Invalid(
            f"run_status is {status!r}", remedy="use a RunStatus, such as RunStatus.FAILURE"
        )
    given = {"run_status": status, **_renamed(options)}
    return decorator_of(None, RunStatusSensorDefinition, name, given)


def run_failure_sensor(
    fn: SensorFunction | None = None, /, *, name: str | None = None, **options: Any
) -> Any:
    """Define a sensor by a function that is called when a run fails.

        @run_failure_sensor
        def alert(context):
            print(context.failure_event.message)

    The options are those of `run_status_sensor`.
    """
    given = {"run_status": RunStatus.FAILURE, **_renamed(options)}
    return decorator_of(fn, RunStatusSensorDefinition, name, given)


def build_sensor_context(
    instance: Any = None,
    cursor: str | None = None,
    resources: Mapping[str, Any] | None = None,
    sensor_name: str | None = None,
    **rest: Any,
) -> SensorEvaluationContext:
    """Build a context to call the function of a sensor in a test."""
    return SensorEvaluationContext(
        cursor=cursor,
        last_run_key=rest.get("last_run_key"),
        sensor_name=sensor_name or "",
        instance=instance,
        resources=Resources(resources),
        evaluation_time=rest.get("evaluation_time"),
    )


def build_run_status_sensor_context(
    sensor_name: str = "",
    dagster_event: Any = None,
    dagster_instance: Any = None,
    dagster_run: Any = None,
    **rest: Any,
) -> RunStatusSensorContext:
    """Build a context to call the function of a run status sensor in a test."""
    return RunStatusSensorContext(
        run=rest.get("run", dagster_run),
        event=rest.get("event", dagster_event),
        sensor_name=sensor_name,
        instance=rest.get("instance", dagster_instance),
        resources=Resources(rest.get("resources")),
    )


def decorator_of(
    fn: SensorFunction | None, kind: Any, name: str | None, options: Mapping[str, Any]
) -> Any:
    """The decorator that defines a sensor of this kind."""

    def define(function: SensorFunction) -> Any:
        given = {"description": (function.__doc__ or "").strip() or None, **options}
        made = name or getattr(function, "__name__", "")
        try:
            return kind(name=made, evaluation_fn=function, **given)
        except TypeError as error:
            raise Invalid(f"sensor {made}: {error}", remedy="see `help(servo.sensor)`") from None

    return define if fn is None else define(fn)


def _is_finite(seconds: Any) -> bool:
    number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    return number and isfinite(seconds)


def _renamed(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options, with names that only some kinds of sensors use translated."""
    given = dict(options)
    for old, new in (("request_job", "job"), ("request_jobs", "jobs"), ("job_selection", "")):
        if old in given:
            value = given.pop(old)
            given[new or "monitored_jobs"] = value
    return given
