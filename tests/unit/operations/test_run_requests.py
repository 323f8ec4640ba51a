"""New runs: planned by an evaluator, started by whoever has none of the code."""

import logging
from collections.abc import Sequence

import msgspec
import pytest

from servo import (
    AssetKey,
    Config,
    DynamicPartitionsDefinition,
    MaterializeResult,
    StaticPartitionsDefinition,
    asset,
    asset_check,
    define_asset_job,
    in_process_executor,
)
from servo.code.evaluator.answering import EvaluatorHere, handler_of
from servo.code.evaluator.loaded_location import EvaluatorEnvironment, LoadedLocation
from servo.code.evaluator.messages import EvaluatorQuestion, PlanRun, RunPlanned, answers, questions
from servo.code.evaluator.plan_store import PlanStore
from servo.core.events.runs import ManualSource, RerunSource
from servo.core.state.states import RunState, TaskState
from servo.errors import Conflict, Invalid, NotFound
from servo.host.materialize import materialize
from servo.operations.dynamic_partitions import add_partitions
from servo.operations.interface.evaluating import NO_SALT, Evaluates
from servo.operations.interface.listing import Page
from servo.operations.run_requests import NewRun, plan_run, retry_run, trigger_run
from servo.operations.runs import get_run, list_runs
from servo.sdk.checks.definition import AssetCheckResult
from servo.sdk.definitions.definitions import Definitions
from servo.sdk.definitions.project import Project
from servo.testing.operating import workspace_of
from servo.workspace.instance.instance import ServoInstance
from servo.workspace.workspace import Workspace

ADA = "user:ada@laptop"


class Limit(Config):
    most: int = 3


@asset
def orders(config: Limit) -> int:
    return config.most


@asset(deps=[orders])
def total() -> int:
    return 1


@asset(partitions_def=StaticPartitionsDefinition(["a", "b", "c"]))
def letter() -> int:
    return 1


@asset(partitions_def=DynamicPartitionsDefinition(name="customers"))
def customer() -> int:
    return 1


@asset(deps=[AssetKey("ordres")])
def misspelt() -> MaterializeResult:
    return MaterializeResult()


@asset_check(asset=total)
def positive() -> AssetCheckResult:
    return AssetCheckResult(passed=True)


NIGHTLY = define_asset_job(
    "nightly",
    [orders],
    tags={"team": "shop"},
    config={"ops": {"orders": {"config": {"most": 7}}}},
    executor_def=in_process_executor,
)
PROJECT = Definitions(
    [orders, total, letter, customer, misspelt], asset_checks=[positive], jobs=[NIGHTLY]
).project()


class OverTheWire:
    """An evaluator as another process sees it: questions and answers are bytes."""

    def __init__(self, evaluator: EvaluatorHere) -> None:
        self._evaluator = evaluator

    def ask(self, question: EvaluatorQuestion, seconds: float) -> object:
        sent: EvaluatorQuestion = questions.decode(msgspec.msgpack.encode(question))
        return answers.decode(msgspec.msgpack.encode(self._evaluator.ask(sent, seconds)))


def evaluator(workspace: Workspace, project: Project = PROJECT) -> Evaluates:
    around = EvaluatorEnvironment(
        clock=workspace.clock,
        entropy=workspace.entropy,
        log=logging.getLogger("shop"),
        environ={},
        instance=lambda: None,
    )
    records = PlanStore(
        store=workspace.store, paths=workspace.paths, salt=NO_SALT, location="shop.py"
    )
    return OverTheWire(EvaluatorHere(LoadedLocation(project, records, around)))


@pytest.fixture
def workspace() -> Workspace:
    return workspace_of(ServoInstance.ephemeral(), actor=ADA)


def planned(workspace: Workspace, new: NewRun) -> list[str]:
    return [task.task_key for task in plan_run(workspace, evaluator(workspace), new).tasks]


# --- planning -------------------------------------------------------------------------------------


def test_every_question_has_a_function_that_answers_it() -> None:
    for question in EvaluatorQuestion.__args__:
        assert callable(handler_of(question))


def test_a_plan_has_the_tasks_of_the_selection_and_nothing_is_created(workspace: Workspace) -> None:
    assert planned(workspace, NewRun(select=("total",))) == ["total:materialize"]
    found = plan_run(workspace, evaluator(workspace), NewRun(select=("+total",)))
    assert [(task.asset_key, task.upstream) for task in found.tasks] == [
        ("orders", ()),
        ("total", ("orders:materialize",)),
    ]
    with pytest.raises(NotFound):
        list_runs(workspace, Page(limit=10))


