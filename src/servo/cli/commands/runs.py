"""`servo run`: what ran, how it went, and stopping it."""

from collections.abc import Sequence

import click
from rich.text import Text

from servo.cli.commands.materialize import retry
from servo.cli.completing import run_ids
from servo.cli.leaving import leave, tell_left
from servo.cli.options import json_option, paged, tell_older
from servo.cli.output import console, emit_json, instant
from servo.cli.run_display import show_checks
from servo.cli.run_rows import failed_checks, find_run, newest_runs, run_and_tasks, task_shown
from servo.cli.tables import grid
from servo.cli.workspace import Target, of_a_workspace
from servo.core.events.runs import RunCancelRequested
from servo.core.explain.failures import failure_of
from servo.core.explain.origins import Step, what_caused
from servo.core.explain.records import Records
from servo.core.state.rows.assets import CheckResultRow
from servo.core.state.rows.execution import RunRow, TaskRow
from servo.core.state.states import TERMINAL_RUN_STATES, RunState, TaskState
from servo.errors import Conflict
from servo.projection.read.lookup import Lookup, Page
from servo.projection.read.reader import Reader, Snapshot
from servo.workspace.identity import this_user

_UNWELL = (TaskState.FAILED, TaskState.RETRY_WAIT)
COLOURS = {
    "SUCCEEDED": "green",
    "FAILED": "red",
    "TIMED_OUT": "red",
    "RUNNING": "cyan",
    "SKIPPED": "yellow",
    "CANCELLED": "yellow",
    "CANCELLING": "yellow",
}


@click.group("run")
def run() -> None:
    """See what ran, how it went, and stop it."""


@run.command("list", short_help="The newest runs.")
@paged
@json_option
@of_a_workspace
def list_(*, target: Target, page: Page, json_: bool) -> None:
    """List the newest runs."""
    found = Reader(target.store, target.paths).read(lambda snapshot: newest_runs(snapshot, page))
    if json_:
        emit_json(found.rows)
        return
    table = grid("run", "state", "tasks", "began", "took", whole=2)
    for row in found.rows:
        began = instant(row.created_at)
        table.add_row(row.run_id, coloured(row.state), _counts(row), began, _took(row))
    console().print(table if found.rows else "no runs yet: `servo materialize` makes one")
    tell_older(found.older)


@run.command("show", short_help="One run and its tasks.")
@click.argument("run_id", shell_complete=run_ids)
@json_option
@of_a_workspace
def show(*, target: Target, run_id: str, json_: bool) -> None:
    """Show one run and its tasks. The beginning of RUN_ID is enough."""
    reader = Reader(target.store, target.paths)
    (row, tasks), failed, steps = reader.read(lambda snapshot: _details(snapshot, run_id))
    if json_:
        emit_json({"run": row, "tasks": tasks, "caused_by": steps})
        return
    out = console()
    out.print(Text.assemble((row.run_id, "bold"), " ", coloured(row.state), f" {_counts(row)}"))
    for line in _asked_by(steps):
        out.print(Text(line, "dim"))
    table = grid("task", "state", "attempts", "reason", "error", whole=2)
    for task in tasks:
        table.add_row(
            task_shown(task.task_key),
            coloured(task.state),
            str(task.attempt),
            task.reason.value,
            failure_of(task) if task.state in _UNWELL else task.error_message,
        )
    out.print(table)
    show_checks(failed)


def _details(
    snapshot: Snapshot, run_id: str
) -> tuple[tuple[RunRow, list[TaskRow]], list[CheckResultRow], tuple[Step, ...]]:
    found = run_and_tasks(snapshot, run_id)
    run = found[0]
    records = Records(Lookup(snapshot), snapshot.as_of)
    return found, failed_checks(snapshot, run.run_id), what_caused(records, run)


def _asked_by(steps: Sequence[Step]) -> list[str]:
    """Who asked for a run, and what led to it, one line a step."""
    words = ["asked for by", *["because of" for _ in steps[1:]]]
    return [
        f"{word} {step.actor or 'unknown'}: {step.what} (event {step.position})"
        for word, step in zip(words, steps, strict=False)
    ]


@run.command("cancel", short_help="Stop a run.")
@click.argument("run_id", shell_complete=run_ids)
@click.option("--reason", default="", help="Why, for whoever asks later.")
@of_a_workspace
def cancel(*, target: Target, run_id: str, reason: str) -> None:
    """Stop a run: nothing of it starts any more, and what runs is interrupted."""
    row = Reader(target.store, target.paths).read(
        lambda snapshot: find_run(Lookup(snapshot), run_id)
    )
    if row.state in TERMINAL_RUN_STATES:
        raise Conflict(f"{row.run_id} has ended: {row.state.value}", remedy="leave it as it is")
    event = RunCancelRequested(run_id=row.run_id, requested_by=this_user(), reason=reason)
    leave(target, "cancel", event)
    tell_left(target, row.run_id, "stopped")


run.add_command(retry)


# --- words ----------------------------------------------------------------------------------------


def coloured(state: RunState | TaskState) -> Text:
    """A state in its colour."""
    return Text(state.value, style=COLOURS.get(state.value, ""))


def _counts(row: RunRow) -> str:
    parts = (
        (row.tasks_succeeded, "succeeded"),
        (row.tasks_failed, "failed"),
        (row.tasks_skipped, "skipped"),
        (row.tasks_cancelled, "cancelled"),
    )
    told: Sequence[str] = [f"{count} {word}" for count, word in parts if count]
    return f"{', '.join(told) or 'none over'} of {row.task_count}"


def _took(row: RunRow) -> str:
    if row.finished_at is None:
        return ""
    return f"{(row.finished_at - row.created_at).total_seconds():.2f} s"
