"""What asked for a run, as far as that is on record."""

from datetime import timedelta
from typing import Any

from servo.core.events.runs import (
    AutomationSource,
    BackfillSource,
    ManualSource,
    RerunSource,
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
    SensorMode,
    SensorUpserted,
)
from servo.core.explain.asked import asked
from servo.testing.backfills import backfill_chunk, backfill_created
from servo.testing.builders import START, Story
from servo.testing.explaining import outline, records_of


def why(story: Story, run_id: str = "run_1") -> list[str]:
    return outline(*asked(records_of(story), story.run(run_id)))


def scheduled(story: Story, tick: str = "t1", run_id: str = "run_1", **fields: Any) -> None:
    """A tick of the schedule that is due now, with its run."""
    values: dict[str, Any] = {"definition_version": 1, "run_key": f"key-{run_id}", **fields}
    ticked = ScheduleTicked(
        schedule_id="nightly",
        tick_id=tick,
        scheduled_for=story.now,
        status=TickStatus.TRIGGERED,
        **values,
    )
    source = ScheduleSource(schedule_id="nightly", tick_id=tick)
    request = RunRequested(
        run_id=run_id, run_key=f"key-{run_id}", request_fingerprint="fp", source=source
    )
    assert story.tell(ticked, request).applied


def with_schedule() -> Story:
    story = Story()
    story.tell(ScheduleUpserted(schedule_id="nightly", cron_expressions=("0 0 * * *",)))
    story.wait(days=1)
    return story


def test_a_person_by_name_and_request() -> None:
    story = Story()
    story.request(source=ManualSource(user_id="ada", request_id="r-1"))
    assert why(story) == ["- started by hand by ada with request r-1; 2026-01-01 00:00:00Z"]
    story.request("run_2")
    assert why(story, "run_2") == ["- started by hand; 2026-01-01 00:00:00Z"]


def test_a_tick_with_the_definition_it_was_made_from() -> None:
    story = with_schedule()
    scheduled(
        story,
        asset_selection=("ns/a", "ns/b"),
        partition_selection=("day=d:2026-01-01",),
        message="as ever",
    )
    told = (
        "- requested by the schedule nightly: tick of 2026-01-02 00:00:00Z, definition version 1"
        ', selecting ns/a and ns/b, of 1 partition 2026-01-01, it said "as ever"; '
        "2026-01-02 00:00:00Z"
    )
    assert why(story) == [told]
    (found,) = asked(records_of(story), story.run())
    assert (found.seq, found.at) == (2, START + timedelta(days=1))
    story.tell(ScheduleUpserted(schedule_id="nightly", cron_expressions=("0 1 * * *",)))
    assert why(story) == [told.replace("version 1", "version 1 (now 2)")]


def test_a_tick_that_is_not_on_record() -> None:
    story = Story()
    story.request(source=ScheduleSource(schedule_id="nightly", tick_id="t9"))
    assert why(story) == [
        "- requested by the schedule nightly: tick t9, which is not on record; 2026-01-01 00:00:00Z"
    ]


def test_a_second_tick_with_the_same_run_key_made_no_run() -> None:
    story = with_schedule()
    scheduled(story)
    story.wait(days=1)
    scheduled(story, "t2", run_id="run_1")
    assert why(story)[1:] == [
        "- also requested by the schedule nightly, tick of 2026-01-03 00:00:00Z, definition "
        "version 1: the same run key, so no second run was created"
    ]


def sensed(story: Story, trigger: PollTrigger | PushTrigger, **fields: Any) -> None:
    values: dict[str, Any] = {"eval_id": "e1", "run_keys": ("key-run_1",), **fields}
    evaluated = SensorEvaluated(
        sensor_id="files", trigger=trigger, status=SensorEvalStatus.TRIGGERED, **values
    )
    source = SensorSource(sensor_id="files", eval_id=evaluated.eval_id)
    request = RunRequested(
        run_id="run_1", run_key="key-run_1", request_fingerprint="fp", source=source
    )
    assert story.tell(evaluated, request).applied


def with_sensor(mode: SensorMode = SensorMode.POLL) -> Story:
    story = Story()
    story.tell(SensorUpserted(sensor_id="files", mode=mode))
    return story


def test_an_evaluation_and_how_the_cursor_moved() -> None:
    story = with_sensor()
    sensed(
        story,
        PollTrigger(poll_epoch=1),
        expected_state_version=0,
        cursor_after="b",
        message="2 new files",
    )
    assert why(story) == [
        "- requested by the sensor files: evaluation e1 of a poll, cursor from nothing to 'b', "
        'it said "2 new files"; 2026-01-01 00:00:00Z'
    ]


