"""Mappings between overlapping time windows.

Ticks are compared by number. Windows from the tick `low` to the tick `high` overlap all upstream
windows from the one that contains the start of the first to the one that contains the last second
of the last.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from itertools import pairwise

from servo.core import bitmaps
from servo.errors import Invalid
from servo.sdk.partitions.mapping import TimeWindowPartitionMapping
from servo.sdk.partitions.mapping_edges import Edge, FoundNumbers, Sides, Stride
from servo.sdk.partitions.tick_index import Ticks
from servo.sdk.partitions.time_space import TimeSpace

_SECOND = timedelta(seconds=1)

Reached = Callable[[int, int], tuple[int, int]]
"""The first and the last tick of the windows that overlap a range of windows."""


class Windows(Edge):
    """Overlapping time windows, shifted by the offsets of the mapping."""

    def __init__(self, sides: Sides, mapping: TimeWindowPartitionMapping) -> None:
        super().__init__(sides)
        if not isinstance(self.above, TimeSpace) or not isinstance(self.below, TimeSpace):
            raise Invalid(
                f"TimeWindowPartitionMapping cannot map {sides.above} to {sides.below}",
                remedy="use it between time-based partitions",
            )
        self._above, self._below = self.above, self.below
        above, below = self._above.definition, self._below.definition
        self._up, self._down = above.ticks, below.ticks
        self._mapping = mapping
        self._empty = mapping.start_offset > mapping.end_offset
        self._aligned = self._up is self._down
        if self._aligned and not self._empty and not above.exclusions and not below.exclusions:
            between = self._below.first - self._above.first
            self.shift = between + mapping.start_offset, between + mapping.end_offset

    def _up_ticks(self, low: int, high: int) -> tuple[int, int]:
        """The first and last upstream tick for windows that start at these ticks."""
        start = self._down.nth(max(low + self._mapping.start_offset, 0))
        end = self._down.nth(max(high + 1 + self._mapping.end_offset, 0))
        if start is None or end is None or self._empty:
            return 0, -1
        if self._aligned:
            return low + self._mapping.start_offset, high + self._mapping.end_offset
        return self._up.upto(start) - 1, self._up.upto(end - _SECOND) - 1

    def _down_ticks(self, low: int, high: int) -> tuple[int, int]:
        """The first and last downstream tick for upstream windows that start at these ticks."""
        start, end = self._up.nth(low), self._up.nth(high + 1)
        if start is None or end is None or self._empty:
            return 0, -1
        first = self._down.upto(start) - 1 - self._mapping.end_offset
        return first, self._down.upto(end - _SECOND) - 1 - self._mapping.start_offset

    def upstream(self, ordinal: int) -> FoundNumbers:
        """The upstream windows of a window, by number."""
        tick = self._below.tick(ordinal)
        low, high = self._up_ticks(tick, tick)
        numbers = _numbers(self._above, low, high)
        first, last = self._above.first, self._above.end - 1
        if self._mapping.allow_nonexistent_upstream_partitions or first <= low <= high <= last:
            return FoundNumbers(numbers)
        outside = [n for n in range(max(low, 0), high + 1) if not first <= n <= last]
        starts = (self._up.nth(n) for n in outside)
        key_at = self._above.definition.key_at
        return FoundNumbers(numbers, [key_at(at) for at in starts if at is not None])

    def downstream(self, ordinal: int) -> Sequence[int]:
        """The downstream windows of an upstream one, by number."""
        tick = self._above.tick(ordinal)
        return _numbers(self._below, *self._down_ticks(tick, tick))

    def upstream_bits(self, bits: int) -> int:
        """The upstream partitions of any of these."""
        return self._over(bits, self._below, self._above, self._up_ticks)

    def downstream_bits(self, bits: int) -> int:
        """The downstream partitions of any of these."""
        return self._over(bits, self._above, self._below, self._down_ticks)

    # --- all of them at once --------------------------------------------------------------------

    def steps(self) -> Sequence[Stride]:
        """The upstream windows of every window, computed from the side that has fewer windows."""
        if self._empty:
            return [Stride(self._below.count, 0, 0)]
        if self._below.count <= self._above.count:
            offsets = self._mapping.start_offset, self._mapping.end_offset
            spans = _spans(self._below, self._above, inner=offsets)
            return [Stride(1, start, stop) for start, stop in spans]
        offsets = -self._mapping.end_offset, -self._mapping.start_offset
        return _turned(_spans(self._above, self._below, outer=offsets), self._below.count)

    @staticmethod
    def _over(bits: int, source: TimeSpace, target: TimeSpace, ticks: Reached) -> int:
        """The windows of `target` that those of `source` reach, a run at a time."""
        pairs: list[tuple[int, int]] = []
        for low, high in bitmaps.ranges(bits):
            for begin, end in _runs(source, low, high):
                if found := _numbers(target, *ticks(begin, end)):
                    pairs.append((found[0], found[-1]))
        return _union(pairs)


def _numbers(space: TimeSpace, low: int, high: int) -> range:
    """The numbers of the existing windows that start in a range of ticks."""
    first, last = max(low, space.first), min(high, space.end - 1)
    return range(space.ordinal_at(first), space.ordinal_at(last + 1)) if first <= last else range(0)


def _runs(space: TimeSpace, low: int, high: int) -> Iterable[tuple[int, int]]:
    """Ranges of ticks without an excluded window in them."""
    begin, end = space.tick(low), space.tick(high)
    for gap in space.left_out(begin, end):
        if gap > begin:
            yield begin, gap - 1
        begin = gap + 1
    yield begin, end


def _union(pairs: list[tuple[int, int]]) -> int:
    """The set of the numbers in these ranges, which may touch and overlap."""
    lows: list[int] = []
    ends: list[int] = []
    for low, high in sorted(pairs):
        if ends and low <= ends[-1]:
            ends[-1] = max(ends[-1], high + 1)
        else:
            lows.append(low)
            ends.append(high + 1)
    # A range is the difference of two powers of two. All are summed at once, since each alone would
    # cost as much as the whole set.
    return bitmaps.bitmap(ends) - bitmaps.bitmap(lows)


_Offsets = tuple[int, int]


def _spans(
    source: TimeSpace, target: TimeSpace, *, inner: _Offsets = (0, 0), outer: _Offsets = (0, 0)
) -> list[tuple[int, int]]:
    """The range of numbers in `target` that overlaps each window of `source`.

    Windows are shifted by `inner` before they are compared, and the result by `outer`.
    """
    if not source.count:
        return []
    first, last = source.tick(0), source.tick(source.count - 1)
    here, there = source.definition.ticks, target.definition.ticks
    begins = _at_ticks(here, first + inner[0], last + inner[0])
    ends = _at_ticks(here, first + 1 + inner[1], last + 1 + inner[1])
    lows = there.counts(begins)
    highs = there.counts([end - 1 for end in ends])
    found: list[tuple[int, int]] = []
    for number in range(source.count):
        at = source.tick(number) - first
        low = min(max(lows[at] - 1 + outer[0], target.first), target.end)
        high = min(max(highs[at] + outer[1], target.first), target.end)
        found.append((target.ordinal_at(low), max(target.ordinal_at(high), target.ordinal_at(low))))
    return found


def _at_ticks(ticks: Ticks, first: int, last: int) -> list[int]:
    """The times of these ticks, clamped to the first and the last tick."""
    before = max(min(-first, last - first + 1), 0)
    found = ticks.seconds(max(first, 0), max(last + 1, 1))
    found = [found[0]] * before + found[: last - first + 1 - before]
    return found + [found[-1]] * (last - first + 1 - len(found))


def _turned(spans: Sequence[tuple[int, int]], count: int) -> list[Stride]:
    """The upstream range of every partition, from the ranges that each upstream one maps to."""
    starts, stops = [start for start, _ in spans], [stop for _, stop in spans]
    found: list[Stride] = []
    for low, high in pairwise(sorted({0, count, *starts, *stops})):
        first = bisect_right(stops, low)
        found.append(Stride(high - low, first, max(first, bisect_right(starts, low))))
    return found
