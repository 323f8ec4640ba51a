"""What is due: retry timers, requested timers, run deadlines and parked batches.

Heaps hold hints: an entry counts only if the row still agrees. What the fold rejects (because a
clock runs ahead of the entry's) is proposed again later, because a hint is dropped only when its
row no longer waits.
"""

from collections.abc import Iterable
from datetime import datetime
from heapq import heappop

from servo.controllers.actions import Propose
from servo.core.events.parking import ParkedBatchExpired
from servo.core.events.runs import PlanDeadlineExceeded, RunDeadlineExceeded
from servo.core.fold.timers import firing_of
from servo.core.state.rows.execution import RunRow
from servo.core.state.state import State
from servo.core.state.states import TERMINAL_RUN_STATES, TimerState

MAX_PER_ROUND = 1_000


def reconcile(state: State, now: datetime) -> list[Propose]:
    """Propose everything that is due at `now`."""
    return [*_timers(state, now), *_runs(state, now)]


def next_due(state: State) -> datetime | None:
    """The earliest time at which something may become due."""
    _skim_timers(state)
    _skim_runs(state)
    heads = [heap[0][0] for heap in (state.index.timers_due, state.index.runs_due) if heap]
    return min(heads, default=None)


def expire_parked(state: State, now: datetime) -> list[Propose]:
    """Expire parked batches whose time is up."""
    due = (row.batch_id for row in state.parked.values() if row.expires_at <= now)
    return [Propose((ParkedBatchExpired(batch_id=batch_id),)) for batch_id in due]


def _timers(state: State, now: datetime) -> list[Propose]:
    due: list[Propose] = []
    _skim_timers(state)
    for fire_at, timer_id in _once(state.index.timers_due[: 4 * MAX_PER_ROUND]):
        row = state.timers.rows.get(timer_id)
        if row is None or row.state is not TimerState.SCHEDULED or row.fire_at != fire_at:
            continue
        if fire_at <= now and len(due) < MAX_PER_ROUND:
            due.append(Propose((firing_of(row),)))
    return due


def _once(hints: Iterable[tuple[datetime, str]]) -> Iterable[tuple[datetime, str]]:
    """The hints in order, without duplicates: a row leaves one whenever it is written."""
    return dict.fromkeys(sorted(hints))


def _skim_timers(state: State) -> None:
    """Drop hints from the top whose timer has fired, moved or been removed."""
    heap = state.index.timers_due
    while heap:
        fire_at, timer_id = heap[0]
        row = state.timers.rows.get(timer_id)
        if row is not None and row.state is TimerState.SCHEDULED and row.fire_at == fire_at:
            return
        heappop(heap)


def _runs(state: State, now: datetime) -> list[Propose]:
    _skim_runs(state)
    heap = state.index.runs_due
    if not heap or heap[0][0] > now:
        return []
    due: list[Propose] = []
    for deadline, run_id in _once(heap):
        run = state.runs.rows.get(run_id)
        if deadline > now or len(due) >= MAX_PER_ROUND:
            break
        if run is None or run.state in TERMINAL_RUN_STATES:
            continue
        if run.plan_deadline == deadline:
            due.append(Propose((PlanDeadlineExceeded(run_id=run_id),)))
        elif run.deadline == deadline and run.cancel_requested_at is None:
            due.append(Propose((RunDeadlineExceeded(run_id=run_id),)))
    return due


def _skim_runs(state: State) -> None:
    """Drop hints from the top whose run ended, is being stopped, or has another deadline."""
    heap = state.index.runs_due
    while heap:
        deadline, run_id = heap[0]
        run = state.runs.rows.get(run_id)
        if run is not None and _waits_for(run, deadline):
            return
        heappop(heap)


def _waits_for(run: RunRow, deadline: datetime) -> bool:
    open_ended = run.state not in TERMINAL_RUN_STATES and run.cancel_requested_at is None
    return open_ended and deadline in (run.plan_deadline, run.deadline)
