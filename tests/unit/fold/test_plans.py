"""Rules of runs and their plans: who gets which, how large, for how long, and in which pieces."""

from collections.abc import Mapping, Sequence
from datetime import timedelta

import pytest

from servo.core.events.envelope import Batch, Event, Status
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
    ScheduleSource,
)
from servo.core.events.tasks import TaskOutcome
from servo.core.fold.apply import needs
from servo.core.fold.limits import MAX_TASKS_PER_RUN, PLAN_TIMEOUT
from servo.core.plan import TaskSpec
from servo.core.retry import RetryRules
from servo.core.state.states import RunState, RunTransitionReason, TransitionReason
from servo.testing.builders import START, Story, dump, specs, task_key

MOMENT = timedelta(microseconds=1)
ONCE = RetryRules(max_attempts=1, max_infra_retries=0)
Graph = Mapping[str, Sequence[str]]


def planned(*segments: Graph) -> tuple[Story, list[PlanSegmentExpanded]]:
    """A run planned in these segments, and the intents that expand them."""
    story = Story()
    story.request()
    parts: list[PlanSegment] = []
    for index, graph in enumerate(segments):
        parts.append(PlanSegment(digest=f"part-{index}", count=len(graph)))
        story.state.plan_segments[f"part-{index}"] = specs(graph, retry=ONCE)
    plan = PlanCreated(run_id="run_1", fingerprint="plan", segments=tuple(parts))
    assert story.tell(plan).applied
    return story, [
        PlanSegmentExpanded(run_id="run_1", index=index, digest=part.digest)
        for index, part in enumerate(parts)
    ]


# --- runs asked for -------------------------------------------------------------------------------


def test_the_daily_limit_refuses_the_next_run_and_a_new_day_begins_anew() -> None:
    story = Story()
    story.tell(QuotaSet(max_daily_runs=2))
    assert [story.request(f"run_{number}").reason for number in (1, 2, 3)] == [
        "",
        "",
        "quota: no more runs today; the limit is 2",
    ]
    assert list(story.state.runs.rows) == ["run_1", "run_2"]
    story.wait(hours=24)
    assert story.request("run_3").applied
    quota = story.state.quotas.rows["workspace", ""]
    assert (quota.daily_runs_day, quota.daily_runs_count) == ("2026-01-02", 1)


def test_a_run_asked_for_again_does_not_count_against_the_day() -> None:
    story = Story()
    story.tell(QuotaSet(max_daily_runs=1))
    story.request("run_1")
    assert story.request("run_1").repeated


def test_a_run_id_belongs_to_one_run_key() -> None:
    story = Story()
    story.request("run_1", run_key="mine")
    answer = story.request("run_1", run_key="yours")
    assert answer.reason == "the run id run_1 belongs to another run key"
    assert list(story.state.run_keys.rows) == ["mine"]


def test_another_request_under_a_run_key_is_recorded_once_as_a_conflict() -> None:
    story = Story()
    story.request("run_1", run_key="mine")
    first = story.request("run_2", run_key="mine", request_fingerprint="other")
    before = dump(story.state)
    second = story.request("run_3", run_key="mine", request_fingerprint="other")
    for answer in (first, second):
        assert (answer.status, answer.data) == (Status.CONFLICT, {"run_id": "run_1"})
    assert dump(story.state) == before
    (conflict,) = story.state.run_key_conflicts.values()
    assert (conflict.existing_run_id, conflict.conflicting_fingerprint) == ("run_1", "other")
    assert list(story.state.runs.rows) == ["run_1"]


def test_a_conflict_among_other_news_does_not_hold_them_up() -> None:
    story = Story()
    story.request("run_1", run_key="mine")
    conflict = RunRequested(run_id="run_2", run_key="mine", request_fingerprint="other")
    plan = PlanCreated(run_id="run_1", fingerprint="plan", tasks=specs({"a": ()}))
    answer = story.tell(conflict, plan)
    assert (answer.applied, answer.reason.partition(":")[0]) == (True, "run_key_conflict")
    assert story.states() == {"a": "READY"}


def test_the_run_of_a_schedule_looks_up_its_tick() -> None:
    source = ScheduleSource(schedule_id="daily", tick_id="daily:0")
    request = RunRequested(run_id="run_1", run_key="k", request_fingerprint="f", source=source)
    assert ("schedule_ticks", "daily:0") in needs(Batch(id="b", events=(request,)))


@pytest.mark.parametrize(
    "event",
    [
        RunAdmitted(run_id="run_1"),
        RunCancelRequested(run_id="run_1"),
        RunDeadlineExceeded(run_id="run_1"),
        PlanFailed(run_id="run_1", error="too late"),
        PlanDeadlineExceeded(run_id="run_1"),
        PlanSegmentExpanded(run_id="run_1", index=0, digest="part-0"),
    ],
)
def test_nothing_can_happen_to_a_run_that_is_over(event: Event) -> None:
    story = Story()
    story.plan({"a": ()})
    story.execute("a")
    before = dump(story.state)
    story.wait(days=2)
    assert story.tell(event).reason == "the run has already ended"
    assert dump(story.state) == before


