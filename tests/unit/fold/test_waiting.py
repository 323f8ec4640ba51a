"""Whatever can be parked is released by what it waits for, in the same entry."""

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from servo.core.events.assets import CheckEvaluated
from servo.core.events.envelope import Event, Status, WaitsUntil
from servo.core.events.quotas import QuotaSet
from servo.core.events.runs import (
    PlanCreated,
    PlanDeadlineExceeded,
    PlanFailed,
    PlanSegment,
    PlanSegmentExpanded,
    RunAdmitted,
    RunCancelRequested,
    RunDeadlineExceeded,
    RunRequested,
)
from servo.core.events.tasks import TaskFinished, TaskOutcome, TaskStarted
from servo.core.events.timers import TimerRequested, TimerType
from servo.core.plan import chunk_bytes, chunk_digest, normalize, split
from servo.core.state.states import RunState
from servo.testing.builders import START, Story, specs, task_key

FACT: dict[str, Any] = {
    "run_id": "run_1",
    "task_key": task_key("a"),
    "attempt_id": "att",
    "exec_id": "e",
}
REQUEST = RunRequested(run_id="run_1", run_key="k", request_fingerprint="f")
PLAN = PlanCreated(run_id="run_1", fingerprint="p", tasks=specs({"a": ()}))
LATER = START + timedelta(days=9)

WAITING: list[tuple[Event, WaitsUntil]] = [
    (PLAN, WaitsUntil.REQUESTED),
    (PlanFailed(run_id="run_1", error="no"), WaitsUntil.REQUESTED),
    (PlanSegmentExpanded(run_id="run_1", index=0, digest="0" * 64), WaitsUntil.REQUESTED),
    (PlanDeadlineExceeded(run_id="run_1"), WaitsUntil.REQUESTED),
    (RunAdmitted(run_id="run_1"), WaitsUntil.REQUESTED),
    (RunCancelRequested(run_id="run_1"), WaitsUntil.REQUESTED),
    (RunDeadlineExceeded(run_id="run_1"), WaitsUntil.REQUESTED),
    (TaskStarted(**FACT), WaitsUntil.PLANNED),
    (TaskFinished(**FACT, outcome=TaskOutcome.SUCCEEDED), WaitsUntil.PLANNED),
    (CheckEvaluated(**FACT, asset_key="ns/a", check_name="c", passed=True), WaitsUntil.PLANNED),
    (
        TimerRequested(timer_id="t", timer_type=TimerType.CRON, fire_at=LATER, run_id="run_1"),
        WaitsUntil.ACTIVE,
    ),
]


def name_of(value: object) -> str:
    return type(value).__name__ if isinstance(value, Event) else str(value)


@pytest.mark.parametrize(("event", "until"), WAITING, ids=name_of)
def test_a_parked_batch_is_released_by_what_it_waits_for_and_not_before(
    event: Event, until: WaitsUntil
) -> None:
    story = Story()
    story.tell(QuotaSet(max_concurrent_runs=0))
    assert story.tell(event, parkable=True).status is Status.PARKED
    (parked,) = story.state.parked.rows.values()
    assert (parked.waits_for_run_id, parked.waits_until) == ("run_1", until)
    steps: list[tuple[WaitsUntil, tuple[Event, ...]]] = [
        (WaitsUntil.REQUESTED, (REQUEST,)),
        (WaitsUntil.PLANNED, (PLAN,)),
        (WaitsUntil.ACTIVE, (QuotaSet(max_concurrent_runs=1), RunAdmitted(run_id="run_1"))),
    ]
    for reached, events in steps:
        assert story.tell(*events).applied
        released = not story.state.parked.rows
        assert released == (reached is until), reached
        if released:
            break


def test_a_plan_that_came_before_its_run_plans_it() -> None:
    story = Story()
    story.tell(PLAN, parkable=True)
    story.tell(REQUEST)
    assert story.run("run_1").state is RunState.RUNNING
    assert story.task("a", "run_1").state.value == "READY"
    assert not story.state.dead_letter.rows


def test_what_came_in_the_wrong_order_is_applied_in_the_right_one() -> None:
    story = Story()
    story.tell(RunCancelRequested(run_id="run_1"), parkable=True)
    story.tell(PLAN, parkable=True)
    story.tell(REQUEST)
    assert story.run("run_1").state is RunState.CANCELLED


def test_a_fact_about_a_task_of_a_later_segment_waits_for_that_segment() -> None:
    story = Story()
    chunks = list(split(normalize(specs({"a": (), "b": ("a",)})), 1))
    digests = [chunk_digest(chunk_bytes(chunk)) for chunk in chunks]
    for digest, chunk in zip(digests, chunks, strict=True):
        story.state.plan_segments[digest] = chunk.tasks
    early = replace(TaskStarted(**FACT), task_key=task_key("b"))
    assert story.tell(early, parkable=True).status is Status.PARKED
    segments = tuple(PlanSegment(digest=digest, count=1) for digest in digests)
    story.tell(REQUEST, PlanCreated(run_id="run_1", fingerprint="p", segments=segments))
    assert story.state.parked.rows
    for index, digest in enumerate(digests):
        story.state.plan_segments.update(
            {one: chunk.tasks for one, chunk in zip(digests, chunks, strict=True)}
        )
        assert bool(story.state.parked.rows)
        assert story.tell(PlanSegmentExpanded(run_id="run_1", index=index, digest=digest)).applied
    assert not story.state.parked.rows


def test_a_request_that_repeats_another_run_releases_nothing() -> None:
    story = Story()
    story.tell(REQUEST)
    story.tell(RunCancelRequested(run_id="run_2"), parkable=True)
    (before,) = story.state.parked.rows.values()
    again = RunRequested(run_id="run_2", run_key="k", request_fingerprint="f")
    assert story.tell(again).data["run_id"] == "run_1"
    assert list(story.state.parked.rows.values()) == [before]


def test_nothing_waits_for_a_run_that_is_over() -> None:
    story = Story()
    story.tell(REQUEST)
    story.tell(PlanFailed(run_id="run_1", error="no"))
    for event, _ in WAITING:
        answer = story.tell(event, parkable=True)
        assert answer.status is not Status.PARKED, event
