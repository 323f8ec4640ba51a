"""Schedules: checked when they are written, and asked what is to be made."""

from collections.abc import Callable
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

import servo
from servo.errors import Invalid
from servo.sdk.partitions.time_partitions import DailyPartitionsDefinition
from servo.sdk.triggers.run_requests import RunRequest, SensorResult, SkipReason
from servo.sdk.triggers.schedules import (
    PartitionedSchedule,
    ScheduleDefinition,
    build_schedule_context,
    build_schedule_from_partitioned_job,
    schedule,
)

NOON = datetime(2024, 1, 5, 12, tzinfo=UTC)
JOB = SimpleNamespace(name="nightly_job")


def test_a_schedule_without_a_function_asks_for_its_target() -> None:
    nightly = ScheduleDefinition(
        job=JOB, cron_schedule="@daily", tags={"team": "x"}, run_config={"ops": {}}
    )
    assert nightly.name == "nightly_job_schedule"
    found = nightly.evaluate(build_schedule_context(scheduled_execution_time=NOON))
    assert found == SensorResult(run_requests=[RunRequest(run_config={}, tags={"team": "x"})])


def test_a_job_can_be_given_as_the_target() -> None:
    job = servo.define_asset_job("nightly", "*")
    planned = ScheduleDefinition(target=job, cron_schedule="@daily")
    assert planned.name == "nightly_schedule"
    assert planned.to_target() == ScheduleDefinition(job=job, cron_schedule="@daily").to_target()


def test_a_function_says_what_is_to_be_made() -> None:
    @schedule(cron_schedule=["0 6 * * *", "0 18 * * *"], target="orders", execution_timezone="CET")
    def twice(context: servo.ScheduleEvaluationContext) -> Any:
        """Morning and evening."""
        when = context.scheduled_execution_time
        assert when is not None
        return RunRequest(run_key=when.isoformat()) if when.hour > 6 else SkipReason("too early")

    assert (twice.name, twice.description) == ("twice", "Morning and evening.")
    assert twice.cron().next_after(NOON) == datetime(2024, 1, 5, 17, tzinfo=UTC)
    context = build_schedule_context(scheduled_execution_time=NOON)
    assert twice(context) == RunRequest(run_key="2024-01-05T12:00:00+00:00")
    early = build_schedule_context(scheduled_execution_time=NOON.replace(hour=3))
    assert twice.evaluate(early) == SensorResult(skip_reason="too early")


def test_a_function_is_given_resources_and_needs_no_context() -> None:
    class Shelf(servo.ConfigurableResource):
        title: str

    @schedule(cron_schedule="@hourly", target="*")
    def hourly(shelf: Shelf) -> list[RunRequest]:
        return [RunRequest(run_key=shelf.title)]

    assert hourly(shelf=Shelf(title="Emma")) == [RunRequest(run_key="Emma")]
    context = build_schedule_context(resources={"shelf": Shelf(title="Emma")})
    assert hourly.evaluate(context).run_requests == (RunRequest(run_key="Emma"),)


def _config(_: Any) -> dict[str, Any]:
    return {"ops": {}}


def _tags(_: Any) -> dict[str, str]:
    return {"a": "b"}


def test_functions_of_the_older_kind_are_asked_too() -> None:
    made = ScheduleDefinition(
        name="older",
        job_name="j",
        cron_schedule="@daily",
        run_config_fn=_config,
        tags_fn=_tags,
        should_execute=_at_noon,
    )
    asked = made.evaluate(build_schedule_context(scheduled_execution_time=NOON))
    assert asked.run_requests == (RunRequest(run_config={}, tags={"a": "b"}),)
    assert made.evaluate(build_schedule_context()).skip_reason is not None


def test_a_partitioned_job_is_made_when_a_window_is_over() -> None:
    days = DailyPartitionsDefinition("2024-01-01", timezone="Europe/Berlin")
    job = SimpleNamespace(name="daily_job", partitions_def=days)
    made = build_schedule_from_partitioned_job(job, hour_of_day=3)
    assert isinstance(made, ScheduleDefinition)
    assert (made.name, made.cron_schedule) == ("daily_job_schedule", "0 3 * * *")
    assert made.execution_timezone == "Europe/Berlin"
    found = made.evaluate(build_schedule_context(scheduled_execution_time=NOON))
    key = "2024-01-04"
    assert found.run_requests == (RunRequest(run_key=key, partition_key=key),)
    early = datetime(2024, 1, 1, tzinfo=UTC)
    assert made.evaluate(build_schedule_context(scheduled_execution_time=early)).run_requests == ()


def test_a_job_whose_partitions_are_known_later_is_resolved_later() -> None:
    made = build_schedule_from_partitioned_job(JOB, name="later")
    assert isinstance(made, PartitionedSchedule)
    assert made.resolved(DailyPartitionsDefinition("2024-01-01")).cron_schedule == "0 0 * * *"
    with pytest.raises(Invalid, match="use time-based partitions"):
        _ = made.resolved(servo.StaticPartitionsDefinition(["a"]))


def _nothing(_: Any) -> None: ...


def _two(context: Any, other: Any) -> None: ...


def _at_noon(context: servo.ScheduleEvaluationContext) -> bool:
    return context.scheduled_execution_time == NOON


@pytest.mark.parametrize(
    ("make", "wrong"),
    [
        (lambda: ScheduleDefinition(name="s", cron_schedule="61 * * * *", target="*"), "cron expr"),
        (lambda: ScheduleDefinition(name="s", cron_schedule="@daily"), "has no job or target"),
        (lambda: ScheduleDefinition(cron_schedule="@daily", target="*"), "invalid schedule name"),
        (lambda: ScheduleDefinition(name="a b", cron_schedule="@daily", target="*"), "'a b'"),
        (
            lambda: ScheduleDefinition(name="s", cron_schedule="@daily", target="*", job_name="j"),
            "has several targets",
        ),
        (lambda: ScheduleDefinition(cron_schedule="@daily", job="j"), "'j' is not a job"),
        (
            lambda: ScheduleDefinition(
                name="s", cron_schedule="@daily", target="*", tags={"a": "b"}, tags_fn=_nothing
            ),
            "has both tags and tags_fn",
        ),
        (
            lambda: ScheduleDefinition(
                name="s", cron_schedule="@daily", target="*", execution_timezone="Mars/North"
            ),
            "there is no time zone",
        ),
        (lambda: schedule("@daily", target="*", colour="red")(_nothing), "colour"),
        (lambda: schedule("@daily", target="*")(_two), "takes other"),
        (lambda: RunRequest(run_key=3), "the run key is 3"),  # pyright: ignore[reportArgumentType] - that is the point
        (lambda: RunRequest(tags={"a": 1}), "the tag 'a' is 1"),  # pyright: ignore[reportArgumentType] - that is the point
        (
            lambda: schedule("@daily", target="*", name="s")(lambda: 3).evaluate(
                build_schedule_context()
            ),
            "schedule s returned 3",
        ),
    ],
)
def test_what_cannot_be_is_refused(make: Callable[[], Any], wrong: str) -> None:
    with pytest.raises(Invalid, match=wrong):
        _ = make()
