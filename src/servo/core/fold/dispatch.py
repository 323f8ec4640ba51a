"""Attempts made, delivered, and given up by the leader.

Every rule here judges an intent by what it saw. The fold's own time decides whether a deadline
has passed, so an intent from a leader with a fast clock is refused like any other early one.
"""

from collections.abc import Mapping
from datetime import datetime

from msgspec.structs import replace

from servo.core.events.dispatch import (
    CancelGraceExpired,
    DispatchAckTimedOut,
    DispatchEnqueued,
    DispatchRequested,
    ExecutionTimedOut,
    Handover,
    LeaseExpired,
)
from servo.core.events.envelope import Event
from servo.core.events.tasks import TaskOutcome
from servo.core.fold.assets import record_attempt
from servo.core.fold.attempts import attempt_lost
from servo.core.fold.context import Ctx, FoldRule, FurtherNeedsTable, NeedsTable, Rejected
from servo.core.fold.limits import DEFAULT_MAX_CONCURRENT_TASKS, MAX_DELIVERIES
from servo.core.fold.run_lifecycle import cancel_reason, end_tasks, ended
from servo.core.fold.tasks import claim_end, execution_end, lease_end, partitions_of, task_of
from servo.core.ids import (
    AttemptId,
    TenantId,
    WorkspaceId,
    attempt_id,
    queue_message_name,
)
from servo.core.retry import FailureKind
from servo.core.state.rows.execution import DispatchOutboxRow, RunRow, TaskRow
from servo.core.state.state import State
from servo.core.state.states import (
    CANCELLED,
    DISPATCHED,
    READY,
    RUNNING,
    OutboxStatus,
    RunState,
    TransitionReason,
)

# Named once: finding a member in its enumeration takes longer than replacing a small row.
_DISPATCHED_TO_WORKER = TransitionReason.DISPATCHED_TO_WORKER
_EXECUTION_STARTED = TransitionReason.EXECUTION_STARTED
_GIVEN_BACK = TransitionReason.GIVEN_BACK
_PENDING = OutboxStatus.PENDING
_CREATED = OutboxStatus.CREATED


def free_slots(state: State) -> int:
    """How many more attempts may be in flight."""
    index = state.index
    quota = index.workspace_quota
    limit = DEFAULT_MAX_CONCURRENT_TASKS
    if quota is not None and quota.max_concurrent_tasks is not None:
        limit = quota.max_concurrent_tasks
    return limit - len(index.dispatched) - len(index.running)


def free_in_pool(state: State, pool: str) -> int | None:
    """How many more attempts a pool admits; None if it has no limit."""
    quota = state.index.quotas.get(("pool", pool)) if pool else None
    if quota is None or quota.max_concurrent_tasks is None:
        return None
    return quota.max_concurrent_tasks - state.index.pool_active.get(pool, 0)


def free_in_queue(state: State) -> int:
    """How many more deliveries may wait for a worker to claim them."""
    quota = state.index.workspace_quota
    if quota is None or quota.max_queued_tasks is None:
        return DEFAULT_MAX_CONCURRENT_TASKS
    return quota.max_queued_tasks - len(state.index.dispatched)


def _on_requested(state: State, event: DispatchRequested, ctx: Ctx) -> None:
    row = task_of(state, event.run_id, event.task_key)
    if row.state is not READY or event.attempt != row.attempt + 1:
        raise Rejected("the task is not ready for this attempt")
    if free_slots(state) <= 0:
        raise Rejected("no free task slot")
    pool = free_in_pool(state, row.pool) if row.pool else None
    if pool is not None and pool <= 0:
        raise Rejected(f"no free slot in the pool {row.pool}")
    if event.handover is None and free_in_queue(state) <= 0:
        raise Rejected("quota: too many tasks are waiting for a worker")
    if event.handover is not None:
        new = _handed_over(state, row, event.attempt, event.handover)
        ctx.data["fencing_token"] = new.fencing_token
    else:
        new = _dispatched(state, row, event.attempt)
        _send(state, new)
    state.tasks.swap((event.run_id, event.task_key), row, new)
    ctx.data["attempt_id"] = new.attempt_id


def _id_of(row: TaskRow, attempt: int) -> AttemptId:
    """The id of the next attempt at a task."""
    given_back = row.fencing_token if row.reason is _GIVEN_BACK else 0
    return attempt_id(row.run_id, row.task_key, attempt, given_back)


def _dispatched(state: State, row: TaskRow, attempt: int) -> TaskRow:
    """The row of a task with a new attempt that waits for a worker to claim it."""
    now = state.ts
    return replace(
        row,
        state=DISPATCHED,
        reason=_DISPATCHED_TO_WORKER,
        transitioned_at=now,
        attempt=attempt,
        attempt_id=_id_of(row, attempt),
        exec_id="",
        worker_id="",
        delivery=1,
        reported=False,
        outcome=None,
        retry_at=None,
        error_code="",
        error_message="",
        dispatched_at=now,
        dispatch_deadline=claim_end(row, state, delivery=1),
        row_version=state.seq,
    )


