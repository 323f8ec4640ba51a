"""How tasks end, what that does to their dependants, and when a run is over.

Everything that ends a task goes through `end_tasks`: it tells the dependants, makes them ready or
ends them in turn, counts, and closes the run when the last one ended. It works off a list, so a
chain of any length costs its length and no stack. A dependant is decided when all of its upstreams
are resolved: any order of their endings gives the same result.

The edges themselves are not written: what they say follows from the task above (`state.derived`),
as long as that does not change. Code that changes it later calls `write_edges` first.
"""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from msgspec.structs import replace

from servo.core.fold.context import Ctx
from servo.core.fold.limits import CANCEL_GRACE
from servo.core.ids import TenantId, WorkspaceId, timer_name
from servo.core.state import derived
from servo.core.state.rows.execution import RunRow, TaskRow
from servo.core.state.state import State
from servo.core.state.states import (
    BLOCKED,
    CANCELLED,
    FAILED,
    READY,
    RUNNING,
    SKIPPED,
    SUCCEEDED,
    TERMINAL_RUN_STATES,
    TERMINAL_TASK_STATES,
    Resolution,
    RunState,
    RunTransitionReason,
    TaskState,
    TimerState,
    TransitionReason,
)

# Named once: finding a member in its enumeration takes longer than replacing a small row.
_SUCCESS = Resolution.SUCCESS
_DEPENDENCIES_SATISFIED = TransitionReason.DEPENDENCIES_SATISFIED
_RUN_PENDING = RunState.PENDING

RETRY_TIMER = "timer:retry:"
"""How the ids of timers begin that only the fold makes."""


def end_tasks(state: State, run: RunRow, ended: list[TaskRow], ctx: Ctx) -> None:
    """Put rows that are now terminal, settle their dependants, count, close the run if over."""
    put = state.tasks.put
    for row in ended:
        put((row.run_id, row.task_key), row)
    over, work = list(ended), ended
    while work := _settle_dependants(state, work):
        over += work
    close_if_over(state, counted(run, over, state.seq), ctx)


def _settle_dependants(state: State, ended: list[TaskRow]) -> list[TaskRow]:
    """Tell the dependants of tasks that just ended; those of them that ended with it.

    A task ends once, so each dependant is told once.
    """
    tasks, downstream, swap = state.tasks.rows, state.index.downstream, state.tasks.swap
    next_ended: list[TaskRow] = []
    for upstream in ended:
        run_id = upstream.run_id
        dependants = downstream.get((run_id, upstream.task_key))
        if dependants is None:
            continue
        how = resolution_of(upstream)
        for dependant in dependants:
            key = (run_id, dependant)
            before = tasks[key]
            if before.finished_at is not None:
                write_edges(state, before)
            row = resolved(state, before, how)
            swap(key, before, row)
            if row.state is not before.state and row.state is not READY:
                next_ended.append(row)
    return next_ended


def write_edges(state: State, ended: TaskRow) -> None:
    """Write what the edges below a task say that has ended, before something changes the task."""
    for key, row in tuple(derived.edges_below(state, ended)):
        state.edges.put(key, row)


def resolution_of(upstream: TaskRow) -> Resolution:
    """How the edges below a task that ended are resolved."""
    return _SUCCESS if upstream.state is SUCCEEDED else derived.RESOLUTION[upstream.state]


def resolved(state: State, row: TaskRow, how: Resolution) -> TaskRow:
    """A task after one more of its upstreams was resolved; ready or skipped if it was the last."""
    done = row.deps_resolved_count + 1
    if done < row.deps_total or row.state is not BLOCKED:
        return note_resolution(row, how, state.seq)
    if how is _SUCCESS and row.deps_satisfied_count + 1 == done:
        return replace(
            row,
            deps_resolved_count=done,
            deps_satisfied_count=done,
            state=READY,
            reason=_DEPENDENCIES_SATISFIED,
            ready_at=state.ts,
            transitioned_at=state.ts,
            row_version=state.seq,
        )
    return ready_or_skipped(state, note_resolution(row, how, state.seq))


def note_resolution(row: TaskRow, how: Resolution, seq: int) -> TaskRow:
    """Count one more resolved upstream of a task."""
    if how is _SUCCESS:
        return replace(
            row,
            deps_resolved_count=row.deps_resolved_count + 1,
            deps_satisfied_count=row.deps_satisfied_count + 1,
            row_version=seq,
        )
    return replace(
        row,
        deps_resolved_count=row.deps_resolved_count + 1,
        upstream_failed=row.upstream_failed or how is Resolution.FAILED,
        upstream_cancelled=row.upstream_cancelled or how is Resolution.CANCELLED,
        row_version=seq,
    )


def ready_or_skipped(state: State, row: TaskRow) -> TaskRow:
    """A task all of whose upstreams are resolved: it can run, or is skipped.

    No upstream was cancelled: only a cancelled run cancels tasks, and it ends in the same step
    all that have not started.
    """
    if row.deps_satisfied_count == row.deps_total:
        return replace(
            row,
            state=READY,
            reason=_DEPENDENCIES_SATISFIED,
            ready_at=state.ts,
            transitioned_at=state.ts,
            row_version=state.seq,
        )
    why = (
        TransitionReason.UPSTREAM_FAILED
        if row.upstream_failed
        else TransitionReason.UPSTREAM_SKIPPED
    )
    return ended(state, row, SKIPPED, why)


