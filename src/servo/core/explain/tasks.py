"""Why a task is in its state, and what would change that."""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from types import MappingProxyType
from typing import TypeVar

from msgspec.structs import replace

from servo.core.explain import words
from servo.core.explain.asked import asked
from servo.core.explain.causes import Cause, first_causes
from servo.core.explain.finding import Finding, FindingStatus, What
from servo.core.explain.limits import NOBODY, RESUME, waiting_for_run_slot, waiting_for_worker
from servo.core.explain.outputs import failed_checks, judged
from servo.core.explain.records import Records
from servo.core.explain.words import due, instant, plural
from servo.core.fold.limits import MAX_DELIVERIES
from servo.core.retry import RetryRules
from servo.core.state.rows.execution import RunRow, TaskRow
from servo.core.state.states import TaskState, TransitionReason

T = TypeVar("T")

MOST_CAUSES = 5
MOST_ERROR = 300

_HOW = MappingProxyType(
    {
        TransitionReason.TIMED_OUT: "timed out",
        TransitionReason.INTERRUPTED: "was interrupted: its worker was shut down",
        TransitionReason.HEARTBEAT_TIMEOUT: "was lost: its worker stopped responding",
        TransitionReason.DISPATCH_ACK_TIMEOUT: "was not picked up by any worker",
    }
)


def explain_task(records: Records, task: TaskRow) -> Finding:
    """The state of a task, with its first causes."""
    return _EXPLAIN[task.state](records, task)


def explain_attempt(records: Records, task: TaskRow) -> Finding:
    """The state of a task, and what requested its run."""
    found = explain_task(records, task)
    run = records.run(task.run_id)
    origin = () if run is None else asked(records, run)
    return replace(found, because=(*found.because, *origin))


def causes_of(records: Records, task: TaskRow) -> tuple[Finding, ...]:
    """The tasks that a task waits for, or was skipped because of, each with its state."""
    return several(first_causes(records, task), lambda cause: _cause(records, cause), "task")


def several(rows: Sequence[T], told: Callable[[T], Finding], noun: str) -> tuple[Finding, ...]:
    """A finding for each of some rows, and a count of the rest."""
    found = [told(row) for row in rows[:MOST_CAUSES]]
    left = len(rows) - len(found)
    if left:
        text = f"and {plural(left, f'more {noun}')}"
        found.append(Finding(what=What.MORE, status=FindingStatus.NOTE, subject="", text=text))
    return tuple(found)


def _cause(records: Records, cause: Cause) -> Finding:
    found = explain_task(records, cause.task)
    if not cause.path:
        return found
    between = words.listed([words.task(row) for row in cause.path])
    return replace(found, text=f"{found.text} (in between: {between})")


def _finding(task: TaskRow, what: What, status: FindingStatus, text: str) -> Finding:
    return Finding(
        what=what,
        status=status,
        subject=task.task_key,
        text=f"{words.task(task)} {text}",
        at=task.transitioned_at,
        seq=task.row_version,
    )


# --- not started ----------------------------------------------------------------------------------


def _planned(records: Records, task: TaskRow) -> Finding:
    run = records.run(task.run_id)
    found = _finding(
        task, What.TASK_PLANNED, FindingStatus.WAITS, "is planned, and its run has not started"
    )
    return found if run is None else replace(found, because=(waiting_for_run_slot(records, run),))


def _blocked(records: Records, task: TaskRow) -> Finding:
    left, total = task.deps_total - task.deps_resolved_count, task.deps_total
    those = "its upstream task" if total == 1 else f"{left} of its {total} upstream tasks"
    found = _finding(task, What.TASK_BLOCKED, FindingStatus.WAITS, f"waits for {those}")
    causes = causes_of(records, task)
    if task.upstream_failed:
        after = "it will be skipped when the others have finished, because an upstream task failed"
        return replace(found, because=causes, next=after)
    return replace(found, because=causes, next="it can run when all of those have succeeded")


