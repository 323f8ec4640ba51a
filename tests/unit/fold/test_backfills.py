"""Rules of backfills: which chunk is next, what became of it, and how it all ends."""

from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from servo.core.events.backfills import (
    BackfillChunkPlanned,
    BackfillCreated,
    BackfillState,
    BackfillStateChanged,
    ExplicitSelector,
)
from servo.core.events.dispatch import DispatchRequested, Handover
from servo.core.events.envelope import Answer, Batch, Status
from servo.core.events.quotas import QuotaSet
from servo.core.events.runs import (
    BackfillSource,
    PlanCreated,
    PlanFailed,
    PlanSegment,
    PlanSegmentExpanded,
    RunCancelRequested,
    RunRequested,
)
from servo.core.events.tasks import TaskFinished, TaskOutcome
from servo.core.fold.apply import needs
from servo.core.fold.backfills import correlate_run
from servo.core.ids import TaskKeyStr
from servo.core.keys import TaskOperation, task_key_text
from servo.core.plan import TaskSpec
from servo.core.retry import RetryRules
from servo.core.state.rows.automation import BackfillChunkRow, BackfillRow
from servo.core.state.states import (
    ChunkState,
    RunState,
    RunTransitionReason,
    TaskState,
    TransitionReason,
)
from servo.testing.builders import START, Story, dump

ONCE = RetryRules(max_attempts=1, max_infra_retries=0)
OK, BAD, SKIP = TaskOutcome.SUCCEEDED, TaskOutcome.FAILED, TaskOutcome.SKIPPED
DAYS = tuple(f"day=d:2025-01-{day:02}" for day in range(1, 6))


def created(keys: tuple[str, ...] = DAYS, /, **changes: object) -> BackfillCreated:
    event = BackfillCreated(
        backfill_id="bf",
        client_request_id="req",
        request_fingerprint="fp",
        asset_selection=("ns/a",),
        selector=ExplicitSelector(count=len(keys)),
        partition_keys=keys,
        total_partitions=len(keys),
        chunk_size=2,
    )
    return replace(event, **changes)


def planned(index: int, *, version: int = 1, **changes: object) -> BackfillChunkPlanned:
    event = BackfillChunkPlanned(
        backfill_id="bf",
        chunk_index=index,
        expected_state_version=version,
        partition_keys=DAYS[2 * index : 2 * index + 2],
        run_key=f"backfill:bf:{index}",
        request_fingerprint=f"fp-{index}",
    )
    return replace(event, **changes)


def request(index: int, **changes: object) -> RunRequested:
    event = RunRequested(
        run_id=f"run_{index}",
        run_key=f"backfill:bf:{index}",
        request_fingerprint=f"fp-{index}",
        source=BackfillSource(backfill_id="bf", chunk_index=index),
    )
    return replace(event, **changes)


def change(to: BackfillState, version: int | None = None) -> BackfillStateChanged:
    return BackfillStateChanged(
        backfill_id="bf", to_state=to, expected_state_version=version, changed_by="ada"
    )


def key_of(asset: str, partition: str | None) -> TaskKeyStr:
    return task_key_text(f"ns/{asset}", partition, TaskOperation.MATERIALIZE)


def spec(asset: str, partition: str | None, *upstream: TaskKeyStr) -> TaskSpec:
    return TaskSpec(
        task_key=key_of(asset, partition),
        asset_key=f"ns/{asset}",
        partition=partition,
        upstream=upstream,
        retry=ONCE,
    )


def plan_chunk(story: Story, index: int, *, version: int = 1) -> Answer:
    return story.tell(planned(index, version=version), request(index))


def plan_run(story: Story, index: int, *tasks: TaskSpec) -> None:
    plan = PlanCreated(run_id=f"run_{index}", fingerprint="plan", tasks=tasks)
    assert story.tell(plan).applied


def finish(story: Story, index: int, key: TaskKeyStr, outcome: TaskOutcome) -> None:
    """Dispatch a ready task to a worker at hand, which reports at once."""
    run_id, exec_id = f"run_{index}", f"exec-{index}-{key}"
    handover = Handover(exec_id=exec_id)
    story.tell(DispatchRequested(run_id=run_id, task_key=key, attempt=1, handover=handover))
    attempt_id = story.state.tasks.rows[run_id, key].attempt_id
    report = TaskFinished(
        run_id=run_id, task_key=key, attempt_id=attempt_id, exec_id=exec_id, outcome=outcome
    )
    assert story.tell(report).applied


