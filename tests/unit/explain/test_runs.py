"""Why a run exists, how it stands, and what holds it up."""

from msgspec.structs import replace

from servo.core.events.envelope import Encoding, Status
from servo.core.events.parking import ParkedBatchExpired
from servo.core.events.quotas import QuotaSet
from servo.core.events.runs import (
    PlanCreated,
    PlanFailed,
    PlanSegment,
    RunCancelRequested,
    RunDeadlineExceeded,
    RunRequested,
)
from servo.core.events.tasks import CommittedOutput, Gate, TaskError, TaskFinished, TaskOutcome
from servo.core.explain.runs import explain_run, explain_unknown_run
from servo.core.retry import RetryRules
from servo.core.state.rows.system import DeadLetterRow
from servo.testing.builders import START, Story, task_key
from servo.testing.explaining import outline, records_of

AT = "2026-01-01 00:00:00Z"
BY_HAND = f"  - started by hand; {AT}"
ONCE = RetryRules(max_attempts=1)


def why(story: Story, run_id: str = "run_1", *, led: bool | None = None) -> list[str]:
    return outline(explain_run(records_of(story, led=led), story.run(run_id)))


def fail(story: Story, name: str) -> None:
    story.start(name)
    story.finish(name, TaskOutcome.FAILED, error=TaskError(message="no"))


def test_a_run_without_a_plan_says_until_when_it_may_be() -> None:
    story = Story()
    story.request()
    assert why(story) == [
        "? run_1 was requested and has no plan yet",
        "  > its requester has to plan it; without a plan it fails at 2026-01-01 00:10:00Z, "
        "in 10 min",
        BY_HAND,
    ]
    story.state.runs.rows["run_1"] = replace(story.run(), plan_deadline=None)
    assert why(story) == ["? run_1 was requested and has no plan yet", BY_HAND]


def test_a_run_that_waits_for_a_slot() -> None:
    story = Story()
    story.tell(QuotaSet(max_concurrent_runs=0))
    story.plan({"a": []})
    assert why(story)[0] == "? run_1 waits for a free run slot: the limit is 0"
    assert why(story)[-1] == BY_HAND


def test_a_run_at_work_shows_what_moves_and_counts_what_waits() -> None:
    story = Story()
    story.plan({"a": [], "b": [], "c": ["a"], "d": ["c"], "bad": []}, retry=ONCE)
    story.start("a")
    fail(story, "bad")
    assert why(story) == [
        "? run_1 runs: 1 failed of 5 tasks",
        "  > it finishes with its tasks, or times out at 2026-01-02 00:00:00Z, in 24 h",
        BY_HAND,
        f"  ! ns/bad failed at {AT} (attempt 1 of 1): no",
        "    > it has no retry policy; see `servo logs run_1 ns/bad`, fix the cause, and retry",
        "    $ servo run retry run_1",
        f"  ? ns/b waits since {AT} for a free worker",
        "    > it starts when a worker is free",
        f"  ? ns/a runs on worker since {AT}, attempt 1 of 1",
        "  - 2 tasks blocked until those finish",
    ]
    assert why(story, led=False)[:3] == [
        "? run_1 runs: 1 failed of 5 tasks",
        "  > no leader is running in this workspace: start a leader and its workers",
        "  $ servo resume",
    ]


def test_a_run_without_a_deadline_and_with_a_plan_in_parts() -> None:
    story = Story()
    request = RunRequested(run_id="run_1", run_key="k", request_fingerprint="f")
    segments = (PlanSegment(digest="d", count=7),)
    story.tell(request, PlanCreated(run_id="run_1", fingerprint="p", segments=segments))
    assert why(story)[0] == "? run_1 runs: none of 7 tasks has finished"
    assert why(story)[-1] == "  - 7 tasks of a large plan not yet recorded"
    story.state.runs.rows["run_1"] = replace(story.run(), deadline=None)
    assert why(story)[1] == BY_HAND


def test_a_success_tells_of_what_was_skipped_warned_or_held() -> None:
    story = Story()
    story.plan({"a": [], "b": [], "c": ["b"], "d": []})
    story.execute("a")
    story.start("b")
    story.finish("b", TaskOutcome.SKIPPED, error=TaskError(message="nothing new"))
    story.start("d")
    story.finish("d", output=CommittedOutput(materialization_id="m", gate=Gate.QUARANTINED))
    assert why(story) == [
        f"+ run_1 succeeded at {AT}: 2 succeeded, 2 skipped of 4 tasks",
        BY_HAND,
        f"  - ns/b skipped itself at {AT}: nothing new",
        "    > its code decides again the next time it runs",
        f"  + ns/d succeeded at {AT}, attempt 1 of 3",
        f"    ? the output of {AT} is in quarantine",
        "      > check the data, then approve it, or run `servo quarantine reject m`",
        "      $ servo quarantine approve m",
    ]


