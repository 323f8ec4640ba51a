"""What would start an asset by itself: schedules, sensors, backfills, conditions; or nothing."""

from datetime import datetime
from typing import Any

from msgspec.structs import replace

from servo.core.events.assets import AssetDefinition, DefinitionsDeployed
from servo.core.events.backfills import (
    BackfillChunkPlanned,
    BackfillState,
    BackfillStateChanged,
)
from servo.core.events.quotas import QuotaSet
from servo.core.events.runs import (
    BackfillSource,
    PlanCreated,
    RunCancelRequested,
    RunRequested,
    ScheduleSource,
    SensorSource,
)
from servo.core.events.schedules import (
    SchedulePaused,
    ScheduleRemoved,
    ScheduleTicked,
    ScheduleUpserted,
    TicksSkipped,
    TickStatus,
)
from servo.core.events.sensors import (
    PollTrigger,
    PushTrigger,
    SensorEvalStatus,
    SensorEvaluated,
    SensorMode,
    SensorPaused,
    SensorRemoved,
    SensorUpserted,
)
from servo.core.explain.records import Subject
from servo.core.explain.starters import starters
from servo.core.keys import TaskOperation, task_key_text
from servo.core.plan import TaskSpec
from servo.testing.backfills import backfill_created
from servo.testing.builders import Story, specs
from servo.testing.explaining import outline, records_of

AT = "2026-01-01 00:00:00Z"
NIGHTLY = "the schedule nightly (0 0 * * * UTC)"
NOTHING = "- nothing starts it automatically: no schedule, sensor or condition covers it"


def told(
    story: Story, partition: str | None = None, *, led: bool | None = None, then: str = ""
) -> list[str]:
    subject = Subject("ns/a", partition)
    return outline(*starters(records_of(story, led=led), subject, then))


# --- schedules ------------------------------------------------------------------------------------


def nightly(story: Story, **fields: Any) -> None:
    values: dict[str, Any] = {"cron_expressions": ("0 0 * * *",), "asset_selection": ("ns/a",)}
    assert story.tell(ScheduleUpserted(schedule_id="nightly", **{**values, **fields})).applied


def tick(story: Story, status: TickStatus, name: str = "t1", **fields: Any) -> ScheduleTicked:
    return ScheduleTicked(
        schedule_id="nightly",
        tick_id=name,
        scheduled_for=story.now,
        definition_version=1,
        status=status,
        **fields,
    )


def test_an_active_schedule_says_when_it_ticks_next() -> None:
    story = Story()
    nightly(story)
    assert told(story) == [f"- {NIGHTLY} is active", "  > next tick 2026-01-02 00:00:00Z, in 24 h"]


def test_a_selection_that_is_spelled_with_dots_is_the_same() -> None:
    story = Story()
    nightly(story, asset_selection=("ns.a", "other"))
    assert told(story)[0] == f"- {NIGHTLY} is active"
    nightly(story, asset_selection=("ns.ab", "other"))
    assert told(story) == [NOTHING]


def test_a_paused_schedule_says_how_to_resume_it() -> None:
    story = Story()
    nightly(story)
    story.tell(SchedulePaused(schedule_id="nightly"))
    assert told(story) == [
        f"? {NIGHTLY} is paused since {AT}",
        "  > resume it",
        "  $ servo schedule resume nightly",
    ]
    row = story.state.schedule_state.rows["nightly"]
    story.state.schedule_state.put("nightly", replace(row, paused_at=None))
    assert told(story)[0] == f"? {NIGHTLY} is paused"


def test_a_removed_schedule_no_longer_ticks() -> None:
    story = Story()
    nightly(story)
    story.tell(ScheduleRemoved(schedule_id="nightly"))
    assert told(story)[:2] == [f"- {NIGHTLY} was removed", "  > deploy it again"]


