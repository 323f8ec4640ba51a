"""A definition of partitions as text, from which it is made again without the code it is from.

    {"kind":"static","partition_keys":["eu","us"]}

Deployments tell the workspace in this form how an asset is divided, so that whoever reads the
workspace can count, list and map partitions. A kind that only code knows is `custom`.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from servo.core.canonical import canonical_str
from servo.errors import Invalid
from servo.sdk.partitions_definition import (
    DynamicPartitionsDefinition,
    MultiPartitionsDefinition,
    PartitionsDefinition,
    StaticPartitionsDefinition,
)
from servo.sdk.time_partitions import TimeWindowPartitionsDefinition

CUSTOM = "custom"


def partitions_text(definition: PartitionsDefinition | None) -> str:
    """The text of a definition; empty for none."""
    return "" if definition is None else canonical_str(_plain(definition))


def partitions_from_text(text: str) -> PartitionsDefinition | None:
    """The definition whose text this is; None if there is none, `Invalid` if only code knows it."""
    if not text:
        return None
    try:
        return _made(msgspec.json.decode(text))
    except (msgspec.MsgspecError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise Invalid(
            f"{text[:80]!r} describes no partitions: {error}",
            remedy="deploy the code that defines the asset again",
        ) from None


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
            return {"kind": CUSTOM, "name": type(definition).__name__}


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


def _made(told: Mapping[str, Any]) -> PartitionsDefinition:
    kind = told["kind"]
    if kind not in _KINDS:
        raise Invalid(
            f"partitions of the kind {kind!r} ({told.get('name', 'unknown')}) are only known to "
            "the code that defines them",
            remedy="run this where that code is, or divide the asset by time, a list, or names",
        )
    return _KINDS[kind](told)


def _windows_of(told: Mapping[str, Any]) -> PartitionsDefinition:
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


def _several(told: Mapping[str, Any]) -> PartitionsDefinition:
    return MultiPartitionsDefinition({n: _made(p) for n, p in told["dimensions"].items()})


_KINDS: dict[str, Callable[[Mapping[str, Any]], PartitionsDefinition]] = {
    "static": lambda told: StaticPartitionsDefinition(told["partition_keys"]),
    "dynamic": lambda told: DynamicPartitionsDefinition(name=told["name"]),
    "multi": _several,
    "time_window": _windows_of,
}
