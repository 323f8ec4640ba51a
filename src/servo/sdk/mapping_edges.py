"""How the partitions of two assets belong together: what any mapping can be asked, and most kinds.

Keys are mapped one at a time, for people and for what is not regular. Sets of them are mapped
whole, as bitmaps, and what can be said of all partitions at once is said in ranges
(`Edge.constant`, `Edge.shift`, `Edge.steps`): nothing that is regular costs a step a partition.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from servo.core import bitmaps
from servo.sdk.partition_mapping import (
    PartitionMapping,
    SpecificPartitionsPartitionMapping,
    StaticPartitionMapping,
)
from servo.sdk.partition_space import Listing, ListSpace, PartitionSpace
from servo.sdk.partitions_definition import PartitionsDefinition

WHOLE = ""
"""The one key of an asset that is not partitioned."""

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


class Step(NamedTuple):
    """So many partitions that follow each other, and the range that each of them is made from."""

    length: int
    start: int
    stop: int


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

    def upstream_numbers(self, ordinal: int) -> Iterable[int]:
        """The numbers of the upstream partitions that a partition is made from."""
        return map(self.above.number, self.upstream_of(self.below.key(ordinal)).keys)

    def steps(self) -> Sequence[Step] | None:
        """What every partition is made from, in order; None if that need not be ranges.

        From one step to the next neither end of the range goes back, unless it is empty.
        """
        return None

    def upstream_bits(self, bits: int) -> int:
        """The upstream partitions that any of these are made from."""
        found = (self.upstream_of(key).keys for key in self.below.keys_of(bits))
        return bitmaps.bitmap({self.above.number(key) for keys in found for key in keys})

    def downstream_bits(self, bits: int) -> int:
        """The partitions that are made from any of these."""
        found = (self.downstream_of(key) for key in self.above.keys_of(bits))
        return bitmaps.bitmap({self.below.number(key) for keys in found for key in keys})


class All(Edge):
    """Everything from everything."""

    constant = True

    def upstream_of(self, key: str) -> Mapped:
        """The upstream partitions that a partition is made from."""
        del key
        return Mapped(list(self.above.keys()), [])

    def downstream_of(self, key: str) -> list[str]:
        """The partitions that are made from an upstream one."""
        del key
        return list(self.below.keys())

    def upstream_numbers(self, ordinal: int) -> Iterable[int]:
        """The numbers of the upstream partitions that a partition is made from."""
        del ordinal
        return range(self.above.count)

    def upstream_bits(self, bits: int) -> int:
        """The upstream partitions that any of these are made from."""
        return self.above.everything if bits else bitmaps.EMPTY

    def downstream_bits(self, bits: int) -> int:
        """The partitions that are made from any of these."""
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
        """The upstream partitions that a partition is made from."""
        del key
        return Mapped(list(self._wanted), list(self._missing))

    def downstream_of(self, key: str) -> list[str]:
        """The partitions that are made from an upstream one."""
        return list(self.below.keys()) if key in self._wanted else []

    def upstream_bits(self, bits: int) -> int:
        """The upstream partitions that any of these are made from."""
        return self._bits if bits else bitmaps.EMPTY

    def downstream_bits(self, bits: int) -> int:
        """The partitions that are made from any of these."""
        return self.below.everything if bits & self._bits else bitmaps.EMPTY


class Last(_Some):
    """Everything from the last partition there is."""

    def __init__(self, sides: Sides) -> None:
        above = sides.moment.space(sides.above)
        super().__init__(sides, [above.key(above.count - 1)] if above.count else [])


class Specific(_Some):
    """Everything from those that are listed."""

    def __init__(self, sides: Sides, mapping: SpecificPartitionsPartitionMapping) -> None:
        super().__init__(sides, list(mapping.partition_keys))


class Identity(Edge):
    """The same key."""

    def __init__(self, sides: Sides) -> None:
        super().__init__(sides)
        self._same = sides.above == sides.below
        self.shift = (0, 0) if self._same else None

    def upstream_of(self, key: str) -> Mapped:
        """The upstream partitions that a partition is made from."""
        return Mapped([key], []) if key in self.above else Mapped([], [key])

    def downstream_of(self, key: str) -> list[str]:
        """The partitions that are made from an upstream one."""
        return [key] if key in self.below else []

    def upstream_bits(self, bits: int) -> int:
        """The upstream partitions that any of these are made from."""
        return bits & self.above.everything if self._same else super().upstream_bits(bits)

    def downstream_bits(self, bits: int) -> int:
        """The partitions that are made from any of these."""
        return bits & self.below.everything if self._same else super().downstream_bits(bits)


class Static(Edge):
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
        """The upstream partitions that a partition is made from."""
        wanted = self._up.get(key, [])
        missing = [one for one in wanted if one not in self.above]
        return Mapped([one for one in wanted if one in self.above], missing)

    def downstream_of(self, key: str) -> list[str]:
        """The partitions that are made from an upstream one."""
        return list(self._down.get(key, [])) if key in self.above else []


class Custom(Edge):
    """As code of the user says."""

    def __init__(self, sides: Sides, mapping: PartitionMapping) -> None:
        super().__init__(sides)
        self._sides = sides
        self._mapping = mapping
        own = type(mapping).downstream_keys is not PartitionMapping.downstream_keys
        self._asked = own
        self._down: dict[str, list[str]] | None = None

    def upstream_of(self, key: str) -> Mapped:
        """The upstream partitions that a partition is made from."""
        wanted = list(self._mapping.upstream_keys(key, self._sides.above, self._sides.below))
        missing = [one for one in wanted if one not in self.above]
        return Mapped([one for one in wanted if one in self.above], missing)

    def downstream_of(self, key: str) -> list[str]:
        """The partitions that are made from an upstream one."""
        if self._asked:
            told = self._mapping.downstream_keys(key, self._sides.above, self._sides.below)
            return [one for one in told if one in self.below]
        if self._down is None:  # nobody says, so every partition is asked once
            self._down = {}
            for below in map(self.below.key, range(self.below.count)):
                for above in self.upstream_of(below).keys:
                    self._down.setdefault(above, []).append(below)
        return list(self._down.get(key, []))
