"""Rules of evaluations of conditions: which counts, what is remembered, what a late one leaves."""

import pytest
from msgspec.structs import replace

from servo.core.events.automation import AutomationEvaluated, AutomationTicked
from servo.core.events.envelope import Answer, Event, Status
from servo.core.events.runs import AutomationSource, RunRequested
from servo.core.events.sensors import SensorPaused, SensorUpserted
from servo.core.state.rows.conditions import (
    AutomationEvaluationRow,
    AutomationSensorRow,
    AutomationStateRow,
)
from servo.testing.builders import START, Story, dump


def ticked(tick: int, eval_id: str = "", **changes: object) -> AutomationTicked:
    event = AutomationTicked(
        sensor_id="auto",
        tick=tick,
        eval_id=eval_id or f"e{tick}",
        applied_seq=0,
        ticked_at=START,
    )
    return replace(event, **changes)


def evaluated(tick: int, **changes: object) -> AutomationEvaluated:
    event = AutomationEvaluated(sensor_id="auto", tick=tick, asset_key="ns/a", cursor=f"c{tick}")
    return replace(event, **changes)


def asked(run: str) -> RunRequested:
    source = AutomationSource(evaluation_id=run)
    return RunRequested(run_id=run, run_key=run, request_fingerprint="f", source=source)


def refused(story: Story, *events: Event) -> Answer:
    before = dump(story.state)
    answer = story.tell(*events)
    assert not answer.applied
    assert dump(story.state) == before
    return answer


def test_an_evaluation_is_kept_with_what_it_asked_for_and_why() -> None:
    story = Story()
    head = ticked(1, requested_count=2, run_keys=("run_1",))
    answer = story.tell(
        head, evaluated(1, requested="0-1", requested_count=2, tree="{}"), asked("run_1")
    )
    assert answer.applied
    assert answer.data["tick"] == 1
    state = story.state
    assert list(state.automation_sensors.values()) == [
        AutomationSensorRow(
            sensor_id="auto",
            tick=1,
            last_eval_id="e1",
            applied_seq=0,
            ticked_at=START,
            requested_count=2,
            run_keys=("run_1",),
            last_requested_at=state.ts,
            row_version=1,
        )
    ]
    assert list(state.automation_state.values()) == [
        AutomationStateRow(
            sensor_id="auto",
            asset_key="ns/a",
            tick=1,
            cursor="c1",
            requested="0-1",
            requested_count=2,
            last_requested_at=state.ts,
            evaluated_at=state.ts,
            row_version=1,
        )
    ]
    assert list(state.automation_evaluations.values()) == [
        AutomationEvaluationRow(
            sensor_id="auto",
            asset_key="ns/a",
            tick=1,
            requested="0-1",
            requested_count=2,
            tree="{}",
            evaluated_at=state.ts,
            row_version=1,
        )
    ]
    assert "run_1" in state.runs


def test_what_is_not_told_stays_as_it_was() -> None:
    story = Story()
    story.tell(ticked(1, requested_count=1), evaluated(1, requested="0", requested_count=1))
    first = story.state.ts
    story.wait(minutes=1)
    story.tell(ticked(2), evaluated(2, cursor=None))
    row = story.state.automation_state.rows["auto", "ns/a"]
    assert (row.cursor, row.requested, row.last_requested_at) == ("c1", "", first)
    assert story.state.automation_sensors.rows["auto"].last_requested_at == first
    assert [row.tick for row in story.state.automation_evaluations.values()] == [1]


def test_of_two_evaluations_of_the_same_state_the_first_counts() -> None:
    story = Story()
    story.tell(ticked(1), evaluated(1))
    story.tell(ticked(2, "mine"), evaluated(2), asked("run_mine"))
    late = refused(story, ticked(2, "other"), evaluated(2), asked("run_other"))
    assert (late.status, late.reason.partition(":")[0]) == (Status.CONFLICT, "stale_tick")
    assert refused(story, ticked(4)).reason.startswith("stale_tick")
    assert "run_other" not in story.state.runs


def test_an_evaluation_sent_again_is_answered_and_changes_nothing() -> None:
    story = Story()
    events = (ticked(1), evaluated(1), asked("run_1"))
    story.tell(*events)
    before = dump(story.state)
    again = story.tell(*events)
    assert (again.applied, again.repeated, again.data) == (True, True, {"tick": 1})
    assert dump(story.state) == before
    story.tell(ticked(2), evaluated(2))
    assert refused(story, *events).status is Status.CONFLICT


@pytest.mark.parametrize(
    ("events", "reason"),
    [
        ((evaluated(1),), "tick_missing"),
        ((ticked(1), evaluated(2)), "tick_missing"),
        ((ticked(1, sensor_id="other"), evaluated(1)), "tick_missing"),
        ((ticked(1), evaluated(1), evaluated(1)), "evaluated_twice"),
        ((ticked(1, applied_seq=2),), "out_of_range"),
        ((ticked(1, requested_count=-1),), "out_of_range"),
        ((ticked(1), evaluated(1, requested_count=-1)), "out_of_range"),
        ((ticked(1, ticked_at=START.replace(tzinfo=None)),), "invalid_instant"),
        ((ticked(2),), "stale_tick"),
        ((ticked(0),), "stale_tick"),
    ],
)
def test_what_does_not_fit_is_refused_whole(events: tuple[Event, ...], reason: str) -> None:
    assert refused(Story(), *events).reason.startswith(reason)


def test_facts_are_not_read_from_further_back_than_before() -> None:
    story = Story()
    story.tell(SensorUpserted(sensor_id="auto"))
    story.tell(ticked(1, applied_seq=1))
    assert refused(story, ticked(2, applied_seq=0)).reason.startswith("out_of_range")


def test_a_paused_sensor_evaluates_nothing() -> None:
    story = Story()
    story.tell(SensorUpserted(sensor_id="auto"))
    assert story.tell(ticked(1)).applied
    story.tell(SensorPaused(sensor_id="auto"))
    assert refused(story, ticked(2)).reason.startswith("sensor_paused: ")
