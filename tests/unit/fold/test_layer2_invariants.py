"""L2-INV-1 to L2-INV-12, one test each, as they must be stated to be true.

Numbers 1 to 5, 7 and 9 to 12 hold for batches: the event named by the invariant heads a batch, and
whatever follows it lives or dies with it.
"""

import itertools

from msgspec.structs import replace

from servo.core.events.backfills import (
    BackfillChunkPlanned,
    BackfillState,
    BackfillStateChanged,
)
from servo.core.events.dispatch import DispatchRequested, Handover
from servo.core.events.envelope import Batch, Event, Status
from servo.core.events.runs import BackfillSource, PlanCreated, RunRequested, ScheduleSource
from servo.core.events.schedules import ScheduleTicked, ScheduleUpserted, TickStatus
from servo.core.events.sensors import (
    PollTrigger,
    PushTrigger,
    SensorEvalStatus,
    SensorEvaluated,
    SensorUpserted,
)
from servo.core.events.tasks import CommittedOutput, TaskFinished, TaskOutcome
from servo.core.ids import RunKey, TenantId, WorkspaceId, run_id
from servo.core.keys import TaskOperation, task_key_text
from servo.core.plan import TaskSpec
from servo.core.retry import RetryRules
from servo.core.state.rows.assets import PartitionStatusRow
from servo.core.state.rows.automation import RunKeyConflictRow
from servo.core.state.states import ChunkState
from servo.testing.backfills import backfill_created
from servo.testing.builders import START, Story, dump

DAYS = ("day=d:2025-01-01", "day=d:2025-01-02")


def request(run: str, key: str, fingerprint: str = "fp", **fields: object) -> RunRequested:
    event = RunRequested(run_id=run, run_key=key, request_fingerprint=fingerprint)
    return replace(event, **fields)


def changes_nothing(story: Story, *events: Event) -> bool:
    """Whether a batch, sent a month later and answered as done, leaves every row as it is."""
    before = dump(story.state)
    story.wait(days=29)
    answer = story.tell(*events)
    return answer.applied and answer.repeated and dump(story.state) == before


# --- schedules ------------------------------------------------------------------------------------

UPSERT = ScheduleUpserted(
    schedule_id="daily", cron_expressions=("0 10 * * *",), asset_selection=("ns/a",)
)
TICK = ScheduleTicked(
    schedule_id="daily",
    tick_id="daily:1",
    scheduled_for=START.replace(hour=10),
    definition_version=1,
    asset_selection=("ns/a",),
    status=TickStatus.TRIGGERED,
    run_key="sched:daily:1",
    request_fingerprint="fp",
)
TICK_RUN = request(
    "run_1",
    "sched:daily:1",
    asset_selection=("ns/a",),
    source=ScheduleSource(schedule_id="daily", tick_id="daily:1"),
)


def scheduled() -> Story:
    story = Story()
    story.tell(UPSERT)
    story.wait(hours=12)
    return story


def test_l2_inv_01_schedule_idempotency() -> None:
    """The same tick twice is one tick with one run, even if the second was made otherwise."""
    story = scheduled()
    assert story.tell(TICK).applied
    assert changes_nothing(story, TICK)
    story = scheduled()
    assert story.tell(TICK, TICK_RUN).applied
    assert changes_nothing(story, TICK, TICK_RUN)
    edited = replace(TICK, asset_selection=("ns/b",), request_fingerprint="other")
    assert changes_nothing(story, edited, replace(TICK_RUN, request_fingerprint="other"))
    assert story.tell(TICK).data == {"tick_id": "daily:1", "run_id": "run_1"}
    assert len(story.state.run_key_conflicts) == 0


# --- sensors --------------------------------------------------------------------------------------


def sensed() -> Story:
    story = Story()
    story.tell(SensorUpserted(sensor_id="files"))
    return story


def evaluated(
    eval_id: str,
    trigger: PollTrigger | PushTrigger,
    version: int | None = None,
    cursor: str | None = None,
) -> SensorEvaluated:
    return SensorEvaluated(
        sensor_id="files",
        eval_id=eval_id,
        trigger=trigger,
        expected_state_version=version,
        cursor_after=cursor,
        status=SensorEvalStatus.TRIGGERED,
    )


