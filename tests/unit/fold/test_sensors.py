"""Rules of sensors: who was first, what is remembered, and what a failure leaves alone."""

from typing import Any

import pytest
from msgspec.structs import replace

from servo.core.events.envelope import Batch, Event, Status
from servo.core.events.runs import RunRequested, SensorSource
from servo.core.events.sensors import (
    PollTrigger,
    PushTrigger,
    SensorCursorReset,
    SensorEvalStatus,
    SensorEvaluated,
    SensorMessageReceived,
    SensorMode,
    SensorPaused,
    SensorRemoved,
    SensorResumed,
    SensorUpserted,
)
from servo.core.fold.apply import needs
from servo.core.fold.limits import MAX_MESSAGE_ATTEMPTS
from servo.core.fold.sensors import MOST_TOLD
from servo.core.state.rows.automation import (
    SensorDefinitionRow,
    SensorEvalRow,
    SensorMessageRow,
    SensorStateRow,
)
from servo.core.state.states import SensorStatus
from servo.testing.builders import START, Story, content, dump

QUIET = SensorEvalStatus.NO_NEW_DATA
FAILED = SensorEvalStatus.FAILED


def upsert(**changes: object) -> SensorUpserted:
    return replace(SensorUpserted(sensor_id="files", asset_selection=("raw/a",)), **changes)


def poll(eval_id: str, version: int | None, **changes: object) -> SensorEvaluated:
    event = SensorEvaluated(
        sensor_id="files",
        eval_id=eval_id,
        trigger=PollTrigger(poll_epoch=100),
        expected_state_version=version,
        status=SensorEvalStatus.TRIGGERED,
    )
    return replace(event, **changes)


def push(eval_id: str, message_id: str, **changes: object) -> SensorEvaluated:
    event = SensorEvaluated(
        sensor_id="files",
        eval_id=eval_id,
        trigger=PushTrigger(message_id=message_id),
        status=SensorEvalStatus.TRIGGERED,
    )
    return replace(event, **changes)


def request(key: str) -> RunRequested:
    source = SensorSource(sensor_id="files", eval_id="e")
    return RunRequested(run_id=f"run_{key}", run_key=key, request_fingerprint="fp", source=source)


def sensor(story: Story) -> SensorStateRow:
    return story.state.sensor_state.rows["files"]


@pytest.fixture
def story() -> Story:
    story = Story()
    assert story.tell(upsert()).applied
    story.wait(minutes=1)
    return story


# --- definitions ----------------------------------------------------------------------------------


def test_a_new_sensor_has_no_cursor_and_version_zero() -> None:
    story = Story()
    assert story.tell(upsert()).data == {"sensor_id": "files", "definition_version": 1}
    assert story.state.sensors.rows["files"] == SensorDefinitionRow(
        sensor_id="files",
        mode=SensorMode.POLL,
        asset_selection=("raw/a",),
        created_at=START,
        row_version=1,
    )
    assert sensor(story) == SensorStateRow(
        sensor_id="files", status=SensorStatus.ACTIVE, row_version=1
    )


def test_a_sensor_that_is_not_enabled_begins_paused() -> None:
    story = Story()
    story.tell(upsert(enabled=False))
    assert sensor(story).status is SensorStatus.PAUSED


@pytest.mark.parametrize(
    "changes", [{"min_interval_ms": -1}, {"min_interval_ms": 2**63}, {"timeout_ms": 0}]
)
def test_a_sensor_that_could_not_be_timed_is_refused(changes: dict[str, object]) -> None:
    story = Story()
    assert story.tell(upsert(**changes)).reason.startswith("out_of_range")
    assert len(story.state.sensors) == 0


def test_a_deployment_that_changes_nothing_changes_no_row(story: Story) -> None:
    before = content(story.state)
    assert story.tell(upsert()).data["definition_version"] == 1
    assert content(story.state) == before


