"""The ticks of a cron expression by number, without iterating over them.

    ticks = ticks_of("0 * * * *", "Europe/Berlin")
    ticks.upto(instant)   # the number of ticks from 1970 up to and including an instant
    ticks.nth(n)          # the tick of this number, counted from 0

The ticks are those of `servo.core.cron.Cron`; this module only counts them. Every matching day has
the same times of day, so local time is counted in whole days. Between two clock changes the offset
from UTC is constant, so instants are counted in such stretches. Both are computed once, as far as
needed, and kept: after that, a lookup costs a few binary searches.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple
from zoneinfo import ZoneInfo

from cronsim import CronSim

from servo.core.cron import Cron, expanded

_DAY = 86_400
_HOURS_A_DAY = 24
_EPOCH = date(1970, 1, 1)
_EPOCH_ORDINAL = _EPOCH.toordinal()
_FIRST_YEAR = _EPOCH.year - 1  # when 1970 begins in UTC, some local clocks still show 1969
_FIRST_DAY = date(_FIRST_YEAR, 1, 1).toordinal() - _EPOCH_ORDINAL
_NAIVE = datetime(1970, 1, 1)  # noqa: DTZ001 - only the expression is read
_START = datetime(1970, 1, 1, tzinfo=UTC)
_LAST = int(datetime(9900, 1, 1, tzinfo=UTC).timestamp())


@lru_cache(maxsize=512)
def ticks_of(expression: str, timezone: str) -> "Ticks":
    """The ticks of one cron expression in a time zone."""
    return Ticks(Cron(expression, timezone))


def seconds_of(instant: datetime) -> int:
    """Whole seconds since 1970."""
    return (instant - _START) // _SECOND


def instant_of(seconds: int) -> datetime:
    """The instant this many seconds after 1970 began."""
    return _START + timedelta(seconds=seconds)


class TickPlace(NamedTuple):
    """A tick: its number, and how many regular steps of `unit` follow it."""

    number: int
    unit: int
    regular: int


class Ticks:
    """The ticks of one expression, numbered from the first one in 1970."""

    def __init__(self, cron: Cron) -> None:
        parsed = CronSim(expanded(cron.expressions[0]), _NAIVE)
        self._walls = _Walls(parsed)
        self._every_hour = len(parsed.hours) == _HOURS_A_DAY
        self._zone = None if cron.timezone == "UTC" else ZoneInfo(cron.timezone)
        self._year = _EPOCH.year
        self._reached = _LAST if self._zone is None else 0
        # Parallel lists, with one entry for each stretch of constant offset.
        self._starts: list[int] = []
        self._offsets: list[int] = []
        self._own: list[int] = []
        self._before: list[int] = []
        self._extra: list[int] = []
        self._base: list[int] = []
        self._wall_end = 0
        self._add(0, _offset_at(0, self._zone))

    def upto(self, instant: datetime) -> int:
        """The number of ticks up to and including an instant."""
        return self._upto(min(seconds_of(instant), _LAST))

    def nth(self, number: int) -> datetime | None:
        """The tick of this number; None if there is none before the calendar ends."""
        found = self._nth(number)
        return None if found is None else instant_of(found)

    def is_tick(self, instant: datetime) -> bool:
        """Whether an instant is a tick."""
        seconds = seconds_of(instant)
        return instant == instant_of(seconds) and self._upto(seconds) > self._upto(seconds - 1)

    def place(self, seconds: int) -> "TickPlace | None":
        """The tick at a time in seconds since 1970, and how many regular steps follow it."""
        number = self._upto(seconds) - 1
        if number < 0 or number + 1 == self._upto(seconds - 1):
            return None
        at = bisect_right(self._starts, seconds) - 1
        if seconds == self._starts[at] and self._extra[at]:
            return TickPlace(number, 1, 1)
        last = at + 1 == len(self._starts)
        left = (self._upto(self._reached - 1) if last else self._base[at + 1]) - number
        if self._walls.unit is not None:
            return TickPlace(number, self._walls.unit, left)
        unit, today = self._walls.rest_of_day(seconds + self._offsets[at])
        return TickPlace(number, unit, min(today, left))

    def seconds(self, start: int, stop: int) -> list[int]:
        """The times of a range of ticks, in seconds since 1970.

        There are fewer if the calendar ends.
        """
        found: list[int] = []
        while start < stop and (first := self._nth(start)) is not None:
            place = self.place(first)
            unit, most = (place.unit, place.regular) if place else (1, 1)
            count = min(most, stop - start)
            found += range(first, first + unit * count, unit)
            start += count
        return found

    def counts(self, instants: Sequence[int]) -> list[int]:
        """The number of ticks up to and including each of these sorted times in seconds."""
        found: list[int] = []
        while len(found) < len(instants):
            number = self._upto(instants[len(found)])
            found.append(number)
            last = self._nth(number - 1) if number else None
            place = None if last is None else self.place(last)
            if last is not None and place is not None:
                # Up to the last regular one; the next tick after it may be nearer.
                end = last + place.unit * (place.regular - 1)
                more = instants[len(found) : bisect_right(instants, end, len(found))]
                found += [number + (one - last) // place.unit for one in more]
        return found

    @property
    def is_daily(self) -> bool:
        """Whether it ticks exactly once every day."""
        return self._walls.unit == _DAY

    def _upto(self, seconds: int) -> int:
        if seconds < 0:
            return 0
        self._reach(seconds)
        at = bisect_right(self._starts, seconds) - 1
        return self._base[at] + self._within(at, seconds + 1)

    def _within(self, at: int, end: int) -> int:
        """The number of ticks of a stretch before the instant `end`."""
        wall = end + self._offsets[at]
        counted = self._walls.before(wall) - self._before[at] if wall > self._own[at] else 0
        return counted + self._extra[at]

    def _nth(self, number: int) -> int | None:
        while self._reached < _LAST and self._upto(self._reached - 1) <= number:
            self._reach(self._reached)
        at = bisect_right(self._base, number) - 1
        left = number - self._base[at] - self._extra[at]
        if left < 0:
            return self._starts[at]
        wall = self._walls.nth(self._before[at] + left)
        return None if wall is None else wall - self._offsets[at]

    # --- stretches of constant offset -----------------------------------------------------------

    def _reach(self, seconds: int) -> None:
        """Compute every clock change up to an instant, and a year further."""
        while seconds >= self._reached and self._zone is not None and self._reached < _LAST:
            for start, offset in _changes(self._zone.key, self._year):
                self._add(start, offset)
            self._year += 1
            self._reached = (date(self._year, 1, 1).toordinal() - _EPOCH_ORDINAL) * _DAY

    def _add(self, start: int, offset: int) -> None:
        base, wall = 0, start + offset
        own, extra = wall, 0
        if self._starts:
            last = len(self._starts) - 1
            base = self._base[last] + self._within(last, start)
            self._wall_end = max(self._wall_end, start + self._offsets[last])
            if not self._every_hour:
                own, extra = max(wall, self._wall_end), self._skipped(wall)
        self._starts.append(start)
        self._offsets.append(offset)
        self._own.append(own)
        self._before.append(self._walls.before(own))
        self._extra.append(extra)
        self._base.append(base)

    def _skipped(self, wall: int) -> int:
        """One tick if the clock jumps to `wall` over times that tick, and does not tick there."""
        if wall <= self._wall_end:
            return 0
        before = self._walls.before(wall)
        jumped = before - self._walls.before(self._wall_end)
        return int(jumped > 0 and self._walls.before(wall + 1) == before)


class _Walls:
    """The local times at which an expression ticks, ignoring clock changes, in seconds."""

    def __init__(self, parsed: CronSim) -> None:
        self._parsed = parsed
        hours, minutes = sorted(parsed.hours), sorted(parsed.minutes)
        seconds = sorted(parsed.seconds)
        self._times = [h * 3600 + m * 60 + s for h in hours for m in minutes for s in seconds]
        fields = parsed.parts[3:]
        self._all_days = fields == ["*", "*", "*"]
        steps = {later - early for early, later in pairwise(self._times)} or {_DAY}
        self._step = steps.pop() if len(steps) == 1 else None
        whole = self._step is not None and self._step * len(self._times) == _DAY
        self.unit = self._step if self._all_days and whole else None
        self._days: list[int] = []
        self._year = _FIRST_YEAR
        self._known = _FIRST_DAY

    def before(self, wall: int) -> int:
        """The number of ticks before a local time."""
        day, second = divmod(wall, _DAY)
        whole = day - _FIRST_DAY
        if not self._all_days:
            self._know(day + 1)
            whole = bisect_left(self._days, day)
            if whole == len(self._days) or self._days[whole] != day:
                return whole * len(self._times)
        return whole * len(self._times) + bisect_left(self._times, second)

    def nth(self, number: int) -> int | None:
        """The local time of this tick."""
        day, at = divmod(number, len(self._times))
        if not self._all_days:
            while len(self._days) <= day:
                if self._known * _DAY > _LAST:
                    return None
                self._know(self._known + 1)
            day = self._days[day]
        else:
            day += _FIRST_DAY
        return day * _DAY + self._times[at] if day * _DAY <= _LAST else None

    def rest_of_day(self, wall: int) -> tuple[int, int]:
        """The step between a tick and those that follow on the same day, and their number."""
        at = bisect_left(self._times, wall % _DAY)
        return (self._step, len(self._times) - at) if self._step else (1, 1)

    def _know(self, until: int) -> None:
        """Compute the matching days, by whole years."""
        while self._known < until and self._year < date.max.year:
            first = date(self._year, 1, 1).toordinal()
            self._year += 1
            end = date(self._year, 1, 1).toordinal()
            matches = self._parsed.match_day
            months = self._parsed.months
            for ordinal in range(first, end):
                found = date.fromordinal(ordinal)
                if found.month in months and matches(found):
                    self._days.append(ordinal - _EPOCH_ORDINAL)
            self._known = end - _EPOCH_ORDINAL


@lru_cache(maxsize=4096)
def _changes(zone: str, year: int) -> tuple[tuple[int, int], ...]:
    """The clock changes of a time zone in a year, each with the new offset."""
    found: list[tuple[int, int]] = []
    info = ZoneInfo(zone)
    begin = (date(year, 1, 1).toordinal() - _EPOCH_ORDINAL) * _DAY
    end = (date(year + 1, 1, 1).toordinal() - _EPOCH_ORDINAL) * _DAY
    # A second early: a change at the very start of a year is a change of that year.
    low, offset = begin - 1, _offset_at(begin - 1, info)
    while low < end - 1:
        high = min(low + _DAY, end - 1)
        other = _offset_at(high, info)
        if other != offset and high > 0:
            at = _first_with(other, low, high, info)
            found.append((at, other))
        low, offset = high, other
    return tuple(found)


def _first_with(offset: int, low: int, high: int, zone: ZoneInfo) -> int:
    """The first instant after `low` that has the offset which `high` has."""
    while high - low > 1:
        middle = (low + high) // 2
        if _offset_at(middle, zone) == offset:
            high = middle
        else:
            low = middle
    return high


def _offset_at(seconds: int, zone: ZoneInfo | None) -> int:
    if zone is None:
        return 0
    offset = instant_of(seconds).astimezone(zone).utcoffset()
    return 0 if offset is None else offset // _SECOND


_SECOND = timedelta(seconds=1)