def ended(state: State, row: TaskRow, into: TaskState, why: TransitionReason) -> TaskRow:
    """The row of a task that ends now, with everything that could still wake it cleared."""
    return replace(
        row,
        state=into,
        reason=why,
        transitioned_at=state.ts,
        finished_at=state.ts,
        dispatch_deadline=None,
        lease_expires_at=None,
        execution_deadline=None,
        cancel_deadline=None,
        retry_at=None,
        row_version=state.seq,
    )


def counted(run: RunRow, ended: Sequence[TaskRow], seq: int) -> RunRow:
    """The row of a run in which these tasks have ended."""
    if len(ended) == 1 and ended[0].state is SUCCEEDED:
        return replace(run, tasks_succeeded=run.tasks_succeeded + 1, row_version=seq)
    count = Counter(row.state for row in ended)
    return replace(
        run,
        tasks_succeeded=run.tasks_succeeded + count[SUCCEEDED],
        tasks_failed=run.tasks_failed + count[FAILED],
        tasks_skipped=run.tasks_skipped + count[SKIPPED],
        tasks_cancelled=run.tasks_cancelled + count[CANCELLED],
        row_version=seq,
    )


def tasks_over(run: RunRow) -> int:
    """How many tasks of a run have ended."""
    return run.tasks_succeeded + run.tasks_failed + run.tasks_skipped + run.tasks_cancelled


def close_if_over(state: State, run: RunRow, ctx: Ctx) -> None:
    """Put the run row, terminal if its last task has ended."""
    if tasks_over(run) == run.task_count and run.state is not _RUN_PENDING:
        end_run(state, run, *_verdict(run), ctx)
    else:
        state.runs.put(run.run_id, run)


def _verdict(run: RunRow) -> tuple[RunState, RunTransitionReason]:
    if run.timed_out:
        return RunState.TIMED_OUT, RunTransitionReason.TIMED_OUT
    if run.cancel_requested_at is not None:
        return RunState.CANCELLED, run.reason
    if run.tasks_failed:
        return RunState.FAILED, RunTransitionReason.TASKS_FAILED
    return RunState.SUCCEEDED, RunTransitionReason.ALL_TASKS_SUCCEEDED


def end_run(state: State, run: RunRow, into: RunState, why: RunTransitionReason, ctx: Ctx) -> None:
    """Close a run; `apply` then settles what waits for it."""
    state.runs.put(
        run.run_id,
        replace(
            run,
            state=into,
            reason=why,
            transitioned_at=state.ts,
            finished_at=state.ts,
            deadline=None,
            plan_deadline=None,
            row_version=state.seq,
        ),
    )
    ctx.ended_runs.append(run.run_id)


def cancel_run(
    state: State, run: RunRow, ctx: Ctx, *, reason: RunTransitionReason, by: str, why: str
) -> None:
    """Cancel a run: nothing starts, running tasks get a grace period, all others end."""
    if run.state in TERMINAL_RUN_STATES or run.cancel_requested_at is not None:
        return
    unborn = run.task_count - len(state.index.run_tasks.get(run.run_id, ()))
    run = replace(
        run,
        state=RunState.CANCELLING,
        reason=reason,
        transitioned_at=state.ts,
        cancel_requested_at=state.ts,
        cancel_requested_by=by,
        cancel_reason=why,
        timed_out=reason is RunTransitionReason.TIMED_OUT,
        tasks_cancelled=run.tasks_cancelled + unborn,
        plan_segments=(),
        row_version=state.seq,
    )
    state.runs.put(run.run_id, run)
    end_tasks(state, run, _stop_tasks(state, run), ctx)


def cancel_reason(run: RunRow) -> TransitionReason:
    """The reason for which every task of a run ends that is being stopped, now or later."""
    asked = run.reason is RunTransitionReason.USER_CANCELLED
    return TransitionReason.USER_CANCELLED if asked else TransitionReason.SYSTEM_CANCELLED


def _stop_tasks(state: State, run: RunRow) -> list[TaskRow]:
    """Give running tasks their grace period; return the rows of all others, now ended."""
    why = cancel_reason(run)
    stopped: list[TaskRow] = []
    for name in state.index.run_tasks.get(run.run_id, ()):
        row = state.tasks.rows[run.run_id, name]
        if row.state in TERMINAL_TASK_STATES:
            continue
        if row.state is RUNNING:
            told = replace(row, cancel_deadline=state.ts + CANCEL_GRACE, row_version=state.seq)
            state.tasks.put((row.run_id, row.task_key), told)
        else:
            _drop_retry_timer(state, row)
            stopped.append(ended(state, row, CANCELLED, why))
    return stopped


def retry_timer_id(state: State, row: TaskRow, due: datetime) -> str:
    """The id of the timer that wakes a task for its next attempt."""
    epoch = int(due.timestamp())
    parts = ("retry", row.run_id, row.task_key, row.attempt, epoch)
    return RETRY_TIMER + timer_name(TenantId(state.tenant), WorkspaceId(state.workspace), *parts)


def _drop_retry_timer(state: State, row: TaskRow) -> None:
    if row.retry_at is None:
        return
    key = retry_timer_id(state, row, row.retry_at)
    timer = state.timers.rows.get(key)
    if timer is not None and timer.state is TimerState.SCHEDULED:
        state.timers.put(key, replace(timer, state=TimerState.CANCELLED, row_version=state.seq))