def _sent(records: Records, task: TaskRow) -> Finding:
    queue = f"the queue {task.queue}" if task.queue else "a queue"
    when = "" if task.dispatched_at is None else f" at {instant(task.dispatched_at)}"
    sent = f"delivery {task.delivery} of {MAX_DELIVERIES}"
    text = f"was sent to {queue}{when} ({sent}), and no worker has taken it yet"
    found = _finding(task, What.TASK_SENT, FindingStatus.WAITS, text)
    if records.led is False:
        return replace(found, next=NOBODY, command=RESUME)
    if task.dispatch_deadline is None:
        return found
    again = due(task.dispatch_deadline, records.now)
    return replace(found, next=f"if no worker takes it, it is sent again at {again}")


# --- running --------------------------------------------------------------------------------------


def _running(records: Records, task: TaskRow) -> Finding:
    worker = f" on {task.worker_id}" if task.worker_id else ""
    since = "" if task.started_at is None else f" since {instant(task.started_at)}"
    text = f"runs{worker}{since}, {_attempt(task, task.attempt)}"
    found = _finding(task, What.TASK_RUNNING, FindingStatus.WAITS, text)
    if task.cancel_deadline is not None:
        until = due(task.cancel_deadline, records.now)
        return replace(found, next=f"it was told to stop; at {until}, it is given up")
    silent = _silent_until(records, task)
    if silent is not None:
        return silent
    if task.execution_deadline is not None:
        until = due(task.execution_deadline, records.now)
        return replace(found, next=f"it finishes, or times out at {until}")
    return found


def _silent_until(records: Records, task: TaskRow) -> Finding | None:
    """A task whose worker has been silent for longer than allowed."""
    beat = records.heartbeat(task)
    patience = timedelta(milliseconds=task.heartbeat_timeout_ms)
    ends = [] if task.lease_expires_at is None else [task.lease_expires_at]
    ends += [] if beat is None else [beat.last_heartbeat_at + patience]
    if records.led is False:
        text = f"was running, {_attempt(task, task.attempt)}, and {NOBODY} now"
        found = _finding(task, What.TASK_SILENT, FindingStatus.WAITS, text)
        after = "the next leader waits for its worker, or gives it up and retries it"
        return replace(found, next=after, command=RESUME)
    if not ends or max(ends) > records.now:
        return None
    heard = "" if beat is None else f" since {instant(beat.last_heartbeat_at)}"
    text = f"runs, {_attempt(task, task.attempt)}, but its worker has been silent{heard}"
    found = _finding(task, What.TASK_SILENT, FindingStatus.WAITS, text)
    return replace(found, next="it will be given up as lost and retried on another worker")


def _attempt(task: TaskRow, number: int) -> str:
    """The number of an attempt. Lost workers do not count against the attempts of a task."""
    if not task.infra_losses:
        return f"attempt {number} of {task.max_attempts}"
    lost = plural(task.infra_losses, "worker")
    failed = f"{task.user_failures} of {task.max_attempts}"
    return f"attempt {number}, with {failed} tries failed and {lost} lost"


# --- failed ---------------------------------------------------------------------------------------


def _retrying(records: Records, task: TaskRow) -> Finding:
    text = f"{_how(task)} at {instant(task.transitioned_at)} ({_attempt(task, task.attempt)})"
    found = _finding(task, What.TASK_RETRY, FindingStatus.WAITS, f"{text}{_error(task)}")
    found = replace(found, because=failed_checks(records, task.run_id, task.attempt_id))
    if records.led is False:
        found = replace(found, command=RESUME)
    if task.retry_at is None:
        return replace(found, next="it will be retried")
    when = due(task.retry_at, records.now)
    return replace(found, next=f"next attempt at {when}: {_attempt(task, task.attempt + 1)}")


def _failed(records: Records, task: TaskRow) -> Finding:
    text = f"{_how(task)} at {instant(task.transitioned_at)} ({_attempt(task, task.attempt)})"
    found = _finding(task, What.TASK_FAILED, FindingStatus.FAILED, f"{text}{_error(task)}")
    return replace(
        found,
        because=failed_checks(records, task.run_id, task.attempt_id),
        next=f"{_why_final(task)}; see `servo logs {task.run_id} {task.asset_key}`, "
        "fix the cause, and retry",
        command=f"servo run retry {task.run_id}",
    )


