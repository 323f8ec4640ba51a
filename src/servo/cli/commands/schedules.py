"""`servo schedule`: show, pause, resume and trigger schedules."""

from collections.abc import Sequence
from datetime import timedelta
from zoneinfo import ZoneInfo

import click
from rich.text import Text

from servo.cli.command_code import one_code
from servo.cli.commands.materialize import exit_code_of, tell, with_workers
from servo.cli.hosts import open_host
from servo.cli.options.code import as_dagster_option
from servo.cli.options.durations import format_duration
from servo.cli.options.groups import NounGroup
from servo.cli.options.moment import at_a_moment
from servo.cli.options.shared import json_option, paged, tell_older
from servo.cli.options.workspace import Where, at_a_workspace, with_workspace
from servo.cli.rendering.output import console, emit_json, instant, plural
from servo.cli.rendering.receipts import tell_change
from servo.cli.rendering.run_display import wait_for
from servo.cli.rendering.tables import facts, grid
from servo.core.events.schedules import TickStatus
from servo.core.state.rows.automation import (
    ScheduleDefinitionRow,
    ScheduleStateRow,
    ScheduleTickRow,
)
from servo.core.state.states import ScheduleStatus
from servo.errors import Invalid
from servo.operations.interface.evaluating import RequestPreview
from servo.operations.interface.listing import Page
from servo.operations.interface.moments import AsOf
from servo.operations.triggers.schedules import (
    get_schedule,
    list_schedules,
    list_ticks,
    pause_schedule,
    preview_schedule,
    resume_schedule,
)
from servo.operations.triggers.ticks import (
    TickPreview,
    finished_tick,
    parse_tick,
    preview_tick,
    tick_instant,
    trigger_schedule,
)
from servo.workspace.workspace import Workspace

_COLOURS = {
    TickStatus.TRIGGERED.value: "green",
    TickStatus.FAILED.value: "red",
    ScheduleStatus.ACTIVE.value: "green",
    ScheduleStatus.PAUSED.value: "yellow",
}


@click.group("schedule", cls=NounGroup)
def schedule() -> None:
    """List, pause, resume and trigger schedules."""


@schedule.command("list", short_help="List the schedules and their next ticks.")
@at_a_moment
@json_option
@with_workspace
def list_(*, workspace: Workspace, as_of: AsOf | None, json_: bool) -> None:
    """List the deployed schedules with their last and next ticks."""
    found = list_schedules(workspace, as_of=as_of)
    if json_:
        emit_json(found)
        return
    table = grid("schedule", "status", "cron", "target", "last tick", "next tick", whole=2)
    for row in found.items:
        definition, state = row.definition, row.state
        table.add_row(
            row.name,
            _coloured(state.status.value),
            _cron(definition),
            definition.target,
            _last(state),
            "" if row.next_tick is None else instant(row.next_tick),
        )
    console().print(table if found.items else "No schedules yet. `servo dev` deploys them.")


@schedule.command("show", short_help="Show one schedule and its newest ticks.")
@click.argument("name")
@at_a_moment
@json_option
@with_workspace
def show(*, workspace: Workspace, name: str, as_of: AsOf | None, json_: bool) -> None:
    """Show the definition of schedule NAME and its newest ticks."""
    found = get_schedule(workspace, name, as_of=as_of)
    if json_:
        emit_json(found)
        return
    row = found.schedule
    definition, state = row.definition, row.state
    table = facts()
    table.add_row("status", _coloured(state.status.value))
    table.add_row("cron", _cron(definition))
    table.add_row("target", definition.target or "chosen by its function")
    table.add_row(
        "catch-up",
        f"up to {plural(definition.max_catchup_ticks, 'tick')} of the last "
        f"{format_duration(timedelta(minutes=definition.catchup_window_minutes))}",
    )
    table.add_row("skipped so far", str(state.ticks_skipped))
    table.add_row("next tick", "none" if row.next_tick is None else instant(row.next_tick))
    console().print(table)
    _print_ticks(found.ticks)


@schedule.command("ticks", short_help="List the newest ticks of a schedule.")
@click.argument("name")
@paged
@at_a_moment
@json_option
@with_workspace
def ticks(*, workspace: Workspace, name: str, page: Page, as_of: AsOf | None, json_: bool) -> None:
    """List the newest ticks of schedule NAME: runs, skips and failures, with the reasons."""
    found = list_ticks(workspace, name, page, as_of=as_of)
    if json_:
        emit_json(found)
        return
    _print_ticks(found.items)
    tell_older(found.next_cursor)


@schedule.command("preview", short_help="List the next ticks of a schedule.")
@click.argument("name")
@click.option(
    "--count",
    type=click.IntRange(1, 1000),
    default=10,
    show_default=True,
    help="Number of ticks to list.",
)
@at_a_moment
@json_option
@with_workspace
def preview(
    *, workspace: Workspace, name: str, count: int, as_of: AsOf | None, json_: bool
) -> None:
    """List the next ticks of schedule NAME, in UTC and in the schedule's time zone."""
    found = preview_schedule(workspace, name, count, as_of=as_of)
    if json_:
        emit_json(found)
        return
    zone = ZoneInfo(found.timezone)
    for at in found.ticks:
        console().print(f"{instant(at)}  {at.astimezone(zone):%a %Y-%m-%d %H:%M:%S %Z}")