def test_a_changed_definition_gets_the_next_version_and_keeps_the_state(story: Story) -> None:
    story.tell(poll("e1", 0, cursor_after="c1"))
    story.tell(SensorPaused(sensor_id="files"))
    before = sensor(story)
    assert story.tell(upsert(mode=SensorMode.PUSH)).data["definition_version"] == 2
    assert story.state.sensors.rows["files"].created_at == START
    assert sensor(story) == before


def test_a_removed_sensor_is_unknown_to_everyone(story: Story) -> None:
    assert story.tell(SensorRemoved(sensor_id="files")).applied
    events: list[Event] = [
        poll("e1", 0),
        push("e1", "m1"),
        SensorPaused(sensor_id="files"),
        SensorResumed(sensor_id="files"),
        SensorCursorReset(sensor_id="files"),
    ]
    unknown = "unknown_sensor: there is no sensor files"
    assert {story.tell(event).reason for event in events} == {unknown}
    before = content(story.state)
    assert story.tell(SensorRemoved(sensor_id="files")).applied
    assert content(story.state) == before


def test_a_sensor_nobody_defined_is_unknown() -> None:
    story = Story()
    assert story.tell(SensorRemoved(sensor_id="files")).reason.startswith("unknown_sensor: ")
    assert story.tell(poll("e1", 0)).reason.startswith("unknown_sensor: ")


def test_a_removed_sensor_that_comes_back_goes_on_from_its_cursor(story: Story) -> None:
    story.tell(poll("e1", 0, cursor_after="c1"))
    story.tell(SensorRemoved(sensor_id="files"))
    assert story.tell(upsert()).data["definition_version"] == 2
    assert sensor(story).cursor == "c1"
    # What was evaluated before the removal is stale, whatever it found.
    assert story.tell(poll("e2", 1)).reason.startswith("stale_state_version")
    assert story.tell(poll("e3", 2)).applied


# --- pause, resume, reset -------------------------------------------------------------------------


def test_a_paused_sensor_refuses_the_whole_batch(story: Story) -> None:
    story.tell(SensorPaused(sensor_id="files"))
    before = dump(story.state)
    for event in (poll("e1", 0), push("e1", "m1")):
        assert story.tell(event, request("k")).reason.startswith("sensor_paused: ")
    assert dump(story.state) == before


def test_pausing_or_resuming_twice_changes_nothing(story: Story) -> None:
    for event in (SensorPaused(sensor_id="files"), SensorResumed(sensor_id="files")):
        story.tell(event)
        before = content(story.state)
        assert story.tell(event).repeated
        assert content(story.state) == before


def test_resuming_forgives_the_failures(story: Story) -> None:
    story.tell(poll("e1", 0, status=FAILED, message="boom"))
    story.tell(SensorResumed(sensor_id="files"))
    assert sensor(story).status is SensorStatus.ACTIVE
    assert (sensor(story).consecutive_failures, sensor(story).last_error) == (0, "")


def test_a_cursor_reset_makes_evaluations_under_way_stale(story: Story) -> None:
    assert story.tell(SensorCursorReset(sensor_id="files", cursor="c0")).data == {
        "state_version": 1
    }
    assert sensor(story).cursor == "c0"
    assert story.tell(poll("e1", 0, cursor_after="c9")).status is Status.CONFLICT
    assert sensor(story).cursor == "c0"


def test_a_cursor_reset_can_be_conditional(story: Story) -> None:
    reset = SensorCursorReset(sensor_id="files", cursor="c0", expected_state_version=1)
    assert story.tell(reset).status is Status.CONFLICT
    assert story.tell(replace(reset, expected_state_version=0)).applied


# --- polls ----------------------------------------------------------------------------------------


