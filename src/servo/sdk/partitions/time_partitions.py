"""Time-based partitions: one for each window between two ticks of a schedule.

    DailyPartitionsDefinition(start_date="2024-01-01", timezone="Europe/Berlin")

A partition exists once its window has ended; `end_offset` shifts that by a number of windows. Its
key is the local start time of the window, formatted with `fmt`. When a clock is set back and an
hour occurs twice, the key of the second includes its offset (`2024-10-27-02:00+0100`).
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
    """One partition for each hour.

        HourlyPartitionsDefinition(start_date="2026-01-01-00:00")

    Args:
        start_date: the start of the first partition.
        end_date: the end of the last partition; open by default.
        minute_offset: the minute at which each window starts.
        timezone: the time zone, such as "Europe/Berlin"; UTC by default.
        fmt: the format of keys and of dates given as strings.
        end_offset: how many windows after the last ended one exist already.
        exclusions: windows to leave out: their starts, or cron expressions.
    """

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
    """One partition for each day.

        @asset(partitions_def=DailyPartitionsDefinition(start_date="2026-01-01"))
        def orders(context):
            return fetch(day=context.partition_key)

    Args:
        start_date: the start of the first partition.
        end_date: the end of the last partition; open by default.
        minute_offset: the minute at which each window starts.
        hour_offset: the hour at which each window starts.
        timezone: the time zone, such as "Europe/Berlin"; UTC by default.
        fmt: the format of keys and of dates given as strings.
        end_offset: how many windows after the last ended one exist already.
        exclusions: windows to leave out: their starts, or cron expressions.
    """

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
    """One partition for each week, starting on Sunday or on the day `day_offset`.

    Args:
        start_date: the start of the first partition.
        minute_offset: the minute at which each window starts.
        hour_offset: the hour at which each window starts.
        day_offset: the day on which each week starts: 0 is Sunday.
        timezone: the time zone, such as "Europe/Berlin"; UTC by default.
        fmt: the format of keys and of dates given as strings.
        end_offset: how many windows after the last ended one exist already.
        end_date: the end of the last partition; open by default.
        exclusions: windows to leave out: their starts, or cron expressions.
    """

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
    """One partition for each month, starting on the day `day_offset`.

    Args:
        start_date: the start of the first partition.
        end_date: the end of the last partition; open by default.
        minute_offset: the minute at which each window starts.
        hour_offset: the hour at which each window starts.
        day_offset: the day of the month on which each window starts, from 1.
        timezone: the time zone, such as "Europe/Berlin"; UTC by default.
        fmt: the format of keys and of dates given as strings.
        end_offset: how many windows after the last ended one exist already.
        exclusions: windows to leave out: their starts, or cron expressions.
    """

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
