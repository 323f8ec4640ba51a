"""Partitions by time: one for every window between two ticks of a schedule.

    DailyPartitionsDefinition(start_date="2024-01-01", timezone="Europe/Berlin")

A partition exists when its window is over; `end_offset` moves that by so many windows. Its key is
the local time at which the window begins, written by `fmt`. Where a clock goes back and an hour
happens twice, the key of the second carries its offset (`2024-10-27-02:00+0100`).
"""

from collections.abc import Sequence
from datetime import datetime

from servo.sdk.partitions.window_partitions import TimeWindowPartitionsDefinition
from servo.sdk.partitions.window_times import DATE, HOUR, Offsets, ScheduleType, TimeWindow, cron_of

__all__ = [
    "DATE",
    "HOUR",
    "DailyPartitionsDefinition",
    "HourlyPartitionsDefinition",
    "MonthlyPartitionsDefinition",
    "Offsets",
    "ScheduleType",
    "TimeWindow",
    "TimeWindowPartitionsDefinition",
    "WeeklyPartitionsDefinition",
    "cron_of",
]


class HourlyPartitionsDefinition(TimeWindowPartitionsDefinition):
    """One partition for every hour."""

    __slots__ = ()

    def __init__(  # noqa: PLR0913 - the options people know
        self,
        start_date: datetime | str,
        end_date: datetime | str | None = None,
        minute_offset: int = 0,
        timezone: str | None = None,
        fmt: str | None = None,
        end_offset: int = 0,
        exclusions: Sequence[str | datetime] | None = None,
    ) -> None:
        super().__init__(
            start_date,
            fmt or HOUR,
            end_date,
            ScheduleType.HOURLY,
            timezone,
            end_offset,
            minute_offset,
            exclusions=exclusions,
        )


class DailyPartitionsDefinition(TimeWindowPartitionsDefinition):
    """One partition for every day."""

    __slots__ = ()

    def __init__(  # noqa: PLR0913 - the options people know
        self,
        start_date: datetime | str,
        end_date: datetime | str | None = None,
        minute_offset: int = 0,
        hour_offset: int = 0,
        timezone: str | None = None,
        fmt: str | None = None,
        end_offset: int = 0,
        exclusions: Sequence[str | datetime] | None = None,
    ) -> None:
        super().__init__(
            start_date,
            fmt or DATE,
            end_date,
            ScheduleType.DAILY,
            timezone,
            end_offset,
            minute_offset,
            hour_offset,
            exclusions=exclusions,
        )


class WeeklyPartitionsDefinition(TimeWindowPartitionsDefinition):
    """One partition for every week, which begins on Sunday unless `day_offset` says otherwise."""

    __slots__ = ()

    def __init__(  # noqa: PLR0913 - the options people know
        self,
        start_date: datetime | str,
        minute_offset: int = 0,
        hour_offset: int = 0,
        day_offset: int = 0,
        timezone: str | None = None,
        fmt: str | None = None,
        end_offset: int = 0,
        end_date: datetime | str | None = None,
        exclusions: Sequence[str | datetime] | None = None,
    ) -> None:
        super().__init__(
            start_date,
            fmt or DATE,
            end_date,
            ScheduleType.WEEKLY,
            timezone,
            end_offset,
            minute_offset,
            hour_offset,
            day_offset,
            exclusions=exclusions,
        )


class MonthlyPartitionsDefinition(TimeWindowPartitionsDefinition):
    """One partition for every month, which begins on the day `day_offset`."""

    __slots__ = ()

    def __init__(  # noqa: PLR0913 - the options people know
        self,
        start_date: datetime | str,
        end_date: datetime | str | None = None,
        minute_offset: int = 0,
        hour_offset: int = 0,
        day_offset: int = 1,
        timezone: str | None = None,
        fmt: str | None = None,
        end_offset: int = 0,
        exclusions: Sequence[str | datetime] | None = None,
    ) -> None:
        super().__init__(
            start_date,
            fmt or DATE,
            end_date,
            ScheduleType.MONTHLY,
            timezone,
            end_offset,
            minute_offset,
            hour_offset,
            day_offset,
            exclusions=exclusions,
        )
