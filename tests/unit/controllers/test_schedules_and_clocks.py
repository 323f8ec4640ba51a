"""When clocks change, schedules tick as whoever wrote them would expect: three zones, both ways.

Time passes in steps of ten minutes; what is due is ticked and folded, as a host does.
"""

from datetime import UTC, datetime, timedelta

import pytest

from servo.controllers.schedules import due
from servo.core.events.schedules import ScheduleTicked, ScheduleUpserted, TickStatus
from servo.testing.builders import Story

STEP = timedelta(minutes=10)


def ticks(cron: str, zone: str, start: str, hours: int) -> list[str]:
    """The ticks of a schedule that is looked after from an instant on, in UTC."""
    story = Story()
    story.now = datetime.fromisoformat(start).replace(tzinfo=UTC)
    made = ScheduleUpserted(schedule_id="s", cron_expressions=(cron,), timezone=zone)
    assert story.tell(made).applied
    end = story.now + timedelta(hours=hours)
    while story.now < end:
        story.now += STEP
        rows = story.state.schedules.rows["s"], story.state.schedule_state.rows["s"]
        for at in due(*rows, story.now).ticks:
            event = ScheduleTicked(
                schedule_id="s",
                tick_id=f"s:{at.isoformat()}",
                scheduled_for=at,
                definition_version=1,
                status=TickStatus.SKIPPED,
            )
            assert story.tell(event).applied
    found = sorted(row.scheduled_for for row in story.state.schedule_ticks.rows.values())
    return [f"{at:%m-%d %H:%M}" for at in found]


@pytest.mark.parametrize(
    ("zone", "cron", "start", "expected"),
    [
        pytest.param(
            "Europe/Berlin",
            "30 2 * * *",
            "2025-03-29T00:00",
            ["03-29 01:30", "03-30 01:00", "03-31 00:30"],
            id="Berlin: 02:30 is left out in spring and ticks when the clock has jumped",
        ),
        pytest.param(
            "Europe/Berlin",
            "30 2 * * *",
            "2025-10-25T00:00",
            ["10-25 00:30", "10-26 00:30", "10-27 01:30"],
            id="Berlin: 02:30 happens twice in autumn and ticks the first time",
        ),
        pytest.param(
            "America/New_York",
            "30 2 * * *",
            "2025-03-08T00:00",
            ["03-08 07:30", "03-09 07:00", "03-10 06:30"],
            id="New York: 02:30 is left out in spring",
        ),
        pytest.param(
            "America/New_York",
            "30 1 * * *",
            "2025-11-01T00:00",
            ["11-01 05:30", "11-02 05:30", "11-03 06:30"],
            id="New York: 01:30 happens twice in autumn",
        ),
        pytest.param(
            "Australia/Lord_Howe",
            "15 2 * * *",
            "2025-10-03T12:00",
            ["10-03 15:45", "10-04 15:30", "10-05 15:15"],
            id="Lord Howe: half an hour is left out in spring",
        ),
        pytest.param(
            "Australia/Lord_Howe",
            "45 1 * * *",
            "2025-04-04T12:00",
            ["04-04 14:45", "04-05 14:45", "04-06 15:15"],
            id="Lord Howe: half an hour happens twice in autumn",
        ),
    ],
)
def test_a_time_of_day_happens_once_a_day(
    zone: str, cron: str, start: str, expected: list[str]
) -> None:
    assert ticks(cron, zone, start, 72) == expected


@pytest.mark.parametrize(
    ("zone", "start"),
    [
        ("Europe/Berlin", "2025-03-29T22:00"),
        ("Europe/Berlin", "2025-10-25T22:00"),
        ("America/New_York", "2025-03-09T04:00"),
        ("America/New_York", "2025-11-02T03:00"),
    ],
)
def test_every_hour_is_every_hour(zone: str, start: str) -> None:
    begun = datetime.fromisoformat(start)
    hours = [begun + timedelta(hours=n) for n in range(1, 9)]
    assert ticks("0 * * * *", zone, start, 8) == [f"{at:%m-%d %H:%M}" for at in hours]


def test_an_hour_that_begins_in_the_gap_is_left_out_where_clocks_move_by_half_an_hour() -> None:
    found = ticks("0 * * * *", "Australia/Lord_Howe", "2025-10-04T13:00", 5)
    assert found == ["10-04 13:30", "10-04 14:30", "10-04 16:00", "10-04 17:00", "10-04 18:00"]


def test_a_weekday_is_that_of_the_zone() -> None:
    found = ticks("0 1 * * MON", "Asia/Tokyo", "2025-06-01T00:00", 24 * 8)
    assert found == ["06-01 16:00", "06-08 16:00"]
