"""Partitions by time: keys, windows, offsets, time zones and the days on which clocks change."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from servo.core.partitions import PartitionKey
from servo.errors import Invalid
from servo.sdk.partitions.definition import PartitionKeyRange
from servo.sdk.partitions.time_partitions import (
    DailyPartitionsDefinition,
    HourlyPartitionsDefinition,
    MonthlyPartitionsDefinition,
    ScheduleType,
    TimeWindow,
    TimeWindowPartitionsDefinition,
    WeeklyPartitionsDefinition,
)

BERLIN = ZoneInfo("Europe/Berlin")
NAIVE = datetime(2024, 1, 1)  # noqa: DTZ001 - as people write it


def at(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)


def test_a_day_is_there_when_it_is_over() -> None:
    days = DailyPartitionsDefinition("2024-01-01")
    assert days.get_partition_keys(at(2024, 1, 1, 23)) == []
    assert days.get_partition_keys(at(2024, 1, 2)) == ["2024-01-01"]
    assert days.get_partition_keys(at(2024, 1, 4, 5)) == ["2024-01-01", "2024-01-02", "2024-01-03"]
    assert days.has_partition_key("2024-01-03", at(2024, 1, 4))
    assert not days.has_partition_key("2024-01-04", at(2024, 1, 4))


@pytest.mark.parametrize(
    ("offset", "last"),
    [(-2, "2024-01-01"), (-1, "2024-01-02"), (0, "2024-01-03"), (2, "2024-01-05")],
)
def test_the_end_offset_moves_the_last_window(offset: int, last: str) -> None:
    days = DailyPartitionsDefinition("2024-01-01", end_offset=offset)
    assert days.get_last_partition_key(at(2024, 1, 4, 5)) == last


def test_the_end_ends_it_however_late_it_is() -> None:
    days = DailyPartitionsDefinition("2024-01-01", end_date=NAIVE.replace(day=3), end_offset=9)
    assert days.get_partition_keys(at(2030, 1, 1)) == ["2024-01-01", "2024-01-02"]


@pytest.mark.parametrize(
    ("definition", "keys"),
    [
        (WeeklyPartitionsDefinition("2024-01-01"), ["2024-01-07", "2024-01-14"]),
        (
            WeeklyPartitionsDefinition("2024-01-01", day_offset=1),
            ["2024-01-01", "2024-01-08", "2024-01-15"],
        ),
        (MonthlyPartitionsDefinition("2023-11-20"), ["2023-12-01"]),
        (
            MonthlyPartitionsDefinition("2023-11", fmt="%Y-%m", day_offset=15),
            ["2023-11", "2023-12"],
        ),
        (
            TimeWindowPartitionsDefinition(
                "2024-01-19", "%Y-%m-%d", cron_schedule="0 0 * * MON-FRI"
            ),
            ["2024-01-19"],
        ),
        (
            DailyPartitionsDefinition(
                "2024-01-18", exclusions=["0 0 * * 6", NAIVE.replace(day=19)]
            ),
            ["2024-01-18", "2024-01-21"],
        ),
    ],
)
def test_windows_of_other_lengths(definition: Any, keys: list[str]) -> None:
    assert definition.get_partition_keys(at(2024, 1, 22)) == keys


def test_a_window_is_told_in_the_time_zone_of_the_definition() -> None:
    days = DailyPartitionsDefinition("2024-03-30", timezone="Europe/Berlin", hour_offset=2)
    window = days.time_window_for_partition_key("2024-03-31")
    # The clocks go from 2 to 3 that night, so the window begins at the first instant there is.
    assert window.start == at(2024, 3, 31, 1)
    assert window.start.tzinfo == BERLIN
    assert window.duration == timedelta(hours=23)


def test_an_hour_that_happens_twice_is_two_partitions() -> None:
    hours = HourlyPartitionsDefinition("2024-10-27-01:00", timezone="Europe/Berlin")
    keys = hours.get_partition_keys(at(2024, 10, 27, 3))
    assert keys == [
        "2024-10-27-01:00",
        "2024-10-27-02:00",
        "2024-10-27-02:00+0100",
        "2024-10-27-03:00",
    ]
    windows = [hours.time_window_for_partition_key(key) for key in keys]
    assert [window.duration for window in windows] == [timedelta(hours=1)] * 4
    assert len({hours.typed_key(key) for key in keys}) == 4
    assert all(hours.has_partition_key(key, at(2024, 10, 27, 3)) for key in keys)


def test_an_hour_that_is_skipped_is_none() -> None:
    hours = HourlyPartitionsDefinition("2024-03-31-01:00", timezone="Europe/Berlin")
    assert hours.get_partition_keys(at(2024, 3, 31, 2)) == ["2024-03-31-01:00", "2024-03-31-03:00"]
    assert not hours.has_partition_key("2024-03-31-02:00", at(2025, 1, 1))


def test_keys_are_stored_as_days_or_as_instants() -> None:
    days = DailyPartitionsDefinition("2024-01-01", timezone="Asia/Tokyo")
    assert days.typed_key("2024-01-05") == PartitionKey.parse("partition=d:2024-01-05")
    hours = HourlyPartitionsDefinition("2024-01-01-00:00", timezone="Asia/Tokyo")
    assert hours.typed_key("2024-01-01-09:00") == PartitionKey.single(at(2024, 1, 1))


def test_the_keys_of_a_window_and_the_schedule_that_follows() -> None:
    days = DailyPartitionsDefinition("2024-01-01")
    week = TimeWindow(at(2024, 1, 8), at(2024, 1, 11))
    assert days.get_partition_keys_in_time_window(week) == [
        "2024-01-08",
        "2024-01-09",
        "2024-01-10",
    ]
    found = days.get_partition_key_range_for_time_window(week)
    assert found == PartitionKeyRange("2024-01-08", "2024-01-10")
    with pytest.raises(Invalid, match="no partition begins"):
        _ = days.get_partition_key_range_for_time_window(TimeWindow(at(2020, 1, 1), at(2020, 1, 2)))
    assert days.get_cron_schedule(minute_of_hour=30, hour_of_day=6) == "30 6 * * *"
    assert days.get_cron_schedule() == "0 0 * * *"


def test_definitions_that_divide_alike_are_equal() -> None:
    days = DailyPartitionsDefinition("2024-01-01", hour_offset=3)
    same = TimeWindowPartitionsDefinition(
        at(2024, 1, 1), "%Y-%m-%d", schedule_type=ScheduleType.DAILY, hour_offset=3
    )
    assert days == same
    assert days != DailyPartitionsDefinition("2024-01-01", hour_offset=3, timezone="Asia/Tokyo")
    assert "2024-01-01 00:00:00+00:00" in repr(days)


@pytest.mark.parametrize(
    ("make", "wrong"),
    [
        (lambda: DailyPartitionsDefinition("2024-13-01"), "'2024-13-01' is not a time of the form"),
        (lambda: DailyPartitionsDefinition(20240101), "20240101 is not a time"),  # pyright: ignore[reportArgumentType] - that is the point
        (lambda: DailyPartitionsDefinition("1950-01-01"), "use 1970 or later"),
        (lambda: DailyPartitionsDefinition("2024-01-02", "2024-01-01"), "use a later end_date"),
        (lambda: DailyPartitionsDefinition("2024-01-01", timezone="Mars/North"), "no time zone"),
        (lambda: DailyPartitionsDefinition("2024-01-01", hour_offset=24), "hour_offset is 24"),
        (lambda: DailyPartitionsDefinition("2024-01-01", end_offset=1.5), "end_offset is 1.5"),  # pyright: ignore[reportArgumentType] - that is the point
        (lambda: WeeklyPartitionsDefinition("2024-01-01", day_offset=7), "day_offset is 7"),
        (lambda: MonthlyPartitionsDefinition("2024-01-01", day_offset=0), "day_offset is 0"),
        (
            lambda: HourlyPartitionsDefinition("2024-01-01", fmt="%Y-%m-%d"),
            " is ambiguous",
        ),
        (
            lambda: TimeWindowPartitionsDefinition(
                "2024-01-01", "%Y-%m-%d", cron_schedule="61 * * * *"
            ),
            "cron expression",
        ),
        (lambda: TimeWindowPartitionsDefinition("2024-01-01", "%Y-%m-%d"), "pass one of the two"),
        (
            lambda: TimeWindowPartitionsDefinition(
                "2024-01-01", "%Y-%m-%d", cron_schedule="0 0 * * *", hour_offset=3
            ),
            "cannot be combined with offsets",
        ),
        (
            lambda: DailyPartitionsDefinition("2024-01-01").time_window_for_partition_key(
                "2024-1-1"
            ),
            "use a key like '2024-01-01'",
        ),
    ],
)
def test_what_cannot_be_is_refused(make: Callable[[], Any], wrong: str) -> None:
    with pytest.raises(Invalid, match=wrong):
        _ = make()


@pytest.mark.parametrize(
    ("start", "fmt", "cron"),
    [
        (datetime(2024, 1, 1, tzinfo=UTC), "%m-%d", "0 0 * * *"),  # the same every year
        (datetime(2024, 1, 15, 6, tzinfo=UTC), "%Y-%m-%d", "0 0,12 15 * *"),  # later twice a day
        (datetime(2024, 1, 1, tzinfo=UTC), "%Y-W%W", "0 0 * * 1"),  # is written and not read
    ],
)
def test_a_format_that_does_not_tell_windows_apart_is_refused(
    start: datetime, fmt: str, cron: str
) -> None:
    with pytest.raises(Invalid, match=" is ambiguous"):
        _ = TimeWindowPartitionsDefinition(start, fmt, cron_schedule=cron)
