"""Why a task failed, also if its code could not report it."""

from servo.core.state.rows.execution import TaskRow
from servo.core.state.states import TransitionReason

_SEEN = {
    TransitionReason.TIMED_OUT: "it exceeded its timeout",
    TransitionReason.HEARTBEAT_TIMEOUT: "its worker stopped responding",
    TransitionReason.DISPATCH_ACK_TIMEOUT: "no worker took it",
    TransitionReason.INTERRUPTED: "it was interrupted",
}


def failure_of(task: TaskRow) -> str:
    """What the failed attempt reported, or what was observed; empty if neither is known."""
    if task.error_message:
        return task.error_message
    seen = _SEEN.get(task.reason, task.error_code)
    if task.reason is TransitionReason.TIMED_OUT and task.execution_timeout_ms:
        return f"{seen} of {task.execution_timeout_ms / 1000:g} s"
    return seen
