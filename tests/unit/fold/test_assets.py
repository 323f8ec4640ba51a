"""Rules of assets: which output is the latest, and what a failure or a decision changes."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from servo.core.events.assets import (
    AssetObserved,
    AssetReported,
    AssetWiped,
    CheckEvaluated,
    QuarantineDecided,
    Severity,
)
from servo.core.events.dispatch import DispatchRequested, Handover
from servo.core.events.envelope import Answer, Batch, Status
from servo.core.events.runs import PlanCreated, RunRequested
from servo.core.events.tasks import CommittedOutput, Gate, TaskCost, TaskFinished, TaskOutcome
from servo.core.fold.apply import needs
from servo.core.fold.assets import promote, record_attempt, record_cost
from servo.core.keys import TaskOperation
from servo.core.plan import TaskSpec
from servo.core.retry import RetryRules
from servo.core.state.rows.assets import (
    AssetRow,
    CheckResultRow,
    MaterializationRow,
    PartitionStatusRow,
)
from servo.core.state.rows.execution import TaskCostRow
from servo.core.state.states import TaskState
from servo.testing.asset_outputs import (
    DAY,
    DAY_TASK,
    asset_row,
    at_entry,
    output,
    partition_row,
    promoted,
    running_task,
    success,
)
from servo.testing.builders import START, Story, dump

ONCE = RetryRules(max_attempts=1, max_infra_retries=0)
OK, BAD = TaskOutcome.SUCCEEDED, TaskOutcome.FAILED


# --- promotion ------------------------------------------------------------------------------------


def test_a_success_makes_its_output_the_latest() -> None:
    story = at_entry(Story(), 7)
    promote(story.state, running_task(), success(output=output(), code_version="v2"))
    assert story.state.materializations.rows["mat"] == MaterializationRow(
        materialization_id="mat",
        asset_key="ns/a",
        run_id="run_1",
        task_key="ns/a:materialize",
        attempt=2,
        exec_id="exec",
        output_uri="mem://x",
        output_format="parquet",
        row_count=3,
        byte_size=40,
        schema_hash="s",
        content_hash="c",
        data_version="d1",
        code_version="v2",
        metadata="{}",
        created_at=story.state.ts,
        created_seq=7,
        row_version=7,
    )
    assert asset_row(story) == AssetRow(
        asset_key="ns/a",
        last_materialization_id="mat",
        last_materialization_at=story.state.ts,
        last_materialization_seq=7,
        last_materialization_run_id="run_1",
        last_output_uri="mem://x",
        last_content_hash="c",
        last_data_version="d1",
        last_success_at=story.state.ts,
        last_gating_decision=Gate.PROMOTED,
        latest_floor=7,
        data_changed_seq=7,
        row_version=7,
    )
    assert len(story.state.partitions) == 0
    assert len(story.state.task_costs) == 0


def test_a_success_of_a_partition_makes_it_the_latest_of_the_partition_too() -> None:
    story = at_entry(Story(), 7)
    promote(story.state, running_task(partition_key=DAY), success(output=output(Gate.WARNED)))
    assert partition_row(story) == PartitionStatusRow(
        asset_key="ns/a",
        partition_key=DAY,
        last_materialization_id="mat",
        last_materialization_run_id="run_1",
        last_materialization_at=story.state.ts,
        last_materialization_seq=7,
        last_materialization_code_version="planned",
        last_output_uri="mem://x",
        last_content_hash="c",
        last_data_version="d1",
        last_attempt_run_id="run_1",
        last_attempt_at=story.state.ts,
        last_attempt_outcome=OK,
        partition_values={"day": "2025-01-15"},
        latest_floor=7,
        data_changed_seq=7,
        row_version=7,
    )
    assert asset_row(story).last_partition_key == DAY
    assert asset_row(story).last_gating_decision is Gate.WARNED


@pytest.mark.parametrize("made", [None, output(name="")])
def test_a_success_without_a_named_output_is_known_by_its_execution(
    made: CommittedOutput | None,
) -> None:
    story = at_entry(Story(), 7)
    promote(story.state, running_task(partition_key=DAY), success(output=made))
    assert story.state.materializations.rows["exec"].promoted
    assert asset_row(story).last_materialization_id == "exec"
    assert partition_row(story).last_materialization_id == "exec"


def test_the_cost_of_an_attempt_is_recorded() -> None:
    story = at_entry(Story(), 7)
    cost = TaskCost(cpu_ms=1, wall_ms=2, peak_memory_bytes=3, bytes_read=4, bytes_written=5)
    record_cost(story.state, running_task(asset_key=""), cost)
    assert story.state.task_costs.rows["run_1", "ns/a:materialize", 2] == TaskCostRow(
        run_id="run_1",
        task_key="ns/a:materialize",
        attempt=2,
        cpu_ms=1,
        wall_ms=2,
        peak_memory_bytes=3,
        bytes_read=4,
        bytes_written=5,
        recorded_at=story.state.ts,
        row_version=7,
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"asset_key": ""},
        {"asset_key": "", "operation": TaskOperation.OBSERVE},
        {"operation": TaskOperation.CHECK},
    ],
)
def test_a_task_that_makes_no_asset_makes_no_row_of_one(changes: dict[str, object]) -> None:
    story = Story()
    promote(story.state, running_task(partition_key=DAY, **changes), success(output=output()))
    record_attempt(story.state, running_task(partition_key=DAY, **changes), BAD)
    assert story.state.journal == []


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("day=d:2025-01-15,region=s:ZXU", {"day": "2025-01-15", "region": "eu"}),
        ("n=i:7", {"n": "7"}),
        ("not a key", {}),
    ],
)
def test_a_partition_shows_its_values_by_dimension(key: str, values: dict[str, str]) -> None:
    story = Story()
    record_attempt(story.state, running_task(partition_key=key), BAD)
    assert partition_row(story, key).partition_values == values


# --- attempts without a success -------------------------------------------------------------------


@pytest.mark.parametrize("outcome", [BAD, TaskOutcome.TIMED_OUT])
def test_a_failure_is_counted_and_leaves_the_data_as_it_was(outcome: TaskOutcome) -> None:
    story = at_entry(Story(), 7)
    promote(story.state, running_task(partition_key=DAY), success(output=output()))
    before, data = asset_row(story), partition_row(story)
    record_attempt(
        at_entry(story, 8).state, running_task(partition_key=DAY, run_id="run_2"), outcome
    )
    assert asset_row(story) == replace(
        before, last_failure_at=story.state.ts, consecutive_failures=1, row_version=8
    )
    assert partition_row(story) == replace(
        data,
        last_attempt_run_id="run_2",
        last_attempt_at=story.state.ts,
        last_attempt_outcome=outcome,
        row_version=8,
    )


def test_a_success_ends_a_row_of_failures() -> None:
    story = Story()
    record_attempt(story.state, running_task(), BAD)
    record_attempt(story.state, running_task(), BAD)
    assert asset_row(story).consecutive_failures == 2
    promote(story.state, running_task(), success(output=output()))
    assert asset_row(story).consecutive_failures == 0


@pytest.mark.parametrize(
    "outcome", [TaskOutcome.INTERRUPTED, TaskOutcome.CANCELLED, TaskOutcome.SKIPPED]
)
def test_what_user_code_did_not_do_is_no_failure_of_the_asset(outcome: TaskOutcome) -> None:
    story = Story()
    record_attempt(story.state, running_task(), outcome)
    assert len(story.state.assets) == 0
    record_attempt(story.state, running_task(partition_key=DAY), outcome)
    assert len(story.state.assets) == 0
    assert partition_row(story).last_attempt_outcome is outcome


# --- quarantine -----------------------------------------------------------------------------------


def decide(name: str = "mat", *, approved: bool = True) -> QuarantineDecided:
    return QuarantineDecided(
        materialization_id=name, approved=approved, decided_by="ada", reason="looked"
    )


def hold(story: Story, seq: int, name: str = "mat", day: str | None = None) -> None:
    """A success at entry `seq` whose output is held back."""
    held = success(exec_id=name, output=output(Gate.QUARANTINED, name))
    promote(at_entry(story, seq).state, running_task(partition_key=day), held)
    story.state.seal()
    story.now = story.state.ts


def test_an_output_in_quarantine_is_not_the_latest() -> None:
    story = Story()
    promoted(story, 7, "good", DAY)
    hold(story, 8, "bad", DAY)
    assert asset_row(story).last_materialization_id == "good"
    assert asset_row(story).last_gating_decision is Gate.QUARANTINED
    assert asset_row(story).last_success_at == story.state.ts
    assert partition_row(story).last_materialization_id == "good"
    assert partition_row(story).last_attempt_at == story.state.ts
    row = story.state.materializations.rows["bad"]
    assert (row.promoted, row.decided_at) == (False, None)


@pytest.mark.parametrize("day", [None, DAY])
def test_an_approved_output_becomes_the_latest(day: str | None) -> None:
    story = Story()
    promoted(story, 7, "good", day)
    hold(story, 8, "bad", day)
    produced, before = story.state.ts, asset_row(story)
    story.wait(hours=1)
    assert story.tell(decide("bad")).data == {"latest": 1}
    row = story.state.materializations.rows["bad"]
    assert (row.promoted, row.decided_by, row.decision_reason) == (True, "ada", "looked")
    assert (row.decided_at, row.gating_decision) == (story.state.ts, Gate.QUARANTINED)
    assert asset_row(story) == replace(
        before,
        last_materialization_id="bad",
        last_materialization_at=produced,
        last_materialization_seq=9,
        last_materialization_run_id="run_1",
        latest_floor=8,
        row_version=9,
    )


def test_an_approved_output_becomes_the_latest_of_its_partition() -> None:
    story = Story()
    hold(story, 8, "bad", DAY)
    before = partition_row(story)
    story.tell(decide("bad"))
    assert partition_row(story) == replace(
        before,
        last_materialization_id="bad",
        last_materialization_run_id="run_1",
        last_materialization_at=before.last_attempt_at,
        last_materialization_seq=9,
        last_materialization_code_version="planned",
        last_output_uri="mem://x",
        last_content_hash="c",
        last_data_version="d1",
        latest_floor=8,
        data_changed_seq=9,
        row_version=9,
    )


@pytest.mark.parametrize("day", [None, DAY])
def test_an_old_output_let_out_of_quarantine_does_not_cover_a_newer_one(day: str | None) -> None:
    story = Story()
    hold(story, 7, "old", day)
    promoted(story, 8, "new", day)
    before = (asset_row(story), dict(story.state.partitions.rows))
    assert story.tell(decide("old")).data == {"latest": 0}
    assert story.state.materializations.rows["old"].promoted
    assert (asset_row(story), dict(story.state.partitions.rows)) == before


def test_of_two_outputs_let_out_of_quarantine_the_newer_one_stays() -> None:
    story = Story()
    hold(story, 7, "old", DAY)
    hold(story, 8, "new", DAY)
    story.tell(decide("new"))
    story.tell(decide("old"))
    assert partition_row(story).last_materialization_id == "new"


def test_a_partition_released_late_is_news_of_its_asset() -> None:
    story = Story()
    hold(story, 7, "old", DAY)
    promoted(story, 8, "other", "day=d:2025-01-16")
    assert story.tell(decide("old")).data == {"latest": 1}
    assert asset_row(story).last_materialization_seq == 9
    assert asset_row(story).last_partition_key == DAY


def test_a_rejected_output_is_recorded_and_never_promoted() -> None:
    story = Story()
    hold(story, 8, "bad")
    assert story.tell(decide("bad", approved=False)).data == {"latest": 0}
    row = story.state.materializations.rows["bad"]
    assert (row.promoted, row.decided_at) == (False, story.state.ts)
    assert asset_row(story).last_materialization_id is None


def test_a_decision_is_made_once_and_only_on_what_is_in_quarantine() -> None:
    story = Story()
    promoted(story, 7, "good")
    hold(story, 8, "bad")
    assert story.tell(decide("nothing")).reason.startswith("unknown_materialization: ")
    assert story.tell(decide("good")).status is Status.CONFLICT
    assert story.tell(decide("bad", approved=False)).applied
    assert story.tell(decide("bad")).status is Status.CONFLICT
    assert not story.state.materializations.rows["bad"].promoted


# --- wiping ---------------------------------------------------------------------------------------


def test_a_wiped_asset_has_no_latest_output_and_old_ones_do_not_return() -> None:
    story = Story()
    promoted(story, 6, "x", DAY)
    hold(story, 7, "held", DAY)
    assert story.tell(AssetWiped(asset_key="ns/a")).applied
    assert asset_row(story) == AssetRow(
        asset_key="ns/a",
        last_success_at=START + timedelta(minutes=7),
        last_gating_decision=Gate.QUARANTINED,
        latest_floor=8,
        wiped_seq=8,
        data_changed_seq=6,
        row_version=8,
    )
    assert partition_row(story) == PartitionStatusRow(
        asset_key="ns/a",
        partition_key=DAY,
        last_attempt_run_id="run_1",
        last_attempt_at=START + timedelta(minutes=7),
        last_attempt_outcome=OK,
        partition_values={"day": "2025-01-15"},
        data_changed_seq=6,
        latest_floor=8,
        row_version=8,
    )
    assert story.tell(decide("held")).data == {"latest": 0}
    promoted(story, 20, "fresh", DAY)
    assert partition_row(story).last_materialization_id == "fresh"


def test_wiping_an_asset_leaves_its_neighbours_alone() -> None:
    story = Story()
    promoted(story, 6, "x", DAY)
    promote(
        story.state, running_task(asset_key="ns/b", partition_key=DAY), success(output=output())
    )
    story.state.seal()
    before = story.state.partitions.rows["ns/b", DAY]
    story.tell(AssetWiped(asset_key="ns/a"))
    assert story.state.partitions.rows["ns/b", DAY] == before
    assert asset_row(story, "ns/b").last_materialization_id == "mat"


def test_wiping_an_asset_touches_none_of_its_partitions() -> None:
    story = Story()
    promoted(story, 6, "x", DAY)
    before = story.state.partitions.rows["ns/a", DAY]
    story.state.partitions.dirty.clear()
    story.tell(AssetWiped(asset_key="ns/a"))
    assert story.state.partitions.rows["ns/a", DAY] is before
    assert story.state.partitions.dirty == {}


@pytest.mark.parametrize("last", ["wiped", "made"])
def test_within_one_entry_the_order_of_wipe_and_output_counts(last: str) -> None:
    story = Story()
    promoted(story, 6, "x", DAY)
    made = AssetReported(asset_key="ns/a", partition_key=DAY, materialization_id="new")
    batches = [story.batch(AssetWiped(asset_key="ns/a")), story.batch(made)]
    story.commit(*(batches if last == "made" else reversed(batches)))
    assert partition_row(story).last_materialization_id == ("new" if last == "made" else None)
    assert partition_row(story).latest_floor == partition_row(story).row_version == story.state.seq
    assert asset_row(story).wiped_seq == story.state.seq


def test_a_wipe_leaves_what_the_same_entry_made_of_another_asset() -> None:
    story = Story()
    promoted(story, 6, "x", DAY)
    other = AssetReported(asset_key="ns/b", partition_key=DAY, materialization_id="other")
    story.commit(story.batch(other), story.batch(AssetWiped(asset_key="ns/a")))
    assert story.state.partitions.rows["ns/b", DAY].last_materialization_id == "other"
    assert partition_row(story).last_materialization_id is None


def test_what_happens_to_a_wiped_partition_later_builds_on_the_wiped_one() -> None:
    story = Story()
    promoted(story, 6, "x", DAY)
    story.tell(AssetWiped(asset_key="ns/a"))
    story.tell(AssetObserved(asset_key="ns/a", partition_key=DAY, data_version="v2"))
    row = story.state.partitions.rows["ns/a", DAY]
    assert (row.last_materialization_id, row.last_data_version) == (None, "v2")
    assert row.latest_floor == asset_row(story).wiped_seq


def test_wiping_some_partitions_leaves_the_others() -> None:
    story = Story()
    other = "day=d:2025-01-16"
    promoted(story, 6, "x", DAY)
    promoted(story, 7, "y", other)
    story.tell(AssetWiped(asset_key="ns/a", partition_keys=(DAY, "unknown")))
    assert partition_row(story).last_materialization_id is None
    assert partition_row(story, other).last_materialization_id == "y"
    assert asset_row(story).last_materialization_id == "y"
    story.tell(AssetWiped(asset_key="ns/a", partition_keys=(other,)))
    assert asset_row(story).last_materialization_id is None


def test_an_asset_nobody_knows_cannot_be_wiped() -> None:
    assert Story().tell(AssetWiped(asset_key="ns/a")).reason.startswith("unknown_asset: ")


# --- checks ---------------------------------------------------------------------------------------


def running() -> Story:
    """A run whose only task is being executed."""
    story = Story()
    request = RunRequested(run_id="run_1", run_key="k", request_fingerprint="fp")
    spec = TaskSpec(task_key=DAY_TASK, asset_key="ns/a", partition=DAY, retry=ONCE)
    story.tell(request, PlanCreated(run_id="run_1", fingerprint="p", tasks=(spec,)))
    handover = Handover(exec_id="exec")
    story.tell(DispatchRequested(run_id="run_1", task_key=DAY_TASK, attempt=1, handover=handover))
    return story


def check(story: Story, **changes: object) -> CheckEvaluated:
    event = CheckEvaluated(
        run_id="run_1",
        task_key=DAY_TASK,
        attempt_id=story.state.tasks.rows["run_1", DAY_TASK].attempt_id,
        exec_id="exec",
        asset_key="ns/a",
        check_name="rows",
        passed=False,
        partition_key=DAY,
        severity=Severity.WARN,
        blocking=True,
        message="none",
        metadata="{}",
        materialization_id="exec",
    )
    return replace(event, **changes)


def finish(story: Story) -> TaskFinished:
    attempt_id = story.state.tasks.rows["run_1", DAY_TASK].attempt_id
    return TaskFinished(
        run_id="run_1", task_key=DAY_TASK, attempt_id=attempt_id, exec_id="exec", outcome=OK
    )


def test_a_check_of_the_current_execution_is_recorded() -> None:
    story = running()
    event = check(story)
    assert story.tell(event).applied
    assert story.state.check_results.rows[event.attempt_id, "ns/a", "rows"] == CheckResultRow(
        run_id="run_1",
        task_key=DAY_TASK,
        attempt_id=event.attempt_id,
        asset_key="ns/a",
        partition_key=DAY,
        check_name="rows",
        passed=False,
        severity=Severity.WARN,
        blocking=True,
        message="none",
        metadata="{}",
        materialization_id="exec",
        evaluated_at=story.state.ts,
        row_version=3,
    )
    assert asset_row(story).last_check_passed is False


def test_a_check_sent_again_changes_nothing_and_holds_back_no_result() -> None:
    story = running()
    story.tell(check(story))
    before = dump(story.state)
    assert story.tell(check(story, passed=True)).repeated
    assert dump(story.state) == before
    assert story.tell(check(story), finish(story)).applied
    assert story.state.tasks.rows["run_1", DAY_TASK].state is TaskState.SUCCEEDED


def test_a_check_may_come_with_the_result_in_either_order() -> None:
    for flip in (False, True):
        story = running()
        events = (check(story), finish(story))
        assert story.tell(*(events[::-1] if flip else events)).applied
        assert len(story.state.check_results) == 1


def test_a_check_of_no_asset_makes_no_asset() -> None:
    story = running()
    story.tell(check(story, asset_key=""))
    assert len(story.state.assets) == 0


@pytest.mark.parametrize("changes", [{"attempt_id": "old"}, {"exec_id": "zombie"}])
def test_a_check_of_another_execution_is_refused(changes: dict[str, str]) -> None:
    story = running()
    assert story.tell(check(story, **changes)).reason.startswith("stale")


def test_a_check_of_a_task_that_was_never_dispatched_is_refused() -> None:
    story = Story()
    story.plan({"a": ()})
    event = CheckEvaluated(
        run_id="run_1",
        task_key="ns/a:materialize",
        attempt_id="",
        exec_id="",
        asset_key="ns/a",
        check_name="rows",
        passed=True,
    )
    assert story.tell(event).reason.startswith("stale")


def test_a_check_that_comes_before_its_run_waits_for_the_plan() -> None:
    story = running()
    early = check(story, run_id="run_9")

    def tell() -> Answer:
        return story.tell(early, parkable=True)

    assert tell().status is Status.PARKED
    story.request("run_9")
    assert story.tell(early).reason == "unknown_task"
    assert list(story.state.index.parked) == ["run_9"]
    # Nothing can come of it once the run has a plan without that task.
    story.tell(PlanCreated(run_id="run_9", fingerprint="p"))
    assert not story.state.index.parked
    assert tell().status is Status.REJECTED


def test_what_may_have_left_memory_is_asked_for() -> None:
    event = check(running())
    assert needs(Batch(id="b", events=(event,))) == [
        ("check_results", (event.attempt_id, "ns/a", "rows")),
        ("runs", "run_1"),
        ("tasks", ("run_1", DAY_TASK)),
    ]
    assert ("materializations", "mat") in needs(Batch(id="b", events=(decide(),)))
