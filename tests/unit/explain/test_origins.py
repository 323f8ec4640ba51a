"""What caused a run is a walk over positions, for every kind of start."""

from typing import Any

from msgspec.structs import replace

from servo.core.events.assets import AssetReported
from servo.core.events.automation import AutomationTicked
from servo.core.events.backfills import BackfillChunkPlanned
from servo.core.events.envelope import Answer, Event
from servo.core.events.runs import (
    AutomationSource,
    BackfillSource,
    RerunSource,
    RunCancelRequested,
    RunRequested,
    ScheduleSource,
    SensorSource,
)
from servo.core.events.schedules import ScheduleTicked, ScheduleUpserted, TickStatus
from servo.core.events.sensors import (
    PollTrigger,
    PushTrigger,
    SensorEvalStatus,
    SensorEvaluated,
    SensorMessageReceived,
    SensorMode,
    SensorUpserted,
)
from servo.core.explain.asked import asked
from servo.core.explain.origins import MOST_STEPS, what_caused
from servo.testing.backfills import backfill_created
from servo.testing.builders import Story
from servo.testing.explaining import outline, records_of

ADA = "user:ada@laptop"
DAYS = ("day=d:2026-01-01", "day=d:2026-01-02")


def steps(story: Story, run_id: str) -> list[tuple[str, str, str]]:
    found = what_caused(records_of(story), story.run(run_id))
    return [(step.position, step.actor, step.what) for step in found]


def request(name: str, **fields: Any) -> RunRequested:
    return RunRequested(
        run_id=f"run_{name}", run_key=f"key-{name}", request_fingerprint="fp", **fields
    )


def by_ada(story: Story, *events: Event, **fields: Any) -> Answer:
    answer = story.tell(*events, actor=ADA, **fields)
    assert answer.applied
    return answer


def looked(trigger: PollTrigger | PushTrigger, version: int | None = None) -> SensorEvaluated:
    return SensorEvaluated(
        sensor_id="files",
        eval_id="e1",
        trigger=trigger,
        expected_state_version=version,
        status=SensorEvalStatus.TRIGGERED,
        run_keys=("key-a",),
    )


def test_a_person_asked_in_their_own_words() -> None:
    story = Story()
    by_ada(story, request("a", request_text="+orders"))
    assert steps(story, "run_a") == [("1.0", ADA, "run_a was requested: +orders")]


def test_a_schedule_ticked() -> None:
    story = Story()
    by_ada(story, ScheduleUpserted(schedule_id="nightly", cron_expressions=("0 0 * * *",)))
    story.wait(days=1)
    ticked = ScheduleTicked(
        schedule_id="nightly",
        tick_id="t1",
        scheduled_for=story.now,
        definition_version=1,
        status=TickStatus.TRIGGERED,
        run_key="key-a",
    )
    run = request("a", source=ScheduleSource(schedule_id="nightly", tick_id="t1"))
    story.tell(ticked, run, actor="schedule:nightly")
    assert steps(story, "run_a") == [
        ("2.1", "schedule:nightly", "run_a was requested"),
        ("2.0", "schedule:nightly", "the schedule nightly ticked for 2026-01-02 00:00:00Z"),
    ]
    assert story.run("run_a").correlation == "2.0"


def test_a_message_was_sent_to_a_sensor() -> None:
    story = Story()
    by_ada(story, SensorUpserted(sensor_id="files", mode=SensorMode.PUSH))
    by_ada(story, SensorMessageReceived(sensor_id="files", message_id="m1"))
    (message,) = story.state.sensor_messages.values()
    story.tell(
        looked(PushTrigger(message_id="m1")),
        request("a", source=SensorSource(sensor_id="files", eval_id="e1")),
        actor="sensor:files",
        cause=message.request_position,
        correlation=message.correlation,
    )
    assert steps(story, "run_a") == [
        ("3.1", "sensor:files", "run_a was requested"),
        ("3.0", "sensor:files", "the sensor files got message m1"),
        ("2.0", ADA, "a message for a sensor was received"),
    ]
    assert story.run("run_a").correlation == "2.0"


def test_a_sensor_saw_an_output_of_another_run() -> None:
    story = Story()
    by_ada(story, SensorUpserted(sensor_id="files"))
    by_ada(story, request("0"))
    story.plan({"a": ()}, "run_1")
    story.start("a")
    story.tell(story.finished("a"), actor="worker:etl")
    (made,) = story.state.materializations.values()
    story.tell(
        looked(PollTrigger(poll_epoch=1), 0),
        request("a"),
        actor="sensor:files",
        cause=f"{made.created_seq}.{made.created_index}",
        correlation=story.run("run_1").correlation,
    )
    assert steps(story, "run_a") == [
        ("7.1", "sensor:files", "run_a was requested"),
        ("7.0", "sensor:files", "the sensor files was polled"),
        ("6.0", "worker:etl", "a task of run_1 finished"),
        ("3.0", "", "run_1 was requested"),
    ]


def test_a_sensor_saw_an_output_that_was_reported() -> None:
    story = Story()
    by_ada(story, SensorUpserted(sensor_id="files"))
    by_ada(story, AssetReported(asset_key="ns/x", materialization_id="m"))
    story.tell(looked(PollTrigger(poll_epoch=1), 0), request("a"), cause="2.0")
    assert steps(story, "run_a")[-1] == ("2.0", ADA, "an output was reported")