def test_l2_inv_02_sensor_idempotency_push() -> None:
    """The same message twice is one evaluation, whatever the second one would have asked for."""
    story = sensed()
    message = PushTrigger(message_id="m1")
    assert story.tell(evaluated("e1", message), request("run_x", "x")).applied
    assert changes_nothing(story, evaluated("e1", message), request("run_x", "x"))
    assert changes_nothing(story, evaluated("e2", message), request("run_y", "y"))
    assert list(story.state.runs.rows) == ["run_x"]


def test_l2_inv_03_sensor_idempotency_poll() -> None:
    """The same cursor at the same epoch twice is one evaluation and one set of runs."""
    story = sensed()
    first = evaluated("e1", PollTrigger(poll_epoch=1), 0, "c1")
    assert story.tell(first, request("run_x", "x")).applied
    assert changes_nothing(story, first, request("run_x", "x"))
    # Another evaluator at the same epoch from the same cursor: none of its runs is made.
    again = evaluated("e2", PollTrigger(poll_epoch=1), 0, "c2")
    assert not story.tell(again, request("run_y", "y")).applied
    assert list(story.state.runs.rows) == ["run_x"]
    assert story.state.sensor_state.rows["files"].cursor == "c1"


def test_l2_inv_12_sensor_eval_cas() -> None:
    """A stale evaluation is recorded and dropped whole: every item makes exactly one run.

    A sees item 1, B sees items 1 and 2, both from the first cursor, and A commits first. B's
    batch must leave no run behind, or item 2 runs twice: B's, and that of the next evaluation.
    """
    story = sensed()
    poll = PollTrigger(poll_epoch=1)
    a = (evaluated("a", poll, 0, "1"), request("run_1", "a:1"))
    b = (evaluated("b", poll, 0, "2"), request("run_b1", "b:1"), request("run_b2", "b:2"))
    after = (evaluated("c", poll, 1, "2"), request("run_2", "c:2"))
    assert story.tell(*a).applied
    refused = story.tell(*b)
    assert (refused.status, refused.reason.split(":")[0]) == (
        Status.CONFLICT,
        "stale_state_version",
    )
    assert story.tell(*after).applied
    assert list(story.state.runs.rows) == ["run_1", "run_2"]
    stale = [row.eval_id for row in story.state.sensor_evals.values() if row.stale]
    assert stale == ["b"]
    assert story.state.sensor_state.rows["files"].cursor == "2"


# --- run keys -------------------------------------------------------------------------------------


def test_l2_inv_04_run_key_idempotency() -> None:
    """The same key and fingerprint find the same run, whoever asks."""
    story = Story()
    assert story.tell(request("run_1", "k")).data == {"run_id": "run_1"}
    assert changes_nothing(story, request("run_1", "k"))
    assert story.tell(request("run_other", "k")).data == {"run_id": "run_1"}
    assert list(story.state.runs.rows) == ["run_1"]


def test_l2_inv_05_run_key_conflict() -> None:
    """The same key with another fingerprint is a recorded conflict, and no run."""
    story = Story()
    story.tell(request("run_1", "k"))
    answer = story.tell(request("run_1", "k", "other"))
    assert (answer.status, answer.data) == (Status.CONFLICT, {"run_id": "run_1"})
    assert list(story.state.run_key_conflicts.rows.values()) == [
        RunKeyConflictRow(
            run_key="k",
            existing_run_id="run_1",
            existing_fingerprint="fp",
            conflicting_fingerprint="other",
            conflicting_batch_id="batch-2",
            detected_at=story.state.ts,
            row_version=2,
        )
    ]
    assert list(story.state.runs.rows) == ["run_1"]


# --- backfills ------------------------------------------------------------------------------------

CREATED = backfill_created(*DAYS, chunk_size=1)


def chunk(index: int, version: int = 1) -> BackfillChunkPlanned:
    return BackfillChunkPlanned(
        backfill_id="bf",
        chunk_index=index,
        expected_state_version=version,
        partition_keys=DAYS[index : index + 1],
        run_key=f"bf:{index}",
        request_fingerprint="fp",
    )


