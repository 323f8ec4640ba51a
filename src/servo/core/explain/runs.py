"""Why a run exists, why it is in its state, and what would change that."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from msgspec.structs import replace

from servo.core.explain.asked import asked
from servo.core.explain.finding import Finding, FindingStatus, What
from servo.core.explain.limits import NOBODY, RESUME, waiting_for_run_slot
from servo.core.explain.records import Records
from servo.core.explain.tasks import explain_task, several, stopped
from servo.core.explain.words import due, instant, plural, span
from servo.core.state.rows.execution import RunRow, TaskRow
from servo.core.state.states import RunState, TaskState, TransitionReason

_MOVING = (
    TaskState.RETRY_WAIT,
    TaskState.READY,
    TaskState.DISPATCHED,
    TaskState.RUNNING,
)


def explain_run(records: Records, run: RunRow) -> Finding:
    """The state of a run, what requested it, and what it waits for."""
    found = _EXPLAIN[run.state](records, run)
    because = (*asked(records, run), *found.because, *_letters(records, run.run_id))
    return replace(found, because=because)


def explain_unknown_run(records: Records, run_id: str) -> Finding | None:
    """The records about a run that has not been requested yet, if there are any."""
    letters = _letters(records, run_id)
    if not letters:
        return None
    return Finding(
        what=What.RUN_UNKNOWN,
        status=FindingStatus.WAITS,
        subject=run_id,
        text=f"{run_id} has not been requested yet, but reports about it have arrived",
        because=letters,
        next="they count once the run is requested and planned",
    )


def _finding(run: RunRow, what: What, status: FindingStatus, text: str) -> Finding:
    return Finding(
        what=what,
        status=status,
        subject=run.run_id,
        text=f"{run.run_id} {text}",
        at=run.transitioned_at,
        seq=run.row_version,
    )


# --- not over -------------------------------------------------------------------------------------


def _pending(records: Records, run: RunRow) -> Finding:
    if run.plan_fingerprint:
        return waiting_for_run_slot(records, run)
    found = _finding(
        run, What.RUN_UNPLANNED, FindingStatus.WAITS, "was requested and has no plan yet"
    )
    if run.plan_deadline is None:
        return found
    until = due(run.plan_deadline, records.now)
    after = f"its requester has to plan it; without a plan it fails at {until}"
    return replace(found, next=after)


def _running(records: Records, run: RunRow) -> Finding:
    found = _finding(run, What.RUN_RUNNING, FindingStatus.WAITS, f"runs: {_counts(run)}")
    found = replace(found, because=_unfinished(records, run))
    if records.led is False:
        return replace(found, next=f"{NOBODY}: start a leader and its workers", command=RESUME)
    if run.deadline is None:
        return found
    until = due(run.deadline, records.now)
    return replace(found, next=f"it finishes with its tasks, or times out at {until}")


def _stopping(records: Records, run: RunRow) -> Finding:
    found = _finding(
        run, What.RUN_STOPPING, FindingStatus.WAITS, f"is being cancelled: {stopped(run)}"
    )
    after = "it ends when its running tasks have stopped or been given up"
    return replace(found, because=_unfinished(records, run), next=after)


def _unfinished(records: Records, run: RunRow) -> tuple[Finding, ...]:
    """What a run waits for: the tasks that can make progress, and how many wait for them."""
    tasks = records.tasks(run.run_id)
    moving = [row for state in _MOVING for row in tasks.values() if row.state is state]
    found = several(moving, lambda row: explain_task(records, row), "task")
    blocked = [row for row in tasks.values() if row.state is TaskState.BLOCKED]
    unborn = run.task_count - len(tasks)
    notes = [
        (len(blocked), "task", "blocked until those finish"),
        (unborn, "task", "of a large plan not yet recorded"),
    ]
    failed = [row for row in tasks.values() if row.state is TaskState.FAILED]
    return (
        *several(failed, lambda row: explain_task(records, row), "failed task"),
        *found,
        *(_more(run, f"{plural(count, noun)} {text}") for count, noun, text in notes if count),
    )


def _more(run: RunRow, text: str) -> Finding:
    return Finding(what=What.MORE, status=FindingStatus.NOTE, subject=run.run_id, text=text)


# --- over -----------------------------------------------------------------------------------------


def _succeeded(records: Records, run: RunRow) -> Finding:
    text = f"succeeded{_at(run)}: {_counts(run)}"
    found = _finding(run, What.RUN_SUCCEEDED, FindingStatus.DONE, text)
    tasks = records.tasks(run.run_id).values()
    told = [row for row in tasks if row.state is TaskState.SKIPPED and not _followed(row)]
    ended = [row for row in tasks if row.state is TaskState.SUCCEEDED]
    findings = [explain_task(records, row) for row in ended]
    judged = [found for found in findings if found.because]
    because = (
        *several(told, lambda row: explain_task(records, row), "skipped task"),
        *several(judged, lambda found: found, "task"),
    )
    return replace(found, because=because)


def _followed(task: TaskRow) -> bool:
    """Whether a task was skipped because of its upstream tasks, not by its own code."""
    return task.reason is not TransitionReason.EXECUTION_SKIPPED


def _failed(records: Records, run: RunRow) -> Finding:
    if not run.plan_fingerprint:
        found = _finding(
            run, What.RUN_FAILED, FindingStatus.FAILED, f"failed{_at(run)}: {run.error}"
        )
        return replace(found, next="none of its tasks ran; request it again")
    text = f"failed{_at(run)}: {_counts(run)}"
    found = _finding(run, What.RUN_FAILED, FindingStatus.FAILED, text)
    tasks = records.tasks(run.run_id).values()
    failed = [row for row in tasks if row.state is TaskState.FAILED]
    skipped = sum(row.state is TaskState.SKIPPED and _followed(row) for row in tasks)
    notes = [_more(run, f"{plural(skipped, 'task')} skipped because of that")] if skipped else []
    return replace(
        found,
        because=(*several(failed, lambda row: explain_task(records, row), "failed task"), *notes),
        next="fix the failures, and retry the rest in a new run",
        command=f"servo run retry {run.run_id}",
    )


def _cancelled(records: Records, run: RunRow) -> Finding:
    del records
    text = f"was cancelled{_at(run)}: {stopped(run)}; {_counts(run)}"
    if run.error:
        text = f"was given up{_at(run)}: {run.error}; {_counts(run)}"
    found = _finding(run, What.RUN_CANCELLED, FindingStatus.FAILED, text)
    after = "the rest will not run unless you retry it"
    return replace(found, next=after, command=f"servo run retry {run.run_id}")


def _timed_out(records: Records, run: RunRow) -> Finding:
    took = "" if run.finished_at is None else f" after {span(run.finished_at - run.created_at)}"
    text = f"timed out{took}: it exceeded its time limit; {_counts(run)}"
    found = _finding(run, What.RUN_TIMED_OUT, FindingStatus.FAILED, text)
    tasks = records.tasks(run.run_id).values()
    failed = [row for row in tasks if row.state is TaskState.FAILED]
    return replace(
        found,
        because=several(failed, lambda row: explain_task(records, row), "failed task"),
        next="retry the rest in a new run",
        command=f"servo run retry {run.run_id}",
    )


def _at(run: RunRow) -> str:
    return "" if run.finished_at is None else f" at {instant(run.finished_at)}"


def _counts(run: RunRow) -> str:
    parts = (
        (run.tasks_succeeded, "succeeded"),
        (run.tasks_failed, "failed"),
        (run.tasks_skipped, "skipped"),
        (run.tasks_cancelled, "cancelled"),
    )
    told = [f"{count:,} {word}" for count, word in parts if count]
    if not told:
        return f"none of {plural(run.task_count, 'task')} has finished"
    return f"{', '.join(told)} of {plural(run.task_count, 'task')}"


# --- batches that could not apply -----------------------------------------------------------------


def _letters(records: Records, run_id: str) -> tuple[Finding, ...]:
    parked = [
        Finding(
            what=What.PARKED,
            status=FindingStatus.WAITS,
            subject=run_id,
            text=f"the batch {row.batch_id} arrived too early and is kept: {row.reason}",
            at=row.parked_at,
            seq=row.row_version,
            next=f"it is applied when the run is planned, or dropped at "
            f"{due(row.expires_at, records.now)}",
        )
        for row in records.parked(run_id)
    ]
    dead = [
        Finding(
            what=What.DEAD_LETTER,
            status=FindingStatus.FAILED,
            subject=run_id,
            text=f"the batch {row.batch_id} could not be applied: {row.reason}",
            at=row.recorded_at,
            seq=row.seq,
            next="see the runbook about dead letters",
        )
        for row in records.dead_letters(run_id)
    ]
    return several([*parked, *dead], lambda found: found, "batch")


_EXPLAIN: Mapping[RunState, Callable[[Records, RunRow], Finding]] = MappingProxyType(
    {
        RunState.PENDING: _pending,
        RunState.RUNNING: _running,
        RunState.CANCELLING: _stopping,
        RunState.SUCCEEDED: _succeeded,
        RunState.FAILED: _failed,
        RunState.CANCELLED: _cancelled,
        RunState.TIMED_OUT: _timed_out,
    }
)
