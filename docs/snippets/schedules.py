"""A schedule with fixed times, and one with a function."""

from datetime import UTC, datetime, timedelta

from servo import (
    DefaultScheduleStatus,
    MissedTicks,
    RunRequest,
    ScheduleDefinition,
    SkipReason,
    asset,
    build_schedule_context,
    schedule,
)


@asset
def orders() -> list[int]:
    """All orders."""
    return [350, 1200]


@asset
def report(orders: list[int]) -> int:
    """The sum."""
    return sum(orders)


nightly = ScheduleDefinition(
    name="nightly",
    target="*",
    cron_schedule="30 2 * * *",
    execution_timezone="Europe/Berlin",
    default_status=DefaultScheduleStatus.RUNNING,
    missed_ticks=MissedTicks.CATCH_UP,
    catchup_window=timedelta(days=2),
    max_catchup_ticks=1,
)


@schedule(cron_schedule="0 * * * *", target="report")
def office_hours(context):
    """Run the report hourly, during office hours."""
    at = context.scheduled_execution_time
    if not 8 <= at.hour < 18:
        return SkipReason(f"nobody reads it at {at:%H:%M}")
    return RunRequest(tags={"hour": str(at.hour)})


if __name__ == "__main__":
    noon = build_schedule_context(scheduled_execution_time=datetime(2025, 1, 15, 12, tzinfo=UTC))
    night = build_schedule_context(scheduled_execution_time=datetime(2025, 1, 15, 23, tzinfo=UTC))
    print(office_hours(noon).tags)
    print(office_hours(night).skip_message)
