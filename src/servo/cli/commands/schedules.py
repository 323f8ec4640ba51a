"""`servo schedule`: what ticks when, what came of it, and pausing it."""

from collections.abc import Sequence
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import click
import msgspec
from rich.text import Text

from servo.cli.code import as_dagster_option
from servo.cli.commands.materialize import exit_code_of, tell, with_workers
from servo.cli.hosts import open_host, read_code
from servo.cli.leaving import leave, refuse_active, refuse_paused, tell_left
from servo.cli.loaded_here import loaded_here
from servo.cli.options import json_option, paged, tell_older
from servo.cli.output import console, emit_json, instant, plural
from servo.cli.run_display import wait_for
from servo.cli.tables import facts, grid
from servo.cli.workspace import Target, Where, at_a_workspace, of_a_workspace
from servo.code.evaluator.messages import Evaluated, EvaluateTick
from servo.code.evaluator.schedules import evaluate_tick, tick_id
from servo.controllers.schedules import cron_of, missed_while_paused
from servo.core.events.schedules import SchedulePaused, ScheduleResumed, TickStatus
from servo.core.state.rows.automation import (
    ScheduleDefinitionRow,
    ScheduleStateRow,
    ScheduleTickRow,
)
from servo.core.state.states import ScheduleStatus
from servo.errors import Invalid, NotFound
from servo.projection.read.lookup import Lookup, Page, Paged
from servo.projection.read.reader import Reader, Snapshot
from servo.sdk.triggers.resolution import find_schedule
from servo.storage.memory import MemoryStore
from servo.triggers.schedules import DueTick, ticked
from servo.workspace.identity import this_process
from servo.workspace.system import SystemClock, SystemEntropy

_COLOURS = {
    TickStatus.TRIGGERED.value: "green",
    TickStatus.FAILED.value: "red",
    ScheduleStatus.ACTIVE.value: "green",
    ScheduleStatus.PAUSED.value: "yellow",
}