def test_a_poll_moves_the_cursor_and_the_version(story: Story) -> None:
    answer = story.tell(poll("e1", 0, cursor_before=None, cursor_after="c1", run_keys=("k",)))
    assert answer.data == {"eval_id": "e1", "state_version": 1}
    assert sensor(story) == SensorStateRow(
        sensor_id="files",
        status=SensorStatus.ACTIVE,
        cursor="c1",
        last_evaluation_at=story.state.ts,
        last_eval_id="e1",
        state_version=1,
        last_poll_epoch=100,
        row_version=2,
    )
    assert story.state.sensor_evals.rows["files", "poll:0:e1"] == SensorEvalRow(
        sensor_id="files",
        dedup_key="poll:0:e1",
        eval_id="e1",
        trigger="poll",
        poll_epoch=100,
        cursor_after="c1",
        expected_state_version=0,
        status=SensorEvalStatus.TRIGGERED,
        run_keys=("k",),
        evaluated_at=story.state.ts,
        request_position="2.0",
        correlation="2.0",
        row_version=2,
    )


def test_a_poll_without_a_cursor_keeps_the_cursor(story: Story) -> None:
    story.tell(poll("e1", 0, cursor_after="c1"))
    story.tell(poll("e2", 1, cursor_after=None))
    assert (sensor(story).cursor, sensor(story).state_version) == ("c1", 2)


def test_a_stale_poll_is_recorded_and_dropped_with_its_runs(story: Story) -> None:
    story.tell(poll("e1", 0, cursor_after="c1"), request("x"))
    before = sensor(story)
    late = poll("e2", 0, cursor_after="c2")
    answer = story.tell(late, request("y"))
    assert (answer.status, answer.reason.split(":")[0]) == (Status.CONFLICT, "stale_state_version")
    assert sensor(story) == before
    assert "run_y" not in story.state.runs
    recorded = story.state.sensor_evals.rows["files", "poll:0:e2"]
    assert (recorded.stale, recorded.cursor_after) == (True, "c2")


def test_a_stale_poll_is_recorded_once(story: Story) -> None:
    story.tell(poll("e1", 0))
    story.tell(poll("e2", 0))
    before = dump(story.state)
    story.wait(minutes=1)
    assert story.tell(poll("e2", 0)).status is Status.CONFLICT
    assert dump(story.state) == before


def test_a_stale_poll_without_data_leaves_no_trace(story: Story) -> None:
    story.tell(poll("e1", 0))
    before = dump(story.state)
    assert story.tell(poll("e2", 0, status=QUIET)).status is Status.CONFLICT
    assert dump(story.state) == before


def test_an_evaluation_id_used_again_at_a_later_version_is_another_evaluation(
    story: Story,
) -> None:
    story.tell(poll("same", 0, cursor_after="c1"))
    assert not story.tell(poll("same", 1, cursor_after="c2")).repeated
    assert sensor(story).cursor == "c2"


@pytest.mark.parametrize("version", [-1, 1, 10**30])
def test_a_version_that_never_was_is_refused_without_a_record(story: Story, version: int) -> None:
    before = dump(story.state)
    answer = story.tell(poll("e1", version))
    assert (answer.status, answer.reason.split(":")[0]) == (
        Status.CONFLICT,
        "state_version_unknown",
    )
    assert dump(story.state) == before


def test_a_poll_that_names_no_version_is_refused(story: Story) -> None:
    assert story.tell(poll("e1", None)).reason.startswith("state_version_missing")


def test_a_poll_epoch_no_column_can_hold_is_refused_even_if_stale(story: Story) -> None:
    story.tell(poll("e1", 0))
    huge = poll("e2", 0, trigger=PollTrigger(poll_epoch=2**63))
    assert story.tell(huge).reason.startswith("out_of_range")
    assert ("files", "poll:0:e2") not in story.state.sensor_evals


def test_a_poll_without_news_only_says_when(story: Story) -> None:
    before = sensor(story)
    assert story.tell(poll("e1", 0, status=QUIET)).applied
    assert sensor(story) == replace(
        before, last_evaluation_at=story.state.ts, last_poll_epoch=100, row_version=2
    )
    assert len(story.state.sensor_evals) == 0


