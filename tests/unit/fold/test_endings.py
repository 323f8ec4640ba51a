"""How tasks end: what that means for those below, and what a report is worth that comes later."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from servo.core.events.dispatch import CancelGraceExpired, LeaseExpired
from servo.core.events.quotas import QuotaSet
from servo.core.events.runs import RunAdmitted, RunCancelRequested, RunDeadlineExceeded
from servo.core.events.tasks import TaskCost, TaskOutcome
from servo.core.fold.limits import CANCEL_GRACE
from servo.core.retry import RetryPolicy
from servo.core.state.states import RunState, TaskState, TransitionReason
from servo.testing.builders import Story, dump

ONCE = RetryPolicy(max_attempts=1, max_infra_retries=0)
CANCEL = RunCancelRequested(run_id="run_1")


def running() -> Story:
    """A story in which task `a` runs."""
    story = Story()
    story.plan({"a": ()})
    story.start("a", exec_id="mine")
    return story


# --- dependants -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outcomes", "end"),
    [
        ((TaskOutcome.SUCCEEDED, TaskOutcome.SUCCEEDED), "READY"),
        ((TaskOutcome.FAILED, TaskOutcome.SUCCEEDED), "SKIPPED"),
        ((TaskOutcome.SUCCEEDED, TaskOutcome.SKIPPED), "SKIPPED"),
    ],
)
def test_a_task_is_decided_when_all_of_its_upstreams_have_ended_and_not_before(
    outcomes: tuple[TaskOutcome, TaskOutcome], end: str
) -> None:
    story = Story()
    story.plan({"a": (), "b": (), "c": ("a", "b")}, retry=ONCE)
    story.execute("a", outcomes[0])
    assert story.states()["c"] == "BLOCKED"
    story.execute("b", outcomes[1])
    assert story.states()["c"] == end


def test_a_run_without_tasks_is_over_once_it_has_its_slot() -> None:
    story = Story()
    story.tell(QuotaSet(max_concurrent_runs=0))
    story.plan({})
    assert story.run().state is RunState.PENDING
    story.tell(QuotaSet(max_concurrent_runs=1))
    assert story.tell(RunAdmitted(run_id="run_1")).applied
    assert story.run().state is RunState.SUCCEEDED


@pytest.mark.parametrize(
    ("stop", "reason"),
    [
        (CANCEL, TransitionReason.USER_CANCELLED),
        (RunDeadlineExceeded(run_id="run_1"), TransitionReason.SYSTEM_CANCELLED),
    ],
)
def test_tasks_of_a_stopped_run_say_who_stopped_it(
    stop: RunCancelRequested | RunDeadlineExceeded, reason: TransitionReason
) -> None:
    story = Story()
    story.plan({"a": (), "b": ("a",)})
    story.start("a")
    story.wait(hours=25)
    assert story.tell(stop).applied
    story.finish("a")
    assert [story.task(name).reason for name in "ab"] == [reason, reason]


# --- reports --------------------------------------------------------------------------------------


@pytest.mark.parametrize("outcome", [TaskOutcome.SUCCEEDED, TaskOutcome.FAILED])
def test_a_report_sent_again_is_recognised_and_counts_once(outcome: TaskOutcome) -> None:
    story = running()
    report = story.finished("a", outcome, cost=TaskCost(cpu_ms=7))
    assert not story.tell(report).repeated
    before = dump(story.state)
    story.wait(minutes=1)
    assert story.tell(report).repeated
    assert dump(story.state) == before


def test_a_report_of_an_execution_that_was_given_up_is_stale() -> None:
    story = running()
    report, row = story.finished("a"), story.task("a")
    story.wait(hours=1)
    lost = LeaseExpired(
        run_id=row.run_id, task_key=row.task_key, attempt_id=row.attempt_id, exec_id=row.exec_id
    )
    assert story.tell(lost).applied
    assert story.tell(report).reason == "stale: not the current execution"
    assert story.task("a").state is TaskState.RETRY_WAIT


@pytest.mark.parametrize("changes", [{"attempt_id": "att_other"}, {"exec_id": "theirs"}])
def test_a_report_counts_for_its_attempt_and_its_execution(changes: dict[str, str]) -> None:
    story = running()
    report = replace(story.finished("a"), **changes)
    assert story.tell(report).reason == "stale: not the current execution"
    assert story.task("a").state is TaskState.RUNNING


def test_the_first_thing_a_cancelled_execution_says_is_kept() -> None:
    story = running()
    reports = [
        story.finished("a", outcome) for outcome in (TaskOutcome.SUCCEEDED, TaskOutcome.FAILED)
    ]
    row = story.task("a")
    story.tell(CANCEL)
    story.wait(minutes=1)
    over = CancelGraceExpired(
        run_id=row.run_id, task_key=row.task_key, attempt_id=row.attempt_id, exec_id=row.exec_id
    )
    assert story.tell(over).applied
    assert [story.tell(report).repeated for report in reports] == [False, True]
    row = story.task("a")
    assert (row.state, row.late_outcome) == (TaskState.CANCELLED, TaskOutcome.SUCCEEDED)


def test_a_stall_gives_its_grace_again_to_what_was_told_to_stop_and_to_nothing_else() -> None:
    story = running()
    story.plan({"b": ()}, "run_2")
    story.start("b", "run_2")
    story.tell(CANCEL)
    story.wait(seconds=20)
    story.commit(stall=True)
    assert story.task("a").cancel_deadline == story.now + CANCEL_GRACE
    assert story.task("b", "run_2").cancel_deadline is None
    for row in (story.task("a"), story.task("b", "run_2")):
        assert row.lease_expires_at == story.now + timedelta(minutes=5)