class ListedSchedule(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule, how it stands, and when it ticks next."""

    definition: ScheduleDefinitionRow
    state: ScheduleStateRow
    next_tick: datetime | None


@click.group("schedule")
def schedule() -> None:
    """See what ticks when and what came of it; pause, resume and trigger it."""


@schedule.command("list", short_help="Every schedule, and its next tick.")
@json_option
@of_a_workspace
def list_(*, target: Target, json_: bool) -> None:
    """List the schedules that were deployed, with their last and their next tick."""
    rows = Reader(target.store, target.paths).read(lambda found: _all(found, target))
    if json_:
        emit_json(rows)
        return
    table = grid("schedule", "status", "cron", "makes", "last tick", "next tick", whole=2)
    for row in rows:
        definition, state = row.definition, row.state
        table.add_row(
            definition.schedule_id,
            _coloured(state.status.value),
            _cron(definition),
            definition.target,
            _last(state),
            "" if row.next_tick is None else instant(row.next_tick),
        )
    console().print(table if rows else "no schedules yet: deploy some with `servo dev`")


@schedule.command("show", short_help="One schedule and its newest ticks.")
@click.argument("name")
@json_option
@of_a_workspace
def show(*, target: Target, name: str, json_: bool) -> None:
    """Show how the schedule NAME is defined and what its newest ticks came to."""
    reader = Reader(target.store, target.paths)
    newest = Page(limit=10)
    row, told = reader.read(lambda found: (_one(found, target, name), _ticks(found, name, newest)))
    ticks = told.rows
    if json_:
        emit_json({"schedule": row, "ticks": ticks})
        return
    definition, state = row.definition, row.state
    table = facts()
    table.add_row("status", _coloured(state.status.value))
    table.add_row("cron", _cron(definition))
    table.add_row("makes", definition.target or "what its function says")
    table.add_row(
        "catches up",
        f"{plural(definition.max_catchup_ticks, 'tick')} of the last "
        f"{plural(definition.catchup_window_minutes, 'minute')}",
    )
    table.add_row("skipped so far", str(state.ticks_skipped))
    table.add_row("next tick", "none" if row.next_tick is None else instant(row.next_tick))
    console().print(table)
    _print_ticks(ticks)


@schedule.command("ticks", short_help="What came of its ticks.")
@click.argument("name")
@paged
@json_option
@of_a_workspace
def ticks(*, target: Target, name: str, page: Page, json_: bool) -> None:
    """List the newest ticks of the schedule NAME: runs, skips and failures, each with its why."""
    reader = Reader(target.store, target.paths)
    _, told = reader.read(lambda found: (_one(found, target, name), _ticks(found, name, page)))
    if json_:
        emit_json(told.rows)
        return
    _print_ticks(told.rows)
    tell_older(told.older)


@schedule.command("preview", short_help="When it will tick.")
@click.argument("name")
@click.option(
    "--count", type=click.IntRange(1, 1000), default=10, show_default=True, help="How many."
)
@json_option
@of_a_workspace
def preview(*, target: Target, name: str, count: int, json_: bool) -> None:
    """Say when the schedule NAME ticks next, in its own time zone and in UTC."""
    row = Reader(target.store, target.paths).read(lambda found: _one(found, target, name))
    cron, at, coming = cron_of(row.definition), target.clock.now(), list[datetime]()
    while len(coming) < count and (found := cron.next_after(at)) is not None:
        coming.append(found)
        at = found
    if json_:
        emit_json(coming)
        return
    zone = ZoneInfo(row.definition.timezone)
    for found in coming:
        console().print(f"{instant(found)}  {found.astimezone(zone):%a %Y-%m-%d %H:%M:%S %Z}")


@schedule.command("pause", short_help="Let it tick no more.")
@click.argument("name")
@of_a_workspace
def pause(*, target: Target, name: str) -> None:
    """Pause the schedule NAME. What it misses meanwhile is recorded, and not made up for."""
    row = Reader(target.store, target.paths).read(lambda found: _one(found, target, name))
    refuse_paused(f"schedule {name}", paused=row.state.status is ScheduleStatus.PAUSED)
    leave(target, "schedule", SchedulePaused(schedule_id=name, changed_by=this_process()))
    tell_left(target, name, "paused")


@schedule.command("resume", short_help="Let it tick again.")
@click.argument("name")
@click.option("--catchup", is_flag=True, help="Make up for what was missed, as after a downtime.")
@of_a_workspace
def resume(*, target: Target, name: str, catchup: bool) -> None:
    """Resume the schedule NAME. What was missed while it was paused is recorded as skipped."""
    row = Reader(target.store, target.paths).read(lambda found: _one(found, target, name))
    refuse_active(f"schedule {name}", active=row.state.status is not ScheduleStatus.PAUSED)
    missed = missed_while_paused(row.definition, row.state, target.clock.now())
    event = ScheduleResumed(schedule_id=name, catchup=catchup, changed_by=this_process())
    if missed is not None and not catchup:
        # Apart: if somebody else has moved the schedule, this is refused and the rest is not.
        leave(target, "schedule", missed)
    leave(target, "schedule", event)
    tell_left(target, name, "resumed")


@schedule.command("trigger", short_help="Have it tick now.")
@click.argument("name")
@click.argument("code", required=False)
@click.option("--at", "at_", help="The tick to make, such as 2025-01-15T06:00; now if not given.")
@click.option("--dry-run", is_flag=True, help="Say what it would ask for, and do nothing.")
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
    """Have the schedule NAME of CODE tick by hand, paused or not, and wait for its runs.

    The tick is recorded as one that somebody asked for, and its own ticks come as ever.
    """
    found, project = read_code(code, as_dagster=as_dagster)
    zone = find_schedule(project, name).cron().timezone
    when = SystemClock().now() if at_ is None else _instant(at_, zone)
    request = SystemEntropy().token_bytes(8).hex()
    asked = EvaluateTick(schedule_id=name, tick_id=tick_id(name, when, request), scheduled_for=when)
    if dry_run:
        return _told(
            evaluate_tick(
                loaded_here(project, MemoryStore(SystemClock()), where, salt=bytes(32)), asked
            ),
            json_=json_,
        )
    with open_host(found, where, workers) as host:
        row = host.schedule(name)
        loaded = loaded_here(project, host.store, where, salt=host.salt, location=found.name)
        answer = evaluate_tick(loaded, asked)
        del project
        due = DueTick(definition=row, scheduled_for=when)
        runs = host.submit(ticked(due, answer, manual=request))
        ended = [wait_for(host, run, shown=not json_) for run in runs]
    if json_:
        emit_json(
            {"error": answer.error, "skipped": answer.skipped, "runs": [one.run for one in ended]}
        )
        return max((exit_code_of(one) for one in ended), default=1 if answer.error else 0)
    if not runs:
        return _told(answer, json_=json_)
    return max(tell(one, where, json_=False) for one in ended)


def _told(answer: Evaluated, *, json_: bool) -> int:
    """Say what a tick came to; the exit code."""
    if json_:
        emit_json(answer)
        return 1 if answer.error else 0
    if answer.error:
        raise Invalid(f"it failed: {answer.error}", remedy="mend the schedule's function")
    out = console()
    if not answer.runs:
        out.print(f"it asks for nothing: {answer.skipped}")
    for run in answer.runs:
        count = len(run.planned.tasks) + sum(part.count for part in run.planned.segments)
        out.print(f"it asks for {plural(count, 'task')}, under the key {run.requested.run_key}")
    return 0


# --- reading --------------------------------------------------------------------------------------


def _all(found: Snapshot, target: Target) -> list[ListedSchedule]:
    now = target.clock.now()
    rows = [row for row in found.rows("schedule_state") if isinstance(row, ScheduleStateRow)]
    states = {row.schedule_id: row for row in rows}
    definitions = found.rows("schedule_definitions")
    listed = [
        ListedSchedule(
            definition=row, state=states[row.schedule_id], next_tick=_next(row, states, now)
        )
        for row in definitions
        if isinstance(row, ScheduleDefinitionRow)
    ]
    there = [row for row in listed if row.state.status is not ScheduleStatus.REMOVED]
    return sorted(there, key=lambda row: row.definition.schedule_id)


def _next(
    row: ScheduleDefinitionRow, states: dict[str, ScheduleStateRow], now: datetime
) -> datetime | None:
    state = states[row.schedule_id]
    if state.status is not ScheduleStatus.ACTIVE:
        return None
    return cron_of(row).next_after(max(now, state.low_water))


def _one(found: Snapshot, target: Target, name: str) -> ListedSchedule:
    rows = {row.definition.schedule_id: row for row in _all(found, target)}
    if name not in rows:
        known = ", ".join(rows) or "none"
        raise NotFound(f"there is no schedule {name} in this workspace", remedy=f"there is {known}")
    return rows[name]


def _ticks(found: Snapshot, name: str, page: Page) -> Paged[ScheduleTickRow]:
    newest = ("scheduled_for",)
    return Lookup(found).page(
        ScheduleTickRow, page, name="tick_id", newest=newest, schedule_id=name
    )


# --- words ----------------------------------------------------------------------------------------


def _print_ticks(rows: Sequence[ScheduleTickRow]) -> None:
    table = grid("tick", "status", "run", "why", whole=3)
    for row in rows:
        why = row.message
        if row.skipped_count and row.skipped_until is not None:
            why = f"{plural(row.skipped_count, 'tick')} until {instant(row.skipped_until)}: {why}"
        status = _coloured(row.status.value)
        table.add_row(instant(row.scheduled_for), status, row.run_id or "", why)
    console().print(table if rows else "no ticks yet")


def _coloured(word: str) -> Text:
    return Text(word, style=_COLOURS.get(word, ""))


def _cron(row: ScheduleDefinitionRow) -> str:
    shown = "; ".join(row.cron_expressions)
    return shown if row.timezone == "UTC" else f"{shown} ({row.timezone})"


def _last(row: ScheduleStateRow) -> str:
    if row.last_scheduled_for is None or row.last_status is None:
        return ""
    return f"{instant(row.last_scheduled_for)} {row.last_status.value}"


def _instant(text: str, timezone: str) -> datetime:
    try:
        given = datetime.fromisoformat(text)
    except ValueError:
        raise Invalid(f"{text!r} is no time", remedy="write it like 2025-01-15T06:00") from None
    zoned = given if given.tzinfo is not None else given.replace(tzinfo=ZoneInfo(timezone))
    return zoned.astimezone(UTC)
