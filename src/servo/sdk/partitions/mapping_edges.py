"""How the partitions of two assets belong together: what any mapping can be asked, and most kinds.

Keys are mapped one at a time, for people and for what is not regular. Sets of them are mapped
whole, as bitmaps, and what can be said of all partitions at once is said in ranges
(`Edge.constant`, `Edge.shift`, `Edge.steps`): nothing that is regular costs a step a partition.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple

from servo.core import bitmaps
from servo.errors import Invalid
from servo.sdk.partitions.definition import PartitionsDefinition, StaticPartitionsDefinition
from servo.sdk.partitions.mapping import (
    PartitionMapping,
    SpecificPartitionsPartitionMapping,
    StaticPartitionMapping,
)
from servo.sdk.partitions.present import is_told, present
from servo.sdk.partitions.space import KeyListing, ListSpace, PartitionSpace

WHOLE = ""
"""The one key of an asset that is not partitioned."""

UNDIVIDED = ListSpace(KeyListing.of([WHOLE]), None)


class Mapped(NamedTuple):
    """The partitions that another is made from, and those of them that do not exist."""

    keys: list[str]
    missing: list[str]


class FoundNumbers(NamedTuple):
    """The same, with numbers of those that exist."""

    numbers: Sequence[int]
    missing: Sequence[str] = ()


class Moment(NamedTuple):
    """When it is, and where the keys of dynamic partitions are."""

    now: datetime | None = None
    store: Any = None

    def fixed(self) -> "Moment":
        """The same, at one time for all who ask: the present one if none was given."""
        return self._replace(now=present(None)) if self.now is None and is_told() else self

    def space(self, definition: PartitionsDefinition | None) -> PartitionSpace:
        """The partitions of a definition at this moment."""
        return UNDIVIDED if definition is None else definition.space(self.now, self.store)


class Sides(NamedTuple):
    """What a mapping is between."""

    above: PartitionsDefinition | None
    below: PartitionsDefinition | None
    moment: Moment


class Stride(NamedTuple):
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
        self._sides = sides

    # Large sets of dynamic keys are not read for edges that never look at them, such as `SameKey`.

    @cached_property
    def above(self) -> PartitionSpace:
        """The upstream partitions."""
        return self._sides.moment.space(self._sides.above)

    @cached_property
    def below(self) -> PartitionSpace:
        """The downstream partitions."""
        return self._sides.moment.space(self._sides.below)

    @abstractmethod
    def upstream(self, ordinal: int) -> FoundNumbers:
        """The upstream partitions that a partition is made from, by number."""

    @abstractmethod
    def downstream(self, ordinal: int) -> Sequence[int]:
        """The numbers of the partitions that are made from an upstream one."""

    def steps(self) -> Sequence[Stride] | None:
        """What every partition is made from, in order; None if that need not be ranges.

        From one step to the next neither end of the range goes back, unless it is empty.
        """
        return None

    def upstream_bits(self, bits: int) -> int:
        """The upstream partitions that any of these are made from."""
        found = (self.upstream(own).numbers for own in bitmaps.numbers(bits))
        return bitmaps.bitmap(set(chain.from_iterable(found)))

    def downstream_bits(self, bits: int) -> int:
        """The partitions that are made from any of these."""
        found = (self.downstream(number) for number in bitmaps.numbers(bits))
        return bitmaps.bitmap(set(chain.from_iterable(found)))

    # --- by key ---------------------------------------------------------------------------------

    def upstream_of(self, key: str) -> Mapped:
        """The upstream partitions that a partition is made from."""
        found = self.upstream(self.below.number(key))
        return Mapped(list(map(self.above.key, found.numbers)), list(found.missing))

    def downstream_of(self, key: str) -> list[str]:
        """The partitions that are made from an upstream one; none of one that does not exist."""
        number = self.above.ordinal(key)
        return [] if number is None else list(map(self.below.key, self.downstream(number)))

    def _found(self, keys: Iterable[str]) -> FoundNumbers:
        """Upstream keys that somebody wrote down."""
        numbers = {key: self.above.ordinal(key) for key in keys}
        there = [number for number in numbers.values() if number is not None]
        return FoundNumbers(there, [key for key, number in numbers.items() if number is None])


class _Always(Edge):
    """Everything from the same partitions."""

    constant = True

    def __init__(self, sides: Sides) -> None:
        super().__init__(sides)
        self._always = self._chosen()
        self._bits = bitmaps.bitmap(self._always.numbers)

    @abstractmethod
    def _chosen(self) -> FoundNumbers:
        """The upstream partitions that everything is made from."""

    def upstream(self, ordinal: int) -> FoundNumbers:
        """The same for each."""
        del ordinal
        return self._always

    def downstream(self, ordinal: int) -> Sequence[int]:
        """Everything, or nothing."""
        return range(self.below.count if self._bits >> ordinal & 1 else 0)

    def upstream_bits(self, bits: int) -> int:
        """The same for each, if there is any."""
        return self._bits if bits else bitmaps.EMPTY

    def downstream_bits(self, bits: int) -> int:
        """Everything, or nothing."""
        return self.below.everything if bits & self._bits else bitmaps.EMPTY


class Last(_Always):
    """Everything from the last partition there is."""

    def _chosen(self) -> FoundNumbers:
        count = self.above.count
        return FoundNumbers(range(max(count - 1, 0), count))


class Specific(_Always):
    """Everything from those that are listed."""

    def __init__(self, sides: Sides, mapping: SpecificPartitionsPartitionMapping) -> None:
        self._keys = mapping.partition_keys
        super().__init__(sides)

    def _chosen(self) -> FoundNumbers:
        return self._found(self._keys)


class EveryPartition(Edge):
    """Everything from everything."""

    constant = True

    def upstream(self, ordinal: int) -> FoundNumbers:
        """All of them."""
        del ordinal
        return FoundNumbers(range(self.above.count))

    def downstream(self, ordinal: int) -> Sequence[int]:
        """All of them."""
        del ordinal
        return range(self.below.count)

    def upstream_bits(self, bits: int) -> int:
        """All of them, if there is any."""
        return self.above.everything if bits else bitmaps.EMPTY

    def downstream_bits(self, bits: int) -> int:
        """All of them, if there is any."""
        return self.below.everything if bits else bitmaps.EMPTY


class SameKey(Edge):
    """The same key of the same definition, and so the same number."""

    shift = (0, 0)

    def upstream(self, ordinal: int) -> FoundNumbers:
        """The one of the same number."""
        return FoundNumbers((ordinal,))

    def downstream(self, ordinal: int) -> Sequence[int]:
        """The one of the same number."""
        return (ordinal,)

    def upstream_bits(self, bits: int) -> int:
        """The same."""
        return bits

    def downstream_bits(self, bits: int) -> int:
        """The same."""
        return bits


class Alike(Edge):
    """The same key of another definition, if that has it."""

    def upstream(self, ordinal: int) -> FoundNumbers:
        """The one of the same key."""
        return self._found((self.below.key(ordinal),))

    def downstream(self, ordinal: int) -> Sequence[int]:
        """The one of the same key."""
        found = self.below.ordinal(self.above.key(ordinal))
        return () if found is None else (found,)


class Static(Edge):
    """As it is written out."""

    def __init__(self, sides: Sides, mapping: StaticPartitionMapping) -> None:
        super().__init__(sides)
        pairs = mapping.downstream_partition_keys_by_upstream_partition_key
        _refuse_unknown(sides.above, self.above, pairs)
        _refuse_unknown(sides.below, self.below, chain.from_iterable(pairs.values()))
        wanted: dict[int, list[str]] = {}
        self._down: dict[int, list[int]] = {}
        for key, made in pairs.items():
            above = self.above.ordinal(key)
            below = [number for one in made if (number := self.below.ordinal(one)) is not None]
            for number in below:
                wanted.setdefault(number, []).append(key)
            if above is not None:
                self._down[above] = below
        self._up = {number: self._found(keys) for number, keys in wanted.items()}

    def upstream(self, ordinal: int) -> FoundNumbers:
        """Those that are written down for it."""
        return self._up.get(ordinal, FoundNumbers(()))

    def downstream(self, ordinal: int) -> Sequence[int]:
        """Those that are written down for it."""
        return self._down.get(ordinal, ())


def _refuse_unknown(
    definition: PartitionsDefinition | None, space: PartitionSpace, keys: Iterable[str]
) -> None:
    """Refuse keys that are not listed; those of other definitions may still come."""
    if isinstance(definition, StaticPartitionsDefinition):
        for key in keys:
            if key not in space:
                raise Invalid(
                    f"StaticPartitionMapping names {key!r}, which {definition} does not have",
                    remedy=f"{space.remedy()}; correct the mapping, or the partitions_def",
                )


class Custom(Edge):
    """As code of the user says."""

    def __init__(self, sides: Sides, mapping: PartitionMapping) -> None:
        super().__init__(sides)
        self._mapping = mapping
        self._told = type(mapping).downstream_keys is not PartitionMapping.downstream_keys

    def upstream(self, ordinal: int) -> FoundNumbers:
        """Those that it names."""
        key = self.below.key(ordinal)
        return self._found(self._mapping.upstream_keys(key, self._sides.above, self._sides.below))

    def downstream(self, ordinal: int) -> Sequence[int]:
        """Those that it names, or those for which it names this one."""
        if not self._told:
            return self._turned.get(ordinal, ())
        key = self.above.key(ordinal)
        told = self._mapping.downstream_keys(key, self._sides.above, self._sides.below)
        found = {key: self.below.ordinal(key) for key in told}
        return [number for number in found.values() if number is not None]

    @cached_property
    def _turned(self) -> dict[int, list[int]]:
        """What is made from each: nobody says, so every partition is asked once."""
        found: dict[int, list[int]] = {}
        for below in range(self.below.count):
            for above in self.upstream(below).numbers:
                found.setdefault(above, []).append(below)
        return found
