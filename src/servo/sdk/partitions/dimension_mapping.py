"""Mappings where a side has several dimensions: each pair of dimensions is mapped separately.

A pair maps an upstream dimension to a downstream one. A combination depends on the upstream
combinations that match in every pair; a dimension without a pair matches all of its keys.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from servo.core import bitmaps
from servo.errors import Invalid
from servo.sdk.partitions.definition import (
    SEPARATOR,
    MultiPartitionsDefinition,
    PartitionsDefinition,
)
from servo.sdk.partitions.mapping import (
    MultiPartitionMapping,
    MultiToSingleDimensionPartitionMapping,
    PartitionMapping,
)
from servo.sdk.partitions.mapping_edges import Edge, FoundNumbers, Sides
from servo.sdk.partitions.space import PartitionSpace, ProductSpace
from servo.sdk.partitions.time_partitions import TimeWindowPartitionsDefinition

ALONE = "partition"
"""The name of a single dimension."""


DimensionsMapping = MultiPartitionMapping | MultiToSingleDimensionPartitionMapping
"""The mappings of partitions in several dimensions."""


class Pair(NamedTuple):
    """An upstream dimension, its downstream dimension, and the mapping between them."""

    above: str
    below: str
    mapping: PartitionMapping | None


def dimensions_of(definition: PartitionsDefinition) -> dict[str, PartitionsDefinition]:
    """The dimensions of a definition; a definition without any is its own single dimension."""
    if isinstance(definition, MultiPartitionsDefinition):
        return definition.partitions_defs
    return {ALONE: definition}


def pairs_of(
    above: PartitionsDefinition, below: PartitionsDefinition, mapping: DimensionsMapping
) -> list[Pair]:
    """The pairs of dimensions that a mapping connects."""
    if isinstance(mapping, MultiPartitionMapping):
        return _named_pairs(above, below, mapping)
    if isinstance(above, MultiPartitionsDefinition) == isinstance(below, MultiPartitionsDefinition):
        raise Invalid(
            f"MultiToSingleDimensionPartitionMapping cannot map {above} to {below}",
            remedy="use it where exactly one side has several dimensions",
        )
    name = _the_one(above, below, mapping.partition_dimension_name)
    single = isinstance(below, MultiPartitionsDefinition)
    return [Pair(ALONE, name, None) if single else Pair(name, ALONE, None)]


def _named_pairs(
    above: PartitionsDefinition, below: PartitionsDefinition, mapping: MultiPartitionMapping
) -> list[Pair]:
    for one in (above, below):
        if not isinstance(one, MultiPartitionsDefinition):
            raise Invalid(
                f"MultiPartitionMapping cannot map {above} to {below}",
                remedy="use it where both sides have several dimensions",
            )
    found: list[Pair] = []
    for name, mapped in mapping.downstream_mappings_by_upstream_dimension.items():
        for wanted, side in ((name, above), (mapped.dimension_name, below)):
            if wanted not in dimensions_of(side):
                raise Invalid(
                    f"MultiPartitionMapping names the dimension {wanted!r}, which {side} does "
                    "not have",
                    remedy=f"available: {', '.join(dimensions_of(side))}",
                )
        found.append(Pair(name, mapped.dimension_name, mapped.partition_mapping))
    return found


def _the_one(above: PartitionsDefinition, below: PartitionsDefinition, named: str | None) -> str:
    """The dimension that matches the side with a single dimension."""
    several, single = (
        (above, below) if isinstance(above, MultiPartitionsDefinition) else (below, above)
    )
    dimensions = dimensions_of(several)
    if named is not None:
        if named not in dimensions:
            raise Invalid(
                f"the partition mapping names the dimension {named!r}, which {several} "
                "does not have",
                remedy=f"available: {', '.join(dimensions)}",
            )
        return named
    equal = [name for name, one in dimensions.items() if one == single]
    timed = isinstance(single, TimeWindowPartitionsDefinition)
    alike = [
        name
        for name, one in dimensions.items()
        if timed and isinstance(one, TimeWindowPartitionsDefinition)
    ]
    for found in (equal, alike):
        if len(found) == 1:
            return found[0]
    raise Invalid(
        f"{len(equal) or 'none'} of the dimensions of {several} are partitioned like {single}",
        remedy="name the dimension: "
        "MultiToSingleDimensionPartitionMapping(partition_dimension_name=…)",
    )


class Grid:
    """One side of a mapping between dimensions: its partitions as numbers by dimension."""

    def __init__(self, space: PartitionSpace) -> None:
        self.space = space
        self._product = space if isinstance(space, ProductSpace) else None
        self.parts: Mapping[str, PartitionSpace] = (
            {ALONE: space} if self._product is None else self._product.parts
        )

    def digits(self, ordinal: int) -> dict[str, int]:
        """The number of a partition in each dimension."""
        return {ALONE: ordinal} if self._product is None else dict(self._product.digits(ordinal))

    def shown(self, name: str, part: str) -> str:
        """All keys with one part, for messages."""
        if self._product is None:
            return part
        return SEPARATOR.join(part if one == name else "*" for one in self.parts)

    def numbers_with(self, chosen: Mapping[str, Sequence[int]]) -> Sequence[int]:
        """Every partition whose number in each dimension is in its list, if there is one."""
        if self._product is None:
            return chosen.get(ALONE, range(self.space.count))
        totals = [0]
        for name, weight in self._product.weights_in_order():
            digits = chosen.get(name, range(self.parts[name].count))
            totals = [total + digit * weight for total in totals for digit in digits]
        return totals


class Dimensions(Edge):
    """A mapping between combinations: paired dimensions must match, others match all."""

    def __init__(self, sides: Sides, pairs: Sequence[tuple[Pair, Edge]]) -> None:
        super().__init__(sides)
        self.grids = Grid(self.above), Grid(self.below)
        self.pairs = pairs

    def upstream(self, ordinal: int) -> FoundNumbers:
        """Every matching upstream combination, and the parts that do not exist."""
        up, down = self.grids
        digits = down.digits(ordinal)
        chosen: dict[str, Sequence[int]] = {}
        missing: list[str] = []
        for pair, edge in self.pairs:
            found = edge.upstream(digits[pair.below])
            chosen[pair.above] = found.numbers
            missing += [up.shown(pair.above, one) for one in found.missing]
        return FoundNumbers(up.numbers_with(chosen), missing)

    def downstream(self, ordinal: int) -> Sequence[int]:
        """Every matching downstream combination."""
        up, down = self.grids
        digits = up.digits(ordinal)
        chosen: dict[str, Sequence[int]] = {}
        for pair, edge in self.pairs:
            found = edge.downstream(digits[pair.above])
            if pair.below in chosen:
                found = sorted(set(found).intersection(chosen[pair.below]))
            chosen[pair.below] = found
        return down.numbers_with(chosen)

    def upstream_bits(self, bits: int) -> int:
        """The upstream partitions of any of these."""
        used = [pair.below for pair, _ in self.pairs]
        return _reached(bits, self.grids[1], used, lambda own: self.upstream(own).numbers)

    def downstream_bits(self, bits: int) -> int:
        """The downstream partitions of any of these."""
        used = [pair.above for pair, _ in self.pairs]
        return _reached(bits, self.grids[0], used, self.downstream)


def _reached(
    bits: int, source: Grid, used: Sequence[str], step: Callable[[int], Sequence[int]]
) -> int:
    """The partitions that a set maps to; combinations equal in the used dimensions share theirs."""
    found: set[int] = set()
    seen: set[tuple[int, ...]] = set()
    for ordinal in bitmaps.numbers(bits):
        digits = source.digits(ordinal)
        mark = tuple([digits[name] for name in used])
        if mark not in seen:
            seen.add(mark)
            found.update(step(ordinal))
    return bitmaps.bitmap(found)
