"""How executions end otherwise than by their own report, as the ledger is told."""

from msgspec.structs import replace

from servo.code.process_setup import ProcessSetup
from servo.core.events.tasks import TaskError, TaskFinished, TaskOutcome
from servo.core.state.rows.execution import TaskRow
from servo.leader.assignments import Assignment
from servo.ports.object_store import ObjectStore
from servo.processes.exits import exit_in_words, often_because
from servo.processes.stopping import STOPPED
from servo.workers.local_pool.crash_output import (
    crash_place,
    store_crash_output,
    without_servo_frames,
)
from servo.workers.local_pool.worker_process import WorkerProcess


def ended_with_process(
    child: WorkerProcess,
    assignment: Assignment,
    code: int,
    *,
    setup: ProcessSetup,
    store: ObjectStore,
) -> TaskFinished | None:
    """How an execution ended whose process ended while it ran; None if nobody wants to know.

    What it printed until then is kept.
    """
    printed, crash = child.crash_output()
    key = setup.address.paths.log(
        assignment.run_id, assignment.task_key, assignment.attempt, assignment.exec_id
    )
    store_crash_output(store, key, printed, without_servo_frames(crash))
    if child.interrupted or code == STOPPED:
        return stopped(child, assignment)
    return died(assignment, code, crash_place(crash, setup.location.folder))


def stopped(child: WorkerProcess, assignment: Assignment) -> TaskFinished | None:
    """How an execution ended that was asked to stop; None if nobody wants to know.

    Who stops a service may ask all of its processes at once (systemd does), and then workers may
    hear of it before their pool.
    """
    return child.report if assignment.exec_id == child.target else interrupted(assignment)


def finished(
    granted: Assignment | TaskRow, outcome: TaskOutcome, error: TaskError | None = None
) -> TaskFinished:
    """An execution ended otherwise than by its own report."""
    return TaskFinished(
        run_id=granted.run_id,
        task_key=granted.task_key,
        attempt_id=granted.attempt_id,
        exec_id=granted.exec_id,
        outcome=outcome,
        error=error,
        retry_after_ms=0 if outcome is TaskOutcome.INTERRUPTED else None,
    )


def interrupted(granted: Assignment | TaskRow) -> TaskFinished:
    """An execution that was stopped, or that nobody runs any more, and is to be done again."""
    return finished(granted, TaskOutcome.INTERRUPTED)


def given_back(granted: Assignment | TaskRow) -> TaskFinished:
    """An execution that never began: it counts for nothing."""
    return replace(interrupted(granted), began=False)


def died(assignment: Assignment, code: int, place: str = "") -> TaskFinished:
    """An execution whose process ended by itself, and where in its code if that is known."""
    where = f" in {place}" if place else ""
    how = f"{exit_in_words(code)}{where}{often_because(code)}"
    message = f"the worker process ended with {how}"
    return finished(assignment, TaskOutcome.FAILED, TaskError(code="WorkerDied", message=message))


def hung(assignment: Assignment, what: str) -> TaskFinished:
    """An execution that was ended because a check of it could not be stopped otherwise."""
    message = (
        f"{what} took longer than its timeout and could not be interrupted, "
        "so its process was ended"
    )
    error = TaskError(code="CheckHung", message=message, retriable=False)
    return finished(assignment, TaskOutcome.FAILED, error)