def test_a_tick_that_nobody_looked_at() -> None:
    story = Story()
    nightly(story)
    story.wait(days=1)
    assert told(story)[0].startswith(f"? {NIGHTLY} is overdue: its tick of 2026-01-02")
    story.wait(minutes=1)
    overdue = f"{NIGHTLY} is overdue: its tick of 2026-01-02 00:00:00Z, 60 s ago, was not evaluated"
    assert told(story) == [f"? {overdue} yet", "  > it will be evaluated in a moment"]
    assert told(story, led=False) == [
        f"? {overdue} yet; no leader is running in this workspace",
        "  $ servo resume",
    ]


def test_a_schedule_that_cannot_tick_or_never_will_again() -> None:
    story = Story()
    nightly(story)
    row = story.state.schedule_state.rows["nightly"]
    end = datetime.fromisoformat("9900-01-01T00:00:00Z")
    story.state.schedule_state.put("nightly", replace(row, low_water=end))
    assert told(story) == [f"- {NIGHTLY} has no future ticks", "  > change its cron expression"]
    nightly(story, timezone="Mars/Base")
    assert told(story)[0].startswith("! the schedule nightly (0 0 * * * Mars/Base) cannot tick: ")


def test_ticks_that_were_skipped_or_failed_with_what_they_said() -> None:
    story = Story()
    nightly(story)
    story.wait(days=1)
    story.tell(tick(story, TickStatus.SKIPPED, message="no new day"))
    assert told(story)[-1] == '  - its tick of 2026-01-02 00:00:00Z was skipped: "no new day"'
    story.wait(days=1)
    story.tell(tick(story, TickStatus.FAILED, "t0", message="KeyError"))
    assert told(story)[-2:] == [
        '  ! its tick of 2026-01-03 00:00:00Z failed: "KeyError"',
        "    > fix its function; the next tick tries again",
    ]


def test_a_stretch_of_skipped_ticks() -> None:
    story = Story()
    nightly(story)
    first = datetime.fromisoformat("2026-01-02T00:00:00Z")
    last = datetime.fromisoformat("2026-01-05T00:00:00Z")
    story.wait(days=5)
    story.tell(
        TicksSkipped(schedule_id="nightly", first=first, last=last, count=4, reason="too old")
    )
    line = '  - 4 ticks from 2026-01-02 00:00:00Z to 2026-01-05 00:00:00Z skipped: "too old"'
    assert told(story)[-1] == line
    (key,) = story.state.schedule_ticks.rows
    row = story.state.schedule_ticks.rows[key]
    story.state.schedule_ticks.put(key, replace(row, skipped_until=None))
    assert told(story)[-1] == '  - 4 ticks from 2026-01-02 00:00:00Z skipped: "too old"'


def test_a_tick_that_asked_for_a_run_and_one_that_found_it_asked_for() -> None:
    story = Story()
    nightly(story)
    story.wait(days=1)
    request = RunRequested(
        run_id="run_1",
        run_key="k",
        request_fingerprint="f",
        source=ScheduleSource(schedule_id="nightly", tick_id="t1"),
    )
    story.tell(tick(story, TickStatus.TRIGGERED, run_key="k"), request)
    asked = "  - its tick of 2026-01-02 00:00:00Z requested a run, run_1, which is PENDING"
    assert told(story)[-1] == asked
    story.wait(days=1)
    story.tell(tick(story, TickStatus.TRIGGERED, "t2", run_key="k"), request)
    assert told(story)[-1] == (
        "  - its tick of 2026-01-03 00:00:00Z requested a run, run_1, already requested "
        "with the same run key, which is PENDING"
    )
    story.wait(days=1)
    story.tell(tick(story, TickStatus.TRIGGERED, "t3"))
    assert told(story)[-1] == "  - its tick of 2026-01-04 00:00:00Z requested a run"


def ran(story: Story, source: Any, run_id: str = "run_1") -> None:
    """A run of the asset that a source asked for."""
    request = RunRequested(
        run_id=run_id, run_key=f"key-{run_id}", request_fingerprint="f", source=source
    )
    plan = PlanCreated(run_id=run_id, fingerprint="p", tasks=specs({"a": []}))
    assert story.tell(request, plan).applied