def work_off(story: Story, index: int, outcomes: Mapping[str, TaskOutcome]) -> None:
    """Plan and run one task for each partition of a chunk."""
    plan_run(story, index, *(spec("a", partition) for partition in outcomes))
    for partition, outcome in outcomes.items():
        finish(story, index, key_of("a", partition), outcome)


def backfill(story: Story) -> BackfillRow:
    return story.state.backfills.rows["bf"]


def chunk(story: Story, index: int) -> BackfillChunkRow:
    return story.state.chunks.rows["bf", index]


def both(index: int, outcome: TaskOutcome = OK) -> dict[str, TaskOutcome]:
    return dict.fromkeys(DAYS[2 * index : 2 * index + 2], outcome)


@pytest.fixture
def story() -> Story:
    """A backfill of five days in chunks of two, two at a time."""
    story = Story()
    assert story.tell(created()).applied
    return story


# --- creation -------------------------------------------------------------------------------------


def test_a_new_backfill_runs_with_its_partitions_frozen() -> None:
    story = Story()
    assert story.tell(created()).data == {"backfill_id": "bf"}
    assert backfill(story) == BackfillRow(
        backfill_id="bf",
        client_request_id="req",
        request_fingerprint="fp",
        asset_selection=("ns/a",),
        selector=ExplicitSelector(count=5),
        partition_keys=DAYS,
        state=BackfillState.RUNNING,
        total_partitions=5,
        total_chunks=3,
        chunk_size=2,
        max_concurrent_runs=2,
        created_at=START,
        request_position="1.0",
        correlation="1.0",
        row_version=1,
    )
    assert "bf" in story.state.index.backfills_open


def test_a_backfill_of_nothing_is_done_at_once() -> None:
    story = Story()
    story.tell(created(()))
    assert backfill(story).state is BackfillState.SUCCEEDED
    assert backfill(story).finished_at == START
    assert "bf" not in story.state.index.backfills_open


def test_the_same_request_finds_its_backfill(story: Story) -> None:
    before = dump(story.state)
    answer = story.tell(created())
    assert (answer.repeated, answer.data) == (True, {"backfill_id": "bf"})
    assert dump(story.state) == before


def test_another_request_under_the_same_id_is_a_conflict(story: Story) -> None:
    before = dump(story.state)
    assert story.tell(created(request_fingerprint="other")).status is Status.CONFLICT
    assert dump(story.state) == before


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"chunk_size": 0}, "out_of_range"),
        ({"chunk_size": 10**30}, "out_of_range"),
        ({"max_concurrent_runs": 0}, "out_of_range"),
        ({"total_partitions": -1}, "out_of_range"),
        ({"total_partitions": 10**30}, "out_of_range"),
        ({"max_failed_partitions": -1}, "out_of_range"),
        ({"max_failed_percent": -1}, "out_of_range"),
        ({"max_failed_percent": 101}, "out_of_range"),
        ({"priority": 2**63}, "out_of_range"),
        ({"total_partitions": 6}, "invalid_partitions"),
        ({"partition_keys": ()}, "invalid_partitions"),
        ({"partition_keys": (*DAYS[:4], DAYS[0])}, "invalid_partitions"),
    ],
)
def test_a_backfill_that_could_never_end_is_refused(
    changes: dict[str, object], reason: str
) -> None:
    story = Story()
    assert story.tell(created(**changes)).reason.startswith(reason)
    assert len(story.state.backfills) == 0


# --- planning chunks ------------------------------------------------------------------------------


def test_a_chunk_is_planned_with_its_run(story: Story) -> None:
    assert plan_chunk(story, 0).data == {"chunk_index": 0, "run_id": "run_0"}
    assert chunk(story, 0) == BackfillChunkRow(
        backfill_id="bf",
        chunk_index=0,
        partition_keys=DAYS[:2],
        run_key="backfill:bf:0",
        run_id="run_0",
        request_fingerprint="fp-0",
        state=ChunkState.RUNNING,
        planned_at=story.state.ts,
        row_version=2,
    )
    assert (backfill(story).planned_chunks, backfill(story).active_chunks) == (1, 1)