# --- plans ----------------------------------------------------------------------------------------


def test_a_plan_of_no_run_is_refused() -> None:
    story = Story()
    plan = PlanCreated(run_id="run_1", fingerprint="plan")
    answer = story.tell(plan)
    assert (answer.status, answer.reason) == (Status.REJECTED, "unknown_run")


def test_a_plan_is_either_inline_or_in_segments() -> None:
    story = Story()
    story.request()
    segment = PlanSegment(digest="part-0", count=1)
    both = PlanCreated(
        run_id="run_1", fingerprint="plan", tasks=specs({"a": ()}), segments=(segment,)
    )
    assert (
        story.tell(both).reason
        == "invalid_plan: a plan lists its tasks either inline or in segments, not both"
    )
    assert not story.run().plan_fingerprint


@pytest.mark.parametrize(("quota", "limit"), [(2, 2), (MAX_TASKS_PER_RUN + 5, MAX_TASKS_PER_RUN)])
def test_a_plan_is_no_larger_than_the_quota_and_never_than_the_limit(
    quota: int, limit: int
) -> None:
    story = Story()
    story.tell(QuotaSet(max_tasks_per_run=quota))
    for run_id, count in (("run_1", limit), ("run_2", limit + 1)):
        story.request(run_id)
        segments = (PlanSegment(digest="part-0", count=count),)
        story.tell(PlanCreated(run_id=run_id, fingerprint="plan", segments=segments))
    assert story.run("run_1").task_count == limit
    assert not story.run("run_2").plan_fingerprint


@pytest.mark.parametrize(
    ("tasks", "reason"),
    [
        (specs({"a": ()}) * 2, f"{task_key('a')} is in the plan twice"),
        (
            specs({"a": ("b",)}),
            f"{task_key('a')} depends on {task_key('b')}, which is not in the plan",
        ),
        (
            specs({"a": ("a",)}),
            f"{task_key('a')} depends on {task_key('a')}, which is not in the plan",
        ),
    ],
)
def test_a_plan_that_makes_no_sense_is_refused_whole(
    tasks: tuple[TaskSpec, ...], reason: str
) -> None:
    story = Story()
    story.request()
    before = dump(story.state)
    answer = story.tell(PlanCreated(run_id="run_1", fingerprint="plan", tasks=tasks))
    assert answer.reason == f"invalid_plan: {reason}"
    assert dump(story.state) == before


@pytest.mark.parametrize(
    ("asked_ms", "granted"), [(90_000, timedelta(minutes=1)), (30_000, timedelta(seconds=30))]
)
def test_a_run_gets_no_more_time_than_the_workspace_allows(
    asked_ms: int, granted: timedelta
) -> None:
    story = Story()
    story.tell(QuotaSet(max_run_duration_ms=60_000))
    story.request(timeout_ms=asked_ms)
    story.tell(PlanCreated(run_id="run_1", fingerprint="plan", tasks=specs({"a": ()})))
    run = story.run()
    assert run.started_at is not None
    assert run.deadline == run.started_at + granted


def test_only_a_planned_run_that_waits_is_admitted() -> None:
    story = Story()
    story.request("run_1")
    story.plan({"a": ()}, "run_2")
    for run_id in ("run_1", "run_2"):
        answer = story.tell(RunAdmitted(run_id=run_id))
        assert answer.reason == "the run is not waiting for a slot"


# --- segments -------------------------------------------------------------------------------------


def test_segments_are_expanded_in_order_and_once() -> None:
    story, (first, second) = planned({"a": ()}, {"b": ("a",)})
    beyond = PlanSegmentExpanded(run_id="run_1", index=2, digest="part-1")
    answers = [story.tell(event) for event in (second, first, first, second, beyond)]
    refused = "the segment is not the next one"
    assert [answer.reason for answer in answers] == [refused, "", refused, "", refused]
    assert story.states() == {"a": "READY", "b": "BLOCKED"}
    edge = dump(story.state)["dep_satisfaction"]["run_1", task_key("a"), task_key("b")]
    assert (edge.resolution, edge.satisfied_at, edge.satisfying_attempt) == (None, None, None)


@pytest.mark.parametrize(
    "stored",
    [
        pytest.param({}, id="missing"),
        pytest.param({"part-0": specs({"a": (), "b": ()})}, id="of another size"),
    ],
)
def test_a_segment_that_is_not_what_the_plan_says_is_refused(
    stored: dict[str, tuple[TaskSpec, ...]],
) -> None:
    story, (first,) = planned({"a": ()})
    story.state.plan_segments.clear()
    story.state.plan_segments.update(stored)
    assert story.tell(first).reason == "invalid_plan: the segment does not match the plan"
    assert not story.state.tasks.rows


def test_the_segment_of_another_plan_is_refused() -> None:
    story, _ = planned({"a": ()})
    story.state.plan_segments["stranger"] = specs({"b": ()})
    other = PlanSegmentExpanded(run_id="run_1", index=0, digest="stranger")
    assert story.tell(other).reason == "invalid_plan: the segment does not match the plan"
    assert not story.state.tasks.rows