def test_a_schedule_that_made_it_counts_although_it_selects_by_job() -> None:
    story = Story()
    nightly(story, asset_selection=(), target="job")
    assert told(story) == [NOTHING]
    ran(story, ScheduleSource(schedule_id="nightly", tick_id="t1"))
    ran(story, ScheduleSource(schedule_id="gone", tick_id="t1"), "run_2")
    assert [line for line in told(story) if "schedule" in line] == [f"- {NIGHTLY} is active"]
    del story.state.runs.rows["run_1"]
    assert told(story) == [NOTHING]


# --- sensors --------------------------------------------------------------------------------------


def files(story: Story, **fields: Any) -> None:
    values: dict[str, Any] = {"asset_selection": ("ns/a",), **fields}
    assert story.tell(SensorUpserted(sensor_id="files", **values)).applied


def poll(story: Story, status: SensorEvalStatus, epoch: int = 1, **fields: Any) -> SensorEvaluated:
    state = story.state.sensor_state.rows["files"]
    values: dict[str, Any] = {"expected_state_version": state.state_version, **fields}
    return SensorEvaluated(
        sensor_id="files",
        eval_id=f"e{epoch}",
        trigger=PollTrigger(poll_epoch=epoch),
        status=status,
        **values,
    )


def test_a_sensor_that_has_not_looked_and_one_that_waits_for_messages() -> None:
    story = Story()
    files(story)
    assert told(story) == [
        "- the sensor files is active",
        "  > it will be evaluated in a moment",
        "  - it has not been evaluated yet",
    ]
    files(story, mode=SensorMode.PUSH)
    assert told(story)[1] == "  > it is evaluated when the next message arrives"


def test_a_sensor_that_found_nothing_said_why_or_said_nothing_at_all() -> None:
    story = Story()
    files(story)
    story.tell(poll(story, SensorEvalStatus.SKIPPED, message="file is empty"))
    assert told(story) == [
        "- the sensor files is active",
        "  > it is evaluated again at 2026-01-01 00:00:30Z, in 30 s at the earliest",
        f'  - at {AT} it skipped: evaluation e1 of a poll, it said "file is empty"',
    ]
    story.wait(minutes=1)
    story.tell(poll(story, SensorEvalStatus.NO_NEW_DATA, 2))
    assert told(story)[2:] == [
        "  - it was evaluated at 2026-01-01 00:01:00Z: no new data",
        f'  - at {AT} it skipped: evaluation e1 of a poll, it said "file is empty"',
    ]
    story.wait(minutes=1)
    story.tell(poll(story, SensorEvalStatus.NO_NEW_DATA, 3, cursor_after="c"))
    assert told(story)[2:] == [
        "  - at 2026-01-01 00:02:00Z it found no new data: evaluation e3 of a poll, cursor from "
        "nothing to 'c'"
    ]


def test_a_quiet_sensor_without_any_record() -> None:
    story = Story()
    files(story)
    story.tell(poll(story, SensorEvalStatus.NO_NEW_DATA))
    assert told(story)[2:] == [f"  - it was evaluated at {AT}: no new data"]


def test_a_sensor_that_asked_for_runs() -> None:
    story = Story()
    files(story)
    request = RunRequested(
        run_id="run_1",
        run_key="k1",
        request_fingerprint="f",
        source=SensorSource(sensor_id="files", eval_id="e1"),
    )
    story.tell(poll(story, SensorEvalStatus.TRIGGERED, run_keys=("k1",)), request)
    assert told(story)[-1] == (f"  - at {AT} it requested run_1 (PENDING): evaluation e1 of a poll")
    del story.state.runs.rows["run_1"]
    assert told(story)[-1] == f"  - at {AT} it requested 1 run: evaluation e1 of a poll"


def test_a_stale_evaluation_did_not_count() -> None:
    story = Story()
    files(story)
    late = poll(story, SensorEvalStatus.TRIGGERED, 2)
    story.tell(poll(story, SensorEvalStatus.SKIPPED))
    story.tell(late)
    assert told(story)[-1] == (
        f"  - at {AT} its evaluation was discarded, because another one finished first: "
        "evaluation e2 of a poll"
    )


