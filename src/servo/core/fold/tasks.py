"""Claims and results of workers, and how the fold decides about them.

A fact counts only for the current attempt and the execution whose claim was granted. A repeated
claim is decided by state: the execution that holds the attempt is granted again and its lease
renewed, so that a reply lost on the way costs nothing; every other one is denied for ever.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any

from msgspec.structs import replace

from servo.core.events.envelope import Event
from servo.core.events.tasks import TaskFinished, TaskOutcome, TaskStarted
from servo.core.fold import parking
from servo.core.fold.assets import promote, record_attempt, record_cost
from servo.core.fold.attempts import NO_ERROR, attempt_lost
from servo.core.fold.context import Ctx, FoldRule, FurtherNeedsTable, NeedsTable, Rejected, Repeated
from servo.core.fold.latest import check_outputs
from servo.core.fold.limits import CANCEL_GRACE, MAX_DOUBLINGS, MIN_HEARTBEAT_TIMEOUT_MS, span
from servo.core.fold.run_lifecycle import cancel_reason, end_tasks, ended, write_edges
from servo.core.retry import FailureKind
from servo.core.state.rows.execution import RunRow, TaskRow
from servo.core.state.state import State
from servo.core.state.states import (
    CANCELLED,
    DISPATCHED,
    READY,
    RUNNING,
    SKIPPED,
    SUCCEEDED,
    OutboxStatus,
    TransitionReason,
)

# Named once: finding a member in its enumeration takes longer than replacing a small row.
_LEAST = MIN_HEARTBEAT_TIMEOUT_MS
_EXECUTION_STARTED = TransitionReason.EXECUTION_STARTED
_EXECUTION_SUCCEEDED = TransitionReason.EXECUTION_SUCCEEDED
_OUTCOME_SUCCEEDED = TaskOutcome.SUCCEEDED
_ACKED = OutboxStatus.ACKED

FAILURES = MappingProxyType(
    {
        TaskOutcome.FAILED: FailureKind.ERROR,
        TaskOutcome.TIMED_OUT: FailureKind.TIMED_OUT,
        TaskOutcome.INTERRUPTED: FailureKind.INTERRUPTED,
        TaskOutcome.CANCELLED: FailureKind.INTERRUPTED,
    }
)


def task_of(state: State, run_id: str, task_key: str) -> TaskRow:
    """The task a fact is about, or a refusal that a parkable batch can wait out."""
    row = state.tasks.rows.get((run_id, task_key))
    if row is None:
        raise parking.unknown_task(state, run_id)
    return row


def started(row: TaskRow, state: State, exec_id: str, worker_id: str) -> TaskRow:
    """The row of a task whose attempt was just granted to an execution."""
    return replace(
        row,
        state=RUNNING,
        reason=_EXECUTION_STARTED,
        transitioned_at=state.ts,
        exec_id=exec_id,
        worker_id=worker_id,
        started_at=state.ts,
        fencing_token=state.seq,
        dispatch_deadline=None,
        lease_expires_at=lease_end(row, state),
        execution_deadline=execution_end(row, state),
        row_version=state.seq,
    )


def lease_end(row: TaskRow, state: State) -> datetime:
    """When a lease that is granted or renewed now runs out."""
    length = row.heartbeat_timeout_ms
    return state.ts + span(max(_LEAST, length))


def claim_end(row: TaskRow, state: State, *, delivery: int) -> datetime:
    """When a delivery that is sent now must have been claimed: twice as long as the one before.

    If workers are busy and not gone, sending again and again only gives them more to look through.
    """
    doubled = min(delivery - 1, MAX_DOUBLINGS)
    return state.ts + span(row.dispatch_ack_timeout_ms << doubled)


def execution_end(row: TaskRow, state: State) -> datetime | None:
    """When an execution that starts now must have ended."""
    limit = row.execution_timeout_ms
    return state.ts + span(limit) if limit else None


def _on_started(state: State, event: TaskStarted, ctx: Ctx) -> None:
    row = task_of(state, event.run_id, event.task_key)
    if row.attempt_id != event.attempt_id:
        raise Rejected("denied: this is not the current attempt")
    key = (row.run_id, row.task_key)
    if row.state is RUNNING and row.exec_id == event.exec_id:
        renewed = replace(row, lease_expires_at=lease_end(row, state), row_version=state.seq)
        state.tasks.put(key, renewed)
    elif row.state is DISPATCHED:
        row = started(row, state, event.exec_id, event.worker_id)
        state.tasks.put(key, row)
        _acknowledge(state, row)
    else:
        raise Rejected("denied: another worker has the attempt, or it has ended")
    ctx.data["grant"] = "granted"
    ctx.data["fencing_token"] = row.fencing_token


def _acknowledge(state: State, row: TaskRow) -> None:
    key = (row.attempt_id, row.delivery)
    sent = state.outbox.rows[key]
    state.outbox.put(key, replace(sent, status=_ACKED, row_version=state.seq))


def _on_finished(state: State, event: TaskFinished, ctx: Ctx) -> None:
    row = task_of(state, event.run_id, event.task_key)
    if row.attempt_id != event.attempt_id or row.exec_id != event.exec_id:
        raise Rejected("stale: not the current execution")
    run = state.runs.rows[row.run_id]
    running = row.state is RUNNING
    if running and event.cost is not None:
        record_cost(state, row, event.cost)
    if running and event.outcome is _OUTCOME_SUCCEEDED and run.cancel_requested_at is None:
        _succeeded(state, run, row, event, ctx)
        ctx.data["task_state"] = SUCCEEDED
        return
    if not running:
        _finished_late(state, row, event)
    elif run.cancel_requested_at is not None:
        _finished_cancelled(state, run, row, event, ctx)
    elif event.outcome is TaskOutcome.SKIPPED:
        record_attempt(state, row, event.outcome)
        skipped = ended(state, row, SKIPPED, TransitionReason.EXECUTION_SKIPPED)
        end_tasks(state, run, [_told_why(skipped, event)], ctx)
    elif event.outcome is TaskOutcome.INTERRUPTED and not event.began:
        _give_back(state, row)
    else:
        attempt_lost(state, run, row, ctx, kind=FAILURES[event.outcome], report=event)
    ctx.data["task_state"] = state.tasks.rows[row.run_id, row.task_key].state


def _give_back(state: State, row: TaskRow) -> None:
    """Revoke a grant: no attempt took place, and the next one has another id."""
    ready = replace(
        row,
        state=READY,
        reason=TransitionReason.GIVEN_BACK,
        transitioned_at=state.ts,
        attempt=row.attempt - 1,
        attempt_id="",
        exec_id="",
        worker_id="",
        delivery=0,
        dispatched_at=None,
        started_at=None,
        lease_expires_at=None,
        execution_deadline=None,
        row_version=state.seq,
    )
    state.tasks.put((row.run_id, row.task_key), ready)


def _told_why(row: TaskRow, event: TaskFinished) -> TaskRow:
    """A task that its own code skipped, with the reason it gave."""
    why = event.error or NO_ERROR
    return replace(
        row,
        outcome=event.outcome,
        reported=True,
        error_code=why.code,
        error_message=why.message,
    )


def _succeeded(state: State, run: RunRow, row: TaskRow, event: TaskFinished, ctx: Ctx) -> None:
    output = event.output
    if event.outputs:
        check_outputs(row, event.outputs)
        output = event.outputs[0]
    elif output is not None and output.partition_key:
        check_outputs(row, (output,))
    row = replace(
        row,
        state=SUCCEEDED,
        reason=_EXECUTION_SUCCEEDED,
        transitioned_at=state.ts,
        finished_at=state.ts,
        lease_expires_at=None,
        execution_deadline=None,
        reported=True,
        outcome=_OUTCOME_SUCCEEDED,
        materialization_id=(output and output.materialization_id) or row.exec_id,
        code_version=event.code_version or row.code_version,
        row_version=state.seq,
    )
    promote(state, row, event, ctx.index_in(state.seq))
    end_tasks(state, run, [row], ctx)


def _finished_cancelled(
    state: State, run: RunRow, row: TaskRow, event: TaskFinished, ctx: Ctx
) -> None:
    """The run was cancelled first: the result is kept on record and promotes nothing."""
    record_attempt(state, row, TaskOutcome.CANCELLED)
    row = ended(state, row, CANCELLED, cancel_reason(run))
    row = replace(row, reported=True, outcome=TaskOutcome.CANCELLED, late_outcome=event.outcome)
    end_tasks(state, run, [row], ctx)


def _finished_late(state: State, row: TaskRow, event: TaskFinished) -> None:
    """The execution was cancelled before its report: record the report, change nothing else."""
    if row.state is CANCELLED and not row.reported:
        write_edges(state, row)
        late = replace(row, reported=True, late_outcome=event.outcome, row_version=state.seq)
        state.tasks.put((row.run_id, row.task_key), late)
        return
    raise Repeated(task_state=row.state.value)


def refresh_leases(state: State, silence: timedelta) -> None:
    """Give everything in flight its full time again: the silence was not the workers' fault.

    Folded with the first entry of a new leader and with every entry written after a stall. Told
    to stop or not, a running execution could not hear it either, so its grace starts anew too.
    A stall may be a clock that was set forward, so what executions may take grows by it.
    """
    for key in list(state.index.running):
        row = state.tasks.rows[key]
        grace = None if row.cancel_deadline is None else state.ts + CANCEL_GRACE
        limit = row.execution_deadline
        fresh = replace(
            row,
            lease_expires_at=lease_end(row, state),
            cancel_deadline=grace,
            execution_deadline=None if limit is None else limit + silence,
            row_version=state.seq,
        )
        state.tasks.put(key, fresh)
    for key in list(state.index.dispatched):
        row = state.tasks.rows[key]
        due = claim_end(row, state, delivery=row.delivery)
        state.tasks.put(key, replace(row, dispatch_deadline=due, row_version=state.seq))


def _run_and_task(event: TaskStarted | TaskFinished) -> Iterable[tuple[str, object]]:
    return (("runs", event.run_id), ("tasks", (event.run_id, event.task_key)))


def partitions_of(state: State, event: Any) -> Iterable[tuple[str, object]]:
    """The partitions of an event's task, where the end of an attempt is recorded."""
    row = state.tasks.rows.get((event.run_id, event.task_key))
    return () if row is None else partitions_made(row)


def partitions_made(row: TaskRow) -> list[tuple[str, object]]:
    """The rows of the partitions that a task materializes."""
    if row.partition_key is None:
        return []
    made = (row.asset_key, *row.also_makes)
    partitions = (row.partition_key, *row.also_partitions)
    return [("partition_status", (key, name)) for key in made for name in partitions]


RULES: Mapping[type[Event], FoldRule] = {TaskStarted: _on_started, TaskFinished: _on_finished}
NEEDS: NeedsTable = {
    TaskStarted: _run_and_task,
    TaskFinished: _run_and_task,
}
FURTHER_NEEDS: FurtherNeedsTable = {TaskFinished: partitions_of}
