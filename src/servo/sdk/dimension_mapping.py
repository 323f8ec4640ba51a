"""Mappings where a side has several dimensions: each dimension by itself, and what is left to all.

A pair says how a dimension upstream belongs to one downstream. A combination is made from those
upstream whose every paired dimension fits; a dimension without a pair is taken whole.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from typing import NamedTuple

from servo.core import bitmaps
from servo.errors import Invalid
from servo.sdk.mapping_edges import Edge, Mapped, Sides
from servo.sdk.partition_mapping import (
    MultiPartitionMapping,
    MultiToSingleDimensionPartitionMapping,
    PartitionMapping,
)
from servo.sdk.partition_space import PartitionSpace, ProductSpace
from servo.sdk.partitions_definition import (
    SEPARATOR,
    MultiPartitionKey,
    MultiPartitionsDefinition,
    PartitionsDefinition,
)
from servo.sdk.time_partitions import TimeWindowPartitionsDefinition

ALONE = "partition"
"""The name of the only dimension."""


class Pair(NamedTuple):
    """A dimension upstream, the one downstream that it belongs to, and how."""

    above: str
    below: str
    mapping: PartitionMapping | None


def dimensions_of(definition: PartitionsDefinition) -> dict[str, PartitionsDefinition]:
    """The dimensions of a definition; one that has none is its own only one."""
    if isinstance(definition, MultiPartitionsDefinition):
        return definition.partitions_defs
    return {ALONE: definition}


def pairs_of(
    above: PartitionsDefinition, below: PartitionsDefinition, mapping: PartitionMapping
) -> list[Pair]:
    """Which dimensions belong together by a mapping between these."""
    if isinstance(mapping, MultiPartitionMapping):
        return _named_pairs(above, below, mapping)
    assert isinstance(mapping, MultiToSingleDimensionPartitionMapping)  # noqa: S101 - the only other
    if isinstance(above, MultiPartitionsDefinition) == isinstance(below, MultiPartitionsDefinition):
        raise Invalid(
            f"MultiToSingleDimensionPartitionMapping is between {above!r} and {below!r}",
            remedy="use it where one of the two has several dimensions, and one has not",
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
                f"MultiPartitionMapping is between {above!r} and {below!r}",
                remedy="use it between partitions in several dimensions",
            )
    found: list[Pair] = []
    for name, mapped in mapping.downstream_mappings_by_upstream_dimension.items():
        for wanted, side in ((name, above), (mapped.dimension_name, below)):
            if wanted not in dimensions_of(side):
                raise Invalid(
                    f"MultiPartitionMapping names the dimension {wanted!r} of {side!r}",
                    remedy=f"there is {', '.join(dimensions_of(side))}",
                )
        found.append(Pair(name, mapped.dimension_name, mapped.partition_mapping))
    return found


def _the_one(above: PartitionsDefinition, below: PartitionsDefinition, named: str | None) -> str:
    """The dimension that the side with one dimension belongs to."""
    several, single = (
        (above, below) if isinstance(above, MultiPartitionsDefinition) else (below, above)
    )
    dimensions = dimensions_of(several)
    if named is not None:
        if named not in dimensions:
            raise Invalid(
                f"the partition mapping names the dimension {named!r} of {several!r}",
                remedy=f"there is {', '.join(dimensions)}",
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
        f"{single!r} is like {len(equal) or 'none'} of the dimensions of {several!r}",
        remedy="name one: MultiToSingleDimensionPartitionMapping(partition_dimension_name=…)",
    )


class Grid:
    """One side of a mapping between dimensions: its keys as numbers by dimension."""

    def __init__(self, space: PartitionSpace) -> None:
        self.space = space
        product_ = space if isinstance(space, ProductSpace) else None
        self.parts: Mapping[str, PartitionSpace] = product_.parts if product_ else {ALONE: space}
        self._product = product_

    def parts_of(self, key: str) -> dict[str, str]:
        """The part of a key in each dimension."""
        if self._product is None:
            return {ALONE: key}
        ordinal = self._product.number(key)
        return {name: self.parts[name].key(d) for name, d in self._product.digits(ordinal)}

    def digits(self, ordinal: int) -> dict[str, int]:
        """The number of a partition in each dimension."""
        return {ALONE: ordinal} if self._product is None else dict(self._product.digits(ordinal))

    def key(self, parts: Mapping[str, str]) -> str:
        """The key with these parts."""
        return parts[ALONE] if self._product is None else MultiPartitionKey(parts)

    def shown(self, name: str, part: str) -> str:
        """All keys with one part, for people."""
        if self._product is None:
            return part
        return SEPARATOR.join(part if one == name else "*" for one in self.parts)

    def keys_with(self, chosen: Mapping[str, int]) -> list[str]:
        """Every key whose part in each dimension is in its set; any part where there is no set."""
        lists = [list(space.keys_of(chosen.get(n, space.everything))) for n, space in self.items()]
        names = list(self.parts)
        return [self.key(dict(zip(names, one, strict=True))) for one in product(*lists)]

    def numbers_with(self, chosen: Mapping[str, int]) -> Iterable[int]:
        """The numbers of `keys_with`, as a set."""
        if self._product is None:
            return bitmaps.numbers(chosen.get(ALONE, self.space.everything))
        weights = self._product.weights
        totals = [0]
        for name, space in self.items():
            digits = list(bitmaps.numbers(chosen.get(name, space.everything)))
            totals = [total + digit * weights[name] for total in totals for digit in digits]
        return totals

    def items(self) -> Iterable[tuple[str, PartitionSpace]]:
        """The dimensions and their partitions."""
        return self.parts.items()


def reached(
    bits: int, source: Grid, target: Grid, step: Callable[[Mapping[str, int]], Mapping[str, int]]
) -> int:
    """What a set reaches, where `step` maps the digits of one combination to sets of digits."""
    found: set[int] = set()
    seen: set[tuple[tuple[str, int], ...]] = set()
    for ordinal in bitmaps.numbers(bits):
        chosen = step(source.digits(ordinal))
        mark = tuple(chosen.items())
        if mark not in seen:
            seen.add(mark)
            found.update(target.numbers_with(chosen))
    return bitmaps.bitmap(found)


class Dimensions(Edge):
    """Combinations of dimensions, of which some belong together and the others to all."""

    def __init__(self, sides: Sides, pairs: Sequence[tuple[Pair, Edge]]) -> None:
        super().__init__(sides)
        self.grids = Grid(self.above), Grid(self.below)
        self.pairs = pairs

    def upstream_of(self, key: str) -> Mapped:
        """The upstream partitions that a partition is made from."""
        up, down = self.grids
        parts = down.parts_of(key)
        missing: list[str] = []
        for pair, edge in self.pairs:
            told = edge.upstream_of(parts[pair.below]).missing
            missing += [up.shown(pair.above, one) for one in told]
        digits = {name: down.parts[name].number(part) for name, part in parts.items()}
        return Mapped(up.keys_with(self._up(digits)), missing)

    def downstream_of(self, key: str) -> list[str]:
        """The partitions that are made from an upstream one."""
        up, down = self.grids
        digits = {name: up.parts[name].number(p) for name, p in up.parts_of(key).items()}
        return down.keys_with(self._down(digits))

    def _up(self, digits: Mapping[str, int]) -> dict[str, int]:
        found: dict[str, int] = {}
        for pair, edge in self.pairs:
            found[pair.above] = edge.upstream_bits(1 << digits[pair.below])
        return found

    def _down(self, digits: Mapping[str, int]) -> dict[str, int]:
        found: dict[str, int] = {}
        for pair, edge in self.pairs:
            reached_ = edge.downstream_bits(1 << digits[pair.above])
            found[pair.below] = found.get(pair.below, reached_) & reached_
        return found

    def upstream_bits(self, bits: int) -> int:
        """The upstream partitions that any of these are made from."""
        return reached(bits, self.grids[1], self.grids[0], self._up)

    def downstream_bits(self, bits: int) -> int:
        """The partitions that are made from any of these."""
        return reached(bits, self.grids[0], self.grids[1], self._down)
