"""`servo partitions`: what there is of an asset's partitions, and sets of dynamic ones."""

from collections.abc import Sequence

import click
import msgspec

from servo.cli.completing import asset_keys
from servo.cli.options import json_option
from servo.cli.output import console, emit_json, number, plural
from servo.cli.tables import facts, grid
from servo.cli.workspace import Target, Where, at_a_workspace, of_a_workspace
from servo.core import bitmaps
from servo.core.partitions import shown_partition
from servo.errors import NotFound
from servo.projection.partitions.report import PartitionReader, PartitionReport
from servo.projection.read.reader import Reader
from servo.sdk.partitions.status import DisplayStatus, StaleReason, counts
from servo.workspace.instance.instance import ServoInstance

SHOWN = 40
STALE = "stale"

_key = click.argument("asset", shell_complete=asset_keys)


class Stretch(msgspec.Struct, frozen=True, kw_only=True):
    """Partitions that follow each other and stand alike."""

    first: str
    last: str
    count: int
    status: DisplayStatus
    stale: StaleReason | None


@click.group("partitions")
def partitions() -> None:
    """See how the partitions of an asset stand, and change sets of dynamic ones."""


@partitions.command("status", short_help="Count the partitions of an asset.")
@_key
@json_option
@of_a_workspace
def status(*, target: Target, asset: str, json_: bool) -> None:
    """Count the partitions of ASSET by how they stand, and say why some are stale."""
    report = _report(target, asset)
    found = counts(report.status, report.stale)
    if json_:
        emit_json({"asset_key": report.asset_key, **found, "unknown_mappings": report.unknown})
        return
    table = facts()
    for name, count in found.items():
        if count or name == "total":
            table.add_row(name.replace("_", " "), number(count))
    out = console()
    out.print(table)
    for name in report.unknown:
        out.print(f"how it is made from {name} is only known to its code, and was not looked at")


@partitions.command("list", short_help="List the partitions of an asset.")
@_key
@click.option(
    "--status",
    "wanted",
    type=click.Choice([*(one.value.lower() for one in DisplayStatus), STALE]),
    help="Those that stand like this.",
)
@click.option("--limit", type=click.IntRange(1), help=f"So many lines; {SHOWN} for people.")
@json_option
@of_a_workspace
def list_(
    *, target: Target, asset: str, wanted: str | None, limit: int | None, json_: bool
) -> None:
    """List the partitions of ASSET in order, those that stand alike in one line."""
    report = _report(target, asset)
    found = _alike(report, wanted)
    outside = [] if wanted else list(report.status.outside)
    if json_:
        shown = [_stretch(report, *one) for one in found[:limit]]
        emit_json({"asset_key": report.asset_key, "partitions": shown, "outside": outside})
        return
    out = console()
    table = grid("partitions", "number", "status", "stale", whole=1)
    for one in (_stretch(report, *one) for one in found[: limit or SHOWN]):
        name = one.first if one.count == 1 else f"{one.first} to {one.last}"
        reason = one.stale.value.lower() if one.stale else ""
        table.add_row(name, number(one.count), one.status.value.lower(), reason)
    out.print(table if found else "there is no such partition")
    left = len(found) - (limit or SHOWN)
    if left > 0:
        out.print(f"and {plural(left, 'line')} more: use --limit")
    if outside:
        some = ", ".join(str(shown_partition(key)) for key in outside[:3])
        out.print(f"{plural(len(outside), 'partition')} that the asset no longer has: {some}")


@partitions.command("add", short_help="Add keys to a set of dynamic partitions.")
@click.argument("set_name", metavar="SET")
@click.argument("keys", nargs=-1, required=True)
@json_option
@at_a_workspace
def add(*, where: Where, set_name: str, keys: Sequence[str], json_: bool) -> None:
    """Add KEYS to the set of dynamic partitions called SET; those that are in it stay."""
    instance = _instance(where)
    before = set(instance.get_dynamic_partitions(set_name))
    instance.add_dynamic_partitions(set_name, list(keys))
    _tell(set_name, "added", [key for key in dict.fromkeys(keys) if key not in before], json_)


@partitions.command("delete", short_help="Remove keys from a set of dynamic partitions.")
@click.argument("set_name", metavar="SET")
@click.argument("keys", nargs=-1, required=True)
@json_option
@at_a_workspace
def delete(*, where: Where, set_name: str, keys: Sequence[str], json_: bool) -> None:
    """Remove KEYS from the set of dynamic partitions called SET. What was made of them stays."""
    instance = _instance(where)
    known = instance.get_dynamic_partitions(set_name)
    if strange := [key for key in keys if key not in known]:
        raise NotFound(
            f"{set_name} has no partition {strange[0]!r}",
            remedy=f"there is {', '.join(known[:5]) or 'none'}",
        )
    for key in dict.fromkeys(keys):
        instance.delete_dynamic_partition(set_name, key)
    _tell(set_name, "removed", list(dict.fromkeys(keys)), json_)


def _tell(set_name: str, what: str, keys: Sequence[str], json_: bool) -> None:
    if json_:
        emit_json({"set": set_name, what: keys})
    else:
        console().print(f"{what} {', '.join(keys) or 'nothing'}")


def _instance(where: Where) -> ServoInstance:
    _ = where.open()  # says what is wrong if there is no such store
    return ServoInstance.of_store(where.url, tenant=where.tenant, workspace=where.workspace)


def _report(target: Target, asset: str) -> PartitionReport:
    reader, now = Reader(target.store, target.paths), target.clock.now()
    return reader.read(lambda snapshot: PartitionReader(snapshot, now).report(asset))


Alike = tuple[int, int, DisplayStatus, StaleReason | None]
"""The numbers of the first and the last of partitions that stand alike, and how."""


def _alike(report: PartitionReport, wanted: str | None) -> list[Alike]:
    """The partitions in order, those that follow each other and stand alike together."""
    stale = bitmaps.EMPTY
    for bits in report.stale.values():
        stale |= bits
    reasons = {**report.stale, None: report.space.everything & ~stale}
    found = [
        (low, high, shown, reason)
        for shown in DisplayStatus
        for reason, bits in reasons.items()
        if wanted in (None, STALE if reason else None, shown.value.lower())
        for low, high in bitmaps.ranges(report.status.shown(shown) & bits)
    ]
    return sorted(found, key=lambda one: one[0])


def _stretch(
    report: PartitionReport, low: int, high: int, shown: DisplayStatus, reason: StaleReason | None
) -> Stretch:
    return Stretch(
        first=report.space.key(low),
        last=report.space.key(high),
        count=high - low + 1,
        status=shown,
        stale=reason,
    )
