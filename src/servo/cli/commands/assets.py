"""`servo asset`: show an asset and its outputs, or wipe it."""

from collections.abc import Sequence
from shlex import quote
from typing import Any

import click
import msgspec
from rich.text import Text

from servo.cli.options.completing import asset_keys
from servo.cli.options.confirming import DECLINED, confirmed, yes_option
from servo.cli.options.groups import NounGroup
from servo.cli.options.moment import at_a_moment
from servo.cli.options.partitions import partition_option
from servo.cli.options.shared import json_option, paged, tell_older
from servo.cli.options.workspace import with_workspace
from servo.cli.rendering.output import console, emit_json, instant, number, plural, size
from servo.cli.rendering.receipts import QUEUED, tell_receipt
from servo.cli.rendering.run_rows import failure_shown, place_shown
from servo.cli.rendering.tables import facts, grid
from servo.core.freshness import FreshnessState
from servo.core.partitions import shown_partition
from servo.core.state.rows.assets import AssetRow, CheckResultRow, MaterializationRow
from servo.operations.assets import (
    AssetDetail,
    AssetOutput,
    Freshness,
    FreshnessHistory,
    OutputVerdict,
    get_asset,
    list_freshness_changes,
    list_outputs,
    preview_wipe,
    wipe_asset,
)
from servo.operations.interface.listing import Page
from servo.operations.interface.moments import AsOf
from servo.sdk.metadata.entries import decode_metadata
from servo.workspace.workspace import Workspace

MAX_VALUE = 200
_STYLE = {
    OutputVerdict.LATEST: "green",
    OutputVerdict.PROMOTED: "",
    OutputVerdict.WARNED: "yellow",
    OutputVerdict.HELD: "yellow",
    OutputVerdict.REJECTED: "red",
    OutputVerdict.WIPED: "dim",
}
FRESHNESS_STYLE = {
    FreshnessState.PASS: "green",
    FreshnessState.WARN: "yellow",
    FreshnessState.FAIL: "red",
    FreshnessState.UNKNOWN: "dim",
}

_key = click.argument("key", shell_complete=asset_keys)


@click.group("asset", cls=NounGroup)
def asset() -> None:
    """Show assets and their outputs, or wipe an asset."""


@asset.command("show", short_help="Show an asset and its latest output.")
@click.argument("key", shell_complete=asset_keys, metavar="KEY[:PARTITION]")
@partition_option
@at_a_moment
@json_option
@with_workspace
def show(
    *,
    workspace: Workspace,
    key: str,
    partition: str | None,
    as_of: AsOf | None,
    json_: bool,
) -> None:
    """Show the definition of the asset KEY, its latest output and the results of its checks.

    KEY is the whole key, such as shop/orders, or its last part if no other key ends with it. With a
    PARTITION, the output and the checks are those of that partition.
    """
    found = get_asset(workspace, key, partition=partition, as_of=as_of)
    if json_:
        emit_json(found)
        return
    out = console()
    out.print(Text(place_shown(found.asset.asset_key, found.partition_key), "bold"))
    out.print(_definition(found))
    out.print()
    if found.latest is None:
        out.print(_never(found))
        return
    out.print(_made(found, found.latest))
    if found.checks:
        out.print()
        out.print(_checks(found.checks))


@asset.command("history", short_help="List the outputs of an asset.")
@_key
@paged
@click.option("--freshness", is_flag=True, help="List its freshness changes instead.")
@at_a_moment
@json_option
@with_workspace
def history(
    *,
    workspace: Workspace,
    key: str,
    page: Page,
    freshness: bool,
    as_of: AsOf | None,
    json_: bool,
) -> None:
    """List the outputs of the asset KEY, newest first, with the status of each."""
    if freshness:
        _show_freshness(list_freshness_changes(workspace, key, page, as_of=as_of), json_=json_)
        return
    found = list_outputs(workspace, key, page, as_of=as_of)
    if json_:
        emit_json(found)
        return
    out = console()
    out.print(
        _outputs(found.items) if found.items else f"{found.asset_key} has never been materialized."
    )
    tell_older(found.next_cursor)
    if found.late_successes:
        late = plural(found.late_successes, "attempt")
        out.print(f"{late} finished too late to be used.")


@asset.command("wipe", short_help="Wipe an asset: it counts as never materialized.")
@_key
@yes_option
@json_option
@with_workspace
def wipe(*, workspace: Workspace, key: str, yes: bool, json_: bool) -> int:
    """Wipe the asset KEY: from now on it counts as never materialized.

    Stored objects and the history are kept, but no earlier output becomes the latest again.
    """
    if not yes:
        asset_key = preview_wipe(workspace, key).asset_key
        if not confirmed(f"Wipe {asset_key}?", yes=yes):
            click.echo("Nothing was wiped.", err=True)
            return DECLINED
    found = wipe_asset(workspace, key)
    if json_:
        emit_json(found)
        return QUEUED if found.receipt.queued else 0
    return tell_receipt(found.receipt, f"Wiped {found.asset_key}.")