def test_a_sensor_that_fails_and_one_that_is_paused_or_removed() -> None:
    story = Story()
    files(story, mode=SensorMode.PUSH)
    trigger = PushTrigger(message_id="m1")
    failed = SensorEvaluated(
        sensor_id="files",
        eval_id="e1",
        trigger=trigger,
        status=SensorEvalStatus.FAILED,
        message="no such bucket",
    )
    story.tell(failed)
    assert told(story) == [
        "! the sensor files fails, 1 time in a row: no such bucket",
        "  > fix it; it is evaluated when the next message arrives",
        f'  ! at {AT} it failed: evaluation e1 of message m1, it said "no such bucket"',
    ]
    story.tell(SensorPaused(sensor_id="files"))
    assert told(story)[:3] == [
        "? the sensor files is paused",
        "  > resume it",
        "  $ servo sensor resume files",
    ]
    story.tell(SensorRemoved(sensor_id="files"))
    assert told(story)[:2] == ["- the sensor files was removed", "  > deploy it again"]


def test_a_sensor_that_made_it_counts_although_it_selects_nothing() -> None:
    story = Story()
    files(story, asset_selection=())
    ran(story, SensorSource(sensor_id="files", eval_id="e1"))
    ran(story, SensorSource(sensor_id="gone", eval_id="e1"), "run_2")
    assert [line for line in told(story) if "sensor" in line] == ["- the sensor files is active"]


# --- backfills ------------------------------------------------------------------------------------

KEYS = ("p1", "p2", "p3")


def backfill(story: Story, name: str = "bf", **fields: Any) -> None:
    assert story.tell(backfill_created(*KEYS, name=name, chunk_size=1, **fields)).applied


def chunk(story: Story, index: int, name: str = "bf") -> str:
    """Plan a chunk of one partition, with its run."""
    run_id = f"run_{name}_{index}"
    planned = BackfillChunkPlanned(
        backfill_id=name,
        chunk_index=index,
        expected_state_version=1,
        partition_keys=KEYS[index : index + 1],
        run_key=run_id,
        request_fingerprint="fp",
    )
    request = RunRequested(
        run_id=run_id,
        run_key=run_id,
        request_fingerprint="fp",
        source=BackfillSource(backfill_id=name, chunk_index=index),
    )
    spec = TaskSpec(
        task_key=task_key_text("ns/a", KEYS[index], TaskOperation.MATERIALIZE),
        asset_key="ns/a",
        partition=KEYS[index],
    )
    plan = PlanCreated(run_id=run_id, fingerprint="p", tasks=(spec,))
    assert story.tell(planned, request, plan).applied
    return run_id


def test_a_backfill_at_work_and_where_in_it_a_partition_is() -> None:
    story = Story()
    backfill(story)
    run_id = chunk(story, 0)
    head = [
        "? the backfill bf is running: 0 of 3 partitions materialized; 1 of at most 2 runs active",
        "  > chunk 2 of 3 is planned next",
    ]
    assert told(story) == [*head, NOTHING]
    assert told(story, "p1")[2] == f"  - p1 is in chunk 1 of 3 (RUNNING), run {run_id} is RUNNING"
    assert told(story, "p3")[2] == "  ? p3 is in chunk 3 of 3, which is not planned"
    assert told(story, "p9") == [NOTHING]
    del story.state.runs.rows[run_id]
    assert told(story, "p1")[2] == "  - p1 is in chunk 1 of 3 (RUNNING)"


def test_a_backfill_that_has_as_many_runs_as_it_or_all_of_them_may_have() -> None:
    story = Story()
    backfill(story, max_concurrent_runs=1)
    chunk(story, 0)
    assert told(story)[1] == "  > chunk 2 of 3 is planned when one of its runs has finished"
    story = Story()
    backfill(story, "other")
    backfill(story)
    story.tell(QuotaSet(max_backfill_concurrency=2))
    chunk(story, 0)
    assert told(story)[1] == "  > chunk 2 of 3 is planned next"
    chunk(story, 0, "other")
    assert told(story)[1] == (
        "  > chunk 2 of 3 is planned when fewer runs are active: all backfills together may have 2"
    )


