"""Which partitions depend on each other across a dependency, in both directions.

    edge = edge_between(days, weeks, mapping, Moment(now, store))
    edge.upstream_of("2024-01-07").keys      # what a partition depends on
    edge.downstream_of("2024-01-03")         # what depends on a partition
    edge.downstream_bits(bits)               # the same for whole sets, by number

`d` is in `downstream_of(u)` exactly if `u` is in `upstream_of(d)`. An asset without partitions has
one key, `WHOLE`. Keys that a mapping returns but that do not exist are reported separately
(`Mapped.missing`): they are usually a mistake, which the planner reports.
"""

from collections.abc import Mapping
from typing import Any, assert_never

from servo.errors import Invalid
from servo.sdk.partitions.definition import MultiPartitionsDefinition, PartitionsDefinition
from servo.sdk.partitions.dimension_mapping import (
    Dimensions,
    DimensionsMapping,
    dimensions_of,
    pairs_of,
)
from servo.sdk.partitions.mapping import (
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
    built_in,
)
from servo.sdk.partitions.mapping_edges import (
    UNDIVIDED,
    WHOLE,
    Alike,
    Custom,
    Edge,
    EveryPartition,
    Last,
    Mapped,
    Moment,
    SameKey,
    Sides,
    Specific,
    Static,
)
from servo.sdk.partitions.time_partitions import TimeWindowPartitionsDefinition
from servo.sdk.partitions.window_edges import Windows

__all__ = [
    "UNDIVIDED",
    "WHOLE",
    "Edge",
    "EveryPartition",
    "Mapped",
    "Moment",
    "SameKey",
    "edge_between",
    "usual_mapping",
]

BetweenPartitions = (
    IdentityPartitionMapping
    | StaticPartitionMapping
    | TimeWindowPartitionMapping
    | DimensionsMapping
)
"""The mappings that need partitions on both sides."""


def edge_between(
    above: PartitionsDefinition | None,
    below: PartitionsDefinition | None,
    mapping: PartitionMapping | None = None,
    moment: Moment | None = None,
) -> Edge:
    """The edge between two assets; without a mapping, the default of their definitions."""
    sides = Sides(above, below, (moment or Moment()).fixed())
    return _edge(sides, mapping or usual_mapping(above, below))


def usual_mapping(
    above: PartitionsDefinition | None, below: PartitionsDefinition | None
) -> PartitionMapping:
    """The default mapping between two definitions."""
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
    """Map dimensions of the same name to each other, and the others to all."""
    return MultiPartitionMapping(
        {
            name: DimensionPartitionMapping(name, usual_mapping(above[name], below[name]))
            for name in above
            if name in below
        }
    )


def _edge(sides: Sides, mapping: PartitionMapping) -> Edge:
    if sides.above is None:
        return EveryPartition(sides)
    found = built_in(mapping)
    match found:
        case None:
            return Custom(sides, mapping)
        case AllPartitionMapping():
            return EveryPartition(sides)
        case LastPartitionMapping():
            return Last(sides)
        case SpecificPartitionsPartitionMapping():
            return Specific(sides, found)
        case _:
            return _between_partitions(sides, sides.above, found)


def _between_partitions(
    sides: Sides, above: PartitionsDefinition, mapping: BetweenPartitions
) -> Edge:
    """The edge of a mapping that needs partitions on both sides."""
    below = sides.below
    if below is None:
        raise Invalid(
            f"{type(mapping).__name__} maps to an asset without partitions",
            remedy="use AllPartitionMapping, LastPartitionMapping or "
            "SpecificPartitionsPartitionMapping there",
        )
    match mapping:
        case IdentityPartitionMapping():
            return SameKey(sides) if above == below else Alike(sides)
        case StaticPartitionMapping():
            return Static(sides, mapping)
        case TimeWindowPartitionMapping(start_offset=0, end_offset=0) if above == below:
            return SameKey(sides)
        case TimeWindowPartitionMapping():
            return Windows(sides, mapping)
        case MultiPartitionMapping() | MultiToSingleDimensionPartitionMapping():
            return _dimensions(sides, above, below, mapping)
        case _:
            assert_never(mapping)


def _dimensions(
    sides: Sides,
    above: PartitionsDefinition,
    below: PartitionsDefinition,
    mapping: DimensionsMapping,
) -> Edge:
    """The edge between dimensions, with each pair mapped separately."""
    up, down = dimensions_of(above), dimensions_of(below)
    pairs = [
        (pair, edge_between(up[pair.above], down[pair.below], pair.mapping, sides.moment))
        for pair in pairs_of(above, below, mapping)
    ]
    return Dimensions(sides, pairs)