def _how(task: TaskRow) -> str:
    return _HOW.get(task.reason, "failed")


def _error(task: TaskRow) -> str:
    """The first line of the error of an attempt."""
    lines = (task.error_message.strip() or task.error_code).splitlines()
    line = lines[0] if lines else ""
    short = line if len(line) <= MOST_ERROR else f"{line[: MOST_ERROR - 1]}…"
    return f": {short}" if short else ""


def _why_final(task: TaskRow) -> str:
    policy = task.retry or RetryRules()
    if task.infra_losses > policy.max_infra_retries:
        lost = plural(task.infra_losses, "worker")
        return f"it lost {lost}, and at most {policy.max_infra_retries} are allowed"
    if task.user_failures >= task.max_attempts:
        if task.max_attempts == 1:
            return "it has no retry policy"
        return "no attempts are left"
    return "this kind of error is not retried"


# --- over -----------------------------------------------------------------------------------------


def _skipped(records: Records, task: TaskRow) -> Finding:
    when = instant(task.transitioned_at)
    if task.reason is TransitionReason.EXECUTION_SKIPPED:
        text = f"skipped itself at {when}{_error(task)}"
        found = _finding(task, What.TASK_SKIPPED, FindingStatus.NOTE, text)
        return replace(found, next="its code decides again the next time it runs")
    text = f"was skipped at {when} because of its upstream assets"
    causes = causes_of(records, task)
    failed = any(cause.status is FindingStatus.FAILED for cause in causes)
    status = FindingStatus.FAILED if failed else FindingStatus.NOTE
    return replace(_finding(task, What.TASK_SKIPPED, status, text), because=causes)


def _cancelled(records: Records, task: TaskRow) -> Finding:
    run = records.run(task.run_id)
    why = "" if run is None else f": {stopped(run)}"
    late = task.late_outcome
    told = "" if late is None else f"; it reported {late.value} afterwards, too late to count"
    text = f"was cancelled at {instant(task.transitioned_at)}{why}{told}"
    found = _finding(task, What.TASK_CANCELLED, FindingStatus.FAILED, text)
    after = "it will not run again unless you retry it"
    return replace(found, next=after, command=f"servo run retry {task.run_id}")


def stopped(run: RunRow) -> str:
    """Who stopped a run, and why."""
    if run.timed_out:
        return f"the run exceeded its time limit ({words.span(_allowed(run))})"
    by = f" by {run.cancel_requested_by}" if run.cancel_requested_by else ""
    when = "" if run.cancel_requested_at is None else f" at {instant(run.cancel_requested_at)}"
    why = f" ({run.cancel_reason})" if run.cancel_reason else ""
    forced = " by force" if run.cancel_forced else ""
    return f"the run was cancelled{forced}{by}{when}{why}"


def _allowed(run: RunRow) -> timedelta:
    begun, ended = run.started_at or run.created_at, run.cancel_requested_at or run.transitioned_at
    return ended - begun


def _succeeded(records: Records, task: TaskRow) -> Finding:
    text = f"succeeded at {instant(task.transitioned_at)}, {_attempt(task, task.attempt)}"
    found = _finding(task, What.TASK_SUCCEEDED, FindingStatus.DONE, text)
    judgements = [judged(records, row) for row in records.outputs_of(task)]
    because = tuple(one for one in judgements if one is not None)
    return replace(found, because=because)


_EXPLAIN: Mapping[TaskState, Callable[[Records, TaskRow], Finding]] = MappingProxyType(
    {
        TaskState.PLANNED: _planned,
        TaskState.BLOCKED: _blocked,
        TaskState.READY: waiting_for_worker,
        TaskState.DISPATCHED: _sent,
        TaskState.RUNNING: _running,
        TaskState.RETRY_WAIT: _retrying,
        TaskState.FAILED: _failed,
        TaskState.SKIPPED: _skipped,
        TaskState.CANCELLED: _cancelled,
        TaskState.SUCCEEDED: _succeeded,
    }
)