@pytest.mark.parametrize(
    ("new", "partitions"),
    [
        (NewRun(select=("letter",), partitions=("a",)), ["a"]),
        (NewRun(select=("letter",), partitions=("a", "c")), ["a", "c"]),
        (NewRun(select=("letter",), ranges=(("b", "c"),)), ["b", "c"]),
    ],
)
def test_named_partitions_and_ranges_are_planned(
    workspace: Workspace, new: NewRun, partitions: Sequence[str]
) -> None:
    found = plan_run(workspace, evaluator(workspace), new)
    assert [task.partition for task in found.tasks] == partitions
    label = found.labels.get("servo/partition")
    assert label == ("a" if new.partitions == ("a",) else None)


def test_dynamic_partitions_are_those_at_the_end_of_the_ledger(workspace: Workspace) -> None:
    new = NewRun(select=("customer",), partitions=("ada",))
    with pytest.raises(NotFound):
        planned(workspace, new)
    _ = add_partitions(workspace, "customers", ["ada"])
    assert len(planned(workspace, new)) == 1


def test_a_job_brings_its_selection_tags_configuration_and_executor(workspace: Workspace) -> None:
    found = plan_run(workspace, evaluator(workspace), NewRun(job="nightly"))
    assert [task.asset_key for task in found.tasks] == ["orders"]
    assert (found.labels["team"], found.labels["servo/job"]) == ("shop", "nightly")
    assert found.config["ops"] == {"orders": {"config": {"most": 7}}}
    answer = evaluator(workspace).ask(PlanRun(job="nightly"), 1)
    assert isinstance(answer, RunPlanned)
    assert answer.executor == in_process_executor


def test_configuration_and_tags_of_the_request_win_over_those_of_the_job(
    workspace: Workspace,
) -> None:
    mine = {"orders": {"config": {"most": 9}}}
    new = NewRun(job="nightly", config={"ops": mine}, tags={"team": "finance"})
    found = plan_run(workspace, evaluator(workspace), new)
    assert (found.config["ops"], found.labels["team"]) == (mine, "finance")


def test_checks_alone_are_planned_without_their_assets(workspace: Workspace) -> None:
    assert planned(workspace, NewRun(select=("total",), checks_only=True)) == ["total:check"]
    with pytest.raises(NotFound, match="no checks"):
        planned(workspace, NewRun(select=("orders",), checks_only=True))


def test_a_dependency_that_may_be_misspelt_is_a_hint(workspace: Workspace) -> None:
    (hint,) = plan_run(workspace, evaluator(workspace), NewRun(select=("total",))).hints
    assert "ordres" in hint
    assert "orders" in hint