def test_a_poll_without_news_sent_again_later_changes_nothing(story: Story) -> None:
    story.tell(poll("e1", 0, status=QUIET))
    story.wait(minutes=1)
    story.tell(poll("e2", 0, status=QUIET, trigger=PollTrigger(poll_epoch=160)))
    before = dump(story.state)
    story.wait(minutes=1)
    assert story.tell(poll("e1", 0, status=QUIET)).reason.startswith("poll_passed")
    assert dump(story.state) == before


def test_a_poll_without_news_from_before_a_failure_is_no_recovery(story: Story) -> None:
    story.tell(poll("e1", 0, status=QUIET))
    story.tell(push("e2", "m1", status=FAILED))
    before = dump(story.state)
    assert story.tell(poll("e1", 0, status=QUIET)).reason.startswith("poll_passed")
    assert dump(story.state) == before


def test_a_poll_without_data_that_moves_the_cursor_is_news(story: Story) -> None:
    story.tell(poll("e1", 0, status=QUIET, cursor_after="c1"))
    assert (sensor(story).cursor, sensor(story).state_version) == ("c1", 1)
    assert ("files", "poll:0:e1") in story.state.sensor_evals
    later = PollTrigger(poll_epoch=130)
    assert story.tell(poll("e2", 1, status=QUIET, cursor_after="c1", trigger=later)).applied
    assert sensor(story).state_version == 1


def test_the_newest_poll_epoch_is_kept(story: Story) -> None:
    story.tell(poll("e1", 0))
    story.tell(poll("e2", 1, trigger=PollTrigger(poll_epoch=50)))
    assert sensor(story).last_poll_epoch == 100


# --- failures -------------------------------------------------------------------------------------


def test_a_failed_poll_counts_and_leaves_the_cursor_and_the_version(story: Story) -> None:
    story.tell(poll("e1", 0, cursor_after="c1"))
    story.tell(poll("e2", 1, cursor_after="c9", status=FAILED, message="boom"))
    story.tell(poll("e3", 1, cursor_after="c9", status=FAILED, message="bang"))
    row = sensor(story)
    assert (row.cursor, row.state_version) == ("c1", 1)
    assert (row.status, row.last_error, row.consecutive_failures) == (
        SensorStatus.ERROR,
        "bang",
        2,
    )


def test_a_failing_sensor_is_still_evaluated_and_recovers(story: Story) -> None:
    story.tell(poll("e1", 0, status=FAILED, message="boom"))
    later = PollTrigger(poll_epoch=130)
    assert story.tell(poll("e2", 0, status=QUIET, trigger=later)).applied
    row = sensor(story)
    assert (row.status, row.last_error, row.consecutive_failures) == (SensorStatus.ACTIVE, "", 0)
    assert ("files", "poll:0:e2") in story.state.sensor_evals


# --- pushes ---------------------------------------------------------------------------------------


def test_a_push_never_touches_cursor_or_version(story: Story) -> None:
    story.tell(poll("e1", 0, cursor_after="c1"))
    answer = story.tell(push("e2", "m1", cursor_after="m1"), request("k"))
    assert (answer.data["eval_id"], answer.data["run_id"]) == ("e2", "run_k")
    row = sensor(story)
    assert (row.cursor, row.state_version, row.last_eval_id) == ("c1", 1, "e2")
    assert story.state.sensor_evals.rows["files", "msg:m1"] == SensorEvalRow(
        sensor_id="files",
        dedup_key="msg:m1",
        eval_id="e2",
        trigger="push",
        message_id="m1",
        cursor_after="m1",
        status=SensorEvalStatus.TRIGGERED,
        evaluated_at=story.state.ts,
        request_position="3.0",
        correlation="3.0",
        row_version=3,
    )


