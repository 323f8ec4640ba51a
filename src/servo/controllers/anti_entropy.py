"""The sweep: end attempts in flight whose time is up.

It looks only at attempts that hold a slot, so its cost depends on what runs, not on what exists.
Heartbeats are kept in the leader's memory: a recent one keeps the sweep from proposing, and the
fold does not need to know.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta

import msgspec

from servo.controllers.actions import Propose
from servo.core.events.dispatch import (
    CancelGraceExpired,
    DispatchAckTimedOut,
    ExecutionTimedOut,
    LeaseExpired,
)
from servo.core.state.rows.execution import TaskRow
from servo.core.state.state import State


class LastBeat(msgspec.Struct, frozen=True, kw_only=True):
    """The last heartbeat of an execution."""

    exec_id: str
    at: datetime
    count: int


def reconcile(state: State, now: datetime, beats: Mapping[str, LastBeat]) -> list[Propose]:
    """Propose to end every delivery and execution whose time is up at `now`."""
    rows = state.tasks.rows
    silent = [_unclaimed(rows[key]) for key in state.index.dispatched if _late(rows[key], now)]
    running = (_overdue(rows[key], now, beats) for key in state.index.running)
    return [*silent, *(action for action in running if action is not None)]


def _late(row: TaskRow, now: datetime) -> bool:
    return row.dispatch_deadline is not None and row.dispatch_deadline <= now


def _unclaimed(row: TaskRow) -> Propose:
    event = DispatchAckTimedOut(
        run_id=row.run_id,
        task_key=row.task_key,
        attempt_id=row.attempt_id,
        delivery=row.delivery,
    )
    return Propose((event,))


def _overdue(row: TaskRow, now: datetime, beats: Mapping[str, LastBeat]) -> Propose | None:
    if row.cancel_deadline is not None and row.cancel_deadline <= now:
        kind = CancelGraceExpired
    elif row.execution_deadline is not None and row.execution_deadline <= now:
        kind = ExecutionTimedOut
    elif _silent(row, now, beats.get(row.attempt_id)):
        kind = LeaseExpired
    else:
        return None
    event = kind(
        run_id=row.run_id,
        task_key=row.task_key,
        attempt_id=row.attempt_id,
        exec_id=row.exec_id,
    )
    return Propose((event,))


def _silent(row: TaskRow, now: datetime, beat: LastBeat | None) -> bool:
    if row.lease_expires_at is None or row.lease_expires_at > now:
        return False
    if beat is None or beat.exec_id != row.exec_id:
        return True
    return beat.at + timedelta(milliseconds=row.heartbeat_timeout_ms) <= now