def test_a_chunk_without_a_run_is_refused(story: Story) -> None:
    assert story.tell(planned(0)).reason.startswith("chunk_without_run")
    assert story.tell(planned(0), request(1)).reason.startswith("chunk_without_run")
    stranger = request(0, source=BackfillSource(backfill_id="bf", chunk_index=1))
    assert story.tell(planned(0), stranger).reason.startswith("chunk_without_run")


def test_a_chunk_of_no_backfill_is_refused() -> None:
    assert plan_chunk(Story(), 0).reason.startswith("unknown_backfill: ")


@pytest.mark.parametrize("index", [1, 2, -1, 10**30])
def test_only_the_smallest_missing_chunk_is_planned(story: Story, index: int) -> None:
    answer = story.tell(planned(0, chunk_index=index), request(0))
    assert answer.reason.startswith("not_the_next_chunk: ")


def test_there_is_no_chunk_after_the_last() -> None:
    story = Story()
    story.tell(created(DAYS[:2]))
    plan_chunk(story, 0)
    past = planned(1, partition_keys=())
    assert story.tell(past, request(1)).reason.startswith("not_the_next_chunk: ")


@pytest.mark.parametrize("keys", [(), DAYS[:1], DAYS[1:3], (DAYS[1], DAYS[0]), DAYS[:3]])
def test_a_chunk_that_is_not_its_slice_of_the_list_is_refused(
    story: Story, keys: tuple[str, ...]
) -> None:
    answer = story.tell(planned(0, partition_keys=keys), request(0))
    assert answer.reason.startswith("not_the_frozen_partitions")


def test_of_a_list_stored_by_digest_only_the_size_of_a_chunk_is_known() -> None:
    story = Story()
    story.tell(created(partition_keys=(), partitions_digest="sha256:x"))
    assert story.tell(planned(0, partition_keys=("x",)), request(0)).reason.startswith(
        "not_the_frozen_partitions"
    )
    assert story.tell(planned(0, partition_keys=("x", "y")), request(0)).applied


def test_the_last_chunk_takes_what_is_left() -> None:
    story = Story()
    story.tell(created(max_concurrent_runs=9))
    assert all(plan_chunk(story, index).applied for index in range(3))
    assert chunk(story, 2).partition_keys == DAYS[4:]


def test_a_backfill_has_no_more_runs_than_it_may(story: Story) -> None:
    plan_chunk(story, 0)
    plan_chunk(story, 1)
    assert plan_chunk(story, 2).reason.startswith("too_many_chunks")
    work_off(story, 0, both(0))
    assert plan_chunk(story, 2).applied


def test_chunks_wait_for_a_slot_of_the_workspace(story: Story) -> None:
    story.tell(QuotaSet(max_backfill_concurrency=1))
    story.tell(created(backfill_id="other", request_fingerprint="o"))
    plan_chunk(story, 0)
    other = planned(0, backfill_id="other", run_key="o")
    source = BackfillSource(backfill_id="other", chunk_index=0)
    run = request(0, run_id="run_o", run_key="o", source=source)
    assert story.tell(other, run).reason.startswith("quota")
    work_off(story, 0, both(0))
    assert story.tell(other, run).applied
    assert plan_chunk(story, 1).reason.startswith("quota")


def test_a_quota_on_something_else_holds_no_chunk_back(story: Story) -> None:
    story.tell(QuotaSet(max_concurrent_runs=9))
    assert plan_chunk(story, 0).applied


def test_a_chunk_planned_twice_is_planned_once(story: Story) -> None:
    plan_chunk(story, 0)
    before = dump(story.state)
    answer = plan_chunk(story, 0)
    assert (answer.repeated, answer.data) == (True, {"chunk_index": 0, "run_id": "run_0"})
    assert dump(story.state) == before


def test_a_chunk_planned_in_another_way_is_a_conflict(story: Story) -> None:
    plan_chunk(story, 0)
    other = planned(0, request_fingerprint="other")
    assert story.tell(other, request(0)).status is Status.CONFLICT


def test_a_chunk_planned_twice_in_one_batch_is_a_conflict(story: Story) -> None:
    assert story.tell(planned(0), planned(0), request(0)).status is Status.CONFLICT
    assert ("bf", 0) not in story.state.chunks


