"""`servo quarantine`: outputs that a blocking check held back."""

import click
from rich.text import Text

from servo.cli.leaving import leave, tell_left
from servo.cli.options import json_option
from servo.cli.output import console, emit_json, instant
from servo.cli.run_rows import place_shown
from servo.cli.tables import grid
from servo.cli.workspace import Target, of_a_workspace
from servo.core.events.assets import QuarantineDecided, Severity
from servo.core.events.tasks import Gate
from servo.core.state.rows.assets import CheckResultRow, MaterializationRow
from servo.errors import NotFound
from servo.projection.read.reader import Reader
from servo.workspace.identity import this_process

_HOLDING = (Severity.ERROR, Severity.CRITICAL)


@click.group("quarantine")
def quarantine() -> None:
    """Decide about outputs that a blocking check held back."""


@quarantine.command("list", short_help="What waits for a decision.")
@json_option
@of_a_workspace
def list_(*, target: Target, json_: bool) -> None:
    """List the outputs that wait for a decision, newest first."""
    rows = _held(target)
    if json_:
        emit_json(rows)
        return
    why = _why(target) if rows else {}
    table = grid("output", "asset", "run", "made", "because of", whole=4)
    for row in rows:
        place = place_shown(row.asset_key, row.partition_key)
        because = "; ".join(why.get(row.materialization_id, ()))
        made = instant(row.created_at)
        table.add_row(row.materialization_id, place, row.run_id, made, Text(because))
    console().print(table if rows else "nothing is held back")


@quarantine.command("approve", short_help="Let an output through.")
@click.argument("output")
@click.option("--reason", default="", help="Why, for whoever asks later.")
@of_a_workspace
def approve(*, target: Target, output: str, reason: str) -> None:
    """Let OUTPUT through: it becomes the latest, unless something newer has."""
    _decide(target, output, approved=True, reason=reason)


@quarantine.command("reject", short_help="Keep an output back for good.")
@click.argument("output")
@click.option("--reason", default="", help="Why, for whoever asks later.")
@of_a_workspace
def reject(*, target: Target, output: str, reason: str) -> None:
    """Keep OUTPUT back for good."""
    _decide(target, output, approved=False, reason=reason)


def _held(target: Target) -> list[MaterializationRow]:
    rows = Reader(target.store, target.paths).snapshot().rows("materializations")
    made = [row for row in rows if isinstance(row, MaterializationRow)]
    held = [r for r in made if r.gating_decision is Gate.QUARANTINED and r.decided_at is None]
    return sorted(held, key=lambda row: row.created_seq, reverse=True)


def _why(target: Target) -> dict[str, list[str]]:
    """What failed checks said of every output."""
    told: dict[str, list[str]] = {}
    for row in Reader(target.store, target.paths).snapshot().rows("check_results"):
        if isinstance(row, CheckResultRow) and not row.passed and row.severity in _HOLDING:
            said = f"{row.check_name}: {row.message}" if row.message else row.check_name
            told.setdefault(row.materialization_id, []).append(said)
    return told


def _decide(target: Target, output: str, *, approved: bool, reason: str) -> None:
    found = [row for row in _held(target) if row.materialization_id.startswith(output)]
    if len(found) != 1:
        raise NotFound(
            f"{len(found)} outputs that begin with {output} are held back",
            remedy="see `servo quarantine list`",
        )
    event = QuarantineDecided(
        materialization_id=found[0].materialization_id,
        approved=approved,
        decided_by=this_process(),
        reason=reason,
    )
    leave(target, "quarantine", event)
    done = "let through" if approved else "kept back for good"
    tell_left(target, event.materialization_id, done)