def test_a_chunk_of_a_backfill_that_repeats_another() -> None:
    story = Story()
    created = backfill_created(*DAYS)
    by_ada(story, created)
    first = story.state.backfills.rows["bf"]
    by_ada(
        story,
        replace(created, backfill_id="bf2", client_request_id="c2", parent_backfill_id="bf"),
        cause=first.request_position,
        correlation=first.correlation,
    )
    row = story.state.backfills.rows["bf2"]
    chunk = BackfillChunkPlanned(
        backfill_id="bf2",
        chunk_index=0,
        expected_state_version=1,
        partition_keys=DAYS,
        run_key="key-a",
        request_fingerprint="fp",
    )
    run = request("a", source=BackfillSource(backfill_id="bf2", chunk_index=0))
    story.tell(
        chunk,
        run,
        actor="backfill:bf2",
        cause=row.request_position,
        correlation=row.correlation,
    )
    assert steps(story, "run_a") == [
        ("3.1", "backfill:bf2", "run_a was requested"),
        ("3.0", "backfill:bf2", "the next chunk of a backfill was planned"),
        ("2.0", ADA, "the backfill bf2 of 2 partitions was created"),
        ("1.0", ADA, "the backfill bf of 2 partitions was created"),
    ]
    assert {row.correlation, story.run("run_a").correlation} == {"1.0"}


def test_an_automation_condition_was_true() -> None:
    story = Story()
    ticked = AutomationTicked(
        sensor_id="auto", tick=1, eval_id="e", applied_seq=0, ticked_at=story.now
    )
    source = AutomationSource(evaluation_id="e", sensor_id="auto", tick=1)
    story.tell(ticked, request("a", source=source), actor="automation:auto")
    assert steps(story, "run_a") == [
        ("1.1", "automation:auto", "run_a was requested"),
        ("1.0", "automation:auto", "automation conditions were evaluated"),
    ]


def test_a_repetition_of_a_run() -> None:
    story = Story()
    by_ada(story, request("a"))
    run = story.run("run_a")
    again = request("b", source=RerunSource(run_id="run_a", user_id=ADA))
    by_ada(story, again, cause=run.request_position, correlation=run.correlation)
    assert steps(story, "run_b") == [
        ("2.0", ADA, "run_b was requested"),
        ("1.0", ADA, "run_a was requested"),
    ]
    assert story.run("run_b").correlation == run.correlation == "1.0"


def test_any_other_event_is_told_by_its_name() -> None:
    story = Story()
    by_ada(story, request("a"))
    by_ada(story, RunCancelRequested(run_id="run_a"))
    by_ada(story, request("b"), cause="2.0")
    assert steps(story, "run_b")[1] == ("2.0", ADA, "RunCancelRequested")


def test_what_is_not_on_record_ends_the_walk() -> None:
    story = Story()
    by_ada(story, request("a"), cause="900.3")
    assert steps(story, "run_a")[1:] == [("900.3", "", "an event that is not on record")]


def test_a_place_behind_the_last_event_of_an_entry_holds_nothing() -> None:
    story = Story()
    by_ada(story, request("a"))
    by_ada(story, request("b"), cause="1.1")
    assert steps(story, "run_b")[1:] == [("1.1", "", "an event that is not on record")]


def test_what_names_itself_as_its_cause_is_told_once() -> None:
    story = Story()
    by_ada(story, request("a"), cause="1.0")
    by_ada(story, request("b"), cause="3.0")
    by_ada(story, request("c"), cause="2.0")
    assert [position for position, _, _ in steps(story, "run_a")] == ["1.0"]
    assert [position for position, _, _ in steps(story, "run_c")] == ["3.0", "2.0"]


def test_a_chain_of_any_length_ends_somewhere() -> None:
    story = Story()
    by_ada(story, request("0"))
    for number in range(1, MOST_STEPS + 10):
        by_ada(story, request(str(number)), cause=f"{number}.0")
    assert len(steps(story, f"run_{MOST_STEPS + 9}")) == MOST_STEPS


def test_a_run_from_before_positions_has_no_chain() -> None:
    story = Story()
    by_ada(story, request("a"))
    old = replace(story.run("run_a"), request_position="", correlation="")
    assert what_caused(records_of(story), old) == ()


def test_why_shows_each_step_below_the_one_it_led_to() -> None:
    story = Story()
    story.tell(request("a", request_text="all assets"))
    again = request("b", source=RerunSource(run_id="run_a"))
    by_ada(story, again, cause="1.0")
    assert outline(*asked(records_of(story), story.run("run_b")))[2:] == [
        f"- run_b was requested, by {ADA}, event 2.0",
        "  - run_a was requested: all assets, by unknown, event 1.0",
    ]


def test_where_nobody_recorded_who_it_was_the_source_says_it_all() -> None:
    story = Story()
    story.tell(request("a"))
    story.tell(request("b"), cause="1.0")
    assert len(asked(records_of(story), story.run("run_b"))) == 1


def test_a_request_that_nothing_led_to_is_told_by_its_source_alone() -> None:
    story = Story()
    by_ada(story, request("a"))
    assert len(asked(records_of(story), story.run("run_a"))) == 1
