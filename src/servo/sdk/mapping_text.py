"""Partition mappings as text, from which they are made again without the code they are from.

    {"kind":"time_window","start_offset":-1}

Deployments tell the workspace in this form how the partitions of two assets belong together, where
it is not the usual way. A mapping that only code knows is `custom`.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from servo.core.canonical import canonical_str
from servo.errors import Invalid
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
from servo.sdk.partitions_text import CUSTOM


def mapping_text(mapping: PartitionMapping) -> str:
    """The text of a mapping."""
    return canonical_str(_plain(mapping))


def mapping_from_text(text: str) -> PartitionMapping:
    """The mapping whose text this is; `Invalid` if only code knows it."""
    try:
        return _made(msgspec.json.decode(text))
    except (msgspec.MsgspecError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise Invalid(
            f"{text[:80]!r} describes no partition mapping: {error}",
            remedy="deploy the code that defines the asset again",
        ) from None


def _plain(mapping: PartitionMapping) -> dict[str, Any]:
    match mapping:
        case SpecificPartitionsPartitionMapping():
            return {"kind": "specific", "partition_keys": list(mapping.partition_keys)}
        case TimeWindowPartitionMapping():
            told = msgspec.structs.asdict(mapping)
            return {"kind": "time_window", **{name: value for name, value in told.items() if value}}
        case StaticPartitionMapping():
            pairs = mapping.downstream_partition_keys_by_upstream_partition_key
            return {"kind": "static", "downstream": {up: list(down) for up, down in pairs.items()}}
        case MultiPartitionMapping():
            return {"kind": "multi", "dimensions": _dimensions(mapping)}
        case MultiToSingleDimensionPartitionMapping():
            return {"kind": "multi_to_single", "dimension": mapping.partition_dimension_name}
        case _:
            simple = {kind: name for name, kind in _SIMPLE.items()}.get(type(mapping))
            return {"kind": simple} if simple else {"kind": CUSTOM, "name": type(mapping).__name__}


def _dimensions(mapping: MultiPartitionMapping) -> dict[str, Any]:
    return {
        name: {"dimension": one.dimension_name, "mapping": _plain(one.partition_mapping)}
        for name, one in mapping.downstream_mappings_by_upstream_dimension.items()
    }


def _made(told: Mapping[str, Any]) -> PartitionMapping:
    kind = told["kind"]
    if kind in _SIMPLE:
        return _SIMPLE[kind]()
    if kind not in _KINDS:
        raise Invalid(
            f"a mapping of the kind {kind!r} ({told.get('name', 'unknown')}) is only known to the "
            "code that defines it",
            remedy="run this where that code is",
        )
    return _KINDS[kind](told)


def _several(told: Mapping[str, Any]) -> PartitionMapping:
    return MultiPartitionMapping(
        {
            name: DimensionPartitionMapping(one["dimension"], _made(one["mapping"]))
            for name, one in told["dimensions"].items()
        }
    )


def _windows(told: Mapping[str, Any]) -> PartitionMapping:
    options = {name: value for name, value in told.items() if name != "kind"}
    return TimeWindowPartitionMapping(**options)


_SIMPLE: dict[str, type[PartitionMapping]] = {
    "identity": IdentityPartitionMapping,
    "all": AllPartitionMapping,
    "last": LastPartitionMapping,
}
_KINDS: dict[str, Callable[[Mapping[str, Any]], PartitionMapping]] = {
    "specific": lambda told: SpecificPartitionsPartitionMapping(told["partition_keys"]),
    "time_window": _windows,
    "static": lambda told: StaticPartitionMapping(told["downstream"]),
    "multi": _several,
    "multi_to_single": lambda told: MultiToSingleDimensionPartitionMapping(told["dimension"]),
}
