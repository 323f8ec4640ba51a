"""`servo asset`: what is known of one asset, what was made of it, and forgetting that."""

from typing import Any

import click
import msgspec
from rich.text import Text

from servo.cli.asset_rows import (
    Freshness,
    Known,
    OutputVerdict,
    freshness_history,
    history_of,
    known_of,
    verdict,
)
from servo.cli.completing import asset_keys
from servo.cli.leaving import leave, tell_left
from servo.cli.options import json_option, paged, tell_older
from servo.cli.output import console, emit_json, instant, number, plural, size
from servo.cli.run_rows import failure_shown
from servo.cli.tables import facts, grid
from servo.cli.workspace import Target, of_a_workspace
from servo.core.events.assets import AssetWiped
from servo.core.freshness import FreshnessState
from servo.core.state.rows.assets import AssetRow, CheckResultRow, MaterializationRow
from servo.core.state.rows.conditions import FreshnessChangeRow
from servo.errors import Conflict
from servo.projection.partitions.asset_names import find_asset
from servo.projection.read.lookup import Page, Paged
from servo.projection.read.reader import Reader
from servo.sdk.metadata.entries import decode_metadata
from servo.workspace.identity import this_process

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


@click.group("asset")
def asset() -> None:
    """See what is known of an asset and what was made of it, or forget that."""


@asset.command("show", short_help="One asset and its latest output.")
@_key
@json_option
@of_a_workspace
def show(*, target: Target, key: str, json_: bool) -> None:
    """Show what defines the asset KEY, and what was made of it last.

    KEY is the whole key, such as shop/orders, or its last part where no other key ends alike.
    """
    known = Reader(target.store, target.paths).read(
        lambda snapshot: known_of(snapshot, key, target.clock.now())
    )
    if json_:
        emit_json(_as_json(known))
        return
    out = console()
    out.print(Text(known.asset.asset_key, "bold"))
    out.print(_definition(known))
    out.print()
    if known.latest is None:
        out.print(_never(known.asset))
        return
    out.print(_made(known.asset, known.latest))
    if known.checks:
        out.print()
        out.print(_checks(known.checks))


@asset.command("history", short_help="What was made of an asset.")
@_key
@paged
@click.option("--freshness", is_flag=True, help="How fresh it was instead: each change.")
@json_option
@of_a_workspace
def history(*, target: Target, key: str, page: Page, freshness: bool, json_: bool) -> None:
    """List the outputs of the asset KEY, newest first, and what became of each."""
    reader = Reader(target.store, target.paths)
    if freshness:
        found, changes = reader.read(lambda snapshot: freshness_history(snapshot, key, page))
        _tell_freshness(found, changes, json_=json_)
        return
    made = reader.read(lambda snapshot: history_of(snapshot, key, page))
    row, outputs = made.asset, made.outputs.rows
    if json_:
        emit_json(
            [{**msgspec.to_builtins(one), "verdict": verdict(row, one).value} for one in outputs]
        )
        return
    table = grid("output", "made", "run", "rows", "size", "what became of it", whole=3)
    for one in outputs:
        told = verdict(row, one)
        rows = "" if one.row_count is None else number(one.row_count)
        stored = "" if one.byte_size is None else size(one.byte_size)
        fate = Text(told.value, _STYLE[told])
        table.add_row(
            one.materialization_id, instant(one.created_at), one.run_id, rows, stored, fate
        )
    out = console()
    out.print(table if outputs else _never(row))
    tell_older(made.outputs.older)
    if made.late:
        out.print(f"{plural(made.late, 'success', 'successes')} came too late to count")


