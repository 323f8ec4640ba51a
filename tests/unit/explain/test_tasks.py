"""Why a task is in the state it is in, and what takes it out of it."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from msgspec.structs import replace

from servo.core.events.assets import CheckEvaluated, QuarantineDecided, Severity
from servo.core.events.dispatch import DispatchAckTimedOut, ExecutionTimedOut, LeaseExpired
from servo.core.events.quotas import QuotaSet
from servo.core.events.runs import RunCancelRequested, RunDeadlineExceeded
from servo.core.events.tasks import CommittedOutput, Gate, TaskError, TaskOutcome
from servo.core.explain.causes import first_causes
from servo.core.explain.finding import What
from servo.core.explain.tasks import explain_attempt, explain_task
from servo.core.explain.words import span
from servo.core.fold.timers import firing_of
from servo.core.keys import TaskOperation
from servo.core.retry import RetryRules
from servo.core.state.rows.execution import TaskHeartbeatRow
from servo.testing.builders import START, Story, task_key
from servo.testing.explaining import outline, records_of

AT = "2026-01-01 00:00:00Z"
ONCE = RetryRules(max_attempts=1, delay_ms=0)
ERROR = TaskError(code="UserCode", message="ValueError: no header\nTraceback …")


def why(story: Story, name: str, run_id: str = "run_1", *, led: bool | None = None) -> list[str]:
    return outline(explain_task(records_of(story, led=led), story.task(name, run_id)))


def fail(story: Story, name: str, **fields: Any) -> None:
    story.start(name)
    values: dict[str, Any] = {"error": ERROR, **fields}
    assert story.finish(name, TaskOutcome.FAILED, **values).applied


def test_an_attempt_is_told_with_what_asked_for_its_run() -> None:
    story = Story()
    story.plan({"a": []})
    story.execute("a")
    told = explain_attempt(records_of(story), story.task("a"))
    assert outline(told) == [
        f"+ ns/a succeeded at {AT}, attempt 1 of 3",
        f"  - started by hand; {AT}",
    ]


# --- upstream -------------------------------------------------------------------------------------


def test_a_waiting_task_leads_to_what_it_waits_for_however_far_up() -> None:
    story = Story()
    story.plan({"raw": [], "clean": ["raw"], "joined": ["clean"], "report": ["joined", "raw"]})
    story.start("raw")
    assert why(story, "report") == [
        "? ns/report waits for 2 of its 2 upstream tasks",
        "  > it can run when all of those have succeeded",
        f"  ? ns/raw runs on worker since {AT}, attempt 1 of 3",
    ]
    assert why(story, "clean")[0] == "? ns/clean waits for its upstream task"
    story.finish("raw")
    assert why(story, "report") == [
        "? ns/report waits for 1 of its 2 upstream tasks",
        "  > it can run when all of those have succeeded",
        f"  ? ns/clean waits since {AT} for a free worker (in between: ns/joined)",
        "    > it starts when a worker is free",
    ]


def test_a_skipped_task_names_the_first_failure_and_what_lies_between() -> None:
    story = Story()
    story.plan({"raw": [], "clean": ["raw"], "report": ["clean"]}, retry=ONCE)
    fail(story, "raw")
    assert why(story, "report") == [
        f"! ns/report was skipped at {AT} because of its upstream assets",
        f"  ! ns/raw failed at {AT} (attempt 1 of 1): ValueError: no header (in between: ns/clean)",
        "    > it has no retry policy; see `servo logs run_1 ns/raw`, fix the cause, and retry",
        "    $ servo run retry run_1",
    ]


def test_a_task_that_its_code_skipped_and_one_that_follows_it() -> None:
    story = Story()
    story.plan({"files": [], "load": ["files"]})
    story.start("files")
    story.finish("files", TaskOutcome.SKIPPED, error=TaskError(message="no file since Monday"))
    assert why(story, "load") == [
        f"- ns/load was skipped at {AT} because of its upstream assets",
        f"  - ns/files skipped itself at {AT}: no file since Monday",
        "    > its code decides again the next time it runs",
    ]


def test_a_task_with_a_failed_upstream_waits_for_the_others_to_be_skipped() -> None:
    story = Story()
    story.plan({"a": [], "b": [], "c": ["a", "b"]}, retry=ONCE)
    fail(story, "a")
    told = why(story, "c")
    assert told[:2] == [
        "? ns/c waits for 1 of its 2 upstream tasks",
        "  > it will be skipped when the others have finished, because an upstream task failed",
    ]
    assert [line[:10] for line in told if line.startswith(("  ? ", "  ! "))] == [
        "  ! ns/a f",
        "  ? ns/b w",
    ]


def test_many_causes_are_counted_and_not_listed() -> None:
    story = Story()
    names = [f"t{number}" for number in range(8)]
    story.plan({**{name: [] for name in names}, "all": names})
    told = explain_task(records_of(story), story.task("all"))
    assert len(told.because) == 6
    assert outline(told.because[-1]) == ["- and 3 more tasks"]


def test_a_cause_is_found_at_the_end_of_a_chain_of_thousands() -> None:
    story = Story()
    length = 2_000
    chain = {f"t{i:05}": [f"t{i - 1:05}"] if i else [] for i in range(length)}
    story.plan(chain)
    (cause,) = first_causes(records_of(story), story.task(f"t{length - 1:05}"))
    assert cause.task.task_key == task_key("t00000")
    assert [row.task_key for row in cause.path[:2]] == [task_key("t00001"), task_key("t00002")]
    assert len(cause.path) == length - 2


def test_a_task_above_that_is_not_on_record_is_passed_over() -> None:
    story = Story()
    story.plan({"raw": [], "clean": ["raw"]})
    clean = story.task("clean")
    del story.state.tasks.rows["run_1", task_key("raw")]
    assert first_causes(records_of(story), clean) == []


def test_a_planned_task_waits_with_its_run() -> None:
    story = Story()
    story.tell(QuotaSet(max_concurrent_runs=1))
    story.plan({"a": []})
    story.plan({"b": []}, "run_2")
    assert why(story, "b", "run_2") == [
        "? ns/b is planned, and its run has not started",
        "  ? run_2 waits for a free run slot: 1 of 1 runs are active: run_1",
        "    > it starts when enough of them have finished; or raise the limit",
        "    $ servo admin quota --max-runs 2",
    ]
    del story.state.runs.rows["run_2"]
    assert why(story, "b", "run_2") == ["? ns/b is planned, and its run has not started"]


# --- sent and running -----------------------------------------------------------------------------


def test_a_task_that_was_sent_and_not_taken() -> None:
    story = Story()
    story.plan({"a": []})
    story.dispatch("a")
    assert why(story, "a") == [
        f"? ns/a was sent to a queue at {AT} (delivery 1 of 8), and no worker has taken it yet",
        "  > if no worker takes it, it is sent again at 2026-01-01 00:00:30Z, in 30 s",
    ]
    assert why(story, "a", led=False)[1:] == [
        "  > no leader is running in this workspace",
        "  $ servo resume",
    ]
    task = replace(story.task("a"), queue="gpu", dispatched_at=None, dispatch_deadline=None)
    assert outline(explain_task(records_of(story), task)) == [
        "? ns/a was sent to the queue gpu (delivery 1 of 8), and no worker has taken it yet"
    ]


def test_a_running_task_with_a_limit_and_one_that_was_told_to_stop() -> None:
    story = Story()
    story.plan({"a": []}, timeout_ms=90_000)
    story.start("a")
    assert why(story, "a") == [
        f"? ns/a runs on worker since {AT}, attempt 1 of 3",
        "  > it finishes, or times out at 2026-01-01 00:01:30Z, in 90 s",
    ]
    story.tell(RunCancelRequested(run_id="run_1"))
    assert why(story, "a")[1:] == [
        "  > it was told to stop; at 2026-01-01 00:00:30Z, in 30 s, it is given up"
    ]
    bare = replace(story.task("a"), cancel_deadline=None, worker_id="", started_at=None)
    bare = replace(bare, lease_expires_at=None, execution_deadline=None)
    assert outline(explain_task(records_of(story), bare)) == ["? ns/a runs, attempt 1 of 3"]


def test_a_silent_worker_is_told_from_one_that_was_heard_of() -> None:
    story = Story()
    story.plan({"a": []})
    story.start("a")
    story.wait(minutes=10)
    assert why(story, "a") == [
        "? ns/a runs, attempt 1 of 3, but its worker has been silent",
        "  > it will be given up as lost and retried on another worker",
    ]
    beat = TaskHeartbeatRow(
        run_id="run_1",
        task_key=task_key("a"),
        attempt_id=story.task("a").attempt_id,
        exec_id=story.task("a").exec_id,
        worker_id="worker",
        last_heartbeat_at=story.now - timedelta(minutes=1),
        beats=9,
        row_version=3,
    )
    story.state.heartbeats.load(("run_1", task_key("a")), beat)
    assert why(story, "a") == [f"? ns/a runs on worker since {AT}, attempt 1 of 3"]
    silent = "? ns/a runs, attempt 1 of 3, but its worker has been silent"
    stranger = replace(beat, exec_id="an execution before this one")
    story.state.heartbeats.load(("run_1", task_key("a")), stranger)
    assert why(story, "a")[0] == silent
    story.state.heartbeats.load(("run_1", task_key("a")), beat)
    story.wait(minutes=5)
    assert why(story, "a")[0] == (
        "? ns/a runs, attempt 1 of 3, but its worker has been silent since 2026-01-01 00:09:00Z"
    )


def test_a_running_task_where_nobody_leads() -> None:
    story = Story()
    story.plan({"a": []})
    story.start("a")
    assert why(story, "a", led=False) == [
        "? ns/a was running, attempt 1 of 3, and no leader is running in this workspace now",
        "  > the next leader waits for its worker, or gives it up and retries it",
        "  $ servo resume",
    ]


# --- failed ---------------------------------------------------------------------------------------


def test_a_failure_that_is_tried_again_says_when_and_how_often() -> None:
    story = Story()
    story.plan({"a": []})
    fail(story, "a")
    assert why(story, "a") == [
        f"? ns/a failed at {AT} (attempt 1 of 3): ValueError: no header",
        "  > next attempt at 2026-01-01 00:00:30Z, in 30 s: attempt 2 of 3",
    ]
    assert why(story, "a", led=False)[-1] == "  $ servo resume"
    bare = replace(story.task("a"), retry_at=None, error_message="", error_code="Odd")
    assert outline(explain_task(records_of(story), bare)) == [
        f"? ns/a failed at {AT} (attempt 1 of 3): Odd",
        "  > it will be retried",
    ]


def test_lost_workers_do_not_count_against_the_tries() -> None:
    story = Story()
    story.plan({"a": []})
    story.start("a")
    story.wait(minutes=10)
    row = story.task("a")
    story.tell(
        LeaseExpired(
            run_id="run_1",
            task_key=row.task_key,
            attempt_id=row.attempt_id,
            exec_id=row.exec_id,
        )
    )
    assert why(story, "a") == [
        "? ns/a was lost: its worker stopped responding at 2026-01-01 00:10:00Z (attempt 1, with "
        "0 of 3 tries failed and 1 worker lost)",
        "  > next attempt at 2026-01-01 00:10:05Z, in 5 s: attempt 2, with 0 of 3 tries failed and "
        "1 worker lost",
    ]


def final(story: Story) -> Iterator[str]:
    lines = why(story, "a")
    yield lines[0]
    yield lines[1].partition(";")[0]


def test_why_a_failure_is_final() -> None:
    story = Story()
    story.plan({"a": []}, retry=RetryRules(max_attempts=2, delay_ms=0))
    fail(story, "a")
    story.wait(seconds=1)
    (timer,) = story.state.timers.rows.values()
    story.tell(firing_of(timer))
    fail(story, "a", error=None)
    assert list(final(story)) == [
        "! ns/a failed at 2026-01-01 00:00:01Z (attempt 2 of 2)",
        "  > no attempts are left",
    ]
    story = Story()
    story.plan({"a": []})
    fail(story, "a", error=TaskError(message="x" * 400, retriable=False))
    told = list(final(story))
    assert told[0] == f"! ns/a failed at {AT} (attempt 1 of 3): {'x' * 299}…"
    assert told[1] == "  > this kind of error is not retried"


def test_a_task_that_ran_too_long_was_interrupted_or_taken_by_nobody() -> None:
    no_more = RetryRules(max_attempts=1, max_infra_retries=0)
    story = Story()
    story.plan({"a": []}, retry=no_more, timeout_ms=1_000)
    story.start("a")
    story.wait(seconds=2)
    row = story.task("a")
    names: dict[str, Any] = {
        "run_id": "run_1",
        "task_key": row.task_key,
        "attempt_id": row.attempt_id,
    }
    story.tell(ExecutionTimedOut(**names, exec_id=row.exec_id))
    assert next(final(story)).startswith("! ns/a timed out at 2026-01-01 00:00:02Z")

    story = Story()
    story.plan({"a": []}, retry=no_more)
    story.start("a")
    story.finish("a", TaskOutcome.INTERRUPTED)
    assert list(final(story)) == [
        f"! ns/a was interrupted: its worker was shut down at {AT} (attempt 1, with 0 of 1 tries "
        "failed and 1 worker lost)",
        "  > it lost 1 worker, and at most 0 are allowed",
    ]

    story = Story()
    story.plan({"a": []}, retry=no_more)
    story.dispatch("a")
    for delivery in range(1, 9):
        story.wait(hours=1)
        name = story.task("a").attempt_id
        story.tell(
            DispatchAckTimedOut(
                run_id="run_1", task_key=row.task_key, attempt_id=name, delivery=delivery
            )
        )
    assert next(final(story)).startswith(
        "! ns/a was not picked up by any worker at 2026-01-01 08:00:00Z"
    )


def checked(story: Story, name: str, check: str, **fields: Any) -> CheckEvaluated:
    row = story.task(name)
    values: dict[str, Any] = {"passed": False, **fields}
    return CheckEvaluated(
        run_id="run_1",
        task_key=row.task_key,
        attempt_id=row.attempt_id,
        exec_id=row.exec_id,
        asset_key=row.asset_key,
        check_name=check,
        **values,
    )


def test_a_check_that_failed_a_task_is_what_led_to_it() -> None:
    story = Story()
    story.plan({"a": []}, retry=ONCE)
    story.start("a")
    story.tell(checked(story, "a", "positive", blocking=True, message="2 rows"))
    story.tell(checked(story, "a", "fine", passed=True))
    story.finish("a", TaskOutcome.FAILED, error=TaskError(message="a blocking check failed"))
    assert why(story, "a")[-1] == "  ! its check positive failed (error, blocking): 2 rows"


# --- over -----------------------------------------------------------------------------------------


def test_a_success_with_a_warning_and_the_check_that_gave_it() -> None:
    story = Story()
    story.plan({"a": []})
    story.start("a")
    story.tell(checked(story, "a", "recent", severity=Severity.WARN))
    story.tell(checked(story, "a", "whole", passed=True))
    story.finish("a", output=CommittedOutput(materialization_id="m", gate=Gate.WARNED))
    assert why(story, "a") == [
        f"+ ns/a succeeded at {AT}, attempt 1 of 3",
        "  - the output was promoted with a warning",
        "    - its check recent failed (warn)",
    ]


def test_a_success_that_simply_went_through_has_nothing_to_add() -> None:
    story = Story()
    story.plan({"a": []})
    story.execute("a")
    assert why(story, "a") == [f"+ ns/a succeeded at {AT}, attempt 1 of 3"]


def held(story: Story) -> None:
    story.plan({"a": []})
    story.start("a")
    story.tell(checked(story, "a", "positive", blocking=True))
    story.finish("a", output=CommittedOutput(materialization_id="m", gate=Gate.QUARANTINED))


def test_an_output_that_is_held_back_says_how_to_decide() -> None:
    story = Story()
    held(story)
    assert why(story, "a")[1:] == [
        f"  ? the output of {AT} is in quarantine",
        "    > check the data, then approve it, or run `servo quarantine reject m`",
        "    $ servo quarantine approve m",
        "    ! its check positive failed (error, blocking)",
    ]


def test_an_output_that_was_let_through_or_rejected_says_by_whom() -> None:
    story = Story()
    held(story)
    story.tell(QuarantineDecided(materialization_id="m", approved=True, decided_by="ada"))
    assert (
        why(story, "a")[1] == f"  - the output was held in quarantine and approved at {AT} by ada"
    )
    story = Story()
    held(story)
    story.tell(QuarantineDecided(materialization_id="m", approved=False, reason="too few rows"))
    assert why(story, "a")[1:3] == [
        f"  ! the output of {AT} was held in quarantine and rejected at {AT}: too few rows",
        "    > fix its upstream data, and materialize it again",
    ]


def test_a_cancelled_task_says_who_stopped_its_run_and_what_came_too_late() -> None:
    story = Story()
    story.plan({"a": [], "b": ["a"]})
    story.start("a")
    story.tell(RunCancelRequested(run_id="run_1", requested_by="ada", reason="wrong day"))
    story.finish("a")
    assert why(story, "a") == [
        f"! ns/a was cancelled at {AT}: the run was cancelled by ada at {AT} (wrong day); it "
        "reported SUCCEEDED afterwards, too late to count",
        "  > it will not run again unless you retry it",
        "  $ servo run retry run_1",
    ]
    assert ";" not in why(story, "b")[0]
    task = story.task("b")
    del story.state.runs.rows["run_1"]
    assert outline(explain_task(records_of(story), task))[0] == f"! ns/b was cancelled at {AT}"


def test_a_task_of_a_run_that_ran_out_of_time() -> None:
    story = Story()
    story.plan({"a": [], "b": ["a"]})
    story.start("a")
    story.wait(hours=25)
    story.tell(RunDeadlineExceeded(run_id="run_1"))
    assert why(story, "b")[0] == (
        "! ns/b was cancelled at 2026-01-02 01:00:00Z: the run exceeded its time limit (25 h)"
    )


def test_tasks_that_check_or_have_no_asset_are_named_for_what_they_do() -> None:
    story = Story()
    story.plan({"a": []})
    check = replace(story.task("a"), operation=TaskOperation.CHECK)
    assert explain_task(records_of(story), check).text.startswith("the check of ns/a waits")
    bare = replace(story.task("a"), asset_key="", partition_key=None)
    assert explain_task(records_of(story), bare).text.startswith("ns/a:materialize waits")
    part = replace(story.task("a"), partition_key="day=d:2026-01-01")
    assert explain_task(records_of(story), part).text.startswith("ns/a:2026-01-01 waits")
    odd = replace(story.task("a"), partition_key="p:1")
    found = explain_task(records_of(story), odd)
    assert found.text.startswith("ns/a:p:1 waits")
    assert (found.what, found.at, found.seq) == (What.TASK_READY, START, 1)


def test_spans_are_told_in_the_largest_unit_of_which_there_are_two() -> None:
    told = [span(timedelta(seconds=count)) for count in (0, 119, 120, 7_199, 7_200, 172_800)]
    assert told == ["0 s", "119 s", "2 min", "119 min", "2 h", "2 d"]
