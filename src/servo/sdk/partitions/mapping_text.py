"""Partition mappings other than the default ones, as strings (`servo.sdk.partitions.kind_text`)."""

from typing import Any, assert_never

import msgspec

from servo.sdk.partitions.kind_text import KindFields, Kinds, custom, kind_text
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


def mapping_text(mapping: PartitionMapping) -> str:
    """The string form of a mapping."""
    return kind_text(_plain(mapping))


def mapping_from_text(text: str) -> PartitionMapping:
    """The mapping of a string; `Invalid` if it is custom."""
    return _KINDS.read(text)


def _plain(mapping: PartitionMapping) -> dict[str, Any]:
    found = built_in(mapping)
    match found:
        case None:
            return custom(mapping)
        case MultiPartitionMapping() | MultiToSingleDimensionPartitionMapping():
            return _several_dimensions(found)
        case IdentityPartitionMapping() | AllPartitionMapping() | LastPartitionMapping():
            return {"kind": _simple(found)}
        case SpecificPartitionsPartitionMapping():
            return {"kind": "specific", "partition_keys": list(found.partition_keys)}
        case TimeWindowPartitionMapping():
            told = msgspec.structs.asdict(found)
            return {"kind": "time_window", **{name: value for name, value in told.items() if value}}
        case StaticPartitionMapping():
            pairs = found.downstream_partition_keys_by_upstream_partition_key
            return {"kind": "static", "downstream": {up: list(down) for up, down in pairs.items()}}
        case _:
            assert_never(found)


def _simple(mapping: PartitionMapping) -> str:
    return next(name for name, kind in _SIMPLE.items() if isinstance(mapping, kind))


def _several_dimensions(
    mapping: MultiPartitionMapping | MultiToSingleDimensionPartitionMapping,
) -> dict[str, Any]:
    match mapping:
        case MultiPartitionMapping():
            return {"kind": "multi", "dimensions": _dimensions(mapping)}
        case MultiToSingleDimensionPartitionMapping():
            return {"kind": "multi_to_single", "dimension": mapping.partition_dimension_name}
        case _:
            assert_never(mapping)


def _dimensions(mapping: MultiPartitionMapping) -> dict[str, Any]:
    return {
        name: {"dimension": one.dimension_name, "mapping": _plain(one.partition_mapping)}
        for name, one in mapping.downstream_mappings_by_upstream_dimension.items()
    }


def _several(told: KindFields) -> PartitionMapping:
    return MultiPartitionMapping(
        {
            name: DimensionPartitionMapping(one["dimension"], _KINDS.made(one["mapping"]))
            for name, one in told["dimensions"].items()
        }
    )


def _windows(told: KindFields) -> PartitionMapping:
    options = {name: value for name, value in told.items() if name != "kind"}
    return TimeWindowPartitionMapping(**options)


_SIMPLE: dict[str, type[PartitionMapping]] = {
    "identity": IdentityPartitionMapping,
    "all": AllPartitionMapping,
    "last": LastPartitionMapping,
}
_KINDS = Kinds[PartitionMapping](
    "partition mappings",
    {
        **{name: lambda _, kind=kind: kind() for name, kind in _SIMPLE.items()},
        "specific": lambda told: SpecificPartitionsPartitionMapping(told["partition_keys"]),
        "time_window": _windows,
        "static": lambda told: StaticPartitionMapping(told["downstream"]),
        "multi": _several,
        "multi_to_single": lambda told: MultiToSingleDimensionPartitionMapping(told["dimension"]),
    },
    instead="run this where that code is available",
)
