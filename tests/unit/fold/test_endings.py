"""How tasks end: what that means for those below, and what a report is worth that comes later."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from servo.controllers import timers
from servo.core.events.dispatch import CancelGraceExpired, Handover, LeaseExpired
from servo.core.events.quotas import QuotaSet
from servo.core.events.runs import RunAdmitted, RunCancelRequested, RunDeadlineExceeded
from servo.core.events.tasks import TaskCost, TaskFinished, TaskOutcome
from servo.core.fold.limits import CANCEL_GRACE
from servo.core.retry import RetryRules
from servo.core.state.states import RunState, TaskState, TransitionReason
from servo.testing.builders import Story, dump

ONCE = RetryRules(max_attempts=1, max_infra_retries=0)
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


# --- given back -----------------------------------------------------------------------------------


def handed_over(story: Story, exec_id: str) -> None:
    """Task `a` runs, granted and handed over in one."""
    assert story.dispatch("a", handover=Handover(exec_id=exec_id, worker_id="pool")).applied


def unbegun(story: Story) -> TaskFinished:
    return story.finished("a", TaskOutcome.INTERRUPTED, began=False, retry_after_ms=0)


def test_what_never_began_is_ready_again_as_if_it_had_not_been_granted() -> None:
    story = Story()
    story.plan({"a": ()}, retry=ONCE)
    before = story.task("a")
    ids: list[str] = []
    for number in range(20):  # far more than any budget
        handed_over(story, f"x{number}")
        ids.append(story.task("a").attempt_id)
        assert story.tell(unbegun(story)).data["task_state"] == "READY"
    row = story.task("a")
    told = (row.state, row.reason, row.attempt, row.user_failures, row.infra_losses)
    assert told == (TaskState.READY, TransitionReason.GIVEN_BACK, 0, 0, 0)
    changed = {"reason", "transitioned_at", "row_version", "fencing_token"}
    fields = [name for name in row.__struct_fields__ if getattr(row, name) != getattr(before, name)]
    assert set(fields) == changed
    assert len(set(ids)) == 20  # what was granted to one is granted to no other
    assert story.state.index.ready_count == 1
    assert not story.state.index.running
    handed_over(story, "last")
    story.finish("a")
    assert story.task("a").attempt == 1
    assert story.run().state is RunState.SUCCEEDED


def test_what_is_given_back_after_a_failure_has_failed_as_often_as_before() -> None:
    story = Story()
    story.plan({"a": ()})
    story.execute("a", TaskOutcome.FAILED)
    story.wait(hours=1)
    for action in timers.reconcile(story.state, story.now):
        story.tell(*action.events)
    handed_over(story, "x")
    story.tell(unbegun(story))
    row = story.task("a")
    assert (row.state, row.attempt, row.user_failures) == (TaskState.READY, 1, 1)


def test_what_was_given_back_can_no_longer_report() -> None:
    story = Story()
    story.plan({"a": ()})
    handed_over(story, "mine")
    report, late = unbegun(story), story.finished("a")
    story.tell(report)
    for told in (report, late):
        assert story.tell(told).reason == "stale: not the current execution"
    handed_over(story, "theirs")
    for told in (report, late):
        assert story.tell(told).reason == "stale: not the current execution"
    assert story.task("a").exec_id == "theirs"


def test_what_is_given_back_goes_through_a_queue_under_another_name() -> None:
    story = Story()
    story.plan({"a": ()})
    for number in range(3):
        story.start("a", exec_id=f"x{number}")
        assert story.task("a").attempt == 1
        story.tell(unbegun(story))
    sent = list(story.state.outbox.rows.values())
    assert len({row.cloud_task_id for row in sent}) == len({row.attempt_id for row in sent}) == 3


def test_what_is_given_back_after_a_cancel_is_cancelled() -> None:
    story = Story()
    story.plan({"a": ()})
    handed_over(story, "x")
    story.tell(CANCEL)
    story.tell(unbegun(story))
    assert story.task("a").state is TaskState.CANCELLED
    assert story.run().state is RunState.CANCELLED