@pytest.mark.parametrize(
    ("new", "error", "words"),
    [
        (NewRun(select=("nope",)), Invalid, "nope"),
        (NewRun(job="nope"), NotFound, "nope"),
        (NewRun(job="nightly", select=("orders",)), Invalid, "selection"),
        (NewRun(select=("letter",), partitions=("z",)), NotFound, "z"),
        (NewRun(select=("letter",)), Invalid, "partition"),
        (NewRun(select=("orders",), config={"ops": {"nope": {}}}), Invalid, "nope"),
        (NewRun(select=("orders",), run_key=""), Invalid, "run key"),
        (NewRun(select=("orders",), run_key="a\x00b"), Invalid, "run key"),
    ],
)
def test_what_the_code_cannot_do_is_refused_and_nothing_is_created(
    workspace: Workspace, new: NewRun, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        trigger_run(workspace, evaluator(workspace), new)
    with pytest.raises(NotFound):
        list_runs(workspace, Page(limit=10))


def test_a_run_has_the_tags_of_its_request_of_the_project_and_of_its_code(
    workspace: Workspace,
) -> None:
    new = NewRun(select=("orders",), tags={"env": "prod"}, default_tags={"env": "dev", "by": "us"})
    labels = {"env": "prod", "by": "us", "servo/code": "shop.py"}
    assert plan_run(workspace, evaluator(workspace), new).labels == labels
    isolated = msgspec.structs.replace(new, isolate=True)
    found = plan_run(workspace, evaluator(workspace), isolated)
    assert found.labels == {**labels, "servo/isolation": "process"}


# --- starting -------------------------------------------------------------------------------------


def test_a_run_is_started_in_a_workspace_that_does_not_exist_yet(workspace: Workspace) -> None:
    new = NewRun(select=("orders",), tags={"why": "test"}, priority=5)
    started = trigger_run(workspace, evaluator(workspace), new)
    found = get_run(workspace, started.run_id)
    assert started.created
    assert started.receipt.applied
    assert (found.run.requested_by, found.run.request_text) == (ADA, "orders")
    assert found.run.source == ManualSource(user_id=ADA)
    assert (found.run.location, found.run.labels["why"]) == ("shop.py", "test")
    assert [(task.asset_key, task.priority) for task in found.tasks] == [("orders", 5)]


def test_the_same_run_key_gives_the_same_run_and_another_request_is_refused(
    workspace: Workspace,
) -> None:
    new = NewRun(select=("orders",), run_key="january")
    first = trigger_run(workspace, evaluator(workspace), new)
    again = trigger_run(workspace, evaluator(workspace), new)
    assert (again.run_id, again.created) == (first.run_id, False)
    with pytest.raises(
        Conflict, match=r"'january' belongs to another request.* requested for orders"
    ):
        trigger_run(workspace, evaluator(workspace), NewRun(select=("total",), run_key="january"))
    with pytest.raises(Conflict, match="january"):
        trigger_run(
            workspace,
            evaluator(workspace),
            NewRun(select=("orders",), run_key="january", tags={"other": "tag"}),
        )
    assert [row.run_id for row in list_runs(workspace, Page(limit=10)).items] == [first.run_id]


def test_requests_without_a_run_key_are_runs_of_their_own(workspace: Workspace) -> None:
    new = NewRun(select=("orders",))
    runs = {trigger_run(workspace, evaluator(workspace), new).run_id for _ in range(2)}
    assert len(runs) == 2


# --- retrying -------------------------------------------------------------------------------------


@asset
def fine() -> int:
    return 1


@asset
def broken() -> int:
    raise ValueError


RETRIED = Definitions([fine, broken]).project()


@pytest.fixture
def failed() -> Workspace:
    """A workspace with a run in which `broken` failed."""
    instance = ServoInstance.ephemeral()
    _ = materialize([fine, broken], instance=instance, raise_on_error=False, tags={"team": "a"})
    return workspace_of(instance, actor=ADA)


@pytest.mark.parametrize(
    ("everything", "select", "repeated"),
    [
        (False, (), ["broken"]),
        (True, (), ["broken", "fine"]),
        (False, ("fine",), ["fine"]),
    ],
)
def test_a_retry_repeats_what_did_not_succeed_or_what_is_selected(
    failed: Workspace, everything: bool, select: Sequence[str], repeated: Sequence[str]
) -> None:
    (before,) = list_runs(failed, Page(limit=10)).items
    started = retry_run(
        failed, evaluator(failed, RETRIED), before.run_id, everything=everything, select=select
    )
    found = get_run(failed, started.run_id)
    assert sorted(task.asset_key for task in found.tasks) == repeated
    assert {task.state for task in found.tasks} <= {TaskState.READY, TaskState.BLOCKED}
    assert found.run.parent_run_id == before.run_id
    assert found.run.source == RerunSource(run_id=before.run_id, user_id=ADA)
    assert found.run.labels["team"] == "a"
    assert found.run.correlation == before.correlation


def test_a_retry_of_nothing_is_refused(failed: Workspace) -> None:
    (before,) = list_runs(failed, Page(limit=10)).items
    assert before.state is RunState.FAILED
    with pytest.raises(NotFound, match="has no task for letter"):
        retry_run(failed, evaluator(failed), before.run_id, select=["letter"])
    with pytest.raises(NotFound, match="there is no run"):
        retry_run(failed, evaluator(failed), "run_nope")


def test_a_retry_of_a_run_that_succeeded_is_refused() -> None:
    instance = ServoInstance.ephemeral()
    _ = materialize([fine], instance=instance)
    workspace = workspace_of(instance, actor=ADA)
    (run,) = list_runs(workspace, Page(limit=10)).items
    with pytest.raises(Conflict, match=r"every task of .* succeeded"):
        retry_run(workspace, evaluator(workspace, RETRIED), run.run_id)