@pytest.mark.parametrize("state", [BackfillState.PAUSED, BackfillState.CANCELLED])
def test_a_backfill_that_does_not_run_takes_no_chunk(story: Story, state: BackfillState) -> None:
    story.tell(change(state))
    answer = plan_chunk(story, 0, version=2)
    assert (answer.status, answer.reason.split(":")[0]) == (
        Status.CONFLICT,
        "backfill_not_running",
    )


def test_a_chunk_planned_from_an_old_version_is_refused(story: Story) -> None:
    story.tell(change(BackfillState.PAUSED))
    story.tell(change(BackfillState.RUNNING))
    answer = plan_chunk(story, 0, version=1)
    assert (answer.status, answer.reason) == (
        Status.CONFLICT,
        "state_version_changed: the state version of the backfill is now 3",
    )
    assert plan_chunk(story, 0, version=3).applied


# --- a chunk and its run, in either order ---------------------------------------------------------


def test_a_run_that_came_first_is_found_by_its_chunk(story: Story) -> None:
    story.tell(request(0))
    assert story.tell(planned(0)).applied
    assert (chunk(story, 0).run_id, chunk(story, 0).state) == ("run_0", ChunkState.RUNNING)
    work_off(story, 0, both(0))
    assert chunk(story, 0).state is ChunkState.SUCCEEDED


def test_a_run_that_was_over_before_its_chunk_settles_it_at_once(story: Story) -> None:
    story.tell(request(0))
    work_off(story, 0, both(0))
    story.tell(planned(0))
    assert chunk(story, 0).state is ChunkState.SUCCEEDED
    assert (backfill(story).partitions_succeeded, backfill(story).active_chunks) == (2, 0)


def test_a_run_that_had_failed_before_its_chunk_settles_it_at_once(story: Story) -> None:
    story.tell(request(0))
    work_off(story, 0, {DAYS[0]: OK, DAYS[1]: BAD})
    story.tell(planned(0))
    assert chunk(story, 0).state is ChunkState.FAILED
    assert chunk(story, 0).failed_partition_keys == DAYS[:2]


@pytest.mark.parametrize(
    "run",
    [
        request(0, source=BackfillSource(backfill_id="bf", chunk_index=1)),
        request(0, request_fingerprint="other"),
    ],
)
def test_a_run_that_is_not_the_chunks_own_is_not_taken(story: Story, run: RunRequested) -> None:
    story.tell(run)
    answer = plan_chunk(story, 0)
    assert (answer.status, answer.reason.split(":")[0]) == (Status.CONFLICT, "run_key_in_use")
    assert ("bf", 0) not in story.state.chunks


def test_a_second_run_for_a_chunk_changes_nothing(story: Story) -> None:
    plan_chunk(story, 0)
    before = chunk(story, 0)
    story.tell(request(0, run_id="run_x", run_key="x"))
    source = BackfillSource(backfill_id="bf", chunk_index=0)
    correlate_run(story.state, source, "run_x")
    story.tell(PlanFailed(run_id="run_x", error="no"))
    assert story.run("run_x").state is RunState.FAILED
    assert chunk(story, 0) == before


def test_a_chunk_takes_the_run_with_its_key_and_no_other(story: Story) -> None:
    stranger = request(0, run_id="run_x", run_key="x")
    assert story.tell(planned(0), stranger, request(0)).applied
    assert chunk(story, 0).run_id == "run_0"


# --- what became of the partitions ----------------------------------------------------------------


def test_a_chunk_fails_for_the_partitions_that_failed(story: Story) -> None:
    plan_chunk(story, 0)
    work_off(story, 0, {DAYS[0]: OK, DAYS[1]: BAD})
    row = chunk(story, 0)
    assert (row.state, row.failed_partition_keys) == (ChunkState.FAILED, DAYS[1:2])
    assert row.finished_at == story.state.ts
    total = backfill(story)
    assert (total.partitions_succeeded, total.partitions_failed) == (1, 1)
    assert (total.failed_chunks, total.completed_chunks, total.active_chunks) == (1, 0, 0)