def test_a_backfill_that_failed_and_its_partition() -> None:
    story = Story()
    backfill(story, stop_on_failure=True)
    story.tell(RunCancelRequested(run_id=chunk(story, 0)))
    assert told(story, "p1")[:4] == [
        "! the backfill bf failed: 0 of 3 partitions materialized, 1 failed",
        "  > retry what failed",
        "  $ servo backfill retry-failed bf",
        "  - p1 failed in chunk 1 of 3 (CANCELLED), run run_bf_0 is CANCELLED",
    ]
    assert told(story, "p3")[3] == "  ? p3 is in chunk 3 of 3, which was never planned"
    chunks = story.state.chunks
    row = chunks.rows["bf", 0]
    chunks.put(("bf", 0), replace(row, state=type(row.state).FAILED, run_id=None))
    assert told(story, "p1")[3] == "  ! p1 failed in chunk 1 of 3 (FAILED)"


def test_a_list_that_is_stored_elsewhere_may_hold_the_partition() -> None:
    story = Story()
    backfill(story, partition_keys=(), partitions_digest="d")
    assert told(story, "p9")[:2] == [
        "? the backfill bf is running: 0 of 3 partitions materialized; 0 of at most 2 runs active",
        "  > chunk 1 of 3 is planned next",
    ]


def test_backfills_that_are_paused_cancelled_or_done() -> None:
    story = Story()
    backfill(story)
    change = BackfillStateChanged(backfill_id="bf", to_state=BackfillState.PAUSED, changed_by="ada")
    story.tell(change)
    assert told(story)[:3] == [
        "? the backfill bf is paused by ada: 0 of 3 partitions materialized",
        "  > resume it",
        "  $ servo backfill resume bf",
    ]
    story.tell(replace(change, to_state=BackfillState.CANCELLING))
    assert (
        told(story)[0] == "- the backfill bf was cancelled by ada: 0 of 3 partitions materialized"
    )
    row = story.state.backfills.rows["bf"]
    for state, word in (
        (BackfillState.CANCELLING, "is being cancelled by ada: 0 of 3 partitions materialized"),
        (BackfillState.SUCCEEDED, "succeeded: 0 of 3 partitions materialized"),
    ):
        story.state.backfills.put("bf", replace(row, state=state))
        assert told(story)[0] == f"- the backfill bf {word}"
    going = replace(row, state=BackfillState.RUNNING, planned_chunks=3)
    story.state.backfills.put("bf", going)
    assert told(story)[1] == "  > its last runs are finishing"


def test_of_the_backfills_that_have_ended_the_newest_is_told() -> None:
    story = Story()
    for name in ("old", "new"):
        story.wait(minutes=1)
        backfill(story, name, stop_on_failure=True)
        story.tell(RunCancelRequested(run_id=chunk(story, 0, name)))
    assert [line for line in told(story) if "the backfill" in line] == [
        "! the backfill new failed: 0 of 3 partitions materialized, 1 failed"
    ]


# --- nothing --------------------------------------------------------------------------------------


def deploy(story: Story, **fields: Any) -> None:
    asset = AssetDefinition(asset_key="ns/a", **fields)
    story.tell(DefinitionsDeployed(deployment_id="d", location="my assets.py", assets=(asset,)))


def test_where_nothing_starts_it_a_person_does() -> None:
    story = Story()
    then = "materialize it by hand"
    assert told(story, then=then) == [NOTHING, f"  > {then}"]
    deploy(story)
    assert told(story) == [NOTHING]
    assert told(story, then=then)[2] == "  $ servo materialize 'my assets.py' ns/a"
    assert told(story, "day=s:YSBi", then=then)[2] == (
        "  $ servo materialize 'my assets.py' ns/a --partition 'a b'"
    )
    asset = AssetDefinition(asset_key="ns/a")
    story.tell(DefinitionsDeployed(deployment_id="p", location="in process", assets=(asset,)))
    assert told(story, then=then) == [NOTHING, f"  > {then}"]
    story.tell(DefinitionsDeployed(deployment_id="e", location="in process"))
    assert told(story, then=then) == [NOTHING, f"  > {then}"]
