"""Sensors: what is to be made when something happened.

    @sensor(target="orders", minimum_interval_seconds=60)
    def new_files(context):
        ...
        return SensorResult(run_requests=[RunRequest(run_key=name)], cursor=name)

A sensor's function is asked again and again, told where it stood (`context.cursor`), and answers
with runs to be made or why there are none. It is run by a worker, never by the leader.
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

Fn = Callable[..., Any]

MINIMUM_INTERVAL_S = 30
TIMEOUT_S = 60


class SensorEvaluationContext:
    """What a sensor's function is told, and where it says how far it came."""

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
        """The key of the last run that the sensor asked for."""
        held = self._last_run_key
        return held() if callable(held) else held

    @property
    def instance(self) -> Any:
        """The workspace: what was made, what ran, which partitions exist."""
        return self._instance() if callable(self._instance) else self._instance

    def update_cursor(self, cursor: str | None) -> None:
        """Say where the next evaluation goes on."""
        value: Any = cursor
        if value is not None and not isinstance(value, str):
            raise Invalid(f"the cursor is {cursor!r}", remedy="use a string, such as json.dumps(…)")
        self.cursor = cursor


class RunStatusSensorContext(SensorEvaluationContext):
    """What a sensor of runs is told: the run, and what happened to it."""

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
        """What happened to the run."""
        return self.event

    @property
    def failure_event(self) -> Any:
        """What happened to the run, if it failed."""
        return self.event

    def for_run_failure(self) -> "RunStatusSensorContext":
        """This, for those who want the context of a failure."""
        return self

    def get_step_failure_events(self) -> Sequence[Any]:
        """What failed in the run: the task and its asset, and the error as `message`."""
        return self._failures()


class SensorDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """A function that is asked whether something is to be made."""

    name: str = ""
    evaluation_fn: Fn
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
        """What it may ask for; several jobs if it says which in every request."""
        what = f"sensor {self.name}"
        chosen = self.target if self.target is not None else self.asset_selection
        if self.jobs:
            _ = one_target(what, job_name=self.job_name, job=self.job, target=chosen)
            found = [one_target(what, job=job) for job in self.jobs]
        else:
            found = [one_target(what, job_name=self.job_name, job=self.job, target=chosen)]
        return tuple(target for target in found if target is not None)

    def signature(self) -> Signature:
        """What its function asks for."""
        return evaluated_by(self.evaluation_fn, f"sensor {self.name}")

    def evaluate(self, context: SensorEvaluationContext) -> SensorResult:
        """What it asks for, or why nothing, and where it stands then."""
        before = context.cursor
        found = collected(self(context), what=f"sensor {self.name}")
        if found.cursor is None and context.cursor != before:
            return msgspec.structs.replace(found, cursor=context.cursor)
        return found

    def __call__(self, context: Any = None, event: Any = None, **resources: Any) -> Any:
        """Call the function itself, as a test does."""
        held = Resources(resources) if resources else getattr(context, "resources", Resources())
        return called(self.evaluation_fn, self.signature(), (context, event), held)


class AssetSensorDefinition(SensorDefinition, frozen=True, kw_only=True):
    """A sensor that is asked whenever an asset was made; its function takes the event too.

    If an asset was made several times since the sensor looked, it is told of the newest; with
    `each_event` of every one, in their order.
    """

    asset_key: AssetKey
    each_event: bool = False

    def signature(self) -> Signature:
        """What its function asks for: a context, the event, and resources."""
        return evaluated_by(self.evaluation_fn, f"sensor {self.name}", events=1)


class MultiAssetSensorDefinition(SensorDefinition, frozen=True, kw_only=True):
    """A sensor that looks at what was made of several assets."""

    monitored_assets: Any


class RunStatusSensorDefinition(SensorDefinition, frozen=True, kw_only=True):
    """A sensor that is asked whenever a run comes to stand so."""

    run_status: RunStatus
    monitored_jobs: Sequence[Any] | None = None
    monitor_all_code_locations: bool = False

    def job_names(self) -> tuple[str, ...] | None:
        """The jobs whose runs it is told of; None for all runs."""
        if self.monitored_jobs is None:
            return None
        return tuple(str(getattr(job, "name", job)) for job in self.monitored_jobs)


class AutomationConditionSensorDefinition(msgspec.Struct, frozen=True):
    """Asks for the assets of a selection whose automation conditions are true."""

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


def sensor(fn: Fn | None = None, /, *, name: str | None = None, **options: Any) -> Any:
    """Make the decorated function a sensor. The options are those of `SensorDefinition`."""
    return decorator_of(fn, SensorDefinition, name, options)


def asset_sensor(
    asset_key: Any, *, name: str | None = None, **options: Any
) -> Callable[[Fn], AssetSensorDefinition]:
    """Make the decorated function a sensor of an asset: `def made(context, asset_event)`."""
    given = {"asset_key": to_key(asset_key, what="asset_sensor"), **options}
    return decorator_of(None, AssetSensorDefinition, name, given)


def multi_asset_sensor(
    monitored_assets: Any, *, name: str | None = None, **options: Any
) -> Callable[[Fn], MultiAssetSensorDefinition]:
    """Make the decorated function a sensor of several assets."""
    given = {"monitored_assets": monitored_assets, **_renamed(options)}
    return decorator_of(None, MultiAssetSensorDefinition, name, given)


def run_status_sensor(
    run_status: RunStatus, *, name: str | None = None, **options: Any
) -> Callable[[Fn], RunStatusSensorDefinition]:
    """Make the decorated function a sensor of runs that come to stand so."""
    status: Any = run_status
    if not isinstance(status, RunStatus):
        raise Invalid(
            f"run_status is {status!r}", remedy="use a RunStatus, such as RunStatus.FAILURE"
        )
    given = {"run_status": status, **_renamed(options)}
    return decorator_of(None, RunStatusSensorDefinition, name, given)


def run_failure_sensor(fn: Fn | None = None, /, *, name: str | None = None, **options: Any) -> Any:
    """Make the decorated function a sensor of runs that fail."""
    given = {"run_status": RunStatus.FAILURE, **_renamed(options)}
    return decorator_of(fn, RunStatusSensorDefinition, name, given)


def build_sensor_context(
    instance: Any = None,
    cursor: str | None = None,
    resources: Mapping[str, Any] | None = None,
    sensor_name: str | None = None,
    **rest: Any,
) -> SensorEvaluationContext:
    """A context to call a sensor's function with, in a test."""
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
    """A context to call the function of a sensor of runs with, in a test."""
    return RunStatusSensorContext(
        run=rest.get("run", dagster_run),
        event=rest.get("event", dagster_event),
        sensor_name=sensor_name,
        instance=rest.get("instance", dagster_instance),
        resources=Resources(rest.get("resources")),
    )


def decorator_of(fn: Fn | None, kind: Any, name: str | None, options: Mapping[str, Any]) -> Any:
    """What makes a function a sensor of a kind."""

    def define(function: Fn) -> Any:
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
    """Options with the names that only sensors of several things give them."""
    given = dict(options)
    for old, new in (("request_job", "job"), ("request_jobs", "jobs"), ("job_selection", "")):
        if old in given:
            value = given.pop(old)
            given[new or "monitored_jobs"] = value
    return given
