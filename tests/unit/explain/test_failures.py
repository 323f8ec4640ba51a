"""What went wrong with a task, also where its code had no chance to say it."""

import pytest
from msgspec.structs import replace

from servo.core.explain.failures import failure_of
from servo.core.state.rows.execution import TaskRow
from servo.core.state.states import TaskState, TransitionReason
from servo.testing.builders import START

TASK = TaskRow(
    row_version=1,
    run_id="run_1",
    task_key="a:materialize",
    state=TaskState.FAILED,
    reason=TransitionReason.TIMED_OUT,
    transitioned_at=START,
    execution_timeout_ms=1500,
)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, "it exceeded its timeout of 1.5 s"),
        ({"execution_timeout_ms": 0}, "it exceeded its timeout"),
        ({"error_message": "ValueError: no"}, "ValueError: no"),
        ({"reason": TransitionReason.HEARTBEAT_TIMEOUT}, "its worker stopped responding"),
        ({"reason": TransitionReason.EXECUTION_FAILED, "error_code": "Odd"}, "Odd"),
        ({"reason": TransitionReason.EXECUTION_FAILED}, ""),
    ],
)
def test_a_failure_is_told_by_what_is_known_of_it(changes: dict[str, object], told: str) -> None:
    assert failure_of(replace(TASK, **changes)) == told