def chunk_run(index: int) -> RunRequested:
    source = BackfillSource(backfill_id="bf", chunk_index=index)
    return request(f"run_{index}", f"bf:{index}", source=source)


def change(to: BackfillState, version: int) -> BackfillStateChanged:
    return BackfillStateChanged(backfill_id="bf", to_state=to, expected_state_version=version)


def test_l2_inv_06_backfill_state_version() -> None:
    """Of two commands on the same version one is applied and the other told of the conflict.

    Nothing planned from before a pause gets through after it, and a command sent again gets the
    answer it got, not a second effect.
    """
    story = Story()
    story.tell(CREATED)
    pause = change(BackfillState.PAUSED, 1)
    cancel = change(BackfillState.CANCELLED, 1)
    assert story.tell(pause, id="p", request_id="p").status is Status.APPLIED
    assert story.tell(cancel, id="c", request_id="c").status is Status.CONFLICT
    assert story.tell(chunk(0), chunk_run(0)).status is Status.CONFLICT
    row = story.state.backfills.rows["bf"]
    assert (row.state, row.state_version, row.planned_chunks) == (BackfillState.PAUSED, 2, 0)
    story.tell(change(BackfillState.RUNNING, 2))
    before = dump(story.state)
    again = story.tell(pause, id="p", request_id="p")
    assert (again.status, again.repeated) == (Status.APPLIED, True)
    assert dump(story.state) == before


def test_l2_inv_07_chunk_idempotency() -> None:
    """The same chunk planned twice is one chunk with one run."""
    story = Story()
    story.tell(CREATED)
    assert story.tell(chunk(0), chunk_run(0)).applied
    assert changes_nothing(story, chunk(0), chunk_run(0))
    row = story.state.backfills.rows["bf"]
    assert (row.planned_chunks, row.active_chunks) == (1, 1)
    # Not even after the backfill was paused and goes on at another version.
    story.tell(change(BackfillState.PAUSED, 1))
    story.tell(change(BackfillState.RUNNING, 2))
    assert changes_nothing(story, chunk(0), chunk_run(0))


# --- partitions -----------------------------------------------------------------------------------

TASK = task_key_text("ns/a", DAYS[0], TaskOperation.MATERIALIZE)
ONCE = RetryRules(max_attempts=1, max_infra_retries=0)


def two_runs_at_once() -> Story:
    """Two runs that execute the same partition at the same time."""
    story = Story()
    spec = TaskSpec(task_key=TASK, asset_key="ns/a", partition=DAYS[0], retry=ONCE)
    for run in ("run_1", "run_2"):
        plan = PlanCreated(run_id=run, fingerprint="p", tasks=(spec,))
        story.tell(request(run, run), plan)
        handover = Handover(exec_id=f"exec_{run}")
        story.tell(DispatchRequested(run_id=run, task_key=TASK, attempt=1, handover=handover))
    return story


def end(story: Story, run: str, outcome: TaskOutcome, hour: int) -> TaskFinished:
    """The end of a task, at `hour` by the clock of its worker."""
    made = (
        CommittedOutput(materialization_id=f"mat_{run}")
        if outcome is TaskOutcome.SUCCEEDED
        else None
    )
    return TaskFinished(
        run_id=run,
        task_key=TASK,
        attempt_id=story.state.tasks.rows[run, TASK].attempt_id,
        exec_id=f"exec_{run}",
        outcome=outcome,
        output=made,
        code_version=run,
        completed_at=START.replace(hour=hour),
    )


