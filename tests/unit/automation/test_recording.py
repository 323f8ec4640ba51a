"""An evaluation that is larger than a batch: in parts, and what it asks for with its runs."""

from datetime import UTC, datetime, timedelta

import pytest

from servo.core.automation.assets import Asset, Graph
from servo.core.automation.condition import AutomationCondition as A
from servo.core.automation.evaluating import EvaluationOutcome, Evaluator
from servo.core.automation.recording import (
    MOST_BYTES,
    MOST_EVENTS,
    EvaluationPoint,
    Events,
    Recording,
)
from servo.core.events.automation import AutomationEvaluated, AutomationTicked
from servo.core.events.codec import encode_batch
from servo.core.events.envelope import Batch
from servo.testing.builders import Story

AT = datetime(2026, 1, 1, tzinfo=UTC)
QUIET = A.missing().newly_true().since_last_handled()
ASKING = ("z1", "z2", "z3")
MANY = MOST_EVENTS + 50


def evaluator(states: dict[str, str] | None = None, last: datetime | None = None) -> Evaluator:
    quiet = [Asset(key=f"a{number:05}", condition=QUIET) for number in range(MANY)]
    asking = [Asset(key=key, condition=A.missing()) for key in ASKING]
    return Evaluator(Graph([*quiet, *asking], lambda _, __: True), states=states, last=last)


def position(before: tuple[int, datetime] | None = None, tick: int = 1) -> EvaluationPoint:
    return EvaluationPoint(
        sensor_id="s", tick=tick, eval_id=f"s:{tick}", applied_seq=0, before=before
    )


def head(events: Events) -> AutomationTicked:
    assert isinstance(events[0], AutomationTicked)
    return events[0]


def names(events: Events) -> list[str]:
    return [event.asset_key for event in events if isinstance(event, AutomationEvaluated)]


@pytest.fixture(scope="module")
def first() -> tuple[Evaluator, EvaluationOutcome]:
    found = evaluator()
    return found, found.tick(AT)


def test_what_asks_for_something_is_in_the_last_batch_with_all_that_asks(
    first: tuple[Evaluator, EvaluationOutcome],
) -> None:
    recording = Recording(*first, position())
    parts, last = recording.first(), recording.last(["run"])
    assert len(parts) == 2
    assert [*names(parts[0]), *names(parts[1])] == [f"a{number:05}" for number in range(MANY)]
    assert names(last) == list(ASKING)
    assert [head(part).requested_count for part in parts] == [0, 0]
    assert (head(last).requested_count, head(last).run_keys) == (3, ("run",))
    assert [head(part).tick for part in (*parts, last)] == [1, 2, 3]
    assert recording.position.tick == 3
    assert len({head(part).eval_id for part in (*parts, last)}) == 3


def test_every_part_is_accepted_as_the_next_evaluation(
    first: tuple[Evaluator, EvaluationOutcome],
) -> None:
    recording, story = Recording(*first, position()), Story()
    for part in (*recording.first(), recording.last()):
        assert len(encode_batch(Batch(id="b", events=part))) < MOST_BYTES * 1.5
        assert story.tell(*part).applied
    assert len(story.state.automation_state) == MANY + 3
    assert story.state.automation_sensors.rows["s"].tick == 3


def test_whoever_dies_in_between_has_asked_for_nothing_and_asks_again(
    first: tuple[Evaluator, EvaluationOutcome],
) -> None:
    recording, story = Recording(*first, position()), Story()
    assert story.tell(*recording.first()[0]).applied
    rows = story.state.automation_state.rows.values()
    row = story.state.automation_sensors.rows["s"]
    again = evaluator({row.asset_key: row.cursor for row in rows}, row.ticked_at)
    tick = again.tick(AT + timedelta(minutes=1))
    assert sorted(tick.requested) == list(ASKING)
    # What was evaluated for the first time before is not again, and the rest is.
    assert len(tick.states) == len(names(recording.first()[1])) + 3


def test_parts_before_the_last_leave_the_news_to_who_begins_again(
    first: tuple[Evaluator, EvaluationOutcome],
) -> None:
    before = AT - timedelta(hours=1)
    recording = Recording(*first, position((0, before), tick=8))
    assert {(head(part).applied_seq, head(part).ticked_at) for part in recording.first()} == {
        (0, before)
    }
    assert (head(recording.last()).tick, head(recording.last()).ticked_at) == (10, AT)


def test_large_states_fill_a_part_before_it_has_many_events() -> None:
    long = [
        Asset(key=f"{'k' * 900}{number:04}", condition=A.missing().newly_true().since(A.missing()))
        for number in range(2_600)
    ]
    found = Evaluator(Graph(long, lambda _, __: True))
    recording = Recording(found, found.tick(AT), position())
    parts = recording.first()
    assert len(parts) >= 2
    assert all(len(part) < MOST_EVENTS for part in parts)
    assert names(recording.last()) == []


def test_what_fits_is_one_batch() -> None:
    found = Evaluator(Graph([Asset(key="a", condition=A.missing())], lambda _, __: True))
    recording = Recording(found, found.tick(AT), position())
    assert recording.first() == []
    assert names(recording.last()) == ["a"]
    assert recording.position.tick == 1