def test_the_first_result_for_a_message_wins(story: Story) -> None:
    story.tell(push("e1", "m1"), request("x"))
    before = dump(story.state)
    story.wait(days=400)
    answer = story.tell(push("e2", "m1"), request("y"))
    assert (answer.repeated, answer.data) == (True, {"eval_id": "e1"})
    assert dump(story.state) == before


def test_a_push_that_failed_is_evaluated_again_when_it_is_delivered_again(story: Story) -> None:
    assert story.tell(push("e1", "m1", status=FAILED, message="boom")).applied
    assert sensor(story).status is SensorStatus.ERROR
    assert story.tell(push("e2", "m1"), request("k")).applied
    assert "run_k" in story.state.runs
    # Both stay on record, and neither applies a second time.
    before = dump(story.state)
    assert story.tell(push("e1", "m1", status=FAILED, message="boom")).repeated
    assert story.tell(push("e3", "m1", status=FAILED, message="again")).repeated
    assert dump(story.state) == before


def test_a_failed_push_is_counted_once(story: Story) -> None:
    story.tell(push("e1", "m1", status=FAILED))
    assert story.tell(push("e1", "m1", status=FAILED)).repeated
    assert sensor(story).consecutive_failures == 1


def test_what_may_have_left_memory_is_asked_for() -> None:
    def asked(event: SensorEvaluated) -> list[tuple[str, object]]:
        return needs(Batch(id="b", events=(event,)))

    assert asked(poll("e1", 7)) == [("sensor_evals", ("files", "poll:7:e1"))]
    assert asked(push("e1", "m1")) == [("sensor_evals", ("files", "msg:m1"))]
    assert asked(push("e1", "m1", status=FAILED)) == [
        ("sensor_evals", ("files", "msg:m1")),
        ("sensor_evals", ("files", "failed:e1")),
    ]


def test_news_before_a_known_evaluation_is_refused_and_not_swallowed(story: Story) -> None:
    assert story.tell(poll("e1", 0), request("a")).applied
    answer = story.tell(request("b"), poll("e1", 0))
    assert answer.status is Status.REJECTED
    assert answer.reason.startswith("repeated_in_part")
    assert "run_b" not in story.state.runs


# --- messages -------------------------------------------------------------------------------------


def message(message_id: str, **changes: object) -> SensorMessageReceived:
    event = SensorMessageReceived(sensor_id="files", message_id=message_id, payload='{"n":1}')
    return replace(event, **changes)


def waiting(story: Story) -> list[str]:
    return [row.message_id for row in story.state.sensor_messages.values()]


def told_of(tables: dict[str, Any]) -> list[Any]:
    return [tables[name] for name in ("sensor_state", "sensor_messages", "sensor_evals")]


def told(story: Story) -> list[Any]:
    return told_of(dump(story.state))


@pytest.fixture
def pushed(story: Story) -> Story:
    assert story.tell(upsert(mode=SensorMode.PUSH)).applied
    return story


def test_a_message_waits_until_it_is_evaluated(pushed: Story) -> None:
    assert pushed.tell(message("m1")).data == {"arrival": 1}
    assert pushed.state.sensor_messages.rows["files", "m1"] == SensorMessageRow(
        sensor_id="files",
        message_id="m1",
        arrival=1,
        payload='{"n":1}',
        received_at=pushed.state.ts,
        request_position=f"{pushed.state.seq}.0",
        correlation=f"{pushed.state.seq}.0",
        row_version=pushed.state.seq,
    )
    assert (sensor(pushed).messages_received, sensor(pushed).messages_waiting) == (1, 1)
    assert pushed.tell(push("e1", "m1"), request("r1")).applied
    assert waiting(pushed) == []
    assert (sensor(pushed).messages_received, sensor(pushed).messages_waiting) == (1, 0)


