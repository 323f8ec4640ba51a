"""Rules of schedules: what is due, what has passed, and what a deployment may change."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from msgspec.structs import replace

from servo.core.events.envelope import Batch, Status
from servo.core.events.runs import RunRequested, ScheduleSource
from servo.core.events.schedules import (
    SchedulePaused,
    ScheduleRemoved,
    ScheduleResumed,
    ScheduleRewound,
    ScheduleTicked,
    ScheduleUpserted,
    TicksSkipped,
    TickStatus,
)
from servo.core.fold.apply import needs
from servo.core.fold.schedules import correlate_run, skip_id
from servo.core.state.rows.automation import (
    ScheduleDefinitionRow,
    ScheduleStateRow,
    ScheduleTickRow,
)
from servo.core.state.states import ScheduleStatus
from servo.testing.builders import START, Story, content, dump

MINUTE = timedelta(minutes=1)


def schedule(story: Story) -> ScheduleStateRow:
    return story.state.schedule_state.rows["daily"]


def upsert(**changes: object) -> ScheduleUpserted:
    event = ScheduleUpserted(
        schedule_id="daily", cron_expressions=("0 10 * * *",), asset_selection=("raw/a",)
    )
    return replace(event, **changes)


def tick(minutes: int, **changes: object) -> ScheduleTicked:
    """A tick `minutes` after the schedule was created."""
    event = ScheduleTicked(
        schedule_id="daily",
        tick_id=f"daily:{minutes}",
        scheduled_for=START + minutes * MINUTE,
        definition_version=1,
        asset_selection=("raw/a",),
        status=TickStatus.TRIGGERED,
        run_key=f"sched:daily:{minutes}",
        request_fingerprint="fp",
    )
    return replace(event, **changes)


def request(minutes: int) -> RunRequested:
    return RunRequested(
        run_id=f"run_{minutes}",
        run_key=f"sched:daily:{minutes}",
        request_fingerprint="fp",
        source=ScheduleSource(schedule_id="daily", tick_id=f"daily:{minutes}"),
    )


def skipped(first: int, last: int, count: int) -> TicksSkipped:
    return TicksSkipped(
        schedule_id="daily",
        first=START + first * MINUTE,
        last=START + last * MINUTE,
        count=count,
        reason="too old",
    )


@pytest.fixture
def story() -> Story:
    """An hour after the schedule was created."""
    story = Story()
    assert story.tell(upsert()).applied
    story.wait(hours=1)
    return story


# --- definitions ----------------------------------------------------------------------------------


def test_a_new_schedule_starts_at_its_creation_and_not_before() -> None:
    story = Story()
    answer = story.tell(upsert())
    assert answer.data == {"schedule_id": "daily", "definition_version": 1}
    assert story.state.schedules.rows["daily"] == ScheduleDefinitionRow(
        schedule_id="daily",
        cron_expressions=("0 10 * * *",),
        timezone="UTC",
        catchup_window_minutes=1440,
        max_catchup_ticks=3,
        asset_selection=("raw/a",),
        created_at=START,
        row_version=1,
    )
    assert schedule(story) == ScheduleStateRow(
        schedule_id="daily", status=ScheduleStatus.ACTIVE, low_water=START, row_version=1
    )
    assert story.tell(tick(0)).reason.startswith("tick_passed")


def test_a_schedule_that_is_not_enabled_begins_paused() -> None:
    story = Story()
    story.tell(upsert(enabled=False))
    assert schedule(story).status is ScheduleStatus.PAUSED
    assert schedule(story).paused_at == START


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"catchup_window_minutes": -1}, "out_of_range"),
        ({"catchup_window_minutes": 10**18}, "out_of_range"),
        ({"max_catchup_ticks": 10**18}, "out_of_range"),
    ],
)
def test_a_schedule_that_could_not_be_kept_is_refused(
    changes: dict[str, object], reason: str
) -> None:
    story = Story()
    answer = story.tell(upsert(**changes))
    assert answer.status is Status.REJECTED
    assert answer.reason.startswith(reason)
    assert len(story.state.schedules) == 0


def test_a_deployment_that_changes_nothing_changes_no_row(story: Story) -> None:
    before = content(story.state)
    assert story.tell(upsert()).data["definition_version"] == 1
    assert content(story.state) == before


def test_a_changed_definition_gets_the_next_version_and_keeps_the_state(story: Story) -> None:
    story.tell(SchedulePaused(schedule_id="daily"))
    before = schedule(story)
    answer = story.tell(upsert(asset_selection=("raw/b",), enabled=True))
    assert answer.data["definition_version"] == 2
    assert story.state.schedules.rows["daily"].asset_selection == ("raw/b",)
    assert story.state.schedules.rows["daily"].created_at == START
    assert schedule(story) == before


@pytest.mark.parametrize("change", [{"cron_expressions": ("* * * * *",)}, {"timezone": "Japan"}])
def test_new_times_are_not_due_before_they_were_deployed(
    story: Story, change: dict[str, object]
) -> None:
    story.tell(upsert(**change))
    assert schedule(story).low_water == story.state.ts
    assert story.tell(tick(30)).reason.startswith("tick_passed")


def test_a_removed_schedule_takes_no_more_ticks_and_cannot_be_paused(story: Story) -> None:
    story.tell(SchedulePaused(schedule_id="daily"))
    assert story.tell(ScheduleRemoved(schedule_id="daily")).applied
    assert schedule(story).status is ScheduleStatus.REMOVED
    assert schedule(story).paused_at is None
    for event in (
        tick(1),
        skipped(1, 2, 2),
        SchedulePaused(schedule_id="daily"),
        ScheduleResumed(schedule_id="daily"),
    ):
        assert story.tell(event).reason.startswith("unknown_schedule: ")
    before = content(story.state)
    assert story.tell(ScheduleRemoved(schedule_id="daily")).applied
    assert content(story.state) == before


def test_a_removed_schedule_that_is_deployed_again_starts_from_then(story: Story) -> None:
    story.tell(ScheduleRemoved(schedule_id="daily"))
    story.wait(hours=1)
    assert story.tell(upsert()).data["definition_version"] == 2
    assert schedule(story).status is ScheduleStatus.ACTIVE
    assert schedule(story).low_water == story.state.ts


def test_a_schedule_nobody_defined_is_unknown() -> None:
    story = Story()
    for event in (ScheduleRemoved(schedule_id="x"), SchedulePaused(schedule_id="x"), tick(1)):
        assert story.tell(event).reason.startswith("unknown_schedule: ")


# --- pause and resume -----------------------------------------------------------------------------


def test_a_paused_schedule_refuses_triggered_ticks_and_records_skipped_ones(story: Story) -> None:
    story.tell(SchedulePaused(schedule_id="daily"))
    assert schedule(story).paused_at == story.state.ts
    assert story.tell(tick(1)).reason.startswith("schedule_paused: ")
    assert story.tell(tick(2, status=TickStatus.SKIPPED, run_key=None)).applied
    assert schedule(story).low_water == START + 2 * MINUTE
    assert story.state.schedule_ticks.rows["daily:2"].status is TickStatus.SKIPPED


def test_a_person_may_trigger_a_paused_schedule(story: Story) -> None:
    story.tell(SchedulePaused(schedule_id="daily"))
    assert story.tell(tick(1, manual=True)).applied


def test_a_paused_schedule_stays_paused_since_it_was(story: Story) -> None:
    story.tell(SchedulePaused(schedule_id="daily"))
    before = dump(story.state)
    story.wait(minutes=1)
    story.tell(SchedulePaused(schedule_id="daily"))
    story.tell(upsert())
    assert dump(story.state)["schedule_state"] == before["schedule_state"]


def test_resuming_does_not_make_up_for_what_was_missed(story: Story) -> None:
    story.tell(SchedulePaused(schedule_id="daily"))
    story.tell(ScheduleResumed(schedule_id="daily"))
    assert schedule(story).status is ScheduleStatus.ACTIVE
    assert schedule(story).paused_at is None
    assert schedule(story).low_water == story.state.ts


def test_resuming_with_catchup_leaves_the_missed_ticks_due(story: Story) -> None:
    story.tell(SchedulePaused(schedule_id="daily"))
    story.tell(ScheduleResumed(schedule_id="daily", catchup=True))
    assert schedule(story).low_water == START
    assert story.tell(tick(1)).applied


def test_resuming_an_active_schedule_does_not_pass_over_its_ticks(story: Story) -> None:
    before = content(story.state)
    assert story.tell(ScheduleResumed(schedule_id="daily")).applied
    assert content(story.state) == before


# --- ticks ----------------------------------------------------------------------------------------


def test_a_tick_is_recorded_and_moves_the_schedule_on(story: Story) -> None:
    answer = story.tell(tick(5, message="on time"))
    assert answer.data == {"tick_id": "daily:5"}
    assert story.state.schedule_ticks.rows["daily:5"] == ScheduleTickRow(
        tick_id="daily:5",
        schedule_id="daily",
        scheduled_for=START + 5 * MINUTE,
        definition_version=1,
        asset_selection=("raw/a",),
        status=TickStatus.TRIGGERED,
        message="on time",
        run_key="sched:daily:5",
        request_fingerprint="fp",
        recorded_at=story.state.ts,
        request_position="2.0",
        correlation="2.0",
        row_version=2,
    )
    assert schedule(story) == ScheduleStateRow(
        schedule_id="daily",
        status=ScheduleStatus.ACTIVE,
        low_water=START + 5 * MINUTE,
        last_scheduled_for=START + 5 * MINUTE,
        last_tick_id="daily:5",
        last_run_key="sched:daily:5",
        last_status=TickStatus.TRIGGERED,
        row_version=2,
    )


def test_a_tick_that_failed_is_recorded_and_keeps_the_last_run_key(story: Story) -> None:
    story.tell(tick(5))
    assert story.tell(tick(6, status=TickStatus.FAILED, run_key=None)).applied
    assert schedule(story).last_status is TickStatus.FAILED
    assert schedule(story).last_run_key == "sched:daily:5"


def test_a_tick_from_before_the_last_one_is_refused(story: Story) -> None:
    story.tell(tick(5))
    answer = story.tell(tick(4))
    assert (answer.status, answer.reason.split(":")[0]) == (Status.REJECTED, "tick_passed")


def test_a_tick_of_the_future_cannot_use_up_what_is_to_come(story: Story) -> None:
    assert story.tell(tick(61)).reason.startswith("tick_not_due")
    assert schedule(story).low_water == START


def test_a_tick_made_from_an_older_definition_keeps_what_it_saw(story: Story) -> None:
    story.tell(upsert(asset_selection=("raw/b",)))
    assert story.tell(tick(5)).applied
    assert story.state.schedule_ticks.rows["daily:5"].asset_selection == ("raw/a",)
    assert story.state.schedule_ticks.rows["daily:5"].definition_version == 1


@pytest.mark.parametrize("version", [0, 2, 10**30])
def test_a_tick_of_a_definition_that_never_was_is_refused(story: Story, version: int) -> None:
    assert story.tell(tick(5, definition_version=version)).reason.startswith("out_of_range")


@pytest.mark.parametrize(
    "when", [START.replace(tzinfo=None), datetime.max.replace(tzinfo=timezone(-MINUTE))]
)
def test_a_time_that_is_no_instant_is_refused(story: Story, when: datetime) -> None:
    assert story.tell(tick(5, scheduled_for=when)).reason.startswith("invalid_instant")


def test_an_instant_is_kept_in_utc(story: Story) -> None:
    tokyo = timezone(timedelta(hours=9))
    story.tell(tick(5, scheduled_for=(START + 5 * MINUTE).astimezone(tokyo)))
    assert story.state.schedule_ticks.rows["daily:5"].scheduled_for.tzinfo is UTC


def test_a_manual_tick_leaves_the_schedule_where_it_is(story: Story) -> None:
    before = schedule(story)
    assert story.tell(tick(-600, tick_id="daily:manual:r1", manual=True)).applied
    assert story.tell(tick(-600, tick_id="daily:manual:r2", manual=True)).applied
    assert schedule(story) == before
    assert story.tell(tick(-600, tick_id="daily:manual:r1", manual=True)).repeated


def test_a_tick_id_of_another_schedule_is_refused(story: Story) -> None:
    story.tell(upsert(schedule_id="other"))
    story.tell(tick(5))
    answer = story.tell(tick(6, schedule_id="other", tick_id="daily:5"))
    assert (answer.status, answer.reason.split(":")[0]) == (Status.REJECTED, "tick_id_in_use")


def test_a_refused_tick_takes_its_run_with_it(story: Story) -> None:
    story.tell(tick(5), request(5))
    assert not story.tell(tick(4), request(4)).applied
    assert "run_4" not in story.state.runs


# --- one row for many skipped ticks ---------------------------------------------------------------


def test_skipped_ticks_become_one_row(story: Story) -> None:
    answer = story.tell(skipped(1, 30, 30))
    assert answer.data == {"tick_id": skip_id(skipped(1, 30, 30))}
    assert story.state.schedule_ticks.rows[answer.data["tick_id"]] == ScheduleTickRow(
        tick_id=str(answer.data["tick_id"]),
        schedule_id="daily",
        scheduled_for=START + MINUTE,
        definition_version=1,
        status=TickStatus.SKIPPED,
        message="too old",
        skipped_count=30,
        skipped_until=START + 30 * MINUTE,
        recorded_at=story.state.ts,
        request_position="2.0",
        correlation="2.0",
        row_version=2,
    )
    assert schedule(story).low_water == START + 30 * MINUTE
    assert schedule(story).ticks_skipped == 30
    assert schedule(story).last_tick_id is None


def test_the_same_skip_again_changes_nothing(story: Story) -> None:
    story.tell(skipped(1, 30, 30))
    before = dump(story.state)
    assert story.tell(skipped(1, 30, 30)).repeated
    assert dump(story.state) == before


def test_a_longer_skip_from_the_same_tick_is_not_the_same(story: Story) -> None:
    story.tell(skipped(1, 10, 10))
    before = dump(story.state)
    assert story.tell(skipped(1, 30, 30)).reason.startswith("tick_passed")
    assert dump(story.state) == before
    assert story.tell(skipped(11, 30, 20)).applied


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (skipped(30, 29, 1), "invalid_ticks"),
        (skipped(0, 30, 31), "tick_passed"),
        (skipped(1, 61, 61), "tick_not_due"),
        (skipped(1, 30, 0), "out_of_range"),
        (skipped(1, 30, 2**63), "out_of_range"),
        (replace(skipped(1, 30, 30), first=START.replace(tzinfo=None)), "invalid_instant"),
    ],
)
def test_skips_that_make_no_sense_are_refused(
    story: Story, event: TicksSkipped, reason: str
) -> None:
    before = dump(story.state)
    assert story.tell(event).reason.startswith(reason)
    assert dump(story.state) == before


# --- ticks and their runs -------------------------------------------------------------------------


def test_a_tick_that_asks_for_several_runs_is_about_the_one_it_names(story: Story) -> None:
    other = replace(request(5), run_id="run_other", run_key="another")
    story.tell(tick(5), other, request(5))
    assert story.state.schedule_ticks.rows["daily:5"].run_id == "run_5"


def test_a_tick_that_names_no_run_is_about_its_first(story: Story) -> None:
    other = replace(request(5), run_id="run_other", run_key="another")
    story.tell(tick(5, run_key=None), other, request(5))
    assert story.state.schedule_ticks.rows["daily:5"].run_id == "run_other"


def test_a_run_of_another_schedule_is_not_named_in_a_tick(story: Story) -> None:
    stranger = replace(request(5), source=ScheduleSource(schedule_id="x", tick_id="daily:5"))
    story.tell(tick(5), stranger)
    assert story.state.schedule_ticks.rows["daily:5"].run_id is None


def test_a_run_that_does_not_exist_is_not_named_in_a_tick(story: Story) -> None:
    story.tell(tick(5))
    correlate_run(story.state, ScheduleSource(schedule_id="daily", tick_id="daily:5"), "nowhere")
    assert story.state.schedule_ticks.rows["daily:5"].run_id is None


def test_what_may_have_left_memory_is_asked_for() -> None:
    event = tick(5)
    assert needs(Batch(id="b", events=(event,))) == [
        ("schedule_ticks", "daily:5"),
        ("run_key_index", "sched:daily:5"),
    ]
    assert needs(Batch(id="b", events=(replace(event, run_key=None),))) == [
        ("schedule_ticks", "daily:5")
    ]
    assert needs(Batch(id="b", events=(skipped(1, 30, 30),))) == [
        ("schedule_ticks", "daily:skipped:2026-01-01T00:01:00+00:00")
    ]


# --- a clock that was ahead -----------------------------------------------------------------------


def rewind(to: datetime, seen: datetime) -> ScheduleRewound:
    return ScheduleRewound(schedule_id="daily", expected_low_water=seen, low_water=to)


def test_a_schedule_that_is_rewound_ticks_again_and_keeps_what_is_recorded(story: Story) -> None:
    story.tell(tick(30), request(30))
    assert story.tell(rewind(START + 10 * MINUTE, START + 30 * MINUTE)).applied
    assert story.tell(tick(20)).applied
    again = story.tell(tick(30), request(30))
    assert (again.applied, again.repeated) == (True, True)
    assert schedule(story).low_water == START + 20 * MINUTE
    assert story.tell(skipped(30, 30, 1)).applied
    assert schedule(story).low_water == START + 30 * MINUTE
    assert len(story.state.runs) == 1


@pytest.mark.parametrize(
    ("to", "seen", "reason"),
    [
        (10, 20, "schedule_moved"),
        (30, 30, "invalid_low_water"),
        (31, 30, "invalid_low_water"),
    ],
)
def test_a_schedule_is_rewound_only_backwards_and_from_where_it_is(
    story: Story, to: int, seen: int, reason: str
) -> None:
    story.tell(tick(30))
    refused = story.tell(rewind(START + to * MINUTE, START + seen * MINUTE))
    assert (refused.status, refused.reason.partition(":")[0]) == (Status.REJECTED, reason)
    assert schedule(story).low_water == START + 30 * MINUTE


def test_a_schedule_that_does_not_exist_is_not_rewound(story: Story) -> None:
    event = replace(rewind(START - MINUTE, START), schedule_id="other")
    assert story.tell(event).reason.startswith("unknown_schedule")