@asset.command("wipe", short_help="Forget what was made of an asset.")
@_key
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
@of_a_workspace
def wipe(*, target: Target, key: str, yes: bool, json_: bool) -> None:
    """Forget what was made of the asset KEY: it counts as never materialized.

    Stored objects and the history stay; nothing that was made before becomes the latest again.
    """
    rows = Reader(target.store, target.paths).snapshot().rows("assets")
    known = {row.asset_key: row for row in rows if isinstance(row, AssetRow)}
    found = find_asset(known, key)
    if known[found].last_materialization_id is None:
        raise Conflict(f"{found} has no output to forget", remedy="leave it as it is")
    if not yes:
        _ = click.confirm(f"forget what was made of {found}?", abort=True, err=True)
    leave(target, "wipe", AssetWiped(asset_key=found, requested_by=this_process()))
    if json_:
        emit_json({"asset_key": found, "requested": "wipe"})
    else:
        tell_left(target, found, "wiped")


def _tell_freshness(row: AssetRow, changes: Paged[FreshnessChangeRow], *, json_: bool) -> None:
    if json_:
        emit_json(changes.rows)
        return
    if not changes.rows:
        never = "was not judged yet" if row.freshness_policy else "has no freshness policy"
        console().print(f"{row.asset_key} {never}")
        return
    table = grid("since", "freshness", "before", whole=1)
    for one in changes.rows:
        state = Text(one.state.value, FRESHNESS_STYLE[one.state])
        table.add_row(instant(one.changed_at), state, one.previous.value)
    console().print(table)
    tell_older(changes.older)


# --- words ----------------------------------------------------------------------------------------


def _definition(known: Known) -> Any:
    row = known.asset
    table = facts()
    if not row.defined:
        table.add_row("defined", "no longer" if row.location else "by no code that was deployed")
    told = {
        "group": row.group,
        "description": row.description,
        "made from": ", ".join(row.upstream),
        "used by": ", ".join(known.downstream),
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


def _fresh(found: Freshness) -> Text:
    text = Text(found.state.value, FRESHNESS_STYLE[found.state])
    if found.since is not None:
        text.append(f" since {instant(found.since)}", "default")
    if found.next_change is not None:
        text.append(f", until {instant(found.next_change)} if it is not made again", "default")
    return text


def _made(row: AssetRow, made: MaterializationRow) -> Any:
    table = facts()
    table.add_row("made", instant(made.created_at))
    table.add_row("run", f"{made.run_id}, attempt {made.attempt}")
    if made.row_count is not None:
        table.add_row("rows", number(made.row_count))
    if made.byte_size is not None:
        table.add_row("size", size(made.byte_size))
    for name, value in (
        ("format", made.output_format),
        ("data version", made.data_version or made.content_hash[:16]),
        ("stored in", made.output_uri),
    ):
        if value:
            table.add_row(name, Text(value))
    for name, value in rendered(made.metadata).items():
        table.add_row(name, Text(value))
    if row.consecutive_failures:
        table.add_row("since then", Text(_failures(row), "red"))
    return table


def _failures(row: AssetRow) -> str:
    when = "" if row.last_failure_at is None else f", the last at {instant(row.last_failure_at)}"
    return f"{plural(row.consecutive_failures, 'failure')}{when}"


def _never(row: AssetRow) -> Text:
    if row.consecutive_failures:
        return Text(f"never made: {_failures(row)}; see `servo run list`", "red")
    return Text("never made: `servo materialize` makes it", "yellow")


def _checks(rows: list[CheckResultRow]) -> Any:
    table = grid("check", "result", "said", whole=2)
    for row in rows:
        fate = Text("passed", "green") if row.passed else Text(failure_shown(row), "red")
        details = ", ".join(f"{name}: {value}" for name, value in rendered(row.metadata).items())
        table.add_row(row.check_name, fate, Text("; ".join(filter(None, (row.message, details)))))
    return table


def rendered(metadata: str) -> dict[str, str]:
    """Metadata as people read it, by its names."""
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


def _as_json(known: Known) -> dict[str, Any]:
    return {
        "asset": known.asset,
        "downstream": known.downstream,
        "latest": known.latest,
        "metadata": rendered(known.latest.metadata) if known.latest is not None else {},
        "checks": known.checks,
        "freshness": known.freshness,
    }
