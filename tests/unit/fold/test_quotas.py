"""Every limit of a workspace can be set, bites, says why, and can be lifted again."""

from datetime import timedelta

import pytest

from servo.controllers import dispatch, planning, timers
from servo.controllers.fairness import Fairness
from servo.core.events.backfills import BackfillChunkPlanned
from servo.core.events.envelope import Answer
from servo.core.events.quotas import LaneWeightSet, QuotaSet
from servo.core.events.runs import BackfillSource, PlanCreated, RunRequested
from servo.core.fold.limits import DEFAULT_MAX_CONCURRENT_TASKS
from servo.core.fold.quotas import lane_weight
from servo.core.lanes import BACKFILLS, LaneWeight, lane_weights
from servo.core.quotas import QUOTAS, quota_set, workspace_limits
from servo.core.state.states import RunState
from servo.testing.backfills import backfill_created
from servo.testing.builders import Story, specs


def limited(**limits: int | None) -> Story:
    story = Story()
    assert story.tell(quota_set(limits)).applied
    return story


def plan(story: Story, run_id: str, *names: str) -> Answer:
    return story.tell(
        RunRequested(run_id=run_id, run_key=run_id, request_fingerprint="fp"),
        PlanCreated(run_id=run_id, fingerprint="plan", tasks=specs(dict.fromkeys(names, ()))),
    )


def chunk(story: Story, backfill: str, index: int = 0) -> Answer:
    run = f"{backfill}-{index}"
    source = BackfillSource(backfill_id=backfill, chunk_index=index)
    return story.tell(
        BackfillChunkPlanned(
            backfill_id=backfill,
            chunk_index=index,
            expected_state_version=1,
            partition_keys=(f"p{index}",),
            run_key=run,
            request_fingerprint="fp",
        ),
        RunRequested(run_id=run, run_key=run, request_fingerprint="fp", source=source),
    )


# --- each of them bites ---------------------------------------------------------------------------


def test_max_concurrent_tasks_leaves_a_task_ready() -> None:
    story = limited(max_concurrent_tasks=1)
    plan(story, "run_1", "a", "b")
    assert story.dispatch("a").applied
    assert dispatch.pick(story.state, 10, Fairness())[0] == []
    assert story.dispatch("b").reason == "no free task slot"


def test_max_concurrent_runs_lets_a_run_wait_until_one_ends() -> None:
    story = limited(max_concurrent_runs=1)
    plan(story, "run_1", "a")
    plan(story, "run_2", "b")
    assert story.run("run_2").state is RunState.PENDING
    assert planning.reconcile(story.state) == []
    story.execute("a", run_id="run_1")
    (admit,) = planning.reconcile(story.state)
    story.tell(*admit.events)
    assert story.run("run_2").state is RunState.RUNNING


def test_max_queued_tasks_leaves_a_task_ready() -> None:
    story = limited(max_queued_tasks=1)
    plan(story, "run_1", "a", "b")
    assert story.dispatch("a").applied
    assert dispatch.dispatch(story.state, Fairness())[0] == []
    assert story.dispatch("b").reason == "quota: too many tasks are waiting for a worker"


def test_max_daily_runs_refuses_the_request() -> None:
    story = limited(max_daily_runs=1)
    assert plan(story, "run_1", "a").applied
    assert plan(story, "run_2", "b").reason == "quota: no more runs today; the limit is 1"
    assert list(story.state.runs.rows) == ["run_1"]
    story.wait(hours=24)
    assert plan(story, "run_2", "b").applied


def test_max_run_duration_times_the_run_out() -> None:
    story = limited(max_run_duration_ms=60_000)
    plan(story, "run_1", "a")
    story.wait(seconds=61)
    for action in timers.reconcile(story.state, story.state.ts + timedelta(seconds=61)):
        story.tell(*action.events)
    assert story.run("run_1").state is RunState.TIMED_OUT


def test_max_tasks_per_run_refuses_the_plan_with_its_run() -> None:
    story = limited(max_tasks_per_run=1)
    answer = plan(story, "run_1", "a", "b")
    assert answer.reason == "quota: the plan has 2 tasks; the limit for a run is 1"
    assert list(story.state.runs.rows) == []


def test_max_backfill_concurrency_lets_chunks_wait() -> None:
    story = limited(max_backfill_concurrency=1)
    for name in ("one", "two"):
        assert story.tell(backfill_created("p0", "p1", name=name, chunk_size=1)).applied
    assert chunk(story, "one").applied
    assert chunk(story, "two").reason == "quota: no free run slot for backfills"


def test_these_are_all_limits_that_there_are() -> None:
    names = [name for name in QuotaSet.__struct_fields__ if name.startswith("max_")]
    assert [quota.name for quota in QUOTAS] == names
    tested = {name.removeprefix("test_") for name in globals() if name.startswith("test_max_")}
    for name in names:
        assert any(test.startswith(name.removesuffix("_ms")) for test in tested), name


# --- set, shown and lifted ------------------------------------------------------------------------


def test_a_limit_that_is_lifted_is_none_and_the_others_stay() -> None:
    story = limited(max_concurrent_runs=0, max_daily_runs=5)
    assert story.tell(quota_set({"max_concurrent_runs": None})).applied
    row = story.state.quotas.rows["workspace", ""]
    assert (row.max_concurrent_runs, row.max_daily_runs) == (None, 5)
    plan(story, "run_1", "a")
    assert story.run("run_1").state is RunState.RUNNING


@pytest.mark.parametrize(
    "event",
    [
        QuotaSet(lifted=("max_everything",)),
        QuotaSet(lifted=("v",)),
        QuotaSet(max_daily_runs=1, lifted=("max_daily_runs",)),
    ],
)
def test_only_a_limit_can_be_lifted_and_not_while_it_is_set(event: QuotaSet) -> None:
    story = Story()
    assert "is not a limit, or is both set and lifted" in story.tell(event).reason
    assert not list(story.state.quotas.rows)


def test_limits_are_shown_with_their_defaults() -> None:
    assert {row.name: row.limit for row in workspace_limits(None) if row.limit is not None} == {
        "max_concurrent_tasks": DEFAULT_MAX_CONCURRENT_TASKS,
        "max_tasks_per_run": 1_000_000,
    }
    story = limited(max_daily_runs=0)
    found = workspace_limits(story.state.quotas.rows["workspace", ""])
    assert [(row.name, row.limit) for row in found if not row.is_default] == [("max_daily_runs", 0)]


def test_lanes_are_shown_with_their_weights_the_heaviest_first() -> None:
    story = Story()
    story.tell(LaneWeightSet(lane=BACKFILLS, weight=300), LaneWeightSet(lane="mine", weight=7))
    given = {lane: lane_weight(story.state, lane) for lane in (BACKFILLS, "mine")}
    assert [(row.lane, row.weight) for row in lane_weights(given)] == [
        ("interactive", 800),
        ("schedules", 400),
        ("backfills", 300),
        ("automation", 200),
        ("mine", 7),
    ]
    assert lane_weights(given)[-1] == LaneWeight(lane="mine", weight=7, default=100)
