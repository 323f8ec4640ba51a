"""Outputs that are stored and committed without an execution."""

from typing import Any

from servo.core.events.tasks import CommittedOutput, TaskOutcome
from servo.execution.outputs.store import OutputStore
from servo.leader.assignments import TaskResult


def save_output(
    outputs: OutputStore, asset_key: str, exec_id: str, value: Any, *, part: int = 0
) -> CommittedOutput:
    """Store a value and commit it, as the only output of an execution."""
    staged = outputs.stage(asset_key, exec_id, value, part=part)
    result = TaskResult(exec_id=exec_id, outcome=TaskOutcome.SUCCEEDED, output=staged.output)
    outputs.commit((staged,), result)
    return staged.output