def test_one_failed_task_fails_its_partition(story: Story) -> None:
    plan_chunk(story, 0)
    a, b = key_of("a", DAYS[0]), key_of("b", DAYS[0])
    plan_run(story, 0, spec("a", DAYS[0]), spec("b", DAYS[0], a), spec("a", DAYS[1]))
    finish(story, 0, a, OK)
    finish(story, 0, key_of("a", DAYS[1]), OK)
    finish(story, 0, b, BAD)
    assert chunk(story, 0).failed_partition_keys == DAYS[:1]
    assert backfill(story).partitions_succeeded == 1


def test_a_task_of_several_partitions_fails_all_of_them(story: Story) -> None:
    plan_chunk(story, 0)
    plan_run(story, 0, replace(spec("a", DAYS[0]), also_partitions=DAYS[1:2]))
    finish(story, 0, key_of("a", DAYS[0]), BAD)
    assert chunk(story, 0).failed_partition_keys == DAYS[:2]


def test_a_partition_that_chose_to_skip_has_not_failed(story: Story) -> None:
    plan_chunk(story, 0)
    a = key_of("a", DAYS[0])
    plan_run(story, 0, spec("a", DAYS[0]), spec("b", DAYS[0], a), spec("a", DAYS[1]))
    finish(story, 0, a, SKIP)
    finish(story, 0, key_of("a", DAYS[1]), BAD)
    assert chunk(story, 0).failed_partition_keys == DAYS[1:2]
    assert backfill(story).partitions_skipped == 1


def test_a_partition_skipped_because_of_a_failure_elsewhere_is_to_be_tried_again(
    story: Story,
) -> None:
    plan_chunk(story, 0)
    top, middle = key_of("top", None), key_of("middle", None)
    below = [spec("a", day, middle) for day in DAYS[:2]]
    plan_run(story, 0, spec("top", None), spec("middle", None, top), *below)
    finish(story, 0, top, BAD)
    assert chunk(story, 0).failed_partition_keys == DAYS[:2]


def test_a_skip_handed_down_in_a_run_without_failures_is_a_skip(story: Story) -> None:
    plan_chunk(story, 0)
    top = key_of("top", None)
    plan_run(story, 0, spec("top", None), *(spec("a", day, top) for day in DAYS[:2]))
    finish(story, 0, top, SKIP)
    assert chunk(story, 0).state is ChunkState.SUCCEEDED
    assert backfill(story).partitions_skipped == 2


def test_a_run_that_finds_nothing_to_do_has_done_its_partitions(story: Story) -> None:
    plan_chunk(story, 0)
    plan_run(story, 0)
    assert chunk(story, 0).state is ChunkState.SUCCEEDED
    assert backfill(story).partitions_succeeded == 2


def test_a_run_that_cannot_be_planned_fails_all_of_its_partitions(story: Story) -> None:
    plan_chunk(story, 0)
    story.tell(PlanFailed(run_id="run_0", error="no such asset"))
    assert chunk(story, 0).failed_partition_keys == DAYS[:2]


def test_a_run_cancelled_before_all_of_its_tasks_were_made_leaves_no_partition_done(
    story: Story,
) -> None:
    plan_chunk(story, 0)
    story.state.plan_segments["x"] = (spec("a", DAYS[0]),)
    segments = (PlanSegment(digest="x", count=1), PlanSegment(digest="y", count=1))
    story.tell(PlanCreated(run_id="run_0", fingerprint="plan", segments=segments))
    assert story.tell(PlanSegmentExpanded(run_id="run_0", index=0, digest="x")).applied
    finish(story, 0, key_of("a", DAYS[0]), OK)
    story.tell(RunCancelRequested(run_id="run_0"))
    assert chunk(story, 0).state is ChunkState.CANCELLED
    assert chunk(story, 0).failed_partition_keys == DAYS[:2]
    assert backfill(story).cancelled_chunks == 1


# --- how it ends ----------------------------------------------------------------------------------


def run_all(story: Story, **outcomes: TaskOutcome) -> None:
    for index in range(3):
        if plan_chunk(story, index, version=backfill(story).state_version).applied:
            work_off(story, index, both(index, outcomes.get(f"c{index}", OK)))


def test_a_backfill_succeeds_when_every_partition_did(story: Story) -> None:
    run_all(story)
    row = backfill(story)
    assert (row.state, row.finished_at) == (BackfillState.SUCCEEDED, story.state.ts)
    assert (row.completed_chunks, row.partitions_succeeded) == (3, 5)
    assert row.state_version == 1
    assert "bf" not in story.state.index.backfills_open


