"""Schedules: their definitions, and which of their ticks have been processed.

`low_water` is the whole memory of a schedule: every tick up to it has been triggered, skipped or
given up, and none of them is ever accepted again. It starts at creation and moves forward, never
past the time of the ledger. If a leader's clock was ahead, that time was too, and so are schedules:
once the clock is right they are rewound, which makes no recorded tick again. A tick carries the
definition it was made from; the first one under a tick id wins, whatever was edited since.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime

from msgspec.structs import replace

from servo.core.events.envelope import Event
from servo.core.events.runs import ScheduleSource
from servo.core.events.schedules import (
    SchedulePaused,
    ScheduleRemoved,
    ScheduleResumed,
    ScheduleRewound,
    ScheduleTicked,
    ScheduleUpserted,
    TicksSkipped,
    TickStatus,
)
from servo.core.fold.bounds import MOST, instant, number
from servo.core.fold.context import Ctx, FoldRule, FurtherNeedsTable, NeedsTable, Rejected, Repeated
from servo.core.state.rows.automation import (
    ScheduleDefinitionRow,
    ScheduleStateRow,
    ScheduleTickRow,
)
from servo.core.state.state import State
from servo.core.state.states import ScheduleStatus

MAX_CATCHUP_WINDOW_MINUTES = 10 * 366 * 24 * 60
MAX_CATCHUP_TICKS = 10_000


def correlate_run(state: State, source: ScheduleSource, run_id: str) -> None:
    """Record a run in the tick that requested it, if the tick came first."""
    tick = state.schedule_ticks.rows.get(source.tick_id)
    if tick is None or tick.run_id is not None or tick.schedule_id != source.schedule_id:
        return
    run = state.runs.rows.get(run_id)
    if run is None or (tick.run_key is not None and tick.run_key != run.run_key):
        return  # a tick may request several runs; its row names one
    named = replace(tick, run_id=run_id, row_version=state.seq)
    state.schedule_ticks.put(tick.tick_id, named)


# --- definitions ----------------------------------------------------------------------------------


def _on_upserted(state: State, event: ScheduleUpserted, ctx: Ctx) -> None:
    _check(event)
    old = state.schedules.rows.get(event.schedule_id)
    status = state.schedule_state.rows.get(event.schedule_id)
    if old is None or status is None or status.status is ScheduleStatus.REMOVED:
        row = _defined(state, event, 1 if old is None else old.definition_version + 1)
        state.schedules.put(event.schedule_id, row)
        _begin(state, event, status)
    else:
        row = _redefine(state, event, old, status)
    ctx.data["schedule_id"] = row.schedule_id
    ctx.data["definition_version"] = row.definition_version


def _check(event: ScheduleUpserted) -> None:
    number(event.catchup_window_minutes, "catchup_window_minutes", most=MAX_CATCHUP_WINDOW_MINUTES)
    number(event.max_catchup_ticks, "max_catchup_ticks", most=MAX_CATCHUP_TICKS)


def _defined(state: State, event: ScheduleUpserted, version: int) -> ScheduleDefinitionRow:
    return ScheduleDefinitionRow(
        schedule_id=event.schedule_id,
        cron_expressions=event.cron_expressions,
        timezone=event.timezone,
        catchup_window_minutes=event.catchup_window_minutes,
        max_catchup_ticks=event.max_catchup_ticks,
        asset_selection=event.asset_selection,
        partition_selection=event.partition_selection,
        enabled=event.enabled,
        labels=event.labels,
        target=event.target,
        definition_version=version,
        created_at=state.ts,
        row_version=state.seq,
    )


def _begin(state: State, event: ScheduleUpserted, removed: ScheduleStateRow | None) -> None:
    """Start a schedule, or restart a removed one: from now on, without past ticks."""
    row = removed or ScheduleStateRow(
        schedule_id=event.schedule_id,
        status=ScheduleStatus.ACTIVE,
        low_water=state.ts,
        row_version=state.seq,
    )
    row = replace(
        row,
        status=ScheduleStatus.ACTIVE if event.enabled else ScheduleStatus.PAUSED,
        low_water=max(row.low_water, state.ts),
        paused_at=None if event.enabled else state.ts,
        row_version=state.seq,
    )
    state.schedule_state.put(event.schedule_id, row)


def _redefine(
    state: State, event: ScheduleUpserted, old: ScheduleDefinitionRow, status: ScheduleStateRow
) -> ScheduleDefinitionRow:
    """Store a changed definition. A deployment does not pause or resume a schedule."""
    new = _defined(state, event, old.definition_version)
    new = replace(new, created_at=old.created_at, row_version=old.row_version)
    if new == old:
        return old
    new = replace(new, definition_version=old.definition_version + 1, row_version=state.seq)
    state.schedules.put(event.schedule_id, new)
    if (new.cron_expressions, new.timezone) != (old.cron_expressions, old.timezone):
        # The new times were not due before they were written down.
        moved = replace(status, low_water=max(status.low_water, state.ts), row_version=state.seq)
        state.schedule_state.put(event.schedule_id, moved)
    return new


def _on_removed(state: State, event: ScheduleRemoved, ctx: Ctx) -> None:
    del ctx
    row = state.schedule_state.rows.get(event.schedule_id)
    if row is None:
        raise _unknown(event.schedule_id)
    if row.status is not ScheduleStatus.REMOVED:
        gone = replace(row, status=ScheduleStatus.REMOVED, paused_at=None, row_version=state.seq)
        state.schedule_state.put(event.schedule_id, gone)


def _on_paused(state: State, event: SchedulePaused, ctx: Ctx) -> None:
    del ctx
    row = _standing(state, event.schedule_id)
    if row.status is ScheduleStatus.ACTIVE:
        paused = replace(
            row, status=ScheduleStatus.PAUSED, paused_at=state.ts, row_version=state.seq
        )
        state.schedule_state.put(event.schedule_id, paused)


def _on_resumed(state: State, event: ScheduleResumed, ctx: Ctx) -> None:
    del ctx
    row = _standing(state, event.schedule_id)
    if row.status is not ScheduleStatus.PAUSED:
        return
    resumed = replace(
        row,
        status=ScheduleStatus.ACTIVE,
        low_water=row.low_water if event.catchup else max(row.low_water, state.ts),
        paused_at=None,
        row_version=state.seq,
    )
    state.schedule_state.put(event.schedule_id, resumed)


def _standing(state: State, schedule_id: str) -> ScheduleStateRow:
    row = state.schedule_state.rows.get(schedule_id)
    if row is None or row.status is ScheduleStatus.REMOVED:
        raise _unknown(schedule_id)
    return row


def _unknown(schedule_id: str) -> Rejected:
    return Rejected(f"unknown_schedule: there is no schedule {schedule_id}")


# --- ticks ----------------------------------------------------------------------------------------


def _on_ticked(state: State, event: ScheduleTicked, ctx: Ctx) -> None:
    known = state.schedule_ticks.rows.get(event.tick_id)
    if known is not None:
        raise _seen(known, event.schedule_id)
    row = _standing(state, event.schedule_id)
    tick = _tick(state, event, ctx)
    paused = row.status is ScheduleStatus.PAUSED
    if paused and tick.status is TickStatus.TRIGGERED and not event.manual:
        raise Rejected(
            f"schedule_paused: the schedule {event.schedule_id} is paused; resume it first"
        )
    if not event.manual:
        _check_due(state, row, tick.scheduled_for, tick.scheduled_for)
        _advance(state, row, tick)
    state.schedule_ticks.put(tick.tick_id, tick)
    ctx.data["tick_id"] = tick.tick_id


def _tick(state: State, event: ScheduleTicked, ctx: Ctx) -> ScheduleTickRow:
    current = state.schedules.rows[event.schedule_id].definition_version
    run = None if event.run_key is None else state.run_keys.rows.get(event.run_key)
    return ScheduleTickRow(
        tick_id=event.tick_id,
        schedule_id=event.schedule_id,
        scheduled_for=instant(event.scheduled_for, "scheduled_for"),
        definition_version=number(
            event.definition_version, "definition_version", least=1, most=current
        ),
        asset_selection=event.asset_selection,
        partition_selection=event.partition_selection,
        status=event.status,
        message=event.message,
        run_key=event.run_key,
        run_id=None if run is None else run.run_id,
        request_fingerprint=event.request_fingerprint,
        recorded_at=state.ts,
        request_position=ctx.position,
        cause=ctx.cause,
        correlation=ctx.correlation,
        row_version=state.seq,
    )


def _seen(tick: ScheduleTickRow, schedule_id: str) -> Rejected | Repeated:
    if tick.schedule_id != schedule_id:
        return Rejected(f"tick_id_in_use: the tick id {tick.tick_id} belongs to another schedule")
    at = tick.request_position
    if tick.run_id is None:
        return Repeated(whole=True, at=at, tick_id=tick.tick_id)
    return Repeated(whole=True, at=at, tick_id=tick.tick_id, run_id=tick.run_id)


def _check_due(state: State, row: ScheduleStateRow, first: datetime, last: datetime) -> None:
    if first <= row.low_water:
        raise Rejected("tick_passed: the schedule has already processed this time")
    if last > state.ts:
        raise Rejected("tick_not_due: the time of the tick is in the future")


def _advance(state: State, row: ScheduleStateRow, tick: ScheduleTickRow) -> None:
    moved = replace(
        row,
        low_water=tick.scheduled_for,
        last_scheduled_for=tick.scheduled_for,
        last_tick_id=tick.tick_id,
        last_run_key=tick.run_key if tick.run_key is not None else row.last_run_key,
        last_status=tick.status,
        row_version=state.seq,
    )
    state.schedule_state.put(row.schedule_id, moved)


def _on_rewound(state: State, event: ScheduleRewound, ctx: Ctx) -> None:
    del ctx
    row = _standing(state, event.schedule_id)
    low_water = instant(event.low_water, "low_water")
    if row.low_water != event.expected_low_water:
        raise Rejected("schedule_moved: the schedule has moved meanwhile")
    if low_water >= row.low_water:
        raise Rejected("invalid_low_water: a schedule can only be rewound to an earlier time")
    rewound = replace(row, low_water=low_water, row_version=state.seq)
    state.schedule_state.put(event.schedule_id, rewound)


def skip_id(event: TicksSkipped) -> str:
    """The tick id of the row that stands for a range of skipped ticks."""
    return f"{event.schedule_id}:skipped:{event.first.isoformat()}"


def _is_same(known: ScheduleTickRow, event: TicksSkipped) -> bool:
    """Whether a range of skipped ticks was recorded before.

    A range with the same start and another end was not: its other ticks have no record.
    """
    return known.schedule_id != event.schedule_id or known.skipped_until == event.last


def _on_skipped(state: State, event: TicksSkipped, ctx: Ctx) -> None:
    known = state.schedule_ticks.rows.get(skip_id(event))
    if known is not None and _is_same(known, event):
        raise _seen(known, event.schedule_id)
    row = _standing(state, event.schedule_id)
    first, last = instant(event.first, "first"), instant(event.last, "last")
    if first > last:
        raise Rejected("invalid_ticks: the first tick is after the last")
    _check_due(state, row, first, last)
    tick = ScheduleTickRow(
        tick_id=skip_id(event),
        schedule_id=event.schedule_id,
        scheduled_for=first,
        definition_version=state.schedules.rows[event.schedule_id].definition_version,
        status=TickStatus.SKIPPED,
        message=event.reason,
        skipped_count=number(event.count, "count", least=1, most=MOST - row.ticks_skipped),
        skipped_until=last,
        recorded_at=state.ts,
        request_position=ctx.position,
        cause=ctx.cause,
        correlation=ctx.correlation,
        row_version=state.seq,
    )
    state.schedule_ticks.put(tick.tick_id, tick)
    moved = replace(
        row,
        low_water=last,
        ticks_skipped=row.ticks_skipped + event.count,
        row_version=state.seq,
    )
    state.schedule_state.put(event.schedule_id, moved)
    ctx.data["tick_id"] = tick.tick_id


def _needs_tick(event: ScheduleTicked) -> Iterable[tuple[str, object]]:
    yield "schedule_ticks", event.tick_id
    if event.run_key is not None:
        yield "run_key_index", event.run_key


def _needs_skip(event: TicksSkipped) -> Iterable[tuple[str, object]]:
    return (("schedule_ticks", skip_id(event)),)


RULES: Mapping[type[Event], FoldRule] = {
    ScheduleUpserted: _on_upserted,
    ScheduleRemoved: _on_removed,
    SchedulePaused: _on_paused,
    ScheduleResumed: _on_resumed,
    ScheduleTicked: _on_ticked,
    ScheduleRewound: _on_rewound,
    TicksSkipped: _on_skipped,
}
NEEDS: NeedsTable = {
    ScheduleTicked: _needs_tick,
    TicksSkipped: _needs_skip,
}
FURTHER_NEEDS: FurtherNeedsTable = {}
