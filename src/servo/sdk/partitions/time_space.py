"""Time windows by number: which exist at a time, and which are excluded."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from servo.core.partitions import PartitionKey, ValueType
from servo.sdk.partitions.space import PartitionSpace
from servo.sdk.partitions.tick_index import Ticks, instant_of, seconds_of

if TYPE_CHECKING:
    from servo.sdk.partitions.time_partitions import TimeWindowPartitionsDefinition

_SECOND = timedelta(seconds=1)
_DAY = 86_400
_LAST = datetime(9900, 1, 1, tzinfo=UTC)


class Excluded:
    """The excluded windows of a definition, by the numbers of their ticks.

    They are computed as far as needed, and kept.
    """

    def __init__(
        self, ticks: Ticks, first: int, crons: Sequence[Ticks], instants: Sequence[datetime]
    ) -> None:
        self._ticks = ticks
        self._crons = crons
        self._instants = instants
        self._known = first
        self._numbers: list[int] = []
        self._shifts: list[int] = []
        self._first = first

    def has(self, tick: int) -> bool:
        """Whether the window that starts at a tick is excluded."""
        numbers = self._upto(tick + 1)
        at = bisect_left(numbers, tick)
        return at < len(numbers) and numbers[at] == tick

    def before(self, tick: int) -> int:
        """The number of excluded windows that start before a tick."""
        return bisect_left(self._upto(tick), tick)

    def nth_kept(self, number: int) -> int:
        """The tick of the window of this number, not counting excluded ones."""
        found = self._first + number
        while True:
            _ = self._upto(found + 1)
            again = self._first + number + bisect_right(self._shifts, number)
            if again == found:
                return found
            found = again

    def between(self, start: int, stop: int) -> list[int]:
        """The excluded windows that start in a range of ticks."""
        numbers = self._upto(stop)
        return numbers[bisect_left(numbers, start) : bisect_left(numbers, stop)]

    def _upto(self, tick: int) -> list[int]:
        if tick > self._known:
            end = max(tick, self._known + 512)
            self._find(self._known, end)
            self._known = end
        return self._numbers

    def _find(self, start: int, end: int) -> None:
        low, high = self._ticks.nth(start), self._ticks.nth(end)
        high = high or _LAST
        if low is None:
            return
        found = {at for at in self._instants if low <= at < high and self._ticks.is_tick(at)}
        for cron in self._crons:
            numbers = range(cron.upto(low - _SECOND), cron.upto(high - _SECOND))
            instants = (cron.nth(number) for number in numbers)
            found.update(at for at in instants if at is not None and self._ticks.is_tick(at))
        for at in sorted(found):
            number = self._ticks.upto(at) - 1
            self._shifts.append(number - self._first - len(self._numbers))
            self._numbers.append(number)


class TimeSpace(PartitionSpace):
    """The windows that have ended at one time."""

    __slots__ = ("_excluded", "definition", "end", "first")

    def __init__(self, definition: "TimeWindowPartitionsDefinition", end: int) -> None:
        self.definition = definition
        self.first = definition.first_tick
        self.end = end
        self._excluded = definition.excluded_ticks
        super().__init__(self.ordinal_at(end), definition)

    def ordinal_at(self, tick: int) -> int:
        """The number of windows that start before a tick, wherever the last one ends."""
        left_out = 0 if self._excluded is None else self._excluded.before(tick)
        return max(tick - self.first, 0) - (left_out if tick > self.first else 0)

    def tick(self, ordinal: int) -> int:
        """The number of the tick at which a window starts."""
        if self._excluded is None:
            return self.first + ordinal
        return self._excluded.nth_kept(ordinal)

    def place(self, seconds: int) -> tuple[int | None, int, int]:
        """The number of the window that starts then, the regular step, and how often it repeats.

        Seconds are since 1970: of the instant or, if keys are days, of the day in UTC.
        """
        if self.definition.value_type() is ValueType.DATE:
            return self._place_day(seconds)
        place = self.definition.ticks.place(seconds)
        if place is None or not self.first <= place.number < self.end:
            return None, 1, 1
        tick, unit, most = place
        most = min(most, self.end - tick)
        gaps = self.left_out(tick, tick + most)
        if gaps:
            most = gaps[0] - tick
        return (self.ordinal_at(tick) if most else None), unit, max(most, 1)

    def following(self, seconds: int) -> int | None:
        """The next tick after an instant that starts no window; None if there is none."""
        if self.definition.value_type() is ValueType.DATE:
            return seconds + 1
        tick = max(self.definition.ticks.upto(instant_of(seconds)), self.first)
        start = self.definition.ticks.nth(tick) if tick < self.end else None
        return None if start is None else seconds_of(start)

    def _place_day(self, seconds: int) -> tuple[int | None, int, int]:
        number = self.ordinal(instant_of(seconds).strftime(self.definition.fmt))
        if number is None or not self.definition.ticks.is_daily:
            return number, 1, 1
        # A day has at most one window, so n days have n windows only if each of them has one.
        most = self.count - number
        while most > 1:
            last = instant_of(seconds + (most - 1) * _DAY).strftime(self.definition.fmt)
            if self.ordinal(last) == number + most - 1:
                break
            most //= 2
        return number, _DAY, most

    def left_out(self, start: int, stop: int) -> list[int]:
        """The ticks of excluded windows in a range."""
        return [] if self._excluded is None else self._excluded.between(start, stop)

    def ordinal(self, key: str) -> int | None:
        """The number of the window with this key."""
        tick = self.definition.tick_of(key)
        return None if tick is None or tick >= self.end else self.ordinal_at(tick)

    def key(self, ordinal: int) -> str:
        """The key of a window."""
        return self.definition.key_at(self._start(ordinal))

    def identity(self, ordinal: int) -> PartitionKey:
        """The stored identity of a window: its day, or the instant at which it starts."""
        return PartitionKey.single(self.definition.value_at(self._start(ordinal)))

    def _start(self, ordinal: int) -> datetime:
        start = self.definition.ticks.nth(self.tick(ordinal))
        if start is None or not 0 <= ordinal < self.count:
            raise IndexError(ordinal)
        return start
