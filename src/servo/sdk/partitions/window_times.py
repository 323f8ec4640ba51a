"""Times of time-based partitions: windows, offsets, and instants as strings."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import msgspec

from servo.core.cron import Cron
from servo.errors import Invalid

DATE = "%Y-%m-%d"
HOUR = "%Y-%m-%d-%H:%M"

_LAST_DAY_OF_WEEK = 6


class TimeWindow(NamedTuple):
    """A time window from `start` up to, but not including, `end`."""

    start: datetime
    end: datetime

    @property
    def duration(self) -> timedelta:
        """The length of the window, correct across clock changes."""
        return self.end.astimezone(UTC) - self.start.astimezone(UTC)


class ScheduleType(Enum):
    """How often a window starts."""

    HOURLY = "HOURLY"
    DAILY = "DAILY"
    WEEKLY = "WEEKLY"
    MONTHLY = "MONTHLY"


class Offsets(msgspec.Struct, frozen=True, kw_only=True):
    """When in its hour, day, week or month a window starts. Day 0 of a week is Sunday."""

    minute: int = 0
    hour: int = 0
    day: int | None = None


def cron_of(schedule_type: ScheduleType, offsets: Offsets) -> str:
    """The cron expression for windows of this type."""
    minute = _between(offsets.minute, 0, 59, "minute_offset")
    hour = _between(offsets.hour, 0, 23, "hour_offset")
    match schedule_type:
        case ScheduleType.HOURLY:
            return f"{minute} * * * *"
        case ScheduleType.DAILY:
            return f"{minute} {hour} * * *"
        case ScheduleType.WEEKLY:
            day = _between(offsets.day or 0, 0, _LAST_DAY_OF_WEEK, "day_offset")
            return f"{minute} {hour} * * {day}"
        case ScheduleType.MONTHLY:
            day = _between(1 if offsets.day is None else offsets.day, 1, 31, "day_offset")
            return f"{minute} {hour} {day} * *"


def _between(value: Any, low: int, high: int, what: str) -> int:
    if not low <= whole_number(value, what) <= high:
        raise Invalid(f"{what} is {value}", remedy=f"use {low} to {high}")
    return value


def whole_number(value: Any, what: str) -> int:
    """A whole number; `Invalid` for anything else."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise Invalid(f"{what} is {value!r}", remedy="use a whole number")
    return value


def instant_read(value: Any, fmt: str, timezone: str) -> datetime:
    """The instant of a string or a datetime in a time zone."""
    if isinstance(value, datetime):
        zoned = value if value.tzinfo is not None else value.replace(tzinfo=ZoneInfo(timezone))
        return zoned.astimezone(UTC)
    if isinstance(value, str):
        for parsed in readings(value, fmt, timezone):
            return parsed
    raise Invalid(
        f"{value!r} is not a time of the form {fmt!r}",
        remedy="write it in that form, or pass a datetime",
    )


def readings(text: str, fmt: str, timezone: str) -> Iterator[datetime]:
    """The instants that a string can stand for, most likely first."""
    for form in (fmt,) if "%z" in fmt else (fmt, f"{fmt}%z"):
        try:
            local = datetime.strptime(text, form)  # noqa: DTZ007 - its zone follows
        except ValueError:
            continue
        zoned = local if local.tzinfo is not None else local.replace(tzinfo=ZoneInfo(timezone))
        yield zoned.astimezone(UTC)


def exclusions_read(given: Iterable[Any], fmt: str, zone: str) -> tuple[str | datetime, ...]:
    """Excluded windows, parsed: cron expressions and instants."""
    return tuple(
        Cron(item, zone).expressions[0] if isinstance(item, str) else instant_read(item, fmt, zone)
        for item in given
    )