def test_a_backfill_goes_on_after_a_failure_and_fails_at_its_end(story: Story) -> None:
    run_all(story, c0=BAD)
    row = backfill(story)
    assert (row.state, row.partitions_failed, row.partitions_succeeded) == (
        BackfillState.FAILED,
        2,
        3,
    )


def test_stop_on_failure_plans_nothing_more_and_fails_when_the_rest_is_done() -> None:
    story = Story()
    story.tell(created(stop_on_failure=True))
    plan_chunk(story, 0)
    plan_chunk(story, 1)
    work_off(story, 0, both(0, BAD))
    assert backfill(story).state is BackfillState.RUNNING
    assert plan_chunk(story, 2).reason.startswith("too_many_failures")
    work_off(story, 1, both(1))
    row = backfill(story)
    assert (row.state, row.planned_chunks, row.partitions_succeeded) == (
        BackfillState.FAILED,
        2,
        2,
    )


def test_a_backfill_stops_when_more_partitions_failed_than_it_bears() -> None:
    story = Story()
    story.tell(created(max_failed_partitions=2))
    plan_chunk(story, 0)
    work_off(story, 0, both(0, BAD))
    assert backfill(story).state is BackfillState.RUNNING
    plan_chunk(story, 1)
    work_off(story, 1, {DAYS[2]: OK, DAYS[3]: BAD})
    assert backfill(story).state is BackfillState.FAILED
    assert backfill(story).planned_chunks == 2


@pytest.mark.parametrize(("percent", "bears"), [(0, 0), (20, 1), (39, 1), (40, 2), (100, 5)])
def test_a_backfill_stops_when_more_percent_failed_than_it_bears(percent: int, bears: int) -> None:
    story = Story()
    story.tell(created(chunk_size=1, max_failed_percent=percent))
    for index, day in enumerate(DAYS):
        if not plan_one(story, index).applied:
            break
        work_off(story, index, {day: BAD})
    row = backfill(story)
    assert row.state is BackfillState.FAILED
    assert row.partitions_failed == min(bears + 1, len(DAYS))


def plan_one(story: Story, index: int) -> Answer:
    """Plan a chunk of one partition."""
    return story.tell(planned(index, partition_keys=(DAYS[index],)), request(index))


def test_what_ends_while_paused_is_judged_on_resume(story: Story) -> None:
    for index in range(2):
        plan_chunk(story, index)
    work_off(story, 0, both(0))
    plan_chunk(story, 2)
    story.tell(change(BackfillState.PAUSED))
    work_off(story, 1, both(1))
    work_off(story, 2, both(2, BAD))
    assert (backfill(story).state, backfill(story).finished_at) == (BackfillState.PAUSED, None)
    assert story.tell(change(BackfillState.RUNNING)).data == {"state_version": 3}
    assert backfill(story).state is BackfillState.FAILED
    assert backfill(story).state_version == 3


@pytest.mark.parametrize("force", [False, True])
def test_every_task_of_a_cancelled_backfill_has_the_same_reason(
    story: Story, *, force: bool
) -> None:
    plan_chunk(story, 0)
    plan_run(story, 0, *(spec("a", partition) for partition in both(0)))
    running, *others = story.state.index.run_tasks["run_0"]
    assert others
    grant = Handover(exec_id="e", worker_id="w")
    story.tell(DispatchRequested(run_id="run_0", task_key=running, attempt=1, handover=grant))
    held = story.state.tasks.rows["run_0", running]
    story.tell(replace(change(BackfillState.CANCELLED), force=force))
    story.tell(
        TaskFinished(
            run_id="run_0",
            task_key=running,
            attempt_id=held.attempt_id,
            exec_id="e",
            outcome=TaskOutcome.CANCELLED,
        )
    )
    ended = [story.state.tasks.rows["run_0", name] for name in (running, *others)]
    assert {(row.state, row.reason) for row in ended} == {
        (TaskState.CANCELLED, TransitionReason.SYSTEM_CANCELLED)
    }


