"""Partition mappings between two assets, resolved: the interface, and most kinds.

Keys are mapped one at a time for display and for irregular mappings. Sets of partitions are mapped
at once as bitmaps, and regular mappings as ranges (`Edge.constant`, `Edge.shift`, `Edge.steps`), so
that nothing regular costs a step for each partition.
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
"""The only key of an unpartitioned asset."""

UNDIVIDED = ListSpace(KeyListing.of([WHOLE]), None)


class Mapped(NamedTuple):
    """The partitions that another maps to, and those of them that do not exist."""

    keys: list[str]
    missing: list[str]


class FoundNumbers(NamedTuple):
    """The same, with the numbers of those that exist."""

    numbers: Sequence[int]
    missing: Sequence[str] = ()


class Moment(NamedTuple):
    """The current time, and the store of the dynamic partitions."""

    now: datetime | None = None
    store: Any = None

    def fixed(self) -> "Moment":
        """The same with a fixed time: the current one, if none was given."""
        return self._replace(now=present(None)) if self.now is None and is_told() else self

    def space(self, definition: PartitionsDefinition | None) -> PartitionSpace:
        """The partitions of a definition at this time."""
        return UNDIVIDED if definition is None else definition.space(self.now, self.store)


class Sides(NamedTuple):
    """The two sides of a mapping."""

    above: PartitionsDefinition | None
    below: PartitionsDefinition | None
    moment: Moment


class Stride(NamedTuple):
    """A number of consecutive partitions, and the upstream range that each depends on."""

    length: int
    start: int
    stop: int


class Edge(ABC):
    """How the partitions of two assets depend on each other at one time."""

    constant = False
    """Whether every partition depends on the same upstream partitions."""

    shift: tuple[int, int] | None = None
    """The constant offset of the upstream numbers from a partition's own number, if there is one.
    """

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
        """The upstream partitions of a partition, by number."""

    @abstractmethod
    def downstream(self, ordinal: int) -> Sequence[int]:
        """The downstream partitions of an upstream partition, by number."""

    def steps(self) -> Sequence[Stride] | None:
        """The upstream ranges of all partitions, in order; None if they need not be ranges.

        From one step to the next, neither end of the range decreases, unless the range is empty.
        """
        return None

    def upstream_bits(self, bits: int) -> int:
        """The upstream partitions of any of these."""
        found = (self.upstream(own).numbers for own in bitmaps.numbers(bits))
        return bitmaps.bitmap(set(chain.from_iterable(found)))

    def downstream_bits(self, bits: int) -> int:
        """The downstream partitions of any of these."""
        found = (self.downstream(number) for number in bitmaps.numbers(bits))
        return bitmaps.bitmap(set(chain.from_iterable(found)))

    # --- by key ---------------------------------------------------------------------------------

    def upstream_of(self, key: str) -> Mapped:
        """The upstream partitions of a partition."""
        found = self.upstream(self.below.number(key))
        return Mapped(list(map(self.above.key, found.numbers)), list(found.missing))

    def downstream_of(self, key: str) -> list[str]:
        """The downstream partitions of an upstream one; empty if it does not exist."""
        number = self.above.ordinal(key)
        return [] if number is None else list(map(self.below.key, self.downstream(number)))

    def _found(self, keys: Iterable[str]) -> FoundNumbers:
        """The upstream keys that exist, and those that do not."""
        numbers = {key: self.above.ordinal(key) for key in keys}
        there = [number for number in numbers.values() if number is not None]
        return FoundNumbers(there, [key for key, number in numbers.items() if number is None])


class _Always(Edge):
    """Every partition depends on the same upstream partitions."""

    constant = True

    def __init__(self, sides: Sides) -> None:
        super().__init__(sides)
        self._always = self._chosen()
        self._bits = bitmaps.bitmap(self._always.numbers)

    @abstractmethod
    def _chosen(self) -> FoundNumbers:
        """The upstream partitions that every partition depends on."""

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
    """Every partition depends on the last upstream partition."""

    def _chosen(self) -> FoundNumbers:
        count = self.above.count
        return FoundNumbers(range(max(count - 1, 0), count))


class Specific(_Always):
    """Every partition depends on the listed ones."""

    def __init__(self, sides: Sides, mapping: SpecificPartitionsPartitionMapping) -> None:
        self._keys = mapping.partition_keys
        super().__init__(sides)

    def _chosen(self) -> FoundNumbers:
        return self._found(self._keys)


class EveryPartition(Edge):
    """Every partition depends on all upstream partitions."""

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
    """The same key of another definition, if it exists there."""

    def upstream(self, ordinal: int) -> FoundNumbers:
        """The one of the same key."""
        return self._found((self.below.key(ordinal),))

    def downstream(self, ordinal: int) -> Sequence[int]:
        """The one of the same key."""
        found = self.below.ordinal(self.above.key(ordinal))
        return () if found is None else (found,)


class Static(Edge):
    """An explicit mapping of keys."""

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
    """Reject keys of a static definition that it does not list; others may be added later."""
    if isinstance(definition, StaticPartitionsDefinition):
        for key in keys:
            if key not in space:
                raise Invalid(
                    f"StaticPartitionMapping names {key!r}, which {definition} does not have",
                    remedy=f"{space.remedy()}; correct the mapping, or the partitions_def",
                )


class Custom(Edge):
    """A mapping defined by user code."""

    def __init__(self, sides: Sides, mapping: PartitionMapping) -> None:
        super().__init__(sides)
        self._mapping = mapping
        self._told = type(mapping).downstream_keys is not PartitionMapping.downstream_keys

    def upstream(self, ordinal: int) -> FoundNumbers:
        """The partitions that `upstream_keys` returns."""
        key = self.below.key(ordinal)
        return self._found(self._mapping.upstream_keys(key, self._sides.above, self._sides.below))

    def downstream(self, ordinal: int) -> Sequence[int]:
        """What `downstream_keys` returns, or the partitions whose `upstream_keys` include this."""
        if not self._told:
            return self._turned.get(ordinal, ())
        key = self.above.key(ordinal)
        told = self._mapping.downstream_keys(key, self._sides.above, self._sides.below)
        found = {key: self.below.ordinal(key) for key in told}
        return [number for number in found.values() if number is not None]

    @cached_property
    def _turned(self) -> dict[int, list[int]]:
        """The downstream partitions of each upstream one, from `upstream_keys` of all."""
        found: dict[int, list[int]] = {}
        for below in range(self.below.count):
            for above in self.upstream(below).numbers:
                found.setdefault(above, []).append(below)
        return found