def _handed_over(state: State, row: TaskRow, attempt: int, to: Handover) -> TaskRow:
    """The row of a task with a new attempt that a waiting worker got: `_dispatched`, `started`."""
    now, seq = state.ts, state.seq
    return replace(
        row,
        state=RUNNING,
        reason=_EXECUTION_STARTED,
        transitioned_at=now,
        attempt=attempt,
        attempt_id=_id_of(row, attempt),
        exec_id=to.exec_id,
        worker_id=to.worker_id,
        delivery=1,
        reported=False,
        outcome=None,
        retry_at=None,
        error_code="",
        error_message="",
        dispatched_at=now,
        started_at=now,
        fencing_token=seq,
        lease_expires_at=lease_end(row, state),
        execution_deadline=execution_end(row, state),
        row_version=seq,
    )


def _send(state: State, row: TaskRow) -> None:
    """Write the outbox row from which the runtime sends this delivery."""
    state.outbox.put(
        (row.attempt_id, row.delivery),
        DispatchOutboxRow(
            dispatch_id=f"dispatch:{row.run_id}:{row.task_key}:{row.attempt}:{row.delivery}",
            cloud_task_id=queue_message_name(
                TenantId(state.tenant),
                WorkspaceId(state.workspace),
                AttemptId(row.attempt_id),
                row.delivery,
            ),
            run_id=row.run_id,
            task_key=row.task_key,
            attempt=row.attempt,
            attempt_id=row.attempt_id,
            delivery=row.delivery,
            status=_PENDING,
            worker_queue=row.queue,
            created_at=state.ts,
            row_version=state.seq,
        ),
    )


def _on_enqueued(state: State, event: DispatchEnqueued, ctx: Ctx) -> None:
    del ctx
    key = (event.attempt_id, event.delivery)
    row = state.outbox.rows.get(key)
    if row is None or row.status is not _PENDING:
        raise Rejected("the delivery is not pending")
    state.outbox.put(key, replace(row, status=_CREATED, row_version=state.seq))


def _on_ack_timed_out(state: State, event: DispatchAckTimedOut, ctx: Ctx) -> None:
    row = task_of(state, event.run_id, event.task_key)
    waiting = row.state is DISPATCHED and row.attempt_id == event.attempt_id
    if not waiting or row.delivery != event.delivery or not _passed(state, row.dispatch_deadline):
        raise Rejected("the delivery is not overdue")
    _fail_delivery(state, row)
    if row.delivery < MAX_DELIVERIES:
        again = replace(
            row,
            delivery=row.delivery + 1,
            dispatch_deadline=claim_end(row, state, delivery=row.delivery + 1),
            row_version=state.seq,
        )
        state.tasks.put((row.run_id, row.task_key), again)
        _send(state, again)
        return
    run = state.runs.rows[row.run_id]
    attempt_lost(state, run, row, ctx, kind=FailureKind.NOT_ACKNOWLEDGED)


def _fail_delivery(state: State, row: TaskRow) -> None:
    key = (row.attempt_id, row.delivery)
    sent = state.outbox.rows[key]
    state.outbox.put(key, replace(sent, status=OutboxStatus.FAILED, row_version=state.seq))


def _passed(state: State, deadline: datetime | None) -> bool:
    return deadline is not None and deadline <= state.ts


def _held(
    state: State, event: LeaseExpired | ExecutionTimedOut | CancelGraceExpired
) -> tuple[RunRow, TaskRow]:
    """The task an execution still holds, with its run; otherwise a refusal."""
    row = task_of(state, event.run_id, event.task_key)
    current = row.attempt_id == event.attempt_id and row.exec_id == event.exec_id
    if row.state is not RUNNING or not current:
        raise Rejected("the execution no longer holds the task")
    return state.runs.rows[row.run_id], row


def _on_lease_expired(state: State, event: LeaseExpired, ctx: Ctx) -> None:
    run, row = _held(state, event)
    if not _passed(state, row.lease_expires_at):
        raise Rejected("the lease has not expired")
    attempt_lost(state, run, row, ctx, kind=FailureKind.WORKER_LOST)


def _on_execution_timed_out(state: State, event: ExecutionTimedOut, ctx: Ctx) -> None:
    run, row = _held(state, event)
    if not _passed(state, row.execution_deadline):
        raise Rejected("the execution has not timed out")
    attempt_lost(state, run, row, ctx, kind=FailureKind.TIMED_OUT)


def _on_grace_expired(state: State, event: CancelGraceExpired, ctx: Ctx) -> None:
    run, row = _held(state, event)
    if run.state is not RunState.CANCELLING or not _passed(state, row.cancel_deadline):
        raise Rejected("the grace period has not ended")
    record_attempt(state, row, TaskOutcome.CANCELLED)
    over = ended(state, row, CANCELLED, cancel_reason(run))
    over = replace(over, outcome=TaskOutcome.CANCELLED)
    end_tasks(state, run, [over], ctx)


RULES: Mapping[type[Event], FoldRule] = {
    DispatchRequested: _on_requested,
    DispatchEnqueued: _on_enqueued,
    DispatchAckTimedOut: _on_ack_timed_out,
    LeaseExpired: _on_lease_expired,
    ExecutionTimedOut: _on_execution_timed_out,
    CancelGraceExpired: _on_grace_expired,
}
NEEDS: NeedsTable = {}
FURTHER_NEEDS: FurtherNeedsTable = {
    DispatchAckTimedOut: partitions_of,
    LeaseExpired: partitions_of,
    ExecutionTimedOut: partitions_of,
    CancelGraceExpired: partitions_of,
}
