"""The task of a run that could long have run, and does not."""

from datetime import timedelta

import pytest

from servo.core.explain.held_up import PATIENCE, held_up
from servo.core.state.rows.execution import TaskRow
from servo.core.state.states import TaskState, TransitionReason
from servo.testing.builders import START

LATER = START + PATIENCE


def task(name: str, state: TaskState, *, since: timedelta | None = timedelta(0)) -> TaskRow:
    return TaskRow(
        row_version=1,
        run_id="run_1",
        task_key=f"{name}:materialize",
        asset_key=name,
        state=state,
        reason=next(iter(TransitionReason)),
        transitioned_at=START,
        ready_at=None if since is None else START + since,
    )


def test_what_could_have_run_for_long_is_named_if_nothing_runs() -> None:
    held, younger = task("b", TaskState.READY), task("a", TaskState.READY, since=PATIENCE / 2)
    rest = [task("c", TaskState.BLOCKED, since=None), task("d", TaskState.SUCCEEDED)]
    assert held_up([younger, held, *rest], LATER) == held
    assert held_up([held], LATER - timedelta(milliseconds=1)) is None
    assert held_up([younger, *rest], LATER) is None
    assert held_up([], LATER) is None


@pytest.mark.parametrize("state", [TaskState.RUNNING, TaskState.RETRY_WAIT])
def test_who_waits_behind_others_is_not_held_up(state: TaskState) -> None:
    assert held_up([task("b", TaskState.READY), task("a", state)], LATER) is None