def test_a_failure_names_what_failed_and_counts_what_followed() -> None:
    story = Story()
    story.plan({"a": [], "b": ["a"], "c": ["b"]}, retry=ONCE)
    fail(story, "a")
    told = why(story)
    assert told[:3] == [
        f"! run_1 failed at {AT}: 1 failed, 2 skipped of 3 tasks",
        "  > fix the failures, and retry the rest in a new run",
        "  $ servo run retry run_1",
    ]
    assert told[4] == f"  ! ns/a failed at {AT} (attempt 1 of 1): no"
    assert told[-1] == "  - 2 tasks skipped because of that"
    story = Story()
    story.plan({"a": []}, retry=ONCE)
    fail(story, "a")
    assert why(story)[-1] == "    $ servo run retry run_1"


def test_a_run_that_could_not_be_planned() -> None:
    story = Story()
    story.request()
    story.tell(PlanFailed(run_id="run_1", error="no such asset"))
    assert why(story)[:2] == [
        f"! run_1 failed at {AT}: no such asset",
        "  > none of its tasks ran; request it again",
    ]


def test_a_run_that_is_being_stopped_and_one_that_was() -> None:
    story = Story()
    story.plan({"a": [], "b": []})
    story.start("a")
    story.tell(RunCancelRequested(run_id="run_1", requested_by="ada", reason="wrong day"))
    assert why(story)[:2] == [
        f"? run_1 is being cancelled: the run was cancelled by ada at {AT} (wrong day)",
        "  > it ends when its running tasks have stopped or been given up",
    ]
    assert why(story)[3].startswith("  ? ns/a runs on worker")
    story.finish("a", TaskOutcome.CANCELLED)
    assert why(story)[:3] == [
        f"! run_1 was cancelled at {AT}: the run was cancelled by ada at {AT} (wrong day); "
        "2 cancelled of 2 tasks",
        "  > the rest will not run unless you retry it",
        "  $ servo run retry run_1",
    ]


def test_a_run_whose_plan_turned_out_to_be_damaged() -> None:
    story = Story()
    request = RunRequested(run_id="run_1", run_key="k", request_fingerprint="f")
    segments = (PlanSegment(digest="d", count=7),)
    story.tell(request, PlanCreated(run_id="run_1", fingerprint="p", segments=segments))
    story.tell(PlanFailed(run_id="run_1", error="the segment d is gone"))
    assert why(story)[0] == (
        f"! run_1 was given up at {AT}: the segment d is gone; 7 cancelled of 7 tasks"
    )


def test_a_run_that_ran_out_of_time_tells_what_had_failed() -> None:
    story = Story()
    story.plan({"a": [], "b": []}, retry=ONCE)
    fail(story, "a")
    story.wait(hours=25)
    story.tell(RunDeadlineExceeded(run_id="run_1"))
    told = why(story)
    assert told[:3] == [
        "! run_1 timed out after 25 h: it exceeded its time limit; 1 failed, 1 cancelled of "
        "2 tasks",
        "  > retry the rest in a new run",
        "  $ servo run retry run_1",
    ]
    assert told[4].startswith("  ! ns/a failed")


def report(run_id: str = "run_1") -> TaskFinished:
    return TaskFinished(
        run_id=run_id,
        task_key=task_key("a"),
        attempt_id="x",
        exec_id="y",
        outcome=TaskOutcome.SUCCEEDED,
    )


def test_reports_that_came_before_their_run_are_told_of() -> None:
    story = Story()
    assert explain_unknown_run(records_of(story), "run_1") is None
    story.tell(report(), parkable=True)
    found = explain_unknown_run(records_of(story), "run_1")
    assert found is not None
    parked = [
        "  ? the batch batch-1 arrived too early and is kept: unknown_task",
        "    > it is applied when the run is planned, or dropped at 2026-01-02 00:00:00Z, in 24 h",
    ]
    assert outline(found) == [
        "? run_1 has not been requested yet, but reports about it have arrived",
        "  > they count once the run is requested and planned",
        *parked,
    ]
    story.request()
    assert why(story)[-2:] == parked


def test_reports_that_could_not_be_applied_are_told_of() -> None:
    story = Story()
    story.tell(report(), parkable=True)
    story.tell(report("run_10"), parkable=True)
    story.wait(days=2)
    for name in ("batch-1", "batch-2"):
        story.tell(ParkedBatchExpired(batch_id=name))
    found = explain_unknown_run(records_of(story), "run_1")
    assert found is not None
    assert outline(*found.because) == [
        "! the batch batch-1 could not be applied: expired_while_waiting: unknown_task",
        "  > see the runbook about dead letters",
    ]
    broken = DeadLetterRow(
        source="b9",
        sha256="0" * 64,
        batch_id="b9",
        seq=9,
        status=Status.QUARANTINED,
        code="rule_failed",
        reason="KeyError: 'x'",
        fold_version=1,
        size=18,
        encoding=Encoding.TEXT,
        original='{"run_id":"run_1"}',
        recorded_at=START,
        row_version=9,
    )
    story.state.dead_letter.put(("b9", broken.sha256), broken)
    found = explain_unknown_run(records_of(story), "run_1")
    assert found is not None
    assert outline(found.because[1])[0] == ("! the batch b9 could not be applied: KeyError: 'x'")
