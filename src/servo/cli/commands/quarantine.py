"""`servo quarantine`: decide about outputs that a blocking check held back."""

import click
from rich.text import Text

from servo.cli.options.groups import NounGroup
from servo.cli.options.moment import at_a_moment
from servo.cli.options.shared import json_option, paged, tell_older
from servo.cli.options.workspace import with_workspace
from servo.cli.rendering.output import console, emit_json, instant
from servo.cli.rendering.receipts import QUEUED, tell_receipt
from servo.cli.rendering.run_rows import place_shown
from servo.cli.rendering.tables import grid
from servo.core.state.rows.assets import CheckResultRow
from servo.operations.interface.listing import Page
from servo.operations.interface.moments import AsOf
from servo.operations.quarantine import (
    QuarantineDecision,
    approve_output,
    list_quarantine,
    reject_output,
)
from servo.workspace.workspace import Workspace

_output = click.argument("output")
_reason = click.option("--reason", default="", help="Reason, recorded in the ledger.")


@click.group("quarantine", cls=NounGroup)
def quarantine() -> None:
    """Approve or reject outputs that a blocking check held back."""


@quarantine.command("list", short_help="List the outputs in quarantine.")
@paged
@at_a_moment
@json_option
@with_workspace
def list_(*, workspace: Workspace, page: Page, as_of: AsOf | None, json_: bool) -> None:
    """List the outputs that wait for a decision, newest first, and the checks that failed."""
    found = list_quarantine(workspace, page, as_of=as_of)
    if json_:
        emit_json(found)
        return
    table = grid("output", "asset", "run", "materialized", "failed checks", whole=4)
    for row in found.items:
        table.add_row(
            row.materialization_id,
            place_shown(row.asset_key, row.partition_key),
            row.run_id,
            instant(row.created_at),
            Text("; ".join(map(_check, row.failed_checks))),
        )
    console().print(table if found.items else "No outputs are in quarantine.")
    tell_older(found.next_cursor)


@quarantine.command("approve", short_help="Promote an output.")
@_output
@_reason
@json_option
@with_workspace
def approve(*, workspace: Workspace, output: str, reason: str, json_: bool) -> int:
    """Promote OUTPUT: it becomes the latest, unless a newer output has been promoted.

    OUTPUT is an id from `servo quarantine list`; it can be abbreviated.
    """
    return _tell(approve_output(workspace, output, reason=reason), json_=json_)


@quarantine.command("reject", short_help="Reject an output permanently.")
@_output
@_reason
@json_option
@with_workspace
def reject(*, workspace: Workspace, output: str, reason: str, json_: bool) -> int:
    """Reject OUTPUT: it will never be promoted. The id can be abbreviated."""
    return _tell(reject_output(workspace, output, reason=reason), json_=json_)


def _tell(found: QuarantineDecision, *, json_: bool) -> int:
    if json_:
        emit_json(found)
        return QUEUED if found.receipt.queued else 0
    return tell_receipt(found.receipt, _decided(found))


def _decided(found: QuarantineDecision) -> str:
    place = place_shown(found.asset_key, found.partition_key)
    if not found.approved:
        return f"Rejected {found.materialization_id} of {place}."
    then = "it is the latest now" if found.is_latest else "a newer output stays the latest"
    return f"Approved {found.materialization_id} of {place}: {then}."


def _check(row: CheckResultRow) -> str:
    return f"{row.check_name}: {row.message}" if row.message else row.check_name
