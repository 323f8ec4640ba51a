"""Sensors: checked when they are written, and asked what is to be made."""

import math
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

import servo
from servo.core.keys import AssetKey
from servo.errors import Invalid
from servo.sdk.triggers.run_requests import RunRequest, RunStatus, SensorResult, SkipReason
from servo.sdk.triggers.sensors import (
    AutomationConditionSensorDefinition,
    RunStatusSensorContext,
    SensorDefinition,
    SensorEvaluationContext,
    asset_sensor,
    build_sensor_context,
    multi_asset_sensor,
    run_failure_sensor,
    run_status_sensor,
    sensor,
)

JOB = SimpleNamespace(name="job_a")
OTHER = SimpleNamespace(name="job_b")


def test_a_sensor_goes_on_from_its_cursor() -> None:
    @sensor(target="orders", minimum_interval_seconds=60)
    def files(context: SensorEvaluationContext) -> Iterator[Any]:
        """New files."""
        first = int(context.cursor or 0)
        for number in range(first, 3):
            yield RunRequest(run_key=str(number))
        context.update_cursor("3")

    assert (files.name, files.description) == ("files", "New files.")
    found = files.evaluate(build_sensor_context(cursor="1"))
    assert found == SensorResult(
        run_requests=[RunRequest(run_key="1"), RunRequest(run_key="2")], cursor="3"
    )
    assert files.evaluate(build_sensor_context(cursor="3")).skip_reason == SkipReason()


def test_a_bare_decorator_and_a_result_as_it_is() -> None:
    @sensor
    def one(context: SensorEvaluationContext) -> SensorResult:
        return SensorResult(skip_reason="nothing new", cursor=f"{context.cursor}!")

    assert isinstance(one, SensorDefinition)
    found = one.evaluate(build_sensor_context(cursor="a"))
    assert (found.skip_reason, found.cursor) == (SkipReason("nothing new"), "a!")


def test_a_sensor_of_several_jobs_has_several_targets() -> None:
    made = SensorDefinition(name="s", evaluation_fn=lambda: None, jobs=[JOB, OTHER])
    assert [target.name for target in made.targets()] == ["job_a", "job_b"]


def test_a_sensor_of_an_asset_is_told_what_was_made() -> None:
    @asset_sensor(asset_key="raw/events", job=JOB)
    def made(context: SensorEvaluationContext, asset_event: Any) -> RunRequest:
        assert context.cursor is None
        return RunRequest(run_key=asset_event.run_id)

    assert made.asset_key == AssetKey(["raw", "events"])
    event = SimpleNamespace(run_id="run_1")
    assert made(build_sensor_context(), event) == RunRequest(run_key="run_1")

    @multi_asset_sensor(monitored_assets=["a", "b"], request_job=JOB)
    def several(context: Any) -> None: ...

    assert (several.monitored_assets, several.job) == (["a", "b"], JOB)


def test_sensors_of_runs_say_which() -> None:
    @run_failure_sensor
    def failed(context: RunStatusSensorContext) -> SkipReason:
        return SkipReason(str(context.failure_event))

    @run_status_sensor(run_status=RunStatus.SUCCESS, monitored_jobs=[JOB], request_job=OTHER)
    def succeeded(context: RunStatusSensorContext) -> None: ...

    assert failed.run_status is RunStatus.FAILURE
    assert failed(RunStatusSensorContext(event="broken")) == SkipReason("broken")
    assert (succeeded.monitored_jobs, succeeded.job) == ([JOB], OTHER)


def test_the_sensor_of_conditions_is_a_value() -> None:
    made = AutomationConditionSensorDefinition("automation", target="*", run_tags={"a": "b"})
    assert made == AutomationConditionSensorDefinition("automation", "*", run_tags={"a": "b"})


def _nothing(_: Any) -> None: ...


def _two(context: Any, more: Any) -> None: ...


@pytest.mark.parametrize(
    ("make", "wrong"),
    [
        (
            lambda: sensor(target="*", minimum_interval_seconds=-1)(_nothing),
            "interval_seconds is -1",
        ),
        (lambda: sensor(target="*", job=JOB)(_nothing), "has several targets"),
        (lambda: sensor(target="*", colour="red")(_nothing), "colour"),
        (lambda: sensor(job="j")(_nothing), "'j' is not a job"),
        (lambda: sensor(target="*")(_two), "takes more"),
        (lambda: run_status_sensor(run_status="FAILURE"), "run_status is 'FAILURE'"),  # pyright: ignore[reportArgumentType] - that is the point
        (lambda: asset_sensor(asset_key=3), "does not name an asset"),
        (lambda: AutomationConditionSensorDefinition("a", target=None), "has no target"),
        (lambda: build_sensor_context().update_cursor(3), "the cursor is 3"),  # pyright: ignore[reportArgumentType] - that is the point
        (lambda: SensorResult(cursor=3), "the cursor is 3"),  # pyright: ignore[reportArgumentType] - that is the point
        (
            lambda: SensorResult(run_requests=[RunRequest()], skip_reason="no"),
            "return only one of the two",
        ),
        (lambda: SensorResult(run_requests=["orders"]), "'orders' is not a RunRequest"),  # pyright: ignore[reportArgumentType] - that is the point
        (
            lambda: sensor(lambda: [RunRequest(), 3], name="s").evaluate(build_sensor_context()),
            "sensor s returned 3",
        ),
    ],
)
def test_what_cannot_be_is_refused(make: Callable[[], Any], wrong: str) -> None:
    with pytest.raises(Invalid, match=wrong):
        _ = make()


def test_a_project_may_hold_them() -> None:
    @servo.asset
    def orders() -> None: ...

    @servo.sensor(target="orders")
    def files(context: Any) -> None: ...

    nightly = servo.ScheduleDefinition(name="nightly", target="*", cron_schedule="@daily")
    defs = servo.Definitions([orders], schedules=[nightly], sensors=[files])
    assert servo.Definitions.merge(defs).schedules == (nightly,)
    servo.Definitions.validate_loadable(defs)


@pytest.mark.parametrize("seconds", [math.inf, math.nan, True, -1, "1"])
@pytest.mark.parametrize("option", ["minimum_interval_seconds", "timeout_seconds"])
def test_seconds_that_are_no_time_are_refused(option: str, seconds: Any) -> None:
    with pytest.raises(Invalid, match=f"{option} is"):
        _ = sensor(name="s", target="*", **{option: seconds})(lambda: None)


@pytest.mark.parametrize(
    ("kind", "field", "wrong"),
    [
        (SkipReason, "skip_message", "the message of a SkipReason is 5"),
        (RunRequest, "partition_key", "the partition_key is 5"),
        (RunRequest, "job_name", "the job_name is 5"),
        (RunRequest, "run_config", "invalid run config 5"),
    ],
)
def test_a_request_of_another_type_is_told(kind: Any, field: str, wrong: str) -> None:
    with pytest.raises(Invalid, match=wrong):
        _ = kind(**{field: 5})


def test_one_asset_and_one_request_need_no_list() -> None:
    one = RunRequest(asset_selection="orders")
    assert one.asset_selection == (AssetKey("orders"),)
    assert SensorResult(run_requests=one).run_requests == (one,)  # pyright: ignore[reportArgumentType] - coerced
