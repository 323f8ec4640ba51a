"""What is due: timers, deadlines, silence, waiting runs."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from servo.controllers import anti_entropy, planning, timers
from servo.controllers.anti_entropy import LastBeat
from servo.core.events.dispatch import CancelGraceExpired, ExecutionTimedOut, LeaseExpired
from servo.core.events.quotas import QuotaSet
from servo.core.events.runs import (
    PlanDeadlineExceeded,
    RunAdmitted,
    RunCancelRequested,
    RunDeadlineExceeded,
    RunRequested,
)
from servo.core.events.tasks import TaskOutcome
from servo.core.events.timers import (
    TimerCancelled,
    TimerEnqueued,
    TimerFired,
    TimerRequested,
    TimerType,
)
from servo.core.fold.timers import firing_of
from servo.core.state.states import RunState
from servo.testing.builders import START, Story


def test_a_retry_is_proposed_when_it_is_due_and_not_before() -> None:
    story = Story()
    story.plan({"a": ()})
    story.execute("a", TaskOutcome.FAILED)
    due = timers.next_due(story.state)
    assert due is not None
    assert timers.reconcile(story.state, due - timedelta(microseconds=1)) == []
    (action,) = timers.reconcile(story.state, due)
    assert isinstance(action.events[0], TimerFired)
    story.wait(seconds=31)
    story.tell(*action.events)
    assert timers.reconcile(story.state, story.now) == []


def test_a_requested_timer_fires_once() -> None:
    story = Story()
    wanted = TimerRequested(
        timer_id="sla", timer_type=TimerType.SLA_CHECK, fire_at=story.now + timedelta(hours=1)
    )
    story.tell(wanted)
    story.wait(hours=2)
    (action,) = timers.reconcile(story.state, story.now)
    assert story.tell(*action.events).applied
    assert timers.reconcile(story.state, story.now) == []


def test_a_timer_that_was_promised_is_proposed_once() -> None:
    story = Story()
    wanted = TimerRequested(
        timer_id="sla", timer_type=TimerType.SLA_CHECK, fire_at=story.now + timedelta(hours=1)
    )
    story.tell(wanted)
    story.tell(TimerEnqueued(timer_id="sla"))
    story.wait(hours=2)
    assert len(timers.reconcile(story.state, story.now)) == 1


def test_a_run_that_nobody_plans_fails() -> None:
    story = Story()
    story.request()
    story.wait(minutes=11)
    (action,) = timers.reconcile(story.state, story.now)
    assert isinstance(action.events[0], PlanDeadlineExceeded)
    story.tell(*action.events)
    assert story.run().state is RunState.FAILED


def test_a_run_that_takes_too_long_is_stopped_and_says_so() -> None:
    story = Story()
    story.plan({"a": (), "b": ("a",)})
    story.start("a")
    story.wait(hours=25)
    (action,) = timers.reconcile(story.state, story.now)
    assert isinstance(action.events[0], RunDeadlineExceeded)
    story.tell(*action.events)
    assert story.run().state is RunState.CANCELLING
    assert timers.reconcile(story.state, story.now) == []
    story.finish("a", TaskOutcome.CANCELLED)
    assert story.run().state is RunState.TIMED_OUT


def test_a_beat_keeps_a_lease_alive() -> None:
    story = Story()
    story.plan({"a": ()})
    story.start("a")
    row = story.task("a")
    story.wait(minutes=6)
    beat = LastBeat(exec_id=row.exec_id, at=story.now - timedelta(minutes=1), count=5)
    assert anti_entropy.reconcile(story.state, story.now, {row.attempt_id: beat}) == []
    stranger = LastBeat(exec_id="other", at=story.now, count=1)
    actions = anti_entropy.reconcile(story.state, story.now, {row.attempt_id: stranger})
    assert isinstance(actions[0].events[0], LeaseExpired)


def test_an_execution_that_runs_too_long_is_ended_although_it_beats() -> None:
    story = Story()
    story.plan({"a": ()}, timeout_ms=60_000)
    story.start("a")
    row = story.task("a")
    story.wait(minutes=2)
    beats = {row.attempt_id: LastBeat(exec_id=row.exec_id, at=story.now, count=9)}
    (action,) = anti_entropy.reconcile(story.state, story.now, beats)
    assert isinstance(action.events[0], ExecutionTimedOut)
    story.tell(*action.events)
    assert story.task("a").user_failures == 1


def test_a_cancelled_execution_is_given_up_after_its_grace() -> None:
    story = Story()
    story.plan({"a": ()})
    story.start("a")
    story.tell(RunCancelRequested(run_id="run_1"))
    assert anti_entropy.reconcile(story.state, story.now, {}) == []
    story.wait(seconds=31)
    (action,) = anti_entropy.reconcile(story.state, story.now, {})
    assert isinstance(action.events[0], CancelGraceExpired)
    story.tell(*action.events)
    assert story.run().state is RunState.CANCELLED


def test_waiting_runs_are_admitted_by_priority_as_slots_free() -> None:
    story = Story()
    story.tell(QuotaSet(max_concurrent_runs=1))
    for number in (1, 2, 3):
        story.plan({"a": ()}, f"run_{number}")
    assert [story.run(f"run_{n}").state.value for n in (1, 2, 3)] == [
        "RUNNING",
        "PENDING",
        "PENDING",
    ]
    assert planning.reconcile(story.state) == []
    story.execute("a", run_id="run_1")
    (action,) = planning.reconcile(story.state)
    assert action.events == (RunAdmitted(run_id="run_2"),)
    assert story.tell(*action.events).applied
    assert story.task("a", "run_2").state.value == "READY"
    assert story.tell(RunAdmitted(run_id="run_3")).reason == "quota: no free run slot"


def test_reconciling_twice_proposes_nothing_new() -> None:
    story = Story()
    story.plan({"a": (), "b": ("a",)})
    story.start("a")
    story.wait(minutes=10)
    for action in anti_entropy.reconcile(story.state, story.now, {}):
        story.tell(*action.events)
    assert anti_entropy.reconcile(story.state, story.now, {}) == []


def test_the_runs_that_are_due_are_proposed_and_no_others() -> None:
    story = Story()
    for number in (1, 2, 3):
        story.request(f"run_{number}")
        story.wait(minutes=1)
    story.wait(minutes=8, seconds=30)
    assert [action.events for action in timers.reconcile(story.state, story.now)] == [
        (PlanDeadlineExceeded(run_id="run_1"),),
        (PlanDeadlineExceeded(run_id="run_2"),),
    ]


def test_a_round_proposes_a_bounded_number_of_runs() -> None:
    story = Story()
    requests = (
        RunRequested(run_id=f"run_{n}", run_key=f"key-{n}", request_fingerprint="fp")
        for n in range(timers.MAX_PER_ROUND + 1)
    )
    story.tell(*requests)
    story.wait(hours=1)
    assert len(timers.reconcile(story.state, story.now)) == timers.MAX_PER_ROUND


def _finish(story: Story) -> None:
    story.execute("a", run_id="run_2")


def _stop(story: Story) -> None:
    story.start("a", "run_2")
    story.tell(RunCancelRequested(run_id="run_2"))


def _forget(story: Story) -> None:
    _finish(story)
    story.state.runs.evict("run_2")


@pytest.mark.parametrize("end", [_finish, _stop, _forget])
def test_a_run_that_no_longer_waits_for_its_deadline_is_not_proposed(
    end: Callable[[Story], None],
) -> None:
    story = Story()
    story.plan({"a": ()}, "run_1")
    story.wait(seconds=1)
    story.plan({"a": ()}, "run_2")
    end(story)
    story.wait(hours=25)
    (action,) = timers.reconcile(story.state, story.now)
    assert action.events == (RunDeadlineExceeded(run_id="run_1"),)


def test_a_run_that_was_planned_in_the_meantime_is_not_late_for_its_plan() -> None:
    story = Story()
    story.request("run_1")
    story.wait(seconds=1)
    story.plan({"a": ()}, "run_2")
    story.wait(minutes=11)
    (action,) = timers.reconcile(story.state, story.now)
    assert action.events == (PlanDeadlineExceeded(run_id="run_1"),)


def _timer(name: str, hours: int) -> TimerRequested:
    fire_at = START + timedelta(hours=hours)
    return TimerRequested(timer_id=name, timer_type=TimerType.SLA_CHECK, fire_at=fire_at)


def test_a_timer_that_no_longer_waits_is_not_proposed() -> None:
    story = Story()
    story.tell(_timer("first", 1), _timer("second", 2), _timer("third", 3))
    story.tell(TimerCancelled(timer_id="second"))
    story.wait(hours=4)
    assert [action.events for action in timers.reconcile(story.state, story.now)] == [
        (firing_of(story.state.timers.rows["first"]),),
        (firing_of(story.state.timers.rows["third"]),),
    ]


def test_a_round_proposes_a_bounded_number_of_timers() -> None:
    story = Story()
    story.tell(*(_timer(f"timer-{n}", 1) for n in range(timers.MAX_PER_ROUND + 1)))
    story.wait(hours=2)
    assert len(timers.reconcile(story.state, story.now)) == timers.MAX_PER_ROUND


def test_what_is_due_next_is_what_still_waits() -> None:
    story = Story()
    story.tell(_timer("first", 1), _timer("second", 2))
    assert timers.next_due(story.state) == START + timedelta(hours=1)
    story.tell(TimerCancelled(timer_id="first"))
    assert timers.next_due(story.state) == START + timedelta(hours=2)
    story.tell(TimerCancelled(timer_id="second"))
    assert timers.next_due(story.state) is None
    story.plan({"a": ()})
    assert timers.next_due(story.state) == story.run().deadline
    story.execute("a")
    assert timers.next_due(story.state) is None
