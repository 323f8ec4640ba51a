"""Cron: what is accepted, when it fires, and what happens when clocks change."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from servo.core.cron import Cron
from servo.errors import Invalid

BERLIN, NEW_YORK, LORD_HOWE = "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"
EARLIEST = datetime.min.replace(tzinfo=UTC)
LATEST = datetime.max.replace(tzinfo=UTC)


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def local_ticks(expressions: str | Sequence[str], zone: str, first: str, last: str) -> list[str]:
    """Local times with their offset, from the first to the last local midnight."""
    after, until = (
        datetime.fromisoformat(day).replace(tzinfo=ZoneInfo(zone)) for day in (first, last)
    )
    cron = Cron(expressions, zone)
    ticks = cron.ticks_between(after, until, 1000)
    assert cron.newest_between(after, until, 1000) == ticks
    assert all(tick.tzinfo is UTC for tick in ticks)
    return [tick.astimezone(ZoneInfo(zone)).strftime("%d %H:%M %z") for tick in ticks]


@pytest.mark.parametrize(
    ("expression", "fault"),
    [
        ("", "wrong number of fields"),
        ("* * * *", "wrong number of fields"),
        ("* * * * * * *", "wrong number of fields"),
        ("60 * * * *", "bad minute"),
        ("* 24 * * *", "bad hour"),
        ("* * 32 * *", "bad day-of-month"),
        ("* * * 13 *", "bad month"),
        ("* * * * 8", "bad day-of-week"),
        ("60 * * * * *", "bad second"),
        ("*/0 * * * *", "bad minute"),
        ("5-1 * * * *", "bad minute"),
        ("-1 * * * *", "bad minute"),
        ("1,,2 * * * *", "bad minute"),
        ("0 0 * * 5L/2", "bad day-of-week"),
        ("0 0 * * MON#6", "bad day-of-week"),
        ("0 0 30 2 *", "bad day-of-month"),
        ("0 0 */28 * MON#2", "never due"),
        ("@fortnightly", "wrong number of fields"),
        ("0 0 * * *\n", "printable ASCII"),
        ("٣ * * * *", "printable ASCII"),
        ("9" * 5000 + " * * * *", "256 printable"),
    ],
)
def test_a_broken_expression_is_refused_with_the_field_and_an_example(
    expression: str, fault: str
) -> None:
    with pytest.raises(Invalid, match=rf"{fault}.*; write it like '30 6 \* \* MON-FRI'"):
        Cron(expression)


def test_one_broken_expression_among_several_is_refused() -> None:
    with pytest.raises(Invalid, match="'nonsense': wrong number"):
        Cron(["0 0 * * *", "nonsense"])
    with pytest.raises(Invalid, match="no cron expression"):
        Cron([])


@pytest.mark.parametrize(
    "zone", ["", "Mars/Olympus", "Europe", "../etc/passwd", "/etc/passwd", "a\x00b", "localtime"]
)
def test_an_unknown_time_zone_is_refused(zone: str) -> None:
    with pytest.raises(Invalid, match="no time zone"):
        Cron("0 0 * * *", zone)


def test_an_instant_without_a_zone_is_refused() -> None:
    with pytest.raises(Invalid, match="has no time zone"):
        Cron("0 0 * * *").next_after(datetime(2025, 1, 1))  # noqa: DTZ001 - the point of the test


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("*/15 * * * *", "2025-01-15T08:45"),
        ("0 0 * * *", "2025-01-16T00:00"),
        ("30 6 * * mon-fri", "2025-01-16T06:30"),
        ("0 12 1,15 * *", "2025-01-15T12:00"),
        ("0 0 L * *", "2025-01-31T00:00"),
        ("0 0 * * MON#1", "2025-02-03T00:00"),
        ("0 0 29 2 *", "2028-02-29T00:00"),
        ("0 0 1 * SUN", "2025-01-19T00:00"),
        ("*/10 * * * * *", "2025-01-15T08:30:10"),
        ("@hourly", "2025-01-15T09:00"),
        ("@daily", "2025-01-16T00:00"),
        ("@Weekly", "2025-01-19T00:00"),
        (" @monthly ", "2025-02-01T00:00"),
        ("@yearly", "2026-01-01T00:00"),
    ],
)
def test_the_next_tick_is_the_first_one_after_the_instant(expression: str, expected: str) -> None:
    assert Cron(expression).next_after(utc("2025-01-15T08:30")) == utc(expected)


def test_an_instant_that_is_a_tick_is_not_after_itself() -> None:
    cron = Cron("* * * * * *")
    assert cron.next_after(utc("2025-01-15T08:30:00")) == utc("2025-01-15T08:30:01")
    assert cron.next_after(utc("2025-01-15T08:30:00.000001")) == utc("2025-01-15T08:30:01")
    assert cron.next_after(utc("2025-01-15T08:29:59.999999")) == utc("2025-01-15T08:30:00")


def test_a_window_excludes_its_beginning_and_includes_its_end() -> None:
    cron = Cron("0 * * * *")
    window = utc("2025-01-15T08:00"), utc("2025-01-15T11:00")
    hours = [utc(f"2025-01-15T{hour:02}:00") for hour in (9, 10, 11)]
    assert cron.ticks_between(*window, 10) == hours
    assert cron.newest_between(*window, 10) == hours
    assert cron.ticks_between(*window, 2) == hours[:2]
    assert cron.newest_between(*window, 2) == hours[1:]


@pytest.mark.parametrize("limit", [0, -1])
def test_no_ticks_are_found_in_an_empty_window_or_when_none_are_wanted(limit: int) -> None:
    cron = Cron("0 * * * *")
    first, last = utc("2025-01-15T08:00"), utc("2025-01-16T08:00")
    assert cron.ticks_between(first, last, limit) == cron.newest_between(first, last, limit) == []
    assert cron.ticks_between(last, first, 10) == cron.newest_between(last, first, 10) == []


def test_a_part_of_a_second_counts_at_either_end_of_a_window() -> None:
    cron = Cron("* * * * * *")
    window = utc("2025-01-15T08:00:00.5"), utc("2025-01-15T08:00:02.5")
    expected = [utc("2025-01-15T08:00:01"), utc("2025-01-15T08:00:02")]
    assert cron.ticks_between(*window, 10) == cron.newest_between(*window, 10) == expected


def test_the_newest_ticks_of_thirty_years_of_minutes_are_found_at_once() -> None:
    # Minute by minute this window would take minutes to walk through.
    found = Cron("* * * * *", BERLIN).newest_between(
        utc("1995-01-01"), utc("2025-01-15T08:30:30"), 3
    )
    assert found == [utc(f"2025-01-15T08:{minute}") for minute in (28, 29, 30)]


def test_several_expressions_are_merged_and_an_instant_counts_once() -> None:
    cron = Cron(["0 */12 * * *", "0 0,6 * * *", "@daily"])
    window = utc("2025-01-14T23:00"), utc("2025-01-16T00:00")
    expected = [utc(f"2025-01-15T{hour}:00") for hour in ("00", "06", "12")] + [utc("2025-01-16")]
    assert cron.ticks_between(*window, 10) == cron.newest_between(*window, 10) == expected


def test_a_schedule_follows_its_own_time_zone() -> None:
    assert Cron("0 6 * * *", BERLIN).next_after(utc("2025-01-15")) == utc("2025-01-15T05:00")
    assert Cron("0 6 * * *", BERLIN).next_after(utc("2025-07-15")) == utc("2025-07-15T04:00")
    assert Cron("0 6 * * *", NEW_YORK).next_after(utc("2025-07-15")) == utc("2025-07-15T10:00")


def test_there_are_no_ticks_before_1970_or_after_9900() -> None:
    cron = Cron("0 0 1 1 *")
    assert cron.next_after(EARLIEST) == utc("1970-01-01")
    assert cron.next_after(LATEST) is None
    assert cron.next_after(utc("9900-01-01")) is None
    assert cron.newest_between(EARLIEST, LATEST, 1) == [utc("9900-01-01")]
    assert cron.newest_between(EARLIEST, utc("1969-12-31"), 1) == []
    assert cron.newest_between(EARLIEST, utc("1971-01-01"), 9) == [
        utc("1970-01-01"),
        utc("1971-01-01"),
    ]


# --- a time of the day that is skipped in spring fires once, at the end of the gap ----------------


@pytest.mark.parametrize(
    ("zone", "first", "last", "expected"),
    [
        (
            BERLIN,
            "2025-03-29",
            "2025-04-01",
            ["29 02:15 +0100", "30 03:00 +0200", "31 02:15 +0200"],
        ),
        (
            NEW_YORK,
            "2025-03-08",
            "2025-03-11",
            ["08 02:15 -0500", "09 03:00 -0400", "10 02:15 -0400"],
        ),
        (
            LORD_HOWE,
            "2025-10-04",
            "2025-10-07",
            ["04 02:15 +1030", "05 02:30 +1100", "06 02:15 +1100"],
        ),
    ],
)
def test_a_daily_time_that_is_skipped_fires_at_the_end_of_the_gap(
    zone: str, first: str, last: str, expected: list[str]
) -> None:
    assert local_ticks("15 2 * * *", zone, first, last) == expected


def test_several_skipped_times_fire_together_once() -> None:
    found = local_ticks("*/10 2 * * *", BERLIN, "2025-03-30", "2025-03-31")
    assert found == ["30 03:00 +0200"]


def test_a_skipped_time_and_the_time_it_moves_to_are_one_tick() -> None:
    found = local_ticks(["30 2 * * *", "0 3 * * *"], BERLIN, "2025-03-30", "2025-03-31")
    assert found == ["30 03:00 +0200"]


def test_a_half_hour_gap_hides_no_time_after_it() -> None:
    found = local_ticks("*/15 3 * * *", LORD_HOWE, "2025-10-05", "2025-10-06")
    assert found == [f"05 03:{minute} +1100" for minute in ("00", "15", "30", "45")]


def test_a_day_that_was_skipped_as_a_whole_fires_when_the_next_one_begins() -> None:
    found = local_ticks("0 12 * * *", "Pacific/Apia", "2011-12-29", "2012-01-01")
    assert found == ["29 12:00 -1000", "31 00:00 +1400", "31 12:00 +1400"]


def test_a_skipped_midnight_fires_at_one() -> None:
    found = local_ticks("0 0 * * *", "America/Havana", "2025-03-08T12:00", "2025-03-10T12:00")
    assert found == ["09 01:00 -0400", "10 00:00 -0400"]


# --- a time of the day that happens twice in autumn fires the first time -------------------------


@pytest.mark.parametrize(
    ("zone", "time", "first", "last", "expected"),
    [
        (
            BERLIN,
            "30 2",
            "2025-10-25",
            "2025-10-28",
            ["25 02:30 +0200", "26 02:30 +0200", "27 02:30 +0100"],
        ),
        (
            NEW_YORK,
            "30 1",
            "2025-11-01",
            "2025-11-04",
            ["01 01:30 -0400", "02 01:30 -0400", "03 01:30 -0500"],
        ),
        (
            LORD_HOWE,
            "45 1",
            "2025-04-05",
            "2025-04-08",
            ["05 01:45 +1100", "06 01:45 +1100", "07 01:45 +1030"],
        ),
    ],
)
def test_a_daily_time_that_happens_twice_fires_once(
    zone: str, time: str, first: str, last: str, expected: list[str]
) -> None:
    assert local_ticks(f"{time} * * *", zone, first, last) == expected


def test_asking_again_between_the_two_does_not_fire_the_second() -> None:
    cron = Cron("30 2 * * *", BERLIN)
    fired = utc("2025-10-26T00:30")
    for minutes in range(120):
        asked = fired + timedelta(minutes=minutes)
        assert cron.next_after(asked) == utc("2025-10-27T01:30")
        assert cron.newest_between(fired - timedelta(hours=1), asked, 5) == [fired]


def test_named_hours_fire_once_each_even_when_written_as_a_step() -> None:
    found = local_ticks("0 */2 * * *", BERLIN, "2025-10-25T23:00", "2025-10-26T05:00")
    assert found == ["26 00:00 +0200", "26 02:00 +0200", "26 04:00 +0100"]


# --- what fires in every hour follows elapsed time ------------------------------------------------


@pytest.mark.parametrize("hours", ["*", "*/1", "0-23"])
def test_an_hourly_schedule_stays_hourly_through_both_changes(hours: str) -> None:
    cron = Cron(f"30 {hours} * * *", BERLIN)
    for start in (utc("2025-03-29T22:00"), utc("2025-10-25T22:00")):
        expected = [start + timedelta(hours=number, minutes=30) for number in range(6)]
        assert cron.ticks_between(start, start + timedelta(hours=6), 10) == expected
        assert cron.newest_between(start, start + timedelta(hours=6), 10) == expected


def test_every_minute_of_a_repeated_half_hour_fires_in_both_of_its_passes() -> None:
    found = local_ticks("*/15 * * * *", LORD_HOWE, "2025-04-06T01:00", "2025-04-06T02:15")
    assert found == [
        *("06 01:15 +1100", "06 01:30 +1100", "06 01:45 +1100"),
        *("06 01:30 +1030", "06 01:45 +1030", "06 02:00 +1030", "06 02:15 +1030"),
    ]


def test_every_minute_of_a_skipped_half_hour_is_left_out() -> None:
    found = local_ticks("*/15 * * * *", LORD_HOWE, "2025-10-05T01:30", "2025-10-05T03:00")
    assert found == ["05 01:45 +1030", "05 02:30 +1100", "05 02:45 +1100", "05 03:00 +1100"]


def test_asking_in_the_middle_of_a_repeated_hour_goes_on_where_it_was() -> None:
    cron = Cron("*/20 * * * *", BERLIN)
    asked = utc("2025-10-26T00:50")
    assert cron.next_after(asked) == utc("2025-10-26T01:00")
    assert cron.newest_between(utc("2025-10-26"), asked, 2) == [
        utc("2025-10-26T00:20"),
        utc("2025-10-26T00:40"),
    ]
    second_pass = utc("2025-10-26T01:10")
    assert cron.newest_between(utc("2025-10-26"), second_pass, 2) == [
        utc("2025-10-26T00:40"),
        utc("2025-10-26T01:00"),
    ]