def test_a_cancel_stops_the_runs_in_the_same_step(story: Story) -> None:
    plan_chunk(story, 0)
    plan_chunk(story, 1)
    work_off(story, 0, both(0))
    assert story.tell(change(BackfillState.CANCELLED)).applied
    assert story.run("run_0").state is RunState.SUCCEEDED
    run = story.run("run_1")
    assert (run.state, run.cancel_requested_by) == (RunState.CANCELLED, "ada")
    assert run.reason is RunTransitionReason.SYSTEM_CANCELLED
    assert chunk(story, 1).state is ChunkState.CANCELLED
    row = backfill(story)
    assert (row.state, row.finished_at) == (BackfillState.CANCELLED, story.state.ts)
    assert (row.completed_chunks, row.cancelled_chunks, row.active_chunks) == (1, 1, 0)


def test_a_cancelled_backfill_ends_when_its_last_run_does(story: Story) -> None:
    plan_chunk(story, 0)
    key = key_of("a", DAYS[0])
    plan_run(story, 0, spec("a", DAYS[0]), spec("a", DAYS[1]))
    handover = Handover(exec_id="e")
    story.tell(DispatchRequested(run_id="run_0", task_key=key, attempt=1, handover=handover))
    story.tell(change(BackfillState.CANCELLING))
    assert backfill(story).state is BackfillState.CANCELLING
    attempt_id = story.state.tasks.rows["run_0", key].attempt_id
    story.tell(
        TaskFinished(run_id="run_0", task_key=key, attempt_id=attempt_id, exec_id="e", outcome=BAD)
    )
    assert backfill(story).state is BackfillState.CANCELLED


def test_a_run_that_is_being_stopped_keeps_its_grace_when_its_backfill_is_cancelled(
    story: Story,
) -> None:
    plan_chunk(story, 0)
    key = key_of("a", DAYS[0])
    plan_run(story, 0, spec("a", DAYS[0]))
    handover = Handover(exec_id="e")
    story.tell(DispatchRequested(run_id="run_0", task_key=key, attempt=1, handover=handover))
    story.tell(RunCancelRequested(run_id="run_0", requested_by="bob"))
    run, task = story.run("run_0"), story.state.tasks.rows["run_0", key]
    story.wait(seconds=10)
    assert story.tell(change(BackfillState.CANCELLING)).applied
    assert (story.run("run_0"), story.state.tasks.rows["run_0", key]) == (run, task)


def test_a_run_that_ends_with_the_cancel_of_its_backfill_ends_once(story: Story) -> None:
    plan_chunk(story, 0)
    stop = RunCancelRequested(run_id="run_0", requested_by="bob")
    assert story.tell(stop, change(BackfillState.CANCELLED)).applied
    run, row = story.run("run_0"), backfill(story)
    assert (run.state, run.cancel_requested_by) == (RunState.CANCELLED, "bob")
    assert (row.state, row.cancelled_chunks, row.active_chunks) == (BackfillState.CANCELLED, 1, 0)


def test_a_run_that_succeeds_with_the_cancel_of_its_backfill_has_succeeded(story: Story) -> None:
    plan_chunk(story, 0)
    key = key_of("a", DAYS[0])
    plan_run(story, 0, spec("a", DAYS[0]))
    handover = Handover(exec_id="e")
    story.tell(DispatchRequested(run_id="run_0", task_key=key, attempt=1, handover=handover))
    attempt_id = story.state.tasks.rows["run_0", key].attempt_id
    done = TaskFinished(
        run_id="run_0", task_key=key, attempt_id=attempt_id, exec_id="e", outcome=OK
    )
    assert story.tell(done, change(BackfillState.CANCELLED)).applied
    assert story.run("run_0").state is RunState.SUCCEEDED
    assert (backfill(story).state, backfill(story).completed_chunks) == (BackfillState.CANCELLED, 1)


