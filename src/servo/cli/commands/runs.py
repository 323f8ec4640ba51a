"""`servo run`: list, show and cancel runs."""

from collections.abc import Sequence

import click
from rich.text import Text

from servo.cli.commands.materialize import retry
from servo.cli.options.completing import run_ids
from servo.cli.options.groups import NounGroup
from servo.cli.options.moment import at_a_moment
from servo.cli.options.shared import json_option, paged, tell_older
from servo.cli.options.workspace import with_workspace
from servo.cli.rendering.output import console, emit_json, instant
from servo.cli.rendering.receipts import QUEUED, tell_receipt
from servo.cli.rendering.run_display import show_checks
from servo.cli.rendering.run_rows import task_shown, waiting_words
from servo.cli.rendering.tables import grid
from servo.core.explain.failures import failure_of
from servo.core.explain.origins import Step
from servo.core.state.rows.execution import RunRow
from servo.core.state.states import RunState, TaskState
from servo.operations.interface.listing import Page
from servo.operations.interface.moments import AsOf
from servo.operations.runs import cancel_run, get_run, list_runs
from servo.workspace.workspace import Workspace

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


@click.group("run", cls=NounGroup)
def run() -> None:
    """Show, cancel and retry runs."""


@run.command("list", short_help="List the newest runs.")
@paged
@at_a_moment
@json_option
@with_workspace
def list_(*, workspace: Workspace, page: Page, as_of: AsOf | None, json_: bool) -> None:
    """List the newest runs."""
    found = list_runs(workspace, page, as_of=as_of)
    if json_:
        emit_json(found)
        return
    table = grid("run", "state", "done", "created", "took", whole=2)
    for row in found.items:
        began = instant(row.created_at)
        table.add_row(row.run_id, coloured(row.state), _done(row), began, _took(row))
    console().print(table if found.items else "No runs yet. Start one with `servo materialize`.")
    for row in found.items:
        if row.run_id in found.waiting:
            console().print(waiting_words(row), soft_wrap=True)
    tell_older(found.next_cursor)


@run.command("show", short_help="Show one run and its tasks.")
@click.argument("run_id", required=False, shell_complete=run_ids)
@at_a_moment
@json_option
@with_workspace
def show(*, workspace: Workspace, run_id: str | None, as_of: AsOf | None, json_: bool) -> None:
    """Show the newest run and its tasks, or the run RUN_ID, which can be abbreviated."""
    found = get_run(workspace, run_id, as_of=as_of)
    if json_:
        emit_json(found)
        return
    out, row = console(), found.run
    out.print(Text.assemble((row.run_id, "bold"), " ", coloured(row.state), f" {_counts(row)}"))
    for line in _asked_by(found.caused_by):
        out.print(Text(line, "dim"))
    table = grid("task", "state", "attempts", "reason", "error", whole=2)
    for task in found.tasks:
        table.add_row(
            task_shown(task.task_key),
            coloured(task.state),
            str(task.attempt),
            task.reason.value,
            failure_of(task) if task.state in _UNWELL else task.error_message,
        )
    out.print(table)
    show_checks(found.failed_checks)


def _asked_by(steps: Sequence[Step]) -> list[str]:
    """Who requested a run, and what caused the request, one line per step."""
    words = ["requested", *[f"caused by: {step.what}," for step in steps[1:]]]
    return [
        f"{word} by {step.actor or 'unknown'} (event {step.position})"
        for word, step in zip(words, steps, strict=False)
    ]


@run.command("cancel", short_help="Cancel a run.")
@click.argument("run_id", shell_complete=run_ids)
@click.option("--reason", default="", help="Reason, recorded in the ledger.")
@click.option("--force", is_flag=True, help="Cancel at once, even if workers do not respond.")
@json_option
@with_workspace
def cancel(*, workspace: Workspace, run_id: str, reason: str, force: bool, json_: bool) -> int:
    """Cancel a run: no more of its tasks start, and running tasks are interrupted.

    Running tasks have 10 seconds to clean up. With --force, their processes are killed at once, the
    run becomes CANCELLED, and later reports from its workers are ignored.
    """
    found = cancel_run(workspace, run_id, reason=reason, force=force)
    if json_:
        emit_json(found)
        return QUEUED if found.receipt.queued else 0
    return tell_receipt(found.receipt, f"Cancelling {found.run_id}.")


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
    return f"{', '.join(told) or 'none finished'} of {row.task_count}"


def _done(row: RunRow) -> str:
    return f"{row.tasks_succeeded}/{row.task_count}"


def _took(row: RunRow) -> str:
    if row.finished_at is None:
        return ""
    return f"{(row.finished_at - row.created_at).total_seconds():.2f} s"