def test_a_later_evaluation_with_the_same_run_key_made_no_run() -> None:
    story = with_sensor()
    sensed(story, PollTrigger(poll_epoch=1), expected_state_version=0, cursor_after="b")
    sensed(
        story,
        PollTrigger(poll_epoch=2),
        eval_id="e2",
        expected_state_version=1,
        cursor_before="b",
        cursor_after="c",
    )
    assert why(story)[1:] == [
        "- also requested by the sensor files, evaluation e2 of a poll, cursor from 'b' to 'c': "
        "the same run key, so no second run was created"
    ]


def test_a_stale_evaluation_asked_for_nothing() -> None:
    story = with_sensor()
    sensed(story, PollTrigger(poll_epoch=1), expected_state_version=0, cursor_after="b")
    late = SensorEvaluated(
        sensor_id="files",
        eval_id="e2",
        trigger=PollTrigger(poll_epoch=2),
        expected_state_version=0,
        status=SensorEvalStatus.TRIGGERED,
        run_keys=("key-run_1",),
    )
    story.tell(late)
    assert len(story.state.sensor_evals.rows) == 2
    assert len(why(story)) == 1


def test_a_message_that_was_pushed() -> None:
    story = with_sensor(SensorMode.PUSH)
    sensed(story, PushTrigger(message_id="m1"))
    assert why(story) == [
        "- requested by the sensor files: evaluation e1 of message m1; 2026-01-01 00:00:00Z"
    ]


def test_an_evaluation_that_is_not_on_record() -> None:
    story = Story()
    story.request(source=SensorSource(sensor_id="files", eval_id="e9"))
    assert why(story) == [
        "- requested by the sensor files: evaluation e9, which is not on record; "
        "2026-01-01 00:00:00Z"
    ]


def test_a_chunk_of_a_backfill() -> None:
    story = Story()
    created = backfill_created("p1", "p2", "p3", chunk_size=2, parent_backfill_id="bf0")
    story.tell(created)
    assert story.tell(*backfill_chunk(created)).applied
    assert why(story) == [
        "- chunk 1 of 2 of the backfill bf (3 partitions, RUNNING), a retry of bf0; "
        "2026-01-01 00:00:00Z"
    ]


def test_a_chunk_of_a_backfill_that_is_not_on_record() -> None:
    story = Story()
    story.request(source=BackfillSource(backfill_id="bf", chunk_index=4))
    assert why(story) == [
        "- chunk 5 of the backfill bf, which is not on record; 2026-01-01 00:00:00Z"
    ]


def test_an_automation_condition() -> None:
    story = Story()
    story.request(source=AutomationSource(evaluation_id="ev", upstream_materialization_id="m"))
    assert why(story) == [
        "- an automation condition was true: evaluation ev, after the output m; "
        "2026-01-01 00:00:00Z"
    ]
    story.request("run_2", source=AutomationSource(evaluation_id="ev"))
    assert why(story, "run_2") == [
        "- an automation condition was true: evaluation ev; 2026-01-01 00:00:00Z"
    ]


def test_a_repetition_leads_back_to_what_began_it() -> None:
    story = with_schedule()
    scheduled(story)
    story.request("run_2", source=RerunSource(run_id="run_1", user_id="ada"))
    story.request("run_3", source=RerunSource(run_id="run_2"))
    assert why(story, "run_3") == [
        "- a retry of run_2, which is PENDING, requested by hand; 2026-01-02 00:00:00Z",
        "  - originally run_1: requested by the schedule nightly: tick of "
        "2026-01-02 00:00:00Z, definition version 1; 2026-01-02 00:00:00Z",
    ]
    assert why(story, "run_2")[0].endswith("requested by ada; 2026-01-02 00:00:00Z")


def test_repetitions_of_something_unknown_or_of_themselves_end_somewhere() -> None:
    story = Story()
    story.request("run_2", source=RerunSource(run_id="run_0"))
    assert why(story, "run_2") == ["- a retry of run_0, requested by hand; 2026-01-01 00:00:00Z"]
    story.request("run_3", source=RerunSource(run_id="run_4"))
    story.request("run_4", source=RerunSource(run_id="run_3"))
    assert why(story, "run_4") == [
        "- a retry of run_3, which is PENDING, requested by hand; 2026-01-01 00:00:00Z"
    ]


def test_a_request_for_something_else_with_the_same_run_key_was_refused() -> None:
    story = Story()
    story.request()
    story.request(request_fingerprint="other")
    assert why(story)[1:] == [
        "! a different request with the run key 'key-run_1' was refused at "
        "2026-01-01 00:00:00Z (batch batch-2)",
        "  > send that request again with another run key",
    ]
