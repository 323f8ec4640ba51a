"""How a task continues after an attempt that did not succeed.

There are two budgets: the policy's attempts are for failures of user code; losses of infrastructure
(a lost worker, an unclaimed delivery, a shutdown) have a separate one. After a cancel there is no
retry: whatever way the attempt ended, the task is cancelled.
"""

from datetime import datetime, timedelta
from types import MappingProxyType

from msgspec.structs import replace

from servo.core.events.tasks import TaskError, TaskFinished, TaskOutcome
from servo.core.events.timers import TimerType
from servo.core.fold.assets import record_attempt
from servo.core.fold.context import Ctx
from servo.core.fold.limits import span
from servo.core.fold.run_lifecycle import cancel_reason, end_tasks, ended, retry_timer_id
from servo.core.ids import RunId, TaskKeyStr, TenantId, WorkspaceId, jitter_fraction, timer_name
from servo.core.retry import (
    FailedAttempt,
    FailureKind,
    GiveUp,
    RetryDecision,
    RetryRules,
    Spent,
    retry_or_give_up,
)
from servo.core.state.rows.execution import RunRow, TaskRow, TimerRow
from servo.core.state.state import State
from servo.core.state.states import (
    CANCELLED,
    FAILED,
    RETRY_WAIT,
    TimerState,
    TransitionReason,
)

DEFAULT_POLICY = RetryRules()
NO_ERROR = TaskError()

_OUTCOME = MappingProxyType(
    {
        FailureKind.ERROR: TaskOutcome.FAILED,
        FailureKind.TIMED_OUT: TaskOutcome.TIMED_OUT,
        FailureKind.INTERRUPTED: TaskOutcome.INTERRUPTED,
        FailureKind.WORKER_LOST: TaskOutcome.INTERRUPTED,
        FailureKind.NOT_ACKNOWLEDGED: TaskOutcome.INTERRUPTED,
    }
)
_REASON = MappingProxyType(
    {
        FailureKind.ERROR: TransitionReason.EXECUTION_FAILED,
        FailureKind.TIMED_OUT: TransitionReason.TIMED_OUT,
        FailureKind.INTERRUPTED: TransitionReason.INTERRUPTED,
        FailureKind.WORKER_LOST: TransitionReason.HEARTBEAT_TIMEOUT,
        FailureKind.NOT_ACKNOWLEDGED: TransitionReason.DISPATCH_ACK_TIMEOUT,
    }
)
_USER_FAILURES = (FailureKind.ERROR, FailureKind.TIMED_OUT)


def attempt_lost(
    state: State,
    run: RunRow,
    row: TaskRow,
    ctx: Ctx,
    *,
    kind: FailureKind,
    report: TaskFinished | None = None,
) -> None:
    """End an attempt that did not succeed: retry, fail, or follow the cancelled run.

    An execution that reported its end stays named in the row, so that its report sent again is
    recognised; one that the leader gave up on is struck out, so that its report is stale.
    """
    error = NO_ERROR if report is None or report.error is None else report.error
    by_user = kind in _USER_FAILURES
    row = replace(
        row,
        outcome=_OUTCOME[kind],
        reported=report is not None,
        exec_id="" if report is None else row.exec_id,
        error_code=error.code,
        error_message=error.message,
        user_failures=row.user_failures + by_user,
        infra_losses=row.infra_losses + (not by_user),
        row_version=state.seq,
    )
    record_attempt(state, row, _OUTCOME[kind])
    if run.cancel_requested_at is not None:
        cancelled = ended(state, row, CANCELLED, cancel_reason(run))
        end_tasks(state, run, [cancelled], ctx)
        return
    decision = _decide(row, kind, error, None if report is None else report.retry_after_ms)
    if isinstance(decision, GiveUp):
        end_tasks(state, run, [ended(state, row, FAILED, _REASON[kind])], ctx)
    else:
        _wait_for_retry(state, row, decision.after, _REASON[kind])


def _decide(
    row: TaskRow, kind: FailureKind, error: TaskError, retry_after_ms: int | None
) -> RetryDecision:
    failure = FailedAttempt(
        kind=kind,
        error_types=error.types,
        retriable=error.retriable,
        retry_after=None if retry_after_ms is None else span(retry_after_ms),
        max_attempts=error.max_attempts,
    )
    spent = Spent(user_failures=row.user_failures, infra_losses=row.infra_losses)
    jitter = jitter_fraction(RunId(row.run_id), TaskKeyStr(row.task_key), row.attempt)
    return retry_or_give_up(row.retry or DEFAULT_POLICY, failure, spent, jitter=jitter)


def _wait_for_retry(state: State, row: TaskRow, delay: timedelta, why: TransitionReason) -> None:
    due = state.ts + delay
    waiting = replace(
        row,
        state=RETRY_WAIT,
        reason=why,
        transitioned_at=state.ts,
        retry_at=due,
        dispatch_deadline=None,
        lease_expires_at=None,
        execution_deadline=None,
        row_version=state.seq,
    )
    state.tasks.put((row.run_id, row.task_key), waiting)
    _schedule_retry(state, waiting, due)


def _schedule_retry(state: State, row: TaskRow, due: datetime) -> None:
    timer_id = retry_timer_id(state, row, due)
    name = timer_name(
        TenantId(state.tenant),
        WorkspaceId(state.workspace),
        "retry",
        row.run_id,
        row.task_key,
        row.attempt,
    )
    state.timers.put(
        timer_id,
        TimerRow(
            timer_id=timer_id,
            cloud_task_id=name,
            timer_type=TimerType.RETRY,
            run_id=row.run_id,
            task_key=row.task_key,
            attempt=row.attempt,
            fire_at=due,
            state=TimerState.SCHEDULED,
            row_version=state.seq,
        ),
    )
