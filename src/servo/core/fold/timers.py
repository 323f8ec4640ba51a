"""Durable timers. The row says when; any process may propose to fire it; the fold accepts once."""

from collections.abc import Mapping

from msgspec.structs import replace

from servo.core.events.envelope import Event, WaitsUntil
from servo.core.events.timers import (
    TimerCancelled,
    TimerEnqueued,
    TimerFired,
    TimerRequested,
    TimerType,
)
from servo.core.fold import parking
from servo.core.fold.context import Ctx, FoldRule, FurtherNeedsTable, NeedsTable, Rejected, Repeated
from servo.core.fold.run_lifecycle import RETRY_TIMER
from servo.core.ids import TenantId, WorkspaceId, timer_name
from servo.core.state.rows.execution import TimerRow
from servo.core.state.state import State
from servo.core.state.states import (
    READY,
    TimerState,
    TransitionReason,
)


def _on_requested(state: State, event: TimerRequested, ctx: Ctx) -> None:
    del ctx
    if event.timer_id in state.timers:
        raise Repeated(timer_id=event.timer_id)
    if event.timer_type is TimerType.RETRY or event.timer_id.startswith(RETRY_TIMER):
        raise Rejected("only the fold creates and cancels retry timers")
    if event.run_id is not None and event.run_id not in state.index.runs_active:
        over = parking.has_come(state, event.run_id, WaitsUntil.ACTIVE)
        raise Rejected(
            f"the run {event.run_id} of the timer is not active",
            waits_for="" if over else event.run_id,
            until=WaitsUntil.ACTIVE,
        )
    name = timer_name(
        TenantId(state.tenant), WorkspaceId(state.workspace), event.timer_type, event.timer_id
    )
    state.timers.put(
        event.timer_id,
        TimerRow(
            timer_id=event.timer_id,
            cloud_task_id=name,
            timer_type=event.timer_type,
            run_id=event.run_id,
            task_key=event.task_key,
            attempt=event.attempt,
            fire_at=event.fire_at,
            state=TimerState.SCHEDULED,
            payload=event.payload,
            row_version=state.seq,
        ),
    )


def firing_of(row: TimerRow) -> TimerFired:
    """The event that says that a timer is due."""
    return TimerFired(
        timer_id=row.timer_id,
        timer_type=row.timer_type,
        fire_at=row.fire_at,
        run_id=row.run_id,
        task_key=row.task_key,
        attempt=row.attempt,
    )


def _scheduled(state: State, timer_id: str) -> TimerRow:
    row = state.timers.rows.get(timer_id)
    if row is None or row.state is not TimerState.SCHEDULED:
        raise Rejected(f"no timer {timer_id} is scheduled")
    return row


def _on_enqueued(state: State, event: TimerEnqueued, ctx: Ctx) -> None:
    del ctx
    row = _scheduled(state, event.timer_id)
    if row.enqueued:
        raise Repeated(timer_id=event.timer_id)
    state.timers.put(event.timer_id, replace(row, enqueued=True, row_version=state.seq))


def _on_fired(state: State, event: TimerFired, ctx: Ctx) -> None:
    del ctx
    row = _scheduled(state, event.timer_id)
    if event != firing_of(row):
        raise Rejected("timer_differs: the timer is for something else, or for another time")
    if row.fire_at > state.ts:
        raise Rejected("the timer is not due")
    fired = replace(row, state=TimerState.FIRED, row_version=state.seq)
    state.timers.put(event.timer_id, fired)
    if row.timer_type is TimerType.RETRY:
        _retry(state, row)


def _retry(state: State, timer: TimerRow) -> None:
    """Wake a task. It waits for this timer: a cancel, the only other way out, takes it along."""
    key = (timer.run_id or "", timer.task_key or "")
    row = state.tasks.rows[key]
    state.tasks.put(
        key,
        replace(
            row,
            state=READY,
            reason=TransitionReason.RETRY_TIMER_EXPIRED,
            transitioned_at=state.ts,
            ready_at=state.ts,
            row_version=state.seq,
        ),
    )


def _on_cancelled(state: State, event: TimerCancelled, ctx: Ctx) -> None:
    del ctx
    row = _scheduled(state, event.timer_id)
    if row.timer_type is TimerType.RETRY:
        raise Rejected("only the fold creates and cancels retry timers")
    cancelled = replace(row, state=TimerState.CANCELLED, row_version=state.seq)
    state.timers.put(event.timer_id, cancelled)


RULES: Mapping[type[Event], FoldRule] = {
    TimerRequested: _on_requested,
    TimerEnqueued: _on_enqueued,
    TimerFired: _on_fired,
    TimerCancelled: _on_cancelled,
}
NEEDS: NeedsTable = {}
FURTHER_NEEDS: FurtherNeedsTable = {}