def _show_freshness(found: FreshnessHistory, *, json_: bool) -> None:
    if json_:
        emit_json(found)
        return
    if not found.items:
        why = "has not been evaluated yet" if found.policy else "has no freshness policy"
        console().print(f"{found.asset_key} {why}.")
        return
    table = grid("since", "freshness", "before", whole=1)
    for one in found.items:
        state = Text(one.state.value, FRESHNESS_STYLE[one.state])
        table.add_row(instant(one.changed_at), state, one.previous.value)
    console().print(table)
    tell_older(found.next_cursor)


# --- words ----------------------------------------------------------------------------------------


def _definition(known: AssetDetail) -> Any:
    row = known.asset
    table = facts()
    if not row.defined:
        table.add_row("defined", "no longer" if row.location else "not in deployed code")
    told = {
        "group": row.group,
        "description": row.description,
        "upstream": ", ".join(row.upstream),
        "downstream": ", ".join(known.downstream),
        "owners": ", ".join(row.owners),
        "tags": ", ".join(f"{name}={value}" if value else name for name, value in row.tags.items()),
        "kinds": ", ".join(row.kinds),
        "code": row.location,
        "code version": row.code_version,
        "condition": row.automation_condition,
    }
    for name, value in told.items():
        if value:
            table.add_row(name, Text(value))
    if known.freshness is not None:
        table.add_row("freshness", _fresh(known.freshness))
    return table


def _outputs(found: Sequence[AssetOutput]) -> Any:
    table = grid(
        "output", "partition", "created", "rows", "size", "status", "run", ids=("output", "run")
    )
    for one in found:
        table.add_row(
            one.materialization_id,
            shown_partition(one.partition_key),
            instant(one.created_at),
            "" if one.row_count is None else number(one.row_count),
            "" if one.byte_size is None else size(one.byte_size),
            Text(one.verdict.value, _STYLE[one.verdict]),
            one.run_id,
        )
    return table


def _fresh(found: Freshness) -> Text:
    text = Text(found.state.value, FRESHNESS_STYLE[found.state])
    if found.since is not None:
        text.append(f" since {instant(found.since)}", "default")
    if found.next_change is not None:
        text.append(
            f"; changes at {instant(found.next_change)} unless it is materialized again", "default"
        )
    return text


def _made(known: AssetDetail, made: MaterializationRow) -> Any:
    table, row = facts(), known.asset
    if made.partition_key is not None and known.partition_key is None:
        table.add_row("partition", Text(f"{shown_partition(made.partition_key)}, the latest"))
    table.add_row("materialized", instant(made.created_at))
    table.add_row("run", f"{made.run_id}, attempt {made.attempt}")
    if made.row_count is not None:
        table.add_row("rows", number(made.row_count))
    if made.byte_size is not None:
        table.add_row("size", size(made.byte_size))
    for name, value in (
        ("format", made.output_format),
        ("data version", made.data_version or made.content_hash[:16]),
        ("stored at", made.output_uri),
    ):
        if value:
            table.add_row(name, Text(value))
    for name, value in rendered(made.metadata).items():
        table.add_row(name, Text(value))
    if row.consecutive_failures and known.partition_key is None:
        table.add_row("failures since", Text(_failures(row), "red"))
    return table


def _failures(row: AssetRow) -> str:
    when = (
        "" if row.last_failure_at is None else f", the last one at {instant(row.last_failure_at)}"
    )
    return f"{plural(row.consecutive_failures, 'failure')}{when}"


def _never(known: AssetDetail) -> Text:
    row = known.asset
    place = quote(place_shown(row.asset_key, known.partition_key))
    if row.consecutive_failures and known.partition_key is None:
        return Text(f"Never materialized: {_failures(row)}. See `servo why {place}`.", "red")
    if known.partition_key is not None:
        return Text(f"Never materialized. See `servo why {place}`.", "yellow")
    return Text("Never materialized. Run `servo materialize`.", "yellow")


def _checks(rows: list[CheckResultRow]) -> Any:
    table = grid("check", "result", "message", whole=2)
    for row in rows:
        fate = Text("passed", "green") if row.passed else Text(failure_shown(row), "red")
        details = ", ".join(f"{name}: {value}" for name, value in rendered(row.metadata).items())
        table.add_row(row.check_name, fate, Text("; ".join(filter(None, (row.message, details)))))
    return table


def rendered(metadata: str) -> dict[str, str]:
    """Readable metadata, by name."""
    values = decode_metadata(metadata) if metadata else {}
    return {name: _shown(value.value) for name, value in values.items()}


def _shown(value: Any) -> str:
    match value:
        case str():
            text = value
        case bool() | int() | float():
            text = str(value)
        case _:
            text = msgspec.json.encode(value, enc_hook=str).decode()
    return text if len(text) <= MAX_VALUE else f"{text[: MAX_VALUE - 1]}…"