def test_a_message_that_comes_again_changes_nothing_before_and_after_its_evaluation(
    pushed: Story,
) -> None:
    pushed.tell(message("m1"))
    before = dump(pushed.state)
    assert pushed.tell(message("m1", payload="other")).repeated
    assert told(pushed) == told_of(before)
    pushed.tell(push("e1", "m1"))
    before = dump(pushed.state)
    again = pushed.tell(message("m1"))
    assert (again.repeated, again.data) == (True, {"eval_id": "e1"})
    assert told(pushed) == told_of(before)
    assert ("sensor_evals", ("files", "msg:m1")) in needs(pushed.batch(message("m1")))


def test_messages_of_one_batch_are_told_apart_one_by_one(pushed: Story) -> None:
    assert pushed.tell(message("m1"), message("m1"), message("m2")).applied
    assert [r.arrival for r in pushed.state.sensor_messages.values()] == [1, 2]


def test_a_message_that_fails_waits_for_its_next_attempt_and_is_given_up_in_the_end(
    pushed: Story,
) -> None:
    pushed.tell(message("m1"))
    for attempt in range(1, MAX_MESSAGE_ATTEMPTS):
        assert pushed.tell(push(f"e{attempt}", "m1", status=FAILED, message="down")).applied
        row = pushed.state.sensor_messages.rows["files", "m1"]
        told = (row.attempts, row.last_error, row.last_attempt_at)
        assert told == (attempt, "down", pushed.state.ts)
        pushed.wait(minutes=1)
    assert pushed.tell(push("e-last", "m1", status=FAILED, message="down")).applied
    assert (waiting(pushed), sensor(pushed).messages_waiting) == ([], 0)
    # Nobody has answered it: who sends it again gets another evaluation.
    assert pushed.tell(message("m1")).data == {"arrival": 2}


def test_a_paused_sensor_takes_messages_and_a_removed_one_does_not(pushed: Story) -> None:
    pushed.tell(SensorPaused(sensor_id="files"))
    assert pushed.tell(message("m1")).applied
    assert pushed.tell(push("e1", "m1")).reason.startswith("sensor_paused: ")
    assert waiting(pushed) == ["m1"]
    pushed.tell(SensorRemoved(sensor_id="files"))
    assert pushed.tell(message("m2")).reason.startswith("unknown_sensor: ")
    assert waiting(pushed) == ["m1"]


def test_a_sensor_that_polls_takes_no_messages(story: Story) -> None:
    assert story.tell(message("m1")).reason.startswith("not_a_push_sensor")


def test_no_more_messages_wait_than_fit_into_memory(
    pushed: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("servo.core.fold.sensors.MAX_WAITING_MESSAGES", 2)
    assert pushed.tell(message("m1"), message("m2")).applied
    assert pushed.tell(message("m3")).reason.startswith("too_many_messages")
    pushed.tell(push("e1", "m1"))
    assert pushed.tell(message("m3")).applied


# --- conflicts ------------------------------------------------------------------------------------


def test_a_run_key_of_another_request_is_told_in_the_evaluation(story: Story) -> None:
    story.tell(poll("e1", 0), request("r1"))
    other = replace(request("r1"), request_fingerprint="another")
    assert story.tell(poll("e2", 1), other).reason.startswith("run_key_conflict")
    told = "the run key r1 belongs to another request, and no run was made"
    assert story.state.sensor_evals.rows["files", "poll:1:e2"].message == told
    assert story.tell(poll("e3", 2, message="late"), other).applied
    assert story.state.sensor_evals.rows["files", "poll:2:e3"].message == f"late; {told}"
    story.tell(poll("e4", 3, message="x" * MOST_TOLD), other)
    assert story.state.sensor_evals.rows["files", "poll:3:e4"].message == "x" * MOST_TOLD


def test_a_conflict_under_a_quiet_poll_is_on_record_all_the_same(story: Story) -> None:
    story.tell(request("r1"))
    other = replace(request("r1"), request_fingerprint="another")
    assert story.tell(poll("e1", 0, status=QUIET), other).applied
    assert len(story.state.run_key_conflicts) == 1
    assert len(story.state.sensor_evals) == 0
