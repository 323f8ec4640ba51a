"""The index says of the rows in memory what one made from them anew would say."""

from collections.abc import Callable

import pytest

from servo.core.events.dispatch import CancelGraceExpired, DispatchRequested
from servo.core.events.envelope import Event, Status
from servo.core.events.quotas import QuotaSet
from servo.core.events.runs import (
    PlanCreated,
    RunAdmitted,
    RunCancelRequested,
    RunRequested,
)
from servo.core.events.tasks import TaskOutcome
from servo.core.events.timers import TimerRequested, TimerType
from servo.core.state.state import State
from servo.testing.backfills import backfill_chunk, backfill_created
from servo.testing.builders import START, Story, dump, specs, task_key

HINTS = ("timers_due", "runs_due")
REFUSED = RunAdmitted(run_id="nobody")


def index_of(state: State) -> dict[str, object]:
    """All there is in an index but the heaps, which hold hints."""
    return {name: value for name, value in vars(state.index).items() if name not in HINTS}


def rebuilt(state: State) -> State:
    """A state with the same rows, loaded from nothing."""
    again = State(state.tenant, state.workspace)
    for name, table in state.tables.items():
        again.hydrate(name, table.values())
    return again


def _request() -> tuple[Story, list[Event]]:
    event = RunRequested(run_id="run_1", run_key="k", request_fingerprint="f")
    return Story(), [event, PlanCreated(run_id="run_1", fingerprint="p", tasks=specs({"a": ()}))]


def _plan() -> tuple[Story, list[Event]]:
    story = Story()
    story.request()
    tasks = specs({"a": (), "b": ("a",)})
    return story, [PlanCreated(run_id="run_1", fingerprint="p", tasks=tasks)]


def _delivery() -> tuple[Story, list[Event]]:
    story = Story()
    story.plan({"a": ()}, pool="db")
    return story, [DispatchRequested(run_id="run_1", task_key=task_key("a"), attempt=1)]


def _cancel() -> tuple[Story, list[Event]]:
    story, (event,) = _delivery()
    story.tell(event)
    return story, [RunCancelRequested(run_id="run_1")]


def _success() -> tuple[Story, list[Event]]:
    story = Story()
    story.plan({"a": (), "b": ("a",)})
    story.start("a")
    return story, [story.finished("a")]


def _failure() -> tuple[Story, list[Event]]:
    story = Story()
    story.plan({"a": (), "b": ("a",)})
    story.start("a")
    return story, [story.finished("a", TaskOutcome.FAILED)]


def _limit() -> tuple[Story, list[Event]]:
    return Story(), [QuotaSet(max_concurrent_runs=1)]


def _chunk() -> tuple[Story, list[Event]]:
    story = Story()
    created = backfill_created("day=d:2025-01-01")
    story.tell(created)
    return story, [*backfill_chunk(created)]


def _release() -> tuple[Story, list[Event]]:
    story = Story()
    story.request()
    waiting = DispatchRequested(run_id="run_1", task_key=task_key("a"), attempt=1)
    assert story.tell(waiting, parkable=True).status is Status.PARKED
    return story, [PlanCreated(run_id="run_1", fingerprint="p", tasks=specs({"a": ()}))]


def _late_report() -> tuple[Story, list[Event]]:
    """A report that comes after its task was given up has the edges below it written first."""
    story = Story()
    story.plan({"a": (), "b": ("a",)})
    story.start("a")
    story.tell(RunCancelRequested(run_id="run_1"))
    story.wait(hours=1)
    row = story.task("a")
    expired = CancelGraceExpired(
        run_id="run_1", task_key=row.task_key, attempt_id=row.attempt_id, exec_id=row.exec_id
    )
    assert story.tell(expired).applied
    return story, [story.finished("a")]


Told = Callable[[], tuple[Story, list[Event]]]
EACH = pytest.mark.parametrize(
    "told",
    [
        _request,
        _plan,
        _delivery,
        _cancel,
        _success,
        _failure,
        _late_report,
        _limit,
        _chunk,
        _release,
    ],
)


@EACH
def test_a_batch_that_is_refused_at_its_end_leaves_no_trace(told: Told) -> None:
    story, events = told()
    rows, index = dump(story.state), index_of(rebuilt(story.state))
    assert story.tell(*events, REFUSED).reason == "unknown_run"
    assert dump(story.state) == rows
    assert index_of(story.state) == index


@EACH
def test_the_index_of_what_was_applied_is_that_of_the_rows(told: Told) -> None:
    story, events = told()
    before = dump(story.state)
    assert story.tell(*events).applied
    assert dump(story.state) != before
    assert index_of(story.state) == index_of(rebuilt(story.state))


@EACH
def test_rows_that_leave_memory_leave_the_index(told: Told) -> None:
    story, events = told()
    story.tell(*events)
    for table in story.state.tables.values():
        for key in list(table.rows):
            table.evict(key)
    assert index_of(story.state) == index_of(State("acme", "prod"))


def test_the_rows_of_a_run_are_found_by_its_id() -> None:
    story = Story()
    story.plan({"a": (), "b": ("a",)})
    story.start("a")
    attempt = story.task("a").attempt_id
    story.finish("a", TaskOutcome.FAILED)
    story.tell(
        TimerRequested(timer_id="sla", timer_type=TimerType.SLA_CHECK, fire_at=START),
        TimerRequested(
            timer_id="mine", timer_type=TimerType.SLA_CHECK, fire_at=START, run_id="run_1"
        ),
    )
    (retry,) = (row for row in story.state.timers.values() if row.timer_type is TimerType.RETRY)
    index, above, below = story.state.index, task_key("a"), task_key("b")
    assert index.run_tasks == {"run_1": {above: None, below: None}}
    assert index.run_edges == {"run_1": {("run_1", above, below): None}}
    assert index.downstream == {("run_1", above): {below: None}}
    assert index.run_outbox == {"run_1": {(attempt, 1): None}}
    assert index.run_timers == {"run_1": {retry.timer_id: None, "mine": None}}


def test_tasks_wait_by_lane_place_and_priority_and_leave_nothing_behind() -> None:
    story = Story()
    story.request(lane="bulk", location="a.py")
    tasks = (
        *specs({"a": (), "b": ()}, pool="db"),
        *specs({"c": ()}, pool="db", priority=5),
        *specs({"d": ()}),
    )
    story.tell(PlanCreated(run_id="run_1", fingerprint="p", tasks=tasks))
    seen: list[dict[tuple[str, str], dict[int, int]]] = []
    for name in "abcd":
        story.dispatch(name)
        lanes = story.state.index.ready
        seen.append(
            {
                place: {priority: len(keys) for priority, keys in priorities.items()}
                for place, priorities in lanes.get("bulk", {}).items()
            }
        )
    db, none = ("a.py", "db"), ("a.py", "")
    assert seen == [
        {db: {0: 1, 5: 1}, none: {0: 1}},
        {db: {5: 1}, none: {0: 1}},
        {none: {0: 1}},
        {},
    ]
    assert story.state.index.ready == {}
    assert story.state.index.ready_count == 0


def test_a_pool_counts_the_attempts_that_hold_its_slots() -> None:
    story = Story()
    story.plan({"a": (), "b": ()}, pool="db")
    counts: list[int | None] = []
    for act in (story.start, story.finish):
        for name in "ab":
            act(name)
            counts.append(story.state.index.pool_active.get("db"))
    assert counts == [1, 2, 1, None]
