"""The retry policy of a job applies to its runs, whoever starts them."""

import logging
from datetime import UTC, datetime
from typing import Any

import pytest

from servo import (
    AssetKey,
    Definitions,
    HookContext,
    RetryPolicy,
    RunRequest,
    ScheduleDefinition,
    StaticPartitionsDefinition,
    asset,
    asset_check,
    define_asset_job,
    failure_hook,
    sensor,
)
from servo.code.evaluator.backfills import plan_chunks
from servo.code.evaluator.loaded_location import EvaluatorEnvironment, LoadedLocation
from servo.code.evaluator.messages import (
    Evaluated,
    EvaluateSensor,
    EvaluateTick,
    PlanChunks,
    PlanRetry,
    PlanRun,
    Refused,
    RunPlanned,
)
from servo.code.evaluator.plan_store import PlanStore
from servo.code.evaluator.run_plans import plan_retry, plan_run
from servo.code.evaluator.schedules import evaluate_tick, tick_id
from servo.code.evaluator.sensors import evaluate_sensor
from servo.core.events.backfills import BackfillState, ExplicitSelector
from servo.core.keys import TaskOperation
from servo.core.retry import RetryRules
from servo.core.state.rows.automation import BackfillRow
from servo.core.state.rows.execution import TaskRow
from servo.core.state.states import TaskState, TransitionReason
from servo.core.tags import JOB_LABEL
from servo.errors import Invalid
from servo.execution.attempt import failed
from servo.execution.hooks import Hooks
from servo.leader.assignments import Assignment
from servo.sdk.definitions.project import Project
from servo.workspace.instance.instance import ServoInstance

NOW = datetime(2025, 1, 15, 6, tzinfo=UTC)
LETTERS = StaticPartitionsDefinition(["a", "b"])


@asset
def orders() -> int:
    return 1


@asset(retry_policy=RetryPolicy(max_retries=1))
def careful() -> int:
    return 1


@asset(partitions_def=LETTERS)
def letter() -> int:
    return 1


@asset_check(asset=orders)
def positive() -> bool:
    return True


@sensor(name="look", job_name="nightly")
def look() -> RunRequest:
    return RunRequest(run_key="one")


NIGHTLY = define_asset_job(
    "nightly", [orders, careful], op_retry_policy=RetryPolicy(max_retries=4, delay=2)
)
LETTERED = define_asset_job("lettered", [letter], op_retry_policy=RetryPolicy(max_retries=4))
PLAIN = define_asset_job("plain", [orders])
TICKS = ScheduleDefinition(name="ticks", cron_schedule="0 6 * * *", job=NIGHTLY)
ONCE = (1, 30_000)
POLICIES = {"orders": (5, 2000), "careful": (2, 0)}
"""What the tasks of a run of `nightly` have: attempts, and the delay between them."""


def project(**fields: Any) -> Project:
    jobs = [NIGHTLY, LETTERED, PLAIN]
    given: dict[str, Any] = {"jobs": jobs, "sensors": [look], "schedules": [TICKS], **fields}
    return Definitions([orders, careful, letter], asset_checks=[positive], **given).project()


def location(found: Project | None = None) -> LoadedLocation:
    instance = ServoInstance.ephemeral()
    around = EvaluatorEnvironment(
        clock=instance.world.clock,
        entropy=instance.world.entropy,
        log=logging.getLogger("test"),
        environ={},
        instance=lambda: instance,
    )
    records = PlanStore(store=instance.world.store, paths=instance.paths, salt=bytes(32))
    return LoadedLocation(found or project(), records, around)


def policies(tasks: Any) -> dict[str, tuple[int, int]]:
    return {task.asset_key: (task.retry.max_attempts, task.retry.delay_ms) for task in tasks}


def of_plan(answer: RunPlanned | Refused) -> dict[str, tuple[int, int]]:
    assert isinstance(answer, RunPlanned), answer
    return policies(answer.plan.tasks)


def of_run(answer: Evaluated) -> dict[str, tuple[int, int]]:
    assert not answer.error, answer
    return policies(answer.runs[0].planned.tasks)


def test_a_run_of_the_job_has_its_policy_where_an_asset_has_none() -> None:
    assert of_plan(plan_run(location(), PlanRun(job="nightly"))) == POLICIES


def test_no_other_run_has_it() -> None:
    assert of_plan(plan_run(location(), PlanRun(job="plain"))) == {"orders": ONCE}
    assert of_plan(plan_run(location(), PlanRun(select=("orders",)))) == {"orders": ONCE}