@schedule.command("pause", short_help="Pause a schedule.")
@click.argument("name")
@json_option
@with_workspace
def pause(*, workspace: Workspace, name: str, json_: bool) -> int:
    """Pause schedule NAME. The ticks it misses are recorded as skipped when it resumes."""
    return tell_change(pause_schedule(workspace, name), f"Paused {name}.", json_=json_)


@schedule.command("resume", short_help="Resume a schedule.")
@click.argument("name")
@click.option("--catchup", is_flag=True, help="Run the missed ticks, as after downtime.")
@json_option
@with_workspace
def resume(*, workspace: Workspace, name: str, catchup: bool, json_: bool) -> int:
    """Resume schedule NAME. Without --catchup, the ticks it missed are recorded as skipped."""
    found = resume_schedule(workspace, name, catchup=catchup)
    return tell_change(found, f"Resumed {name}.", json_=json_)


@schedule.command("trigger", short_help="Run a schedule's tick now.")
@click.argument("name")
@click.argument("code", required=False)
@click.option("--at", "at_", help="Time of the tick, such as 2025-01-15T06:00. Default: now.")
@click.option(
    "--dry-run", is_flag=True, help="Show the runs it would start, without starting them."
)
@with_workers
@as_dagster_option
@json_option
@at_a_workspace
def trigger(  # noqa: PLR0913 - the options of the command
    *,
    name: str,
    code: str | None,
    at_: str | None,
    dry_run: bool,
    where: Where,
    workers: int,
    as_dagster: bool,
    json_: bool,
) -> int:
    """Run a tick of schedule NAME in CODE now, even if it is paused, and wait for its runs.

    The tick is recorded as manual. Scheduled ticks are not affected.
    """
    workspace = where.workspace_or_empty()
    found = one_code(code, workspace, as_dagster=as_dagster)
    evaluator = found.evaluator(where.address, workspace)
    at = workspace.now() if at_ is None else parse_tick(at_)
    if dry_run:
        return _tell_preview(preview_tick(workspace, evaluator, name, at=at), json_=json_)
    when = tick_instant(evaluator, name, at)  # a refusal leaves no store behind
    with open_host(found, where, workers) as host:
        evaluator = found.evaluator(where.address, host.workspace)
        ticked = trigger_schedule(host.workspace, evaluator, name, at=when)
        found.forget_project()
        ended = [wait_for(host, run, shown=not json_) for run in ticked.run_ids]
    if json_:
        emit_json(finished_tick(ticked, [one.run for one in ended]))
        return max((exit_code_of(one) for one in ended), default=1 if ticked.error else 0)
    if ticked.error:
        raise _failed(ticked.error)
    if not ticked.run_ids:
        console().print(f"No runs: {ticked.skipped}")
    return max((tell(one, where, json_=False) for one in ended), default=0)


def _tell_preview(found: TickPreview, *, json_: bool) -> int:
    """Print what a tick would start; the exit code."""
    if json_:
        emit_json(found)
        return 1 if found.error else 0
    if found.error:
        raise _failed(found.error)
    if not found.runs:
        console().print(f"No runs: {found.skipped}")
    print_requests(found.runs)
    return 0


def _failed(error: str) -> Invalid:
    return Invalid(f"the schedule failed: {error}", remedy="fix the schedule's function")


# --- words ----------------------------------------------------------------------------------------


def print_requests(runs: Sequence[RequestPreview]) -> None:
    """The runs that user code requests, one per line."""
    for run in runs:
        tasks = plural(run.task_count, "task")
        console().print(f"Would start a run of {tasks} with run key {run.run_key}")


def _print_ticks(rows: Sequence[ScheduleTickRow]) -> None:
    table = grid("tick", "status", "run", "reason", whole=3)
    for row in rows:
        why = row.message
        if row.skipped_count and row.skipped_until is not None:
            why = f"{plural(row.skipped_count, 'tick')} until {instant(row.skipped_until)}: {why}"
        status = _coloured(row.status.value)
        table.add_row(instant(row.scheduled_for), status, row.run_id or "", why)
    console().print(table if rows else "No ticks yet.")


def _coloured(word: str) -> Text:
    return Text(word, style=_COLOURS.get(word, ""))


def _cron(row: ScheduleDefinitionRow) -> str:
    shown = "; ".join(row.cron_expressions)
    return shown if row.timezone == "UTC" else f"{shown} ({row.timezone})"


def _last(row: ScheduleStateRow) -> str:
    if row.last_scheduled_for is None or row.last_status is None:
        return ""
    return f"{instant(row.last_scheduled_for)} {row.last_status.value}"
