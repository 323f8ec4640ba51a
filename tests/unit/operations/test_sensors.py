"""Sensors as operations on a workspace in memory."""

import pytest

from servo.code.evaluator.messages import Evaluated, EvaluateSensor, EvaluatorQuestion
from servo.core.events.sensors import (
    SensorEvalStatus,
    SensorMode,
    SensorUpserted,
)
from servo.core.state.states import SensorStatus
from servo.errors import Conflict, Invalid, NotFound
from servo.operations.interface.evaluating import NO_SALT, run_id_salt
from servo.operations.interface.listing import Page
from servo.operations.triggers.sensor_messages import push_message
from servo.operations.triggers.sensor_trials import evaluate_sensor
from servo.operations.triggers.sensors import (
    get_cursor,
    get_sensor,
    list_evaluations,
    list_sensors,
    move_cursor,
    pause_sensor,
    resume_sensor,
)
from servo.workspace.address import Address
from servo.workspace.channels import AnyChannel
from servo.workspace.composition import in_memory
from servo.workspace.workspace import Workspace

ADDRESS = Address("memory://sensors")
FILES = SensorUpserted(sensor_id="files")
TOLD = SensorUpserted(sensor_id="told", mode=SensorMode.PUSH)


def empty() -> Workspace:
    world = in_memory()
    return Workspace(ADDRESS, world, AnyChannel(ADDRESS, world))


@pytest.fixture
def workspace() -> Workspace:
    made = empty()
    _ = made.submit(FILES, TOLD).checked()
    return made


def status(workspace: Workspace) -> SensorStatus:
    return get_sensor(workspace, "files").sensor.state.status


def test_a_sensor_is_paused_and_resumed_at_once(workspace: Workspace) -> None:
    assert pause_sensor(workspace, "files").receipt.applied
    assert status(workspace) is SensorStatus.PAUSED
    with pytest.raises(Conflict, match="already paused; resume it with"):
        _ = pause_sensor(workspace, "files")
    assert resume_sensor(workspace, "files").receipt.applied
    assert status(workspace) is SensorStatus.ACTIVE
    with pytest.raises(Conflict, match="sensor files is not paused"):
        _ = resume_sensor(workspace, "files")


def test_the_past_shows_a_sensor_as_it_was(workspace: Workspace) -> None:
    before = workspace.read(lambda snapshot: snapshot.applied_seq)
    _ = pause_sensor(workspace, "files")
    _ = move_cursor(workspace, "files", "7")
    assert get_sensor(workspace, "files", as_of=before).sensor.state.status is SensorStatus.ACTIVE
    [then, _] = list_sensors(workspace, as_of=before).items
    assert (then.name, then.state.cursor) == ("files", None)
    assert get_cursor(workspace, "files", as_of=before).cursor is None


def test_a_cursor_is_moved_and_reset(workspace: Workspace) -> None:
    before = get_cursor(workspace, "files")
    assert move_cursor(workspace, "files", "99").receipt.applied
    moved = get_cursor(workspace, "files")
    assert (moved.cursor, moved.state_version) == ("99", before.state_version + 1)
    assert move_cursor(workspace, "files", None).cursor is None
    with pytest.raises(Conflict, match="state_version_changed"):
        _ = move_cursor(workspace, "files", "5", expected_state_version=1)
    assert get_cursor(workspace, "files").cursor is None
    with pytest.raises(Invalid, match="push sensor and has no cursor"):
        _ = move_cursor(workspace, "told", "1")


def test_a_message_waits_for_its_evaluation_and_is_taken_once(workspace: Workspace) -> None:
    sent = push_message(workspace, "told", '{"n": 1}', message_id="m1")
    assert (sent.message_id, sent.receipt.repeated) == ("m1", False)
    again = push_message(workspace, "told", '{"n": 1}', message_id="m1")
    assert again.receipt.repeated
    assert push_message(workspace, "told").message_id != "m1"
    found = get_sensor(workspace, "told")
    assert [row.payload for row in found.messages] == ['{"n": 1}', "null"]
    assert found.sensor.state.messages_waiting == 2


def test_messages_that_cannot_be_are_refused(workspace: Workspace) -> None:
    with pytest.raises(Invalid, match="polls and takes no messages"):
        _ = push_message(workspace, "files")
    with pytest.raises(Invalid, match="invalid JSON in the payload"):
        _ = push_message(workspace, "told", "{")
    with pytest.raises(NotFound, match="did you mean told"):
        _ = push_message(workspace, "tould")
    assert get_sensor(workspace, "told").messages == []


# --- by hand --------------------------------------------------------------------------------------


class Answering:
    """An evaluator that has one answer."""

    def __init__(self, answer: Evaluated) -> None:
        self.asked: list[EvaluatorQuestion] = []
        self._answer = answer

    def ask(self, question: EvaluatorQuestion, seconds: float) -> Evaluated:
        assert seconds > 0
        self.asked.append(question)
        return self._answer


def test_a_trial_goes_from_the_cursor_of_the_sensor_and_leaves_it(workspace: Workspace) -> None:
    _ = move_cursor(workspace, "files", "3")
    evaluator = Answering(Evaluated(cursor="4", skipped="nothing"))
    found = evaluate_sensor(workspace, evaluator, "files")
    assert (found.status, found.message, found.cursor, found.receipt) == (
        SensorEvalStatus.SKIPPED,
        "nothing",
        "4",
        None,
    )
    _ = evaluate_sensor(workspace, evaluator, "files", cursor="1")
    assert [q.cursor for q in evaluator.asked if isinstance(q, EvaluateSensor)] == ["3", "1"]
    assert get_cursor(workspace, "files").cursor == "3"
    assert list_evaluations(workspace, "files", Page(limit=5)).items == []


def test_a_committed_trial_moves_the_cursor_and_is_on_record(workspace: Workspace) -> None:
    found = evaluate_sensor(workspace, Answering(Evaluated(cursor="4")), "files", commit=True)
    assert found.receipt is not None
    assert found.receipt.applied
    assert get_cursor(workspace, "files").cursor == "4"
    [row] = list_evaluations(workspace, "files", Page(limit=5)).items
    assert row.eval_id.startswith("files:manual:")


def test_a_trial_that_fails_commits_nothing(workspace: Workspace) -> None:
    found = evaluate_sensor(workspace, Answering(Evaluated(error="boom")), "files", commit=True)
    assert (found.status, found.message, found.receipt) == (SensorEvalStatus.FAILED, "boom", None)
    assert list_evaluations(workspace, "files", Page(limit=5)).items == []


def test_a_committed_trial_of_a_push_sensor_is_a_message(workspace: Workspace) -> None:
    evaluator = Answering(Evaluated())
    _ = evaluate_sensor(workspace, evaluator, "told", payload='"hello"', commit=True)
    [row] = get_sensor(workspace, "told").messages
    assert row.payload == '"hello"'


def test_a_sensor_is_tried_before_there_is_a_workspace_but_not_committed() -> None:
    nothing = empty()
    assert run_id_salt(nothing) == NO_SALT
    assert evaluate_sensor(nothing, Answering(Evaluated(cursor="1")), "new").cursor == "1"
    with pytest.raises(NotFound, match="deploy it with `servo dev`"):
        _ = evaluate_sensor(nothing, Answering(Evaluated()), "new", commit=True)
