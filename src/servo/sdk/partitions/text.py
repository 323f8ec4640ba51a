"""Partitions definitions as strings (`servo.sdk.partitions.kind_text`).

Readers of a workspace use them to count, list and map partitions.
"""

from datetime import UTC, datetime
from typing import Any

from servo.sdk.partitions.definition import (
    DynamicPartitionsDefinition,
    MultiPartitionsDefinition,
    PartitionsDefinition,
    StaticPartitionsDefinition,
)
from servo.sdk.partitions.kind_text import KindFields, Kinds, custom, kind_text
from servo.sdk.partitions.time_partitions import TimeWindowPartitionsDefinition


def partitions_text(definition: PartitionsDefinition | None) -> str:
    """The string form of a definition; empty for None."""
    return "" if definition is None else kind_text(_plain(definition))


def partitions_from_text(text: str) -> PartitionsDefinition | None:
    """The definition of a string; None if it is empty, `Invalid` if it is custom."""
    return _KINDS.read(text) if text else None


def _plain(definition: PartitionsDefinition) -> dict[str, Any]:
    match definition:
        case StaticPartitionsDefinition():
            return {"kind": "static", "partition_keys": definition.get_partition_keys()}
        case DynamicPartitionsDefinition():
            return {"kind": "dynamic", "name": definition.name}
        case MultiPartitionsDefinition():
            parts = {name: _plain(part) for name, part in definition.partitions_defs.items()}
            return {"kind": "multi", "dimensions": parts}
        case TimeWindowPartitionsDefinition():
            return {"kind": "time_window", **_windows(definition)}
        case _:
            return custom(definition)


def _windows(definition: TimeWindowPartitionsDefinition) -> dict[str, Any]:
    told: dict[str, Any] = {
        "start": _instant(definition.start),
        "cron_schedule": definition.cron_schedule,
        "timezone": definition.timezone,
        "fmt": definition.fmt,
    }
    if definition.end is not None:
        told["end"] = _instant(definition.end)
    if definition.end_offset:
        told["end_offset"] = definition.end_offset
    if definition.exclusions:
        told["exclusions"] = [
            {"cron": one} if isinstance(one, str) else {"at": _instant(one)}
            for one in definition.exclusions
        ]
    return told


def _instant(value: datetime) -> str:
    return value.astimezone(UTC).isoformat()


def _windows_of(told: KindFields) -> PartitionsDefinition:
    end = told.get("end")
    return TimeWindowPartitionsDefinition(
        start=datetime.fromisoformat(told["start"]),
        fmt=told["fmt"],
        end=None if end is None else datetime.fromisoformat(end),
        timezone=told["timezone"],
        end_offset=told.get("end_offset", 0),
        cron_schedule=told["cron_schedule"],
        exclusions=[
            one["cron"] if "cron" in one else datetime.fromisoformat(one["at"])
            for one in told.get("exclusions", ())
        ],
    )


def _several(told: KindFields) -> PartitionsDefinition:
    return MultiPartitionsDefinition({n: _KINDS.made(p) for n, p in told["dimensions"].items()})


_KINDS = Kinds[PartitionsDefinition](
    "partitions",
    {
        "static": lambda told: StaticPartitionsDefinition(told["partition_keys"]),
        "dynamic": lambda told: DynamicPartitionsDefinition(name=told["name"]),
        "multi": _several,
        "time_window": _windows_of,
    },
    instead="run this where that code is available, or use time, static or dynamic partitions",
)