def test_a_backfill_with_nothing_active_is_cancelled_at_once(story: Story) -> None:
    story.tell(change(BackfillState.PAUSED))
    story.tell(change(BackfillState.CANCELLING))
    assert backfill(story).state is BackfillState.CANCELLED


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ((), BackfillState.RUNNING),
        ((), BackfillState.PENDING),
        ((), BackfillState.SUCCEEDED),
        ((), BackfillState.FAILED),
        ((BackfillState.PAUSED,), BackfillState.PAUSED),
        ((BackfillState.CANCELLED,), BackfillState.RUNNING),
        ((BackfillState.CANCELLED,), BackfillState.PAUSED),
        ((BackfillState.CANCELLED,), BackfillState.CANCELLED),
    ],
)
def test_a_transition_that_makes_no_sense_is_a_conflict(
    story: Story, path: tuple[BackfillState, ...], target: BackfillState
) -> None:
    for state in path:
        assert story.tell(change(state)).applied
    before = dump(story.state)
    answer = story.tell(change(target))
    assert (answer.status, answer.reason.split(":")[0]) == (Status.CONFLICT, "illegal_transition")
    assert dump(story.state) == before


def test_a_cancel_is_not_asked_for_twice(story: Story) -> None:
    plan_chunk(story, 0)
    key = key_of("a", DAYS[0])
    plan_run(story, 0, spec("a", DAYS[0]))
    handover = Handover(exec_id="e")
    story.tell(DispatchRequested(run_id="run_0", task_key=key, attempt=1, handover=handover))
    assert story.tell(change(BackfillState.CANCELLED)).applied
    assert story.tell(change(BackfillState.CANCELLED)).status is Status.CONFLICT


def test_a_change_of_no_backfill_is_refused() -> None:
    assert Story().tell(change(BackfillState.PAUSED)).reason.startswith("unknown_backfill: ")


def test_what_may_have_left_memory_is_asked_for() -> None:
    batch = Batch(id="b", events=(planned(0),))
    assert needs(batch) == [("run_key_index", "backfill:bf:0")]


# --- what is divided in another way ---------------------------------------------------------------


def other_way(story: Story, *tasks: TaskSpec) -> None:
    plan_chunk(story, 0)
    plan_run(story, 0, spec("a", DAYS[0]), spec("a", DAYS[1]), *tasks)
    for day in DAYS[:2]:
        finish(story, 0, key_of("a", day), OK)


def test_what_a_failed_task_of_another_division_was_made_from_has_failed(story: Story) -> None:
    days = [spec("b", DAYS[0], key_of("a", DAYS[0]))]
    month = spec("m", "month=d:2025-01-01", key_of("b", DAYS[0]), key_of("a", DAYS[0]))
    other_way(story, *days, month)
    finish(story, 0, key_of("b", DAYS[0]), OK)
    finish(story, 0, month.task_key, BAD)
    assert chunk(story, 0).state is ChunkState.FAILED
    assert chunk(story, 0).failed_partition_keys == (DAYS[0],)
    assert (backfill(story).partitions_succeeded, backfill(story).partitions_failed) == (1, 1)


def test_a_failed_task_that_was_made_from_no_partition_fails_all(story: Story) -> None:
    other_way(story, spec("whole", None))
    finish(story, 0, key_of("whole", None), BAD)
    assert chunk(story, 0).failed_partition_keys == DAYS[:2]


def test_a_task_of_another_division_that_succeeds_fails_nothing(story: Story) -> None:
    other_way(story, spec("whole", None))
    finish(story, 0, key_of("whole", None), OK)
    assert chunk(story, 0).failed_partition_keys == ()
    assert backfill(story).partitions_succeeded == 2


def test_a_chunk_whose_run_cannot_be_planned_ends_with_it(story: Story) -> None:
    failed = PlanFailed(run_id="run_0", error="there is no partition")
    assert story.tell(planned(0), request(0), failed).applied
    assert (chunk(story, 0).state, chunk(story, 0).failed_partition_keys) == (
        ChunkState.FAILED,
        DAYS[:2],
    )
    assert story.state.runs.rows["run_0"].error == "there is no partition"
    assert (backfill(story).active_chunks, backfill(story).partitions_failed) == (0, 2)


def test_a_task_of_several_partitions_of_the_chunk_fails_them_and_blames_no_other(
    story: Story,
) -> None:
    plan_chunk(story, 0)
    both_days = replace(spec("a", DAYS[0]), also_partitions=(DAYS[1],))
    month = spec("m", "month=d:2025-01-01", both_days.task_key)
    plan_run(story, 0, both_days, month)
    finish(story, 0, both_days.task_key, OK)
    finish(story, 0, month.task_key, BAD)
    assert chunk(story, 0).failed_partition_keys == DAYS[:2]
