"""`servo partitions`: show the partitions of an asset, and change dynamic ones."""

from collections.abc import Sequence
from enum import StrEnum

import click

from servo.cli.options.completing import asset_keys
from servo.cli.options.groups import NounGroup
from servo.cli.options.moment import at_a_moment
from servo.cli.options.shared import json_option, limit_option
from servo.cli.options.workspace import with_new_workspace, with_workspace
from servo.cli.rendering.output import console, emit_json, instant, number, plural
from servo.cli.rendering.receipts import QUEUED, tell_receipt
from servo.cli.rendering.tables import facts, grid
from servo.core.partitions import shown_partition
from servo.operations.dynamic_partitions import (
    PartitionSetChange,
    add_partitions,
    delete_partitions,
)
from servo.operations.interface.moments import AsOf
from servo.operations.partitions import (
    PartitionFilter,
    PartitionListing,
    PartitionQuery,
    count_partitions,
    list_partitions,
)
from servo.operations.stale import StaleQuery, list_stale
from servo.workspace.workspace import Workspace

_COUNTS = (
    "total",
    "materialized",
    "failed",
    "in_progress",
    "missing",
    "stale_never_materialized",
    "stale_code_changed",
    "stale_upstream_changed",
    "stale_freshness_policy",
    "outside",
)
_asset = click.argument("asset", shell_complete=asset_keys)
_set = click.argument("set_name", metavar="SET")
_keys = click.argument("keys", nargs=-1, required=True)


@click.group("partitions", cls=NounGroup)
def partitions() -> None:
    """Show the partitions of an asset; add and delete dynamic partitions."""


@partitions.command("status", short_help="Count the partitions of an asset by status.")
@_asset
@at_a_moment
@json_option
@with_workspace
def status(*, workspace: Workspace, asset: str, as_of: AsOf | None, json_: bool) -> None:
    """Count the partitions of ASSET by status, and the stale ones by reason."""
    found = count_partitions(workspace, asset, as_of=as_of)
    if json_:
        emit_json(found)
        return
    table = facts()
    for name in _COUNTS:
        count: int = getattr(found, name)
        if count or name == "total":
            table.add_row(name.replace("_", " "), number(count))
    out = console()
    out.print(table)
    for name in found.unknown_mappings:
        out.print(f"{name}: staleness unknown, because its partition mapping is custom code.")


@partitions.command("list", short_help="List the partitions of an asset.")
@_asset
@click.option(
    "--status",
    "wanted",
    type=click.Choice([one.value for one in PartitionFilter]),
    help="Only partitions with this status, or only stale ones.",
)
@limit_option("lines")
@click.option("--after", metavar="KEY", help="Only partitions after this one.")
@at_a_moment
@json_option
@with_workspace
def list_(  # noqa: PLR0913 - its options
    *,
    workspace: Workspace,
    asset: str,
    wanted: str | None,
    limit: int,
    after: str | None,
    as_of: AsOf | None,
    json_: bool,
) -> None:
    """List the partitions of ASSET in order; consecutive ones with the same status share a line."""
    chosen = None if wanted is None else PartitionFilter(wanted)
    query = PartitionQuery(status=chosen, limit=limit, after=after)
    found = list_partitions(workspace, asset, query, as_of=as_of)
    if json_:
        emit_json(found)
    else:
        _show(found)


@partitions.command("stale", short_help="List stale assets and partitions.")
@limit_option("lines")
@click.option("--asset", metavar="ASSET", help="Start at this asset.")
@click.option("--after", metavar="KEY", help="Start after this partition of that asset.")
@at_a_moment
@json_option
@with_workspace
def stale(
    *,
    workspace: Workspace,
    limit: int,
    asset: str | None,
    after: str | None,
    as_of: AsOf | None,
    json_: bool,
) -> None:
    """List the stale assets and partitions of the workspace, with the reason and since when."""
    found = list_stale(workspace, StaleQuery(limit=limit, asset=asset, after=after), as_of=as_of)
    if json_:
        emit_json(found)
        return
    table = grid("asset", "partitions", "count", "reason", "since", whole=2)
    for one in found.items:
        name = one.first if one.count == 1 else f"{one.first} to {one.last}"
        since = "" if one.since is None else instant(one.since)
        table.add_row(one.asset_key, name, number(one.count), _reason(one.reason), since)
    out = console()
    out.print(table if found.items else "Nothing is stale.")
    if found.next_asset is not None:
        more = "" if found.next_after is None else f" --after {found.next_after}"
        out.print(f"More: --asset {found.next_asset}{more}")


@partitions.command("add", short_help="Add keys to a set of dynamic partitions.")
@_set
@_keys
@json_option
@with_new_workspace
def add(*, workspace: Workspace, set_name: str, keys: Sequence[str], json_: bool) -> int:
    """Add KEYS to the set of dynamic partitions SET. Keys that already exist are ignored.

    Creates the workspace if it does not exist.
    """
    found = add_partitions(workspace, set_name, keys)
    return _tell(found, f"Added {', '.join(found.added)} to {set_name}.", json_=json_)


@partitions.command("delete", short_help="Delete keys from a set of dynamic partitions.")
@_set
@_keys
@json_option
@with_workspace
def delete(*, workspace: Workspace, set_name: str, keys: Sequence[str], json_: bool) -> int:
    """Delete KEYS from the set of dynamic partitions SET. Their outputs are kept."""
    found = delete_partitions(workspace, set_name, keys)
    return _tell(found, f"Deleted {', '.join(found.removed)} from {set_name}.", json_=json_)


# --- words ----------------------------------------------------------------------------------------


def _show(found: PartitionListing) -> None:
    out = console()
    table = grid("partitions", "count", "status", "stale", "since", whole=1)
    for one in found.items:
        name = one.first if one.count == 1 else f"{one.first} to {one.last}"
        reason = _reason(one.stale) if one.stale else ""
        since = "" if one.stale_since is None else instant(one.stale_since)
        table.add_row(name, number(one.count), one.status.value.lower(), reason, since)
    out.print(table if found.items else "No partitions match.")
    if found.next_cursor is not None:
        out.print(f"More: --after {found.next_cursor}")
    if found.outside:
        count = plural(len(found.outside), "partition")
        some = ", ".join(str(shown_partition(key)) for key in found.outside[:3])
        out.print(f"{count} no longer in the definition: {some}")


def _reason(stale: StrEnum) -> str:
    return stale.value.lower().replace("_", " ")


def _tell(found: PartitionSetChange, done: str, *, json_: bool) -> int:
    queued = found.receipt is not None and found.receipt.queued
    if json_:
        emit_json(found)
        return QUEUED if queued else 0
    if found.receipt is None:
        console().print(f"{found.set_name} already has these partitions.")
        return 0
    return tell_receipt(found.receipt, done)