def test_it_goes_before_the_policy_of_the_project() -> None:
    found = project()
    found.default_retry = RetryRules(max_attempts=9)
    assert of_plan(plan_run(location(found), PlanRun(job="nightly"))) == POLICIES
    assert of_plan(plan_run(location(found), PlanRun(job="plain")))["orders"][0] == 9


def test_checks_that_run_alone_have_it() -> None:
    answer = plan_run(location(), PlanRun(job="nightly", checks_only=True))
    assert of_plan(answer) == {"orders": (5, 2000)}


def test_runs_of_schedules_have_it() -> None:
    tick = EvaluateTick(schedule_id="ticks", tick_id=tick_id("ticks", NOW), scheduled_for=NOW)
    assert of_run(evaluate_tick(location(), tick)) == POLICIES


def test_runs_of_sensors_have_it() -> None:
    question = EvaluateSensor(sensor_id="look", eval_id="e1")
    assert of_run(evaluate_sensor(location(), question)) == POLICIES


def test_a_plan_that_two_jobs_share_keeps_them_apart() -> None:
    here = location(
        project(
            schedules=[
                TICKS,
                ScheduleDefinition(
                    name="same",
                    cron_schedule="0 6 * * *",
                    job=define_asset_job("same", [orders, careful]),
                ),
            ]
        )
    )
    found = {
        name: of_run(
            evaluate_tick(
                here,
                EvaluateTick(schedule_id=name, tick_id=tick_id(name, NOW), scheduled_for=NOW),
            )
        )
        for name in ("ticks", "same")
    }
    assert found == {"ticks": POLICIES, "same": {"orders": ONCE, "careful": (2, 0)}}


@pytest.mark.parametrize(
    ("job", "attempts"), [("nightly", 5), ("plain", 1), ("gone", 1), (None, 1)]
)
def test_a_retry_has_the_policy_of_the_job_as_it_is_now(job: str | None, attempts: int) -> None:
    task = TaskRow(
        run_id="r",
        task_key="orders:materialize",
        asset_key="orders",
        state=TaskState.FAILED,
        reason=TransitionReason.PLANNED,
        transitioned_at=NOW,
        row_version=1,
    )
    answer = plan_retry(location(), PlanRetry(run_id="r", job=job, tasks=(task,)))
    assert of_plan(answer)["orders"][0] == attempts


def test_runs_of_a_backfill_of_the_job_have_it() -> None:
    row = BackfillRow(
        backfill_id="b",
        client_request_id="c",
        request_fingerprint="f",
        asset_selection=("letter",),
        selector=ExplicitSelector(count=2),
        partition_keys=tuple(LETTERS.typed_key(key).canonical() for key in ("a", "b")),
        state=BackfillState.RUNNING,
        total_partitions=2,
        total_chunks=1,
        chunk_size=2,
        max_concurrent_runs=1,
        labels={JOB_LABEL: "lettered"},
        created_at=NOW,
        row_version=1,
    )
    (answer,) = plan_chunks(location(), PlanChunks(backfill=row, chunks=(0,))).answers
    assert of_run(answer) == {"letter": (5, 0)}


def test_a_job_that_only_a_schedule_mentions_is_known() -> None:
    found = project(jobs=[PLAIN], sensors=[])
    assert found.job("nightly") is NIGHTLY


@pytest.mark.parametrize("operation", [TaskOperation.MATERIALIZE, TaskOperation.CHECK])
def test_a_failure_hook_waits_for_the_last_retry_of_the_job(operation: TaskOperation) -> None:
    seen: list[str] = []

    @failure_hook
    def tell(context: HookContext) -> None:
        seen.append(str(context.asset_key))

    job = define_asset_job(
        "once_more", [orders], hooks=[tell], op_retry_policy=RetryPolicy(max_retries=1)
    )
    hooks = Hooks(project(jobs=[job, NIGHTLY]), logging.getLogger("test"), {}, load=_no_value)
    for failures, told in ((0, []), (1, ["orders"])):
        work = Assignment(
            exec_id="x",
            run_id="r",
            task_key="t",
            asset_key="orders",
            attempt=failures + 1,
            attempt_id="a",
            fencing_token=1,
            failures=failures,
            run_tags={JOB_LABEL: "once_more"},
            operation=operation,
        )
        error = ValueError("no")
        hooks.after(work, AssetKey("orders"), failed("x", error), error)
        assert seen == told


def test_what_is_no_policy_is_refused() -> None:
    number: Any = 3
    with pytest.raises(Invalid, match="job j: op_retry_policy is 3; use RetryPolicy"):
        define_asset_job("j", op_retry_policy=number)


def _no_value(uri: str, content_hash: str) -> None:
    raise AssertionError((uri, content_hash))
