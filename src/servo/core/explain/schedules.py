"""The schedules of an asset: whether they tick, and what their last tick did."""

from shlex import quote
from typing import assert_never

from msgspec.structs import replace

from servo.core.cron import Cron
from servo.core.events.runs import ScheduleSource
from servo.core.events.schedules import TickStatus
from servo.core.explain.finding import Finding, FindingStatus, What
from servo.core.explain.limits import NOBODY, RESUME
from servo.core.explain.records import Records, Subject
from servo.core.explain.sources import sources_of
from servo.core.explain.words import due, instant, plural
from servo.core.state.rows.automation import (
    ScheduleDefinitionRow,
    ScheduleStateRow,
    ScheduleTickRow,
)
from servo.core.state.states import ScheduleStatus
from servo.errors import Invalid


def schedules(records: Records, subject: Subject) -> list[Finding]:
    """The schedules that select an asset, and those that materialized it before."""
    found = {row.schedule_id: row for row in records.schedules_of(subject.asset_key)}
    for source in sources_of(records, subject):
        row = records.schedule(source.schedule_id) if isinstance(source, ScheduleSource) else None
        if row is not None:
            found.setdefault(row.schedule_id, row)
    return [_schedule(records, row) for row in found.values()]


def _schedule(records: Records, row: ScheduleDefinitionRow) -> Finding:
    name = row.schedule_id
    state = records.schedule_state(name)
    times = f"{' and '.join(row.cron_expressions)} {row.timezone}"
    found = Finding(
        what=What.SCHEDULE,
        status=FindingStatus.NOTE,
        subject=name,
        text=f"the schedule {name} ({times})",
    )
    tick = records.last_tick(name)
    if tick is not None:
        found = replace(found, because=(_tick(records, tick),))
    if state is None or state.status is ScheduleStatus.REMOVED:
        return replace(found, text=f"{found.text} was removed", next="deploy it again")
    if state.status is ScheduleStatus.PAUSED:
        since = "" if state.paused_at is None else f" since {instant(state.paused_at)}"
        return replace(
            found,
            status=FindingStatus.WAITS,
            text=f"{found.text} is paused{since}",
            at=state.paused_at,
            seq=state.row_version,
            next="resume it",
            command=f"servo schedule resume {quote(name)}",
        )
    return _ticking(records, found, row, state)


def _ticking(
    records: Records, found: Finding, row: ScheduleDefinitionRow, state: ScheduleStateRow
) -> Finding:
    try:
        tick = Cron(row.cron_expressions, row.timezone).next_after(state.low_water)
    except Invalid as error:
        text = f"{found.text} cannot tick: {error.message}"
        return replace(found, status=FindingStatus.FAILED, text=text, next=error.remedy)
    if tick is None:
        return replace(
            found, text=f"{found.text} has no future ticks", next="change its cron expression"
        )
    if tick > records.now:
        return replace(
            found, text=f"{found.text} is active", next=f"next tick {due(tick, records.now)}"
        )
    late = f"{found.text} is overdue: its tick of {due(tick, records.now)}, was not evaluated yet"
    if records.led is False:
        return replace(found, status=FindingStatus.WAITS, text=f"{late}; {NOBODY}", command=RESUME)
    return replace(
        found, status=FindingStatus.WAITS, text=late, next="it will be evaluated in a moment"
    )


def _tick(records: Records, tick: ScheduleTickRow) -> Finding:
    """What the last tick of a schedule did."""
    said = f': "{tick.message}"' if tick.message else ""
    when = f"its tick of {instant(tick.scheduled_for)}"
    found = Finding(
        what=What.SCHEDULE,
        status=FindingStatus.NOTE,
        subject=tick.tick_id,
        text=f"{when} requested a run",
        at=tick.scheduled_for,
        seq=tick.row_version,
    )
    match tick.status:
        case TickStatus.TRIGGERED:
            return replace(found, text=f"{found.text}{said}{_runs(records, tick)}")
        case TickStatus.FAILED:
            text = f"{when} failed{said}"
            after = "fix its function; the next tick tries again"
            return replace(found, status=FindingStatus.FAILED, text=text, next=after)
        case TickStatus.SKIPPED:
            if tick.skipped_count:
                until = "" if tick.skipped_until is None else f" to {instant(tick.skipped_until)}"
                count = plural(tick.skipped_count, "tick")
                when = f"{count} from {instant(tick.scheduled_for)}{until}"
                return replace(found, text=f"{when} skipped{said}")
            return replace(found, text=f"{when} was skipped{said}")
        case _:
            assert_never(tick.status)


def _runs(records: Records, tick: ScheduleTickRow) -> str:
    run = None if tick.run_id is None else records.run(tick.run_id)
    if run is None:
        return ""
    shared = isinstance(run.source, ScheduleSource) and run.source.tick_id == tick.tick_id
    before = "" if shared else ", already requested with the same run key"
    return f", {run.run_id}{before}, which is {run.state.value}"
