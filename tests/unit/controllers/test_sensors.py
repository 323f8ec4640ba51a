"""When sensors look, when messages are evaluated, and what is worth an entry."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from servo.controllers.sensors import (
    ALIVE_EVERY,
    LONGEST_BACKOFF,
    backed_off,
    due,
    due_messages,
    is_worth_recording,
    next_attempt,
    next_due,
    next_look,
)
from servo.core.declared import KIND_LABEL
from servo.core.events.envelope import Event
from servo.core.events.sensors import (
    SensorEvalStatus,
    SensorMessageReceived,
    SensorMode,
    SensorUpserted,
)
from servo.core.state.rows.automation import (
    SensorDefinitionRow,
    SensorMessageRow,
    SensorStateRow,
)
from servo.core.state.states import SensorStatus
from servo.testing.builders import START, Story

SECOND = timedelta(seconds=1)
HALF = timedelta(seconds=30)
POLLS = {KIND_LABEL: "poll"}
FILES = SensorDefinitionRow(
    sensor_id="files", mode=SensorMode.POLL, labels=POLLS, created_at=START, row_version=1
)
FRESH = SensorStateRow(sensor_id="files", status=SensorStatus.ACTIVE, row_version=1)
LOOKED = replace(FRESH, last_evaluation_at=START)
QUIET, SKIPPED, FAILED = (
    SensorEvalStatus.NO_NEW_DATA,
    SensorEvalStatus.SKIPPED,
    SensorEvalStatus.FAILED,
)


def test_a_new_sensor_looks_at_once() -> None:
    assert next_look(FILES, FRESH, None) == START


def test_a_sensor_looks_again_after_its_interval() -> None:
    assert next_look(FILES, LOOKED, None) == START + HALF


def test_looking_without_a_record_counts_as_well() -> None:
    assert next_look(FILES, FRESH, START + SECOND) == START + SECOND + HALF
    assert next_look(FILES, LOOKED, START + SECOND) == START + SECOND + HALF
    assert next_look(FILES, LOOKED, START - SECOND) == START + HALF


@pytest.mark.parametrize(
    ("definition", "row"),
    [
        (replace(FILES, removed_at=START), LOOKED),
        (FILES, replace(LOOKED, status=SensorStatus.PAUSED)),
        (replace(FILES, mode=SensorMode.PUSH), LOOKED),
        (replace(FILES, labels={"servo/automation": "x"}), LOOKED),
    ],
)
def test_a_sensor_that_is_removed_paused_pushed_to_or_no_sensor_never_looks(
    definition: SensorDefinitionRow, row: SensorStateRow
) -> None:
    assert next_look(definition, row, None) is None


@pytest.mark.parametrize(
    ("failures", "seconds"), [(0, 30), (1, 60), (2, 120), (4, 480), (5, 900), (9_999, 900)]
)
def test_the_pause_doubles_with_every_failure_up_to_a_quarter_of_an_hour(
    failures: int, seconds: int
) -> None:
    failed = replace(LOOKED, status=SensorStatus.ERROR, consecutive_failures=failures)
    assert next_look(FILES, failed, None) == START + seconds * SECOND


def test_a_sensor_without_an_interval_is_backed_off_too() -> None:
    assert backed_off(timedelta(), 0) == timedelta()
    assert backed_off(timedelta(), 3) == 8 * SECOND


@given(st.integers(0, 10**9), st.integers(0, 10**6))
def test_no_pause_is_shorter_than_the_interval_nor_longer_than_it_must_be(
    milliseconds: int, failures: int
) -> None:
    interval = timedelta(milliseconds=milliseconds)
    pause = backed_off(interval, failures)
    assert interval <= pause <= max(interval, LONGEST_BACKOFF)
    assert pause <= backed_off(interval, failures + 1)


# --- messages -------------------------------------------------------------------------------------


def message(arrival: int, **changes: Any) -> SensorMessageRow:
    row = SensorMessageRow(
        sensor_id="files",
        message_id=f"m{arrival}",
        arrival=arrival,
        received_at=START,
        row_version=1,
    )
    return replace(row, **changes)


def test_messages_are_due_in_the_order_in_which_they_came() -> None:
    rows = [message(3), message(1), message(2)]
    assert due_messages(rows, START) == [message(1), message(2), message(3)]


def test_a_message_that_failed_keeps_no_other_waiting() -> None:
    failed = message(1, attempts=1, last_attempt_at=START)
    assert due_messages([failed, message(2)], START) == [message(2)]
    assert due_messages([failed, message(2)], START + 10 * SECOND) == [failed, message(2)]


@pytest.mark.parametrize(("attempts", "seconds"), [(1, 10), (2, 20), (4, 80)])
def test_a_message_waits_longer_after_every_failure(attempts: int, seconds: int) -> None:
    failed = message(1, attempts=attempts, last_attempt_at=START)
    assert next_attempt(failed) == START + seconds * SECOND


# --- what is worth recording ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row", "status", "said_before", "worth"),
    [
        (FRESH, QUIET, None, True),
        (LOOKED, QUIET, None, False),
        (LOOKED, SKIPPED, True, False),
        (LOOKED, SKIPPED, False, True),
        (LOOKED, FAILED, True, True),
        (replace(LOOKED, status=SensorStatus.ERROR), QUIET, True, True),
        (replace(LOOKED, last_evaluation_at=START - ALIVE_EVERY), QUIET, True, True),
    ],
)
def test_what_says_nothing_new_is_not_recorded(
    row: SensorStateRow, status: SensorEvalStatus, said_before: bool | None, worth: bool
) -> None:
    assert is_worth_recording(row, status, START, said_before=said_before) is worth


# --- what is due, by what is on record ------------------------------------------------------------


def told(*events: Event) -> Story:
    story = Story()
    assert story.tell(*events).applied
    return story


def test_what_is_due_is_found_in_the_state() -> None:
    story = told(
        SensorUpserted(sensor_id="polls", labels=POLLS),
        SensorUpserted(sensor_id="paused", labels=POLLS, enabled=False),
        SensorUpserted(sensor_id="pushed", mode=SensorMode.PUSH, labels=POLLS),
        SensorUpserted(sensor_id="held", mode=SensorMode.PUSH, labels=POLLS, enabled=False),
        SensorMessageReceived(sensor_id="held", message_id="m1"),
    )
    assert due(story.state, START - SECOND) == []
    assert due(story.state, START) == ["polls"]
    assert next_due(story.state) == START
    story.wait(minutes=1)
    story.tell(SensorMessageReceived(sensor_id="pushed", message_id="m1"))
    assert due(story.state, story.now) == ["polls", "pushed"]


def test_nothing_is_due_where_there_is_nothing() -> None:
    assert (due(Story().state, START), next_due(Story().state)) == ([], None)
    held = told(SensorUpserted(sensor_id="held", labels=POLLS, enabled=False))
    assert (due(held.state, START), next_due(held.state)) == ([], None)
    pushed = told(
        SensorUpserted(sensor_id="pushed", mode=SensorMode.PUSH, labels=POLLS),
        SensorMessageReceived(sensor_id="pushed", message_id="m1"),
    )
    assert next_due(pushed.state) == START
