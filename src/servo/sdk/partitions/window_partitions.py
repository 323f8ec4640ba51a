"""Partitions between the ticks of a cron schedule.

Windows are numbered by the ticks at which they start (`servo.sdk.partitions.tick_index`), so that
nothing iterates over them: which windows exist at a time, and which has a key, is arithmetic.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import msgspec

from servo.core.cron import Cron
from servo.core.partitions import Scalar, ValueType
from servo.errors import Invalid
from servo.sdk.partitions.definition import PartitionKeyRange, PartitionsDefinition
from servo.sdk.partitions.present import present
from servo.sdk.partitions.tick_index import Ticks, ticks_of
from servo.sdk.partitions.time_space import Excluded, TimeSpace
from servo.sdk.partitions.window_times import (
    DATE,
    HOUR,
    Offsets,
    ScheduleType,
    TimeWindow,
    cron_of,
    exclusions_read,
    instant_read,
    readings,
    whole_number,
)

_SECOND = timedelta(seconds=1)
_FIRST = datetime(1970, 1, 1, tzinfo=UTC)
_TRIED = 5
"""How many windows are tried to see whether a format distinguishes them."""


class _Windows(msgspec.Struct, frozen=True):
    start: datetime
    end: datetime | None
    cron_schedule: str
    timezone: str
    fmt: str
    end_offset: int
    exclusions: tuple[str | datetime, ...]


class TimeWindowPartitionsDefinition(PartitionsDefinition):
    """One partition for each window of a cron schedule, or of an hour, day, week or month.

        TimeWindowPartitionsDefinition(
            start="2026-01-01", fmt="%Y-%m-%d", cron_schedule="0 0 * * 1-5"
        )

    Pass either `cron_schedule`, or `schedule_type` and offsets. The other arguments are those of
    `DailyPartitionsDefinition`.
    """

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
                "time-based partitions need either a cron_schedule or a schedule_type",
                remedy="pass one of the two",
            )
        cron = cron_schedule or cron_of(schedule_type or ScheduleType.DAILY, offsets)
        if cron_schedule is not None and offsets != Offsets():
            raise Invalid(
                "a cron_schedule cannot be combined with offsets",
                remedy="write the offsets into the cron expression",
            )
        zone = Cron(cron, timezone or "UTC").timezone
        fields = _Windows(
            start=instant_read(start, fmt, zone),
            end=instant_read(end, fmt, zone) if end is not None else None,
            cron_schedule=cron,
            timezone=zone,
            fmt=fmt,
            end_offset=whole_number(end_offset, "end_offset"),
            exclusions=exclusions_read(exclusions or (), fmt, zone),
        )
        super().__init__(fields)
        self._check_range()
        self._check_format()

    @property
    def start(self) -> datetime:
        """The earliest start of a window."""
        return self._fields.start.astimezone(ZoneInfo(self.timezone))

    @property
    def end(self) -> datetime | None:
        """The latest end of a window; None if there is no end."""
        return self._fields.end and self._fields.end.astimezone(ZoneInfo(self.timezone))

    @property
    def timezone(self) -> str:
        """The time zone of the windows."""
        return self._fields.timezone

    @property
    def fmt(self) -> str:
        """The format of the keys."""
        return self._fields.fmt

    @property
    def cron_schedule(self) -> str:
        """The cron expression of the starts of windows."""
        return self._fields.cron_schedule

    @property
    def end_offset(self) -> int:
        """How many windows after the last ended one exist already."""
        return self._fields.end_offset

    @property
    def exclusions(self) -> tuple[str | datetime, ...]:
        """The excluded windows: their starts, or cron expressions."""
        return self._fields.exclusions

    # --- windows by their numbers ---------------------------------------------------------------

    @property
    def ticks(self) -> Ticks:
        """The starts of windows, by number."""
        return ticks_of(self._fields.cron_schedule, self._fields.timezone)

    @property
    def first_tick(self) -> int:
        """The number of the tick at which the first window starts."""
        return self.ticks.upto(self._fields.start - _SECOND)

    def end_tick(self, current_time: datetime | None = None) -> int:
        """The number of the tick at which the last window has ended, at a time."""
        fields, ticks = self._fields, self.ticks
        given = None if current_time is None else self._here(current_time)
        last = ticks.upto(present(given)) + fields.end_offset
        if fields.end is not None:
            last = min(last, ticks.upto(fields.end))
        return max(last - 1, self.first_tick)

    def _here(self, at: datetime) -> datetime:
        """An instant; a naive datetime is in the time zone of the definition."""
        return at if at.tzinfo is not None else at.replace(tzinfo=ZoneInfo(self.timezone))

    @property
    def excluded_ticks(self) -> Excluded | None:
        """The excluded windows; None if there are none."""
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
        """The windows that have ended at a time, by key and by number."""
        del dynamic_partitions_store
        return TimeSpace(self, self.end_tick(current_time))

    def tick_of(self, partition_key: str) -> int | None:
        """The number of the tick at which the window of a key starts, also in the future."""
        excluded = self.excluded_ticks
        for tick in self._ticks_written(partition_key):
            if excluded is None or not excluded.has(tick):
                return tick
        return None

    def _ticks_written(self, key: str) -> Iterator[int]:
        """The ticks of the windows with a key, including excluded ones."""
        ticks = self.ticks
        for parsed in readings(key, self.fmt, self.timezone):
            tick = ticks.upto(max(parsed, self._fields.start) - _SECOND)
            start = ticks.nth(tick)
            if start is not None and self.key_at(start) == key:
                yield tick

    def window_at(self, tick: int) -> TimeWindow:
        """The window that starts at the tick of this number."""
        start, end = self.ticks.nth(tick), self.ticks.nth(tick + 1)
        if start is None or end is None:
            raise Invalid(f"{self} has no window {tick}", remedy="use an earlier one")
        zone = ZoneInfo(self.timezone)
        return TimeWindow(start.astimezone(zone), end.astimezone(zone))

    def time_windows(self, current_time: datetime | None = None) -> list[TimeWindow]:
        """The windows of all partitions at a time, in order."""
        space = self.space(current_time)
        return [self.window_at(space.tick(number)) for number in range(space.count)]

    def get_partition_keys(
        self, current_time: datetime | None = None, dynamic_partitions_store: Any = None
    ) -> list[str]:
        """The keys of all windows that have ended at a time, in order."""
        return list(self.space(current_time, dynamic_partitions_store).keys())

    def key_at(self, start: datetime) -> str:
        """The key of the window that starts at an instant."""
        local = start.astimezone(ZoneInfo(self.timezone))
        again = local.fold and "%z" not in self.fmt and "%H" in self.fmt
        return local.strftime(f"{self.fmt}%z" if again else self.fmt)

    def time_window_for_partition_key(self, partition_key: str) -> TimeWindow:
        """The window of a key; `Invalid` if no window starts there."""
        tick = self.tick_of(partition_key)
        if tick is not None:
            return self.window_at(tick)
        example = self.key_at(self.ticks.nth(self.first_tick) or self.start)
        raise Invalid(
            f"{partition_key!r} is not a key of {self}", remedy=f"use a key like {example!r}"
        )

    def get_partition_keys_in_time_window(self, time_window: TimeWindow) -> list[str]:
        """The keys of the partitions that start in a time window."""
        ticks, excluded = self.ticks, self.excluded_ticks
        first = max(
            ticks.upto(self._here(time_window.start).astimezone(UTC) - _SECOND), self.first_tick
        )
        end = ticks.upto(self._here(time_window.end).astimezone(UTC) - _SECOND)
        found = [n for n in range(first, end) if excluded is None or not excluded.has(n)]
        return [self.key_at(start) for start in map(ticks.nth, found) if start is not None]

    def get_partition_key_range_for_time_window(self, time_window: TimeWindow) -> PartitionKeyRange:
        """The first and the last key of a time window."""
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
        """The cron expression that ticks at the end of each window, or at a later time of day."""
        fields = self._fields.cron_schedule.split()
        given = [minute_of_hour, hour_of_day, day_of_month, None, day_of_week]
        if len(fields) != len(given):
            return self._fields.cron_schedule
        pairs = zip(given, fields, strict=True)
        changed = " ".join(field if value is None else str(value) for value, field in pairs)
        return Cron(changed, self.timezone).expressions[0]

    def typed_value(self, key: str) -> Scalar:
        """The day, or the instant at which the window starts."""
        return self.value_at(self.time_window_for_partition_key(key).start)

    def value_at(self, start: datetime) -> Scalar:
        """The stored value of the window that starts at an instant."""
        if self.value_type() is ValueType.DATE:
            return start.astimezone(ZoneInfo(self.timezone)).date()
        return start

    def plain_value(self, value: Scalar) -> str:
        """The key of the window that starts on a day, or at an instant."""
        if isinstance(value, datetime):
            return self.key_at(value)
        if isinstance(value, date):
            return value.strftime(self.fmt)
        raise Invalid(f"{value!r} is not a time", remedy=f"use a partition of {self}")

    def value_type(self) -> ValueType:
        """A date if keys are written as dates, otherwise a timestamp."""
        return ValueType.DATE if self.fmt == DATE else ValueType.TIMESTAMP

    def _check_range(self) -> None:
        start, end = self._fields.start, self._fields.end
        if start < _FIRST:
            raise Invalid(f"start_date is {start}", remedy="use 1970 or later")
        if end is not None and end <= start:
            raise Invalid(
                f"end_date {end} is not after start_date {start}", remedy="use a later end_date"
            )

    def _check_format(self) -> None:
        """Reject a format that does not distinguish windows, or that cannot be parsed."""
        first = self.first_tick
        starts = [(tick, self.ticks.nth(tick)) for tick in range(first, first + _TRIED)]
        keys = {tick: self.key_at(start) for tick, start in starts if start is not None}
        for tick, key in keys.items():
            if tick not in self._ticks_written(key):
                other = keys.get(tick + 1, key)
                raise Invalid(
                    f"fmt={self.fmt!r} is ambiguous: the key {key!r} does not identify the window "
                    f"from {self.ticks.nth(tick)} (the next has {other!r})",
                    remedy=f"use {HOUR!r}, or another format that distinguishes them",
                )
