"""Partitions by time: one for every window between two ticks of a schedule.

    DailyPartitionsDefinition(start_date="2024-01-01", timezone="Europe/Berlin")

A partition exists when its window is over; `end_offset` moves that by so many windows. Its key is
the local time at which the window begins, written by `fmt`. Where a clock goes back and an hour
happens twice, the key of the second carries its offset (`2024-10-27-02:00+0100`).
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from enum import Enum
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import msgspec

from servo.core.cron import Cron
from servo.core.partitions import Scalar, ValueType
from servo.errors import Invalid
from servo.sdk.partitions_definition import PartitionKeyRange, PartitionsDefinition
from servo.sdk.present import present
from servo.sdk.tick_index import Ticks, ticks_of
from servo.sdk.time_space import Excluded, TimeSpace

DATE = "%Y-%m-%d"
HOUR = "%Y-%m-%d-%H:%M"

_SECOND = timedelta(seconds=1)
_FIRST = datetime(1970, 1, 1, tzinfo=UTC)
_LAST = datetime(9900, 1, 1, tzinfo=UTC)
_SUNDAY_AFTER = 7
_TRIED = 5
"""How many windows are looked at to see whether a format tells them apart."""


class TimeWindow(NamedTuple):
    """From one instant to another, the second not included."""

    start: datetime
    end: datetime

    @property
    def duration(self) -> timedelta:
        """How long it is, also where clocks change in it."""
        return self.end.astimezone(UTC) - self.start.astimezone(UTC)


class ScheduleType(Enum):
    """How often a window begins."""

    HOURLY = "HOURLY"
    DAILY = "DAILY"
    WEEKLY = "WEEKLY"
    MONTHLY = "MONTHLY"


class Offsets(msgspec.Struct, frozen=True, kw_only=True):
    """When in its hour, day, week or month a window begins. Day 0 of a week is Sunday."""

    minute: int = 0
    hour: int = 0
    day: int | None = None


class _Windows(msgspec.Struct, frozen=True):
    start: datetime
    end: datetime | None
    cron_schedule: str
    timezone: str
    fmt: str
    end_offset: int
    exclusions: tuple[str | datetime, ...]


class TimeWindowPartitionsDefinition(PartitionsDefinition):
    """Partitions of time by a cron schedule, or by the hour, day, week or month."""

    __slots__ = ()

    _fields: _Windows

    def __init__(  # noqa: PLR0913 - the options people know
        self,
        start: datetime | str,
        fmt: str,
        end: datetime | str | None = None,
        schedule_type: ScheduleType | None = None,
        timezone: str | None = None,
        end_offset: int = 0,
        minute_offset: int | None = None,
        hour_offset: int | None = None,
        day_offset: int | None = None,
        cron_schedule: str | None = None,
        exclusions: Sequence[str | datetime] | None = None,
    ) -> None:
        offsets = Offsets(minute=minute_offset or 0, hour=hour_offset or 0, day=day_offset)
        if (cron_schedule is None) == (schedule_type is None):
            raise Invalid(
                "partitions of time have a cron_schedule or a schedule_type",
                remedy="give one of the two",
            )
        cron = cron_schedule or cron_of(schedule_type or ScheduleType.DAILY, offsets)
        if cron_schedule is not None and offsets != Offsets():
            raise Invalid("a cron_schedule has no offsets", remedy="write them into the cron")
        zone = Cron(cron, timezone or "UTC").timezone
        fields = _Windows(
            start=_instant(start, fmt, zone),
            end=_instant(end, fmt, zone) if end is not None else None,
            cron_schedule=cron,
            timezone=zone,
            fmt=fmt,
            end_offset=_whole(end_offset, "end_offset"),
            exclusions=_exclusions(exclusions or (), fmt, zone),
        )
        super().__init__(fields)
        self._check_range()
        self._check_format()

    @property
    def start(self) -> datetime:
        """Where the first window may begin."""
        return self._fields.start.astimezone(ZoneInfo(self.timezone))

    @property
    def end(self) -> datetime | None:
        """Where the last window must have ended."""
        return self._fields.end and self._fields.end.astimezone(ZoneInfo(self.timezone))

    @property
    def timezone(self) -> str:
        """The time zone whose clocks count."""
        return self._fields.timezone

    @property
    def fmt(self) -> str:
        """How a key is written."""
        return self._fields.fmt

    @property
    def cron_schedule(self) -> str:
        """When windows begin."""
        return self._fields.cron_schedule

    @property
    def end_offset(self) -> int:
        """By how many windows the last one is moved."""
        return self._fields.end_offset

    @property
    def exclusions(self) -> tuple[str | datetime, ...]:
        """The windows that are left out: where they begin, or a cron expression of that."""
        return self._fields.exclusions

    # --- windows by their numbers ---------------------------------------------------------------

    @property
    def ticks(self) -> Ticks:
        """When windows begin and end, by number."""
        return ticks_of(self._fields.cron_schedule, self._fields.timezone)

    @property
    def first_tick(self) -> int:
        """The number of the tick at which the first window begins."""
        return self.ticks.upto(self._fields.start - _SECOND)

    def end_tick(self, current_time: datetime | None = None) -> int:
        """The number of the tick at which the last window has ended, at a time."""
        fields, ticks = self._fields, self.ticks
        last = ticks.upto(present(current_time)) + fields.end_offset
        if fields.end is not None:
            last = min(last, ticks.upto(fields.end))
        return max(last - 1, self.first_tick)

    @property
    def excluded_ticks(self) -> Excluded | None:
        """The windows that are left out; None if there are none."""
        if not self._fields.exclusions:
            return None
        kept = getattr(self, "_kept", None)
        if kept is None:
            crons = [item for item in self._fields.exclusions if isinstance(item, str)]
            at = [item for item in self._fields.exclusions if isinstance(item, datetime)]
            others = [ticks_of(cron, self.timezone) for cron in crons]
            kept = Excluded(self.ticks, self.first_tick, others, at)
            object.__setattr__(self, "_kept", kept)
        return kept

    def space(
        self, current_time: datetime | None = None, dynamic_partitions_store: Any = None
    ) -> TimeSpace:
        """The windows that are over at a time, by key and by number."""
        del dynamic_partitions_store
        return TimeSpace(self, self.end_tick(current_time))

    def tick_of(self, partition_key: str) -> int | None:
        """The number of the tick at which the window of a key begins, however late it is."""
        excluded = self.excluded_ticks
        for tick in self._ticks_written(partition_key):
            if excluded is None or not excluded.has(tick):
                return tick
        return None

    def _ticks_written(self, key: str) -> Iterator[int]:
        """The ticks whose windows have a key, also those that are left out."""
        ticks = self.ticks
        for parsed in _readings(key, self.fmt, self.timezone):
            tick = ticks.upto(max(parsed, self._fields.start) - _SECOND)
            start = ticks.nth(tick)
            if start is not None and self.key_at(start) == key:
                yield tick

    def window_at(self, tick: int) -> TimeWindow:
        """The window that begins at the tick of this number."""
        start, end = self.ticks.nth(tick), self.ticks.nth(tick + 1)
        if start is None or end is None:
            raise Invalid(f"{self} has no window {tick}", remedy="ask for an earlier one")
        zone = ZoneInfo(self.timezone)
        return TimeWindow(start.astimezone(zone), end.astimezone(zone))

    def time_windows(self, current_time: datetime | None = None) -> list[TimeWindow]:
        """The window of every partition there is at a time, in order."""
        space = self.space(current_time)
        return [self.window_at(space.tick(number)) for number in range(space.count)]

    def get_partition_keys(
        self, current_time: datetime | None = None, dynamic_partitions_store: Any = None
    ) -> list[str]:
        """Every key whose window is over at a time, in order."""
        return list(self.space(current_time, dynamic_partitions_store).keys())

    def key_at(self, start: datetime) -> str:
        """The key of the window that begins at an instant."""
        local = start.astimezone(ZoneInfo(self.timezone))
        again = local.fold and "%z" not in self.fmt and "%H" in self.fmt
        return local.strftime(f"{self.fmt}%z" if again else self.fmt)

    def time_window_for_partition_key(self, partition_key: str) -> TimeWindow:
        """The window of a key; `Invalid` if no window begins there."""
        tick = self.tick_of(partition_key)
        if tick is not None:
            return self.window_at(tick)
        example = self.key_at(self.ticks.nth(self.first_tick) or self.start)
        raise Invalid(f"{partition_key!r} is no key of {self}", remedy=f"write it like {example!r}")

    def get_partition_keys_in_time_window(self, time_window: TimeWindow) -> list[str]:
        """The keys of the windows that begin in a window."""
        ticks, excluded = self.ticks, self.excluded_ticks
        first = max(ticks.upto(time_window.start.astimezone(UTC) - _SECOND), self.first_tick)
        end = ticks.upto(time_window.end.astimezone(UTC) - _SECOND)
        found = [n for n in range(first, end) if excluded is None or not excluded.has(n)]
        return [self.key_at(start) for start in map(ticks.nth, found) if start is not None]

    def get_partition_key_range_for_time_window(self, time_window: TimeWindow) -> PartitionKeyRange:
        """The first and the last key of a window."""
        keys = self.get_partition_keys_in_time_window(time_window)
        if not keys:
            raise Invalid(f"no partition begins in {time_window}", remedy="use a longer window")
        return PartitionKeyRange(keys[0], keys[-1])

    def get_cron_schedule(
        self,
        minute_of_hour: int | None = None,
        hour_of_day: int | None = None,
        day_of_week: int | None = None,
        day_of_month: int | None = None,
    ) -> str:
        """The schedule that ticks when a window has ended, or so long after it."""
        fields = self._fields.cron_schedule.split()
        given = [minute_of_hour, hour_of_day, day_of_month, None, day_of_week]
        if len(fields) != len(given):
            return self._fields.cron_schedule
        pairs = zip(given, fields, strict=True)
        changed = " ".join(field if value is None else str(value) for value, field in pairs)
        return Cron(changed, self.timezone).expressions[0]

    def typed_value(self, key: str) -> Scalar:
        """The day, or the instant at which the window begins."""
        return self.value_at(self.time_window_for_partition_key(key).start)

    def value_at(self, start: datetime) -> Scalar:
        """What the window is stored under that begins at an instant."""
        if self.value_type() is ValueType.DATE:
            return start.astimezone(ZoneInfo(self.timezone)).date()
        return start

    def plain_value(self, value: Scalar) -> str:
        """The key of the window that begins on a day, or at an instant."""
        if isinstance(value, datetime):
            return self.key_at(value)
        if isinstance(value, date):
            return value.strftime(self.fmt)
        raise Invalid(f"{value!r} is no time", remedy=f"ask for a partition of {self}")

    def value_type(self) -> ValueType:
        """A day if keys are written as one, otherwise an instant."""
        return ValueType.DATE if self.fmt == DATE else ValueType.TIMESTAMP

    def _check_range(self) -> None:
        start, end = self._fields.start, self._fields.end
        if start < _FIRST:
            raise Invalid(f"partitions begin at {start}", remedy="begin in 1970 or later")
        if end is not None and end <= start:
            raise Invalid(f"partitions end at {end} and begin at {start}", remedy="end them later")

    def _check_format(self) -> None:
        """Refuse a format that does not tell windows apart, or cannot be read back."""
        first = self.first_tick
        starts = [(tick, self.ticks.nth(tick)) for tick in range(first, first + _TRIED)]
        keys = {tick: self.key_at(start) for tick, start in starts if start is not None}
        for tick, key in keys.items():
            if tick not in self._ticks_written(key):
                other = keys.get(tick + 1, key)
                raise Invalid(
                    f"fmt={self.fmt!r} writes {key!r} (and then {other!r}) for the window from "
                    f"{self.ticks.nth(tick)}, which cannot be told from that",
                    remedy=f"use {HOUR!r}, or a format that tells them apart",
                )


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


def cron_of(schedule_type: ScheduleType, offsets: Offsets) -> str:
    """The cron expression of windows of this kind."""
    minute = _between(offsets.minute, 0, 59, "minute_offset")
    hour = _between(offsets.hour, 0, 23, "hour_offset")
    match schedule_type:
        case ScheduleType.HOURLY:
            return f"{minute} * * * *"
        case ScheduleType.DAILY:
            return f"{minute} {hour} * * *"
        case ScheduleType.WEEKLY:
            day = _between(offsets.day or 0, 0, _SUNDAY_AFTER - 1, "day_offset")
            return f"{minute} {hour} * * {day}"
        case ScheduleType.MONTHLY:
            day = _between(1 if offsets.day is None else offsets.day, 1, 31, "day_offset")
            return f"{minute} {hour} {day} * *"


def _between(value: Any, low: int, high: int, what: str) -> int:
    if not low <= _whole(value, what) <= high:
        raise Invalid(f"{what} is {value}", remedy=f"use {low} to {high}")
    return value


def _whole(value: Any, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise Invalid(f"{what} is {value!r}", remedy="use a whole number")
    return value


def _instant(value: Any, fmt: str, timezone: str) -> datetime:
    """The instant that a text or a datetime means in a time zone."""
    if isinstance(value, datetime):
        zoned = value if value.tzinfo is not None else value.replace(tzinfo=ZoneInfo(timezone))
        return zoned.astimezone(UTC)
    if isinstance(value, str):
        for parsed in _readings(value, fmt, timezone):
            return parsed
    raise Invalid(
        f"{value!r} is no time of the form {fmt!r}",
        remedy="write it in that form, or pass a datetime",
    )


def _readings(text: str, fmt: str, timezone: str) -> Iterator[datetime]:
    """The instants that a text can mean, the likeliest first."""
    for form in (fmt,) if "%z" in fmt else (fmt, f"{fmt}%z"):
        try:
            local = datetime.strptime(text, form)  # noqa: DTZ007 - its zone follows
        except ValueError:
            continue
        zoned = local if local.tzinfo is not None else local.replace(tzinfo=ZoneInfo(timezone))
        yield zoned.astimezone(UTC)


def _exclusions(given: Iterable[Any], fmt: str, zone: str) -> tuple[str | datetime, ...]:
    return tuple(
        Cron(item, zone).expressions[0] if isinstance(item, str) else _instant(item, fmt, zone)
        for item in given
    )
