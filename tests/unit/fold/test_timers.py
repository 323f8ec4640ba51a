"""Rules of durable timers: who may set them, what they wake, and that they fire once."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from servo.controllers import timers
from servo.core.events.envelope import Batch, Event, Status
from servo.core.events.runs import RunCancelRequested
from servo.core.events.tasks import TaskOutcome
from servo.core.events.timers import (
    TimerCancelled,
    TimerEnqueued,
    TimerFired,
    TimerRequested,
    TimerType,
)
from servo.core.fold.timers import firing_of
from servo.core.state.rows.execution import TimerRow
from servo.core.state.states import TaskState, TimerState
from servo.testing.builders import START, Story, dump

HOUR = timedelta(hours=1)
WANTED = TimerRequested(timer_id="sla", timer_type=TimerType.SLA_CHECK, fire_at=START + HOUR)
DUE = TimerFired(timer_id="sla", timer_type=TimerType.SLA_CHECK, fire_at=START + HOUR)


def retrying() -> tuple[Story, TimerRow]:
    """A story in which task `a` failed and waits for the timer of its next attempt."""
    story = Story()
    story.plan({"a": ()})
    story.execute("a", TaskOutcome.FAILED)
    (timer,) = story.state.timers.values()
    return story, timer


def test_a_timer_that_is_asked_for_again_stays_as_it_was() -> None:
    story = Story()
    assert story.tell(WANTED).applied
    before = dump(story.state)
    again = story.tell(replace(WANTED, fire_at=START + 2 * HOUR))
    assert (again.repeated, again.data) == (True, {"timer_id": "sla"})
    assert dump(story.state) == before


def test_a_timer_that_has_fired_cannot_be_asked_for_again() -> None:
    story = Story()
    story.tell(WANTED)
    story.wait(hours=1)
    assert story.tell(DUE).applied
    assert story.tell(WANTED).repeated
    assert story.state.timers.rows["sla"].state is TimerState.FIRED


def test_nobody_but_the_fold_makes_or_cancels_a_retry() -> None:
    story, timer = retrying()
    before = dump(story.state)
    asked = replace(WANTED, timer_type=TimerType.RETRY)
    for event in (asked, TimerCancelled(timer_id=timer.timer_id)):
        assert story.tell(event).reason == "only the fold creates and cancels retry timers"
    assert dump(story.state) == before


def test_a_timer_of_a_run_waits_until_the_run_is_planned() -> None:
    story = Story()
    early = replace(WANTED, run_id="run_1")
    assert story.tell(early).reason == "the run run_1 of the timer is not active"
    (parked,) = story.commit(Batch(id="early", events=(early,), parkable=True))
    assert parked.status is Status.PARKED
    story.plan({"a": ()})
    assert story.state.timers.rows["sla"].run_id == "run_1"
    assert not story.state.parked.rows


def test_a_timer_is_promised_once() -> None:
    story = Story()
    story.tell(WANTED)
    promise = TimerEnqueued(timer_id="sla")
    assert not story.tell(promise).repeated
    assert story.state.timers.rows["sla"].enqueued
    again = story.tell(promise)
    assert (again.applied, again.repeated) == (True, True)


def test_a_cancelled_timer_never_fires() -> None:
    story = Story()
    story.tell(WANTED)
    assert story.tell(TimerCancelled(timer_id="sla")).applied
    story.wait(hours=2)
    assert timers.reconcile(story.state, story.now) == []
    assert story.tell(DUE).reason == "no timer sla is scheduled"


@pytest.mark.parametrize(
    "event",
    [replace(DUE, timer_id="no"), TimerCancelled(timer_id="no"), TimerEnqueued(timer_id="no")],
)
def test_a_timer_that_nobody_set_does_nothing(event: Event) -> None:
    story = Story()
    assert story.tell(event).reason == "no timer no is scheduled"


def test_a_cancel_takes_the_timer_of_a_waiting_retry_with_it() -> None:
    story, timer = retrying()
    story.tell(RunCancelRequested(run_id="run_1"))
    assert story.state.timers.rows[timer.timer_id].state is TimerState.CANCELLED
    assert story.task("a").state is TaskState.CANCELLED


def test_a_timer_that_fired_before_the_cancel_stays_fired() -> None:
    story, timer = retrying()
    story.wait(hours=1)
    story.tell(firing_of(timer))
    assert story.task("a").state is TaskState.READY
    story.tell(RunCancelRequested(run_id="run_1"))
    assert story.state.timers.rows[timer.timer_id].state is TimerState.FIRED
    assert story.task("a").state is TaskState.CANCELLED


def test_nobody_takes_the_name_of_a_retry_before_it_is_made() -> None:
    story = Story()
    story.plan({"a": ()})
    forged = TimerRequested(
        timer_id="timer:retry:run_1:ns/a:materialize:1:0",
        timer_type=TimerType.CRON,
        fire_at=story.now,
    )
    answer = story.tell(forged)
    assert answer.reason == "only the fold creates and cancels retry timers"
    assert not story.state.timers.rows


def test_the_firing_of_a_retry_says_whose_it_is() -> None:
    story, timer = retrying()
    story.wait(hours=1)
    (action,) = timers.reconcile(story.state, story.now)
    row = story.task("a")
    assert action.events == (
        TimerFired(
            timer_id=timer.timer_id,
            timer_type=TimerType.RETRY,
            fire_at=timer.fire_at,
            run_id=row.run_id,
            task_key=row.task_key,
            attempt=row.attempt,
        ),
    )


@pytest.mark.parametrize(
    "other",
    [
        {"timer_type": TimerType.CRON},
        {"fire_at": START},
        {"run_id": "run_2"},
        {"task_key": "other"},
        {"attempt": 7},
    ],
    ids=str,
)
def test_a_firing_that_says_something_else_than_the_timer_is_refused(
    other: dict[str, object],
) -> None:
    story, timer = retrying()
    story.wait(hours=1)
    answer = story.tell(replace(firing_of(timer), **other))
    assert answer.reason.startswith("timer_differs: ")
    assert story.task("a").state is TaskState.RETRY_WAIT


def test_the_id_of_a_retry_is_not_made_of_ids_that_could_be_taken_apart() -> None:
    """Joined, the run `r:1` and its task `x` would have the timer of run `r` and task `1:x`."""
    story, timer = retrying()
    for part in ("run_1", story.task("a").task_key):
        assert part not in timer.timer_id