def test_l2_inv_08_partition_status_atomic() -> None:
    """The row of a partition is the fold by seq: no worker's clock, and no half of anything."""
    for first, second in itertools.permutations(("run_1", "run_2")):
        story = two_runs_at_once()
        story.tell(end(story, first, TaskOutcome.SUCCEEDED, hour=23))
        story.tell(end(story, second, TaskOutcome.SUCCEEDED, hour=1))
        assert story.state.partitions.rows["ns/a", DAYS[0]] == PartitionStatusRow(
            asset_key="ns/a",
            partition_key=DAYS[0],
            last_materialization_id=f"mat_{second}",
            last_materialization_run_id=second,
            last_materialization_at=story.state.ts,
            last_materialization_seq=story.state.seq,
            last_materialization_code_version=second,
            last_attempt_run_id=second,
            last_attempt_at=story.state.ts,
            last_attempt_outcome=TaskOutcome.SUCCEEDED,
            partition_values={"day": "2025-01-01"},
            data_changed_seq=story.state.seq,
            latest_floor=story.state.seq,
            row_version=story.state.seq,
        )


def test_l2_inv_08_a_failure_changes_the_attempt_and_not_the_data() -> None:
    story = two_runs_at_once()
    story.tell(end(story, "run_1", TaskOutcome.SUCCEEDED, hour=1))
    before = story.state.partitions.rows["ns/a", DAYS[0]]
    story.tell(end(story, "run_2", TaskOutcome.FAILED, hour=2))
    assert story.state.partitions.rows["ns/a", DAYS[0]] == replace(
        before,
        last_attempt_run_id="run_2",
        last_attempt_at=story.state.ts,
        last_attempt_outcome=TaskOutcome.FAILED,
        row_version=story.state.seq,
    )


# --- identity and correlation ---------------------------------------------------------------------


def test_l2_inv_09_deterministic_run_id() -> None:
    """The id of a run is a function of its key and workspace, and stored once in the event."""
    salt, key = b"0123456789abcdef", RunKey("sched:daily:1")
    acme, prod = TenantId("acme"), WorkspaceId("prod")
    known = run_id(salt, acme, prod, key)
    assert known == run_id(salt, acme, prod, key)
    others = [
        run_id(b"another salt 16b", acme, prod, key),
        run_id(salt, TenantId("other"), prod, key),
        run_id(salt, acme, WorkspaceId("dev"), key),
        run_id(salt, acme, prod, RunKey("sched:daily:2")),
    ]
    assert len({known, *others}) == 5
    # A rotated salt computes another id; the key still finds the run that was made.
    story = Story()
    story.tell(request(known, key))
    assert story.tell(request(others[0], key)).data == {"run_id": known}


def test_l2_inv_10_correlation_integrity() -> None:
    """A tick or chunk leads to its run by key, whichever of the two came first."""
    for batches in ([(TICK, TICK_RUN)], [(TICK,), (TICK_RUN,)], [(TICK_RUN,), (TICK,)]):
        story = scheduled()
        for events in batches:
            assert story.tell(*events).applied
        tick = story.state.schedule_ticks.rows["daily:1"]
        known = story.state.run_keys.rows["sched:daily:1"]
        assert tick.run_id == known.run_id == story.run(known.run_id).run_id == "run_1"
    for batches in ([(chunk(0), chunk_run(0))], [(chunk_run(0),), (chunk(0),)]):
        story = Story()
        story.tell(CREATED)
        for events in batches:
            assert story.tell(*events).applied
        row = story.state.chunks.rows["bf", 0]
        assert (row.run_id, row.state) == ("run_0", ChunkState.RUNNING)


def test_l2_inv_11_schedule_snapshot() -> None:
    """A tick keeps the definition it was made from, and so does its run."""
    story = scheduled()
    story.tell(replace(UPSERT, asset_selection=("ns/b",)))
    assert story.state.schedules.rows["daily"].definition_version == 2
    assert story.tell(TICK, TICK_RUN).applied
    tick = story.state.schedule_ticks.rows["daily:1"]
    assert (tick.definition_version, tick.asset_selection) == (1, ("ns/a",))
    assert story.run("run_1").asset_selection == ("ns/a",)
    # Folding the ledger again gives the same rows, whatever the definition is by then.
    again = scheduled()
    again.commit(Batch(id="batch-2", events=(replace(UPSERT, asset_selection=("ns/b",)),)))
    again.commit(Batch(id="batch-3", events=(TICK, TICK_RUN)))
    assert dump(again.state) == dump(story.state)