def test_a_task_planned_in_an_earlier_segment_is_not_planned_again() -> None:
    story, (first, second) = planned({"a": ()}, {"b": ("a",), "a": ()})
    story.tell(first)
    assert story.tell(second).reason == f"invalid_plan: {task_key('a')} is in the plan twice"
    assert story.states() == {"a": "READY"}


@pytest.mark.parametrize(
    ("outcome", "state", "reason", "end"),
    [
        (
            TaskOutcome.FAILED,
            "SKIPPED",
            TransitionReason.UPSTREAM_FAILED,
            RunState.FAILED,
        ),
        (
            TaskOutcome.SKIPPED,
            "SKIPPED",
            TransitionReason.UPSTREAM_SKIPPED,
            RunState.SUCCEEDED,
        ),
        (
            TaskOutcome.SUCCEEDED,
            "READY",
            TransitionReason.DEPENDENCIES_SATISFIED,
            RunState.RUNNING,
        ),
    ],
)
def test_a_task_made_after_its_upstream_ended_is_decided_at_once(
    outcome: TaskOutcome, state: str, reason: TransitionReason, end: RunState
) -> None:
    story, (first, second) = planned({"a": ()}, {"b": ("a",)})
    story.tell(first)
    story.execute("a", outcome)
    assert story.run().state is RunState.RUNNING
    story.tell(second)
    assert (story.states()["b"], story.task("b").reason) == (state, reason)
    edge = dump(story.state)["dep_satisfaction"]["run_1", task_key("a"), task_key("b")]
    assert (edge.satisfied, edge.satisfied_at) == (state == "READY", story.state.ts)
    assert edge.satisfying_attempt == 1
    assert story.run().state is end


# --- plans that fail, runs that take too long -----------------------------------------------------


def test_a_run_whose_plan_is_complete_can_no_longer_fail_to_be_planned() -> None:
    story, (first,) = planned({"a": ()})
    story.tell(first)
    failed = PlanFailed(run_id="run_1", error="too late")
    assert story.tell(failed).reason == "the run already has a plan"
    assert story.run().state is RunState.RUNNING


def test_a_run_whose_stored_plan_is_damaged_is_stopped_and_says_why() -> None:
    story, (first, _) = planned({"a": ()}, {"b": ("a",)})
    story.tell(first)
    story.start("a")
    assert story.tell(PlanFailed(run_id="run_1", error="part-1 is gone")).applied
    run = story.run()
    assert (run.state, run.reason, run.error) == (
        RunState.CANCELLING,
        RunTransitionReason.SYSTEM_CANCELLED,
        "part-1 is gone",
    )
    story.finish("a")
    assert (story.run().state, story.run().tasks_cancelled) == (RunState.CANCELLED, 2)


def test_a_run_that_cannot_be_planned_fails_and_says_why() -> None:
    story = Story()
    story.request()
    assert story.tell(PlanFailed(run_id="run_1", error="there is a cycle")).applied
    run = story.run()
    assert (run.state, run.reason, run.error) == (
        RunState.FAILED,
        RunTransitionReason.PLAN_FAILED,
        "there is a cycle",
    )


def test_a_run_has_its_time_to_be_planned() -> None:
    story = Story()
    story.request()
    overdue = PlanDeadlineExceeded(run_id="run_1")
    story.now = START + PLAN_TIMEOUT - MOMENT
    assert story.tell(overdue).reason == "the deadline for the plan has not passed"
    story.now = START + PLAN_TIMEOUT
    assert story.tell(overdue).applied
    assert story.run().reason is RunTransitionReason.PLAN_TIMED_OUT


def test_a_planned_run_cannot_be_late_for_its_plan() -> None:
    story = Story()
    story.plan({"a": ()})
    story.wait(hours=1)
    answer = story.tell(PlanDeadlineExceeded(run_id="run_1"))
    assert answer.reason == "the deadline for the plan has not passed"


def test_a_run_that_waits_for_a_slot_uses_up_none_of_its_time() -> None:
    story = Story()
    story.tell(QuotaSet(max_concurrent_runs=0))
    story.plan({"a": ()})
    story.wait(days=2)
    answer = story.tell(RunDeadlineExceeded(run_id="run_1"))
    assert (answer.status, answer.reason) == (
        Status.REJECTED,
        "the deadline of the run has not passed",
    )


def test_a_run_has_its_time_and_is_stopped_once() -> None:
    story = Story()
    story.plan({"a": ()})
    story.start("a")
    overdue, deadline = RunDeadlineExceeded(run_id="run_1"), story.run().deadline
    assert deadline is not None
    story.now = deadline - MOMENT
    assert story.tell(overdue).reason == "the deadline of the run has not passed"
    story.now = deadline
    assert story.tell(overdue).applied
    stopped = story.run()
    assert stopped.timed_out
    assert story.tell(overdue).reason == "the run is already being cancelled"
    assert story.run() == stopped
