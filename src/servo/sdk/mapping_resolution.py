"""Which partitions belong together across a dependency, in both directions.

    edge = edge_between(days, weeks, mapping, Moment(now, store))
    edge.upstream_of("2024-01-07").keys      # what a partition is made from
    edge.downstream_of("2024-01-03")         # what is made from a partition
    edge.downstream_bits(bits)               # the same of whole sets, by number

`d` is among `downstream_of(u)` exactly if `u` is among `upstream_of(d)`. An asset without
partitions has one key, `WHOLE`. What a mapping asks for and what does not exist is told apart
(`Mapped.missing`): most of the time it is a mistake, and whoever plans says so.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from servo.core import bitmaps
from servo.errors import Invalid
from servo.sdk.dimension_mapping import Grid, Pair, dimensions_of, pairs_of, reached
from servo.sdk.partition_mapping import (
    AllPartitionMapping,
    DimensionPartitionMapping,
    IdentityPartitionMapping,
    LastPartitionMapping,
    MultiPartitionMapping,
    MultiToSingleDimensionPartitionMapping,
    PartitionMapping,
    SpecificPartitionsPartitionMapping,
    StaticPartitionMapping,
    TimeWindowPartitionMapping,
)
from servo.sdk.partition_space import Listing, ListSpace, PartitionSpace
from servo.sdk.partitions_definition import MultiPartitionsDefinition, PartitionsDefinition
from servo.sdk.time_partitions import TimeWindowPartitionsDefinition

WHOLE = ""
"""The one key of an asset that is not partitioned."""

_SECOND = timedelta(seconds=1)

UNDIVIDED = ListSpace(Listing.of([WHOLE]), None)


class Mapped(NamedTuple):
    """The partitions that another is made from, and those of them that do not exist."""

    keys: list[str]
    missing: list[str]


class Moment(NamedTuple):
    """When it is, and where the keys of dynamic partitions are."""

    now: datetime | None = None
    store: Any = None

    def space(self, definition: PartitionsDefinition | None) -> PartitionSpace:
        """The partitions of a definition at this moment."""
        return UNDIVIDED if definition is None else definition.space(self.now, self.store)


class Sides(NamedTuple):
    """What a mapping is between."""

    above: PartitionsDefinition | None
    below: PartitionsDefinition | None
    moment: Moment


class Edge(ABC):
    """How the partitions of two assets belong together at one moment."""

    constant = False
    """Whether every partition is made from the same ones."""

    shift: tuple[int, int] | None = None
    """The upstream numbers less its own that a partition is made from, where that is always so."""

    def __init__(self, sides: Sides) -> None:
        self.above = sides.moment.space(sides.above)
        self.below = sides.moment.space(sides.below)

    @abstractmethod
    def upstream_of(self, key: str) -> Mapped:
        """The upstream partitions that a partition is made from."""

    @abstractmethod
    def downstream_of(self, key: str) -> list[str]:
        """The partitions that are made from an upstream one."""

    def upstream_span(self, ordinal: int) -> tuple[int, int] | None:
        """The upstream numbers, from and to, of a partition; None if they need not be a range."""
        del ordinal
        return None

    def upstream_bits(self, bits: int) -> int:
        """The upstream partitions that any of these are made from."""
        found = (self.upstream_of(key).keys for key in self.below.keys_of(bits))
        return bitmaps.bitmap({self.above.number(key) for keys in found for key in keys})

    def downstream_bits(self, bits: int) -> int:
        """The partitions that are made from any of these."""
        found = (self.downstream_of(key) for key in self.above.keys_of(bits))
        return bitmaps.bitmap({self.below.number(key) for keys in found for key in keys})


def edge_between(
    above: PartitionsDefinition | None,
    below: PartitionsDefinition | None,
    mapping: PartitionMapping | None = None,
    moment: Moment | None = None,
) -> Edge:
    """How two assets belong together; without a mapping, as their definitions suggest."""
    sides = Sides(above, below, moment or Moment())
    return _edge(sides, mapping or usual_mapping(above, below))


def usual_mapping(
    above: PartitionsDefinition | None, below: PartitionsDefinition | None
) -> PartitionMapping:
    """The mapping that is meant where none is given."""
    if above is None or below is None:
        return AllPartitionMapping()
    if above == below:
        return IdentityPartitionMapping()
    if isinstance(above, TimeWindowPartitionsDefinition) and isinstance(
        below, TimeWindowPartitionsDefinition
    ):
        return TimeWindowPartitionMapping()
    several = [isinstance(one, MultiPartitionsDefinition) for one in (above, below)]
    if all(several):
        return _by_name(dimensions_of(above), dimensions_of(below))
    return MultiToSingleDimensionPartitionMapping() if any(several) else IdentityPartitionMapping()


def _by_name(above: Mapping[str, Any], below: Mapping[str, Any]) -> MultiPartitionMapping:
    """Dimensions of one name belong together, the others to all."""
    return MultiPartitionMapping(
        {
            name: DimensionPartitionMapping(name, usual_mapping(above[name], below[name]))
            for name in above
            if name in below
        }
    )


def _edge(sides: Sides, mapping: PartitionMapping) -> Edge:
    if sides.above is None:
        return _All(sides)
    match mapping:
        case AllPartitionMapping():
            return _All(sides)
        case LastPartitionMapping():
            return _Last(sides)
        case SpecificPartitionsPartitionMapping():
            return _Specific(sides, mapping)
        case _ if type(mapping).upstream_keys is not PartitionMapping.upstream_keys:
            return _Custom(sides, mapping)
        case _:
            return _divided(sides, mapping)


def _divided(sides: Sides, mapping: PartitionMapping) -> Edge:
    """How two assets belong together that both have partitions."""
    if sides.above is None or sides.below is None:
        raise Invalid(
            f"{type(mapping).__name__} maps to an asset without partitions",
            remedy="use AllPartitionMapping, LastPartitionMapping or "
            "SpecificPartitionsPartitionMapping there",
        )
    match mapping:
        case IdentityPartitionMapping():
            return _Identity(sides)
        case StaticPartitionMapping():
            return _Static(sides, mapping)
        case TimeWindowPartitionMapping():
            return _Windows(sides, mapping)
        case MultiPartitionMapping() | MultiToSingleDimensionPartitionMapping():
            return _Dimensions(sides, pairs_of(sides.above, sides.below, mapping))
        case _:
            raise Invalid(
                f"{type(mapping).__name__} does not say what it maps",
                remedy="define upstream_keys(self, key, upstream, downstream) in it",
            )


class _All(Edge):
    """Everything from everything."""

    constant = True

    def upstream_of(self, key: str) -> Mapped:
        del key
        return Mapped(list(self.above.keys()), [])

    def downstream_of(self, key: str) -> list[str]:
        del key
        return list(self.below.keys())

    def upstream_bits(self, bits: int) -> int:
        return self.above.everything if bits else bitmaps.EMPTY

    def downstream_bits(self, bits: int) -> int:
        return self.below.everything if bits else bitmaps.EMPTY


class _Some(Edge):
    """Everything from some partitions, always the same."""

    constant = True

    def __init__(self, sides: Sides, wanted: Sequence[str]) -> None:
        super().__init__(sides)
        self._wanted = [key for key in wanted if key in self.above]
        self._missing = [key for key in wanted if key not in self.above]
        self._bits = self.above.bits(self._wanted)

    def upstream_of(self, key: str) -> Mapped:
        del key
        return Mapped(list(self._wanted), list(self._missing))

    def downstream_of(self, key: str) -> list[str]:
        return list(self.below.keys()) if key in self._wanted else []

    def upstream_bits(self, bits: int) -> int:
        return self._bits if bits else bitmaps.EMPTY

    def downstream_bits(self, bits: int) -> int:
        return self.below.everything if bits & self._bits else bitmaps.EMPTY


class _Last(_Some):
    def __init__(self, sides: Sides) -> None:
        above = sides.moment.space(sides.above)
        super().__init__(sides, [above.key(above.count - 1)] if above.count else [])


class _Specific(_Some):
    def __init__(self, sides: Sides, mapping: SpecificPartitionsPartitionMapping) -> None:
        super().__init__(sides, list(mapping.partition_keys))


class _Identity(Edge):
    """The same key."""

    def __init__(self, sides: Sides) -> None:
        super().__init__(sides)
        self._same = sides.above == sides.below
        self.shift = (0, 0) if self._same else None

    def upstream_of(self, key: str) -> Mapped:
        return Mapped([key], []) if key in self.above else Mapped([], [key])

    def downstream_of(self, key: str) -> list[str]:
        return [key] if key in self.below else []

    def upstream_bits(self, bits: int) -> int:
        return bits & self.above.everything if self._same else super().upstream_bits(bits)

    def downstream_bits(self, bits: int) -> int:
        return bits & self.below.everything if self._same else super().downstream_bits(bits)


class _Static(Edge):
    """As it is written out."""

    def __init__(self, sides: Sides, mapping: StaticPartitionMapping) -> None:
        super().__init__(sides)
        self._down: dict[str, list[str]] = {}
        self._up: dict[str, list[str]] = {}
        pairs = mapping.downstream_partition_keys_by_upstream_partition_key
        for above, made in pairs.items():
            for below in made:
                if below in self.below:
                    self._up.setdefault(below, []).append(above)
                    self._down.setdefault(above, []).append(below)

    def upstream_of(self, key: str) -> Mapped:
        wanted = self._up.get(key, [])
        missing = [one for one in wanted if one not in self.above]
        return Mapped([one for one in wanted if one in self.above], missing)

    def downstream_of(self, key: str) -> list[str]:
        return list(self._down.get(key, [])) if key in self.above else []


class _Custom(Edge):
    """As code of the user says."""

    def __init__(self, sides: Sides, mapping: PartitionMapping) -> None:
        super().__init__(sides)
        self._sides = sides
        self._mapping = mapping
        own = type(mapping).downstream_keys is not PartitionMapping.downstream_keys
        self._asked = own
        self._down: dict[str, list[str]] | None = None

    def upstream_of(self, key: str) -> Mapped:
        wanted = list(self._mapping.upstream_keys(key, self._sides.above, self._sides.below))
        missing = [one for one in wanted if one not in self.above]
        return Mapped([one for one in wanted if one in self.above], missing)

    def downstream_of(self, key: str) -> list[str]:
        if self._asked:
            told = self._mapping.downstream_keys(key, self._sides.above, self._sides.below)
            return [one for one in told if one in self.below]
        if self._down is None:  # nobody says, so every partition is asked once
            self._down = {}
            for below in map(self.below.key, range(self.below.count)):
                for above in self.upstream_of(below).keys:
                    self._down.setdefault(above, []).append(below)
        return list(self._down.get(key, []))


class _Windows(Edge):
    """Windows of time that overlap, with those of a partition moved by its offsets."""

    def __init__(self, sides: Sides, mapping: TimeWindowPartitionMapping) -> None:
        super().__init__(sides)
        above, below = sides.above, sides.below
        if not isinstance(above, TimeWindowPartitionsDefinition) or not isinstance(
            below, TimeWindowPartitionsDefinition
        ):
            raise Invalid(
                f"TimeWindowPartitionMapping is between {above!r} and {below!r}",
                remedy="use it between partitions of time",
            )
        self._above = above.space(sides.moment.now)
        self._below = below.space(sides.moment.now)
        self._up, self._down = above.ticks, below.ticks
        self._mapping = mapping
        self._empty = mapping.start_offset > mapping.end_offset
        self._aligned = self._up is self._down
        if self._aligned and not self._empty and not above.exclusions and not below.exclusions:
            between = self._below.first - self._above.first
            self.shift = between + mapping.start_offset, between + mapping.end_offset

    # What is compared are numbers of ticks. A window of ours that begins at the tick `low` and one
    # that ends at `high` overlap all upstream windows from the one in which the first begins to the
    # one in which the last second of the other is.

    def _up_ticks(self, low: int, high: int) -> tuple[int, int]:
        """The first and last upstream tick for windows that begin at these ticks."""
        start = self._down.nth(max(low + self._mapping.start_offset, 0))
        end = self._down.nth(max(high + 1 + self._mapping.end_offset, 0))
        if start is None or end is None or self._empty:
            return 0, -1
        if self._aligned:
            return low + self._mapping.start_offset, high + self._mapping.end_offset
        return self._up.upto(start) - 1, self._up.upto(end - _SECOND) - 1

    def _down_ticks(self, low: int, high: int) -> tuple[int, int]:
        """The first and last tick of ours that upstream windows beginning at these reach."""
        start, end = self._up.nth(low), self._up.nth(high + 1)
        if start is None or end is None or self._empty:
            return 0, -1
        first = self._down.upto(start) - 1 - self._mapping.end_offset
        return first, self._down.upto(end - _SECOND) - 1 - self._mapping.start_offset

    def upstream_of(self, key: str) -> Mapped:
        tick = self._below.tick(self._below.number(key))
        low, high = self._up_ticks(tick, tick)
        first, last = max(low, self._above.first), min(high, self._above.end - 1)
        keys = self._keys(self._above, first, last)
        if self._mapping.allow_nonexistent_upstream_partitions:
            return Mapped(keys, [])
        definition = self._above.definition
        outside = [n for n in range(low, high + 1) if not first <= n <= last]
        starts = (self._up.nth(n) for n in outside if n >= 0)
        return Mapped(keys, [definition.key_at(at) for at in starts if at is not None])

    def downstream_of(self, key: str) -> list[str]:
        tick = self._above.tick(self._above.number(key))
        low, high = self._down_ticks(tick, tick)
        first, last = max(low, self._below.first), min(high, self._below.end - 1)
        return self._keys(self._below, first, last)

    @staticmethod
    def _keys(space: Any, first: int, last: int) -> list[str]:
        if first > last:
            return []
        return list(space.keys(space.ordinal_at(first), space.ordinal_at(last + 1)))

    def upstream_bits(self, bits: int) -> int:
        return self._over(bits, self._below, self._above, self._up_ticks)

    def downstream_bits(self, bits: int) -> int:
        return self._over(bits, self._above, self._below, self._down_ticks)

    def upstream_span(self, ordinal: int) -> tuple[int, int]:
        tick = self._below.tick(ordinal)
        low, high = self._up_ticks(tick, tick)
        first, last = max(low, self._above.first), min(high, self._above.end - 1)
        if first > last:
            return 0, 0
        return self._above.ordinal_at(first), self._above.ordinal_at(last + 1)

    @staticmethod
    def _over(bits: int, source: Any, target: Any, ticks: Any) -> int:
        """The windows of `target` that those of `source` reach, a run at a time."""
        pairs: list[tuple[int, int]] = []
        for low, high in bitmaps.ranges(bits):
            for begin, end in _runs(source, low, high):
                first, last = ticks(begin, end)
                first, last = max(first, target.first), min(last, target.end - 1)
                if first <= last:
                    pair = target.ordinal_at(first), target.ordinal_at(last + 1) - 1
                    if pair[0] <= pair[1]:
                        pairs.append(pair)
        return _union(pairs)


class _Dimensions(Edge):
    """Combinations of dimensions, of which some belong together and the others to all."""

    def __init__(self, sides: Sides, pairs: Sequence[Pair]) -> None:
        super().__init__(sides)
        assert sides.above is not None  # noqa: S101 - mappings to nothing were handled before
        assert sides.below is not None  # noqa: S101
        above, below = dimensions_of(sides.above), dimensions_of(sides.below)
        self._grids = Grid(self.above), Grid(self.below)
        self._pairs = [
            (pair, edge_between(above[pair.above], below[pair.below], pair.mapping, sides.moment))
            for pair in pairs
        ]

    def upstream_of(self, key: str) -> Mapped:
        up, down = self._grids
        parts = down.parts_of(key)
        missing: list[str] = []
        for pair, edge in self._pairs:
            told = edge.upstream_of(parts[pair.below]).missing
            missing += [up.shown(pair.above, one) for one in told]
        digits = {name: down.parts[name].number(part) for name, part in parts.items()}
        return Mapped(up.keys_with(self._up(digits)), missing)

    def downstream_of(self, key: str) -> list[str]:
        up, down = self._grids
        digits = {name: up.parts[name].number(p) for name, p in up.parts_of(key).items()}
        return down.keys_with(self._down(digits))

    def _up(self, digits: Mapping[str, int]) -> dict[str, int]:
        found: dict[str, int] = {}
        for pair, edge in self._pairs:
            found[pair.above] = edge.upstream_bits(1 << digits[pair.below])
        return found

    def _down(self, digits: Mapping[str, int]) -> dict[str, int]:
        found: dict[str, int] = {}
        for pair, edge in self._pairs:
            reached_ = edge.downstream_bits(1 << digits[pair.above])
            found[pair.below] = found.get(pair.below, reached_) & reached_
        return found

    def upstream_bits(self, bits: int) -> int:
        return reached(bits, self._grids[1], self._grids[0], self._up)

    def downstream_bits(self, bits: int) -> int:
        return reached(bits, self._grids[0], self._grids[1], self._down)


def _runs(space: Any, low: int, high: int) -> Iterable[tuple[int, int]]:
    """Ticks of windows that follow each other without one that is left out between them."""
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
    # A range is a power of two less another. All of them at once, as every one by itself would
    # cost as much as the whole set.
    return bitmaps.bitmap(ends) - bitmaps.bitmap(lows)
