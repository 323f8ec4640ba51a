"""A run that is cancelled by force ends at once, whatever its workers do."""

from typing import Any

from servo.controllers import dispatch, timers
from servo.controllers.fairness import Fairness
from servo.core.events.runs import RunCancelRequested, RunDeadlineExceeded
from servo.core.events.tasks import CommittedOutput, TaskOutcome
from servo.core.fold.apply import needs_now
from servo.core.state.states import RunState, TaskState
from servo.testing.builders import Story, dump

CANCEL = RunCancelRequested(run_id="run_1", requested_by="ada")
FORCE = RunCancelRequested(run_id="run_1", requested_by="ada", force=True)


def running(**spec: Any) -> Story:
    """Task `a` runs, `b` is ready and `c` waits for both."""
    story = Story()
    story.plan({"a": (), "b": (), "c": ("a", "b")}, **spec)
    story.start("a")
    return story


def states(story: Story) -> list[TaskState]:
    return [story.task(name).state for name in "abc"]


def test_the_run_is_over_at_once() -> None:
    story = running()
    assert story.tell(FORCE).data == {"run_id": "run_1"}
    run = story.run()
    assert (run.state, run.cancel_forced, run.tasks_cancelled) == (RunState.CANCELLED, True, 3)
    assert states(story) == [TaskState.CANCELLED] * 3
    assert not story.state.index.running
    assert run.finished_at == story.state.ts


def test_no_slot_is_held_and_nothing_is_due_any_more() -> None:
    story = running()
    story.tell(FORCE)
    story.wait(hours=30)
    assert timers.reconcile(story.state, story.now) == []
    assert dispatch.pick(story.state, 10, Fairness())[0] == []


def test_a_success_that_comes_late_is_recorded_and_not_promoted() -> None:
    story = running()
    report = story.finished("a", output=CommittedOutput(materialization_id="m", uri="mem"))
    story.tell(FORCE)
    assert story.tell(report).applied
    row = story.task("a")
    assert (row.state, row.late_outcome) == (TaskState.CANCELLED, TaskOutcome.SUCCEEDED)
    assert not list(story.state.materializations.rows)
    assert story.run().state is RunState.CANCELLED
    assert story.tell(report).repeated


def test_a_run_that_is_being_stopped_can_be_forced_to_end() -> None:
    story = running()
    story.tell(CANCEL)
    assert story.run().state is RunState.CANCELLING
    assert story.tell(FORCE).applied
    run = story.run()
    assert (run.state, run.cancel_requested_by) == (RunState.CANCELLED, "ada")


def test_a_run_that_ran_out_of_time_stays_timed_out_when_it_is_forced() -> None:
    story = running()
    story.wait(hours=25)
    story.tell(RunDeadlineExceeded(run_id="run_1"))
    assert story.run().state is RunState.CANCELLING
    story.tell(FORCE)
    assert story.run().state is RunState.TIMED_OUT


def test_a_run_without_executions_is_cancelled_as_ever() -> None:
    story = Story()
    story.plan({"a": ()})
    story.tell(FORCE)
    run = story.run()
    assert (run.state, run.cancel_forced) == (RunState.CANCELLED, False)


def test_forcing_twice_changes_nothing() -> None:
    story = running()
    story.tell(FORCE)
    before = dump(story.state)
    assert story.tell(FORCE).repeated
    assert story.tell(CANCEL).repeated
    assert dump(story.state)["runs"] == before["runs"]


def test_a_run_that_is_over_is_left_as_it_ended() -> None:
    story = Story()
    story.plan({"a": ()})
    story.execute("a")
    assert story.tell(FORCE).reason == "the run has already ended"
    assert story.run().state is RunState.SUCCEEDED


def test_the_partitions_of_what_is_ended_are_asked_for_only_by_force() -> None:
    story = running(partition="day:d:2026-01-01")
    place = ("partition_status", ("ns/a", "day:d:2026-01-01"))
    assert place in needs_now(story.state, story.batch(FORCE))
    assert place not in needs_now(story.state, story.batch(CANCEL))
    story.tell(FORCE)
    row = story.state.partitions.rows["ns/a", "day:d:2026-01-01"]
    assert row.last_attempt_outcome is TaskOutcome.CANCELLED
