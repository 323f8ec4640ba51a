"""A project: every name resolved, every mistake told."""

from typing import Any

import pytest

from servo.core.keys import AssetKey
from servo.core.retry import BackoffCurve as StoredBackoff
from servo.errors import Invalid
from servo.planning.assets import plan_assets
from servo.sdk.assets.asset import asset
from servo.sdk.assets.assets_definition import AssetsDefinition
from servo.sdk.assets.retries import Backoff, RetryPolicy
from servo.sdk.assets.specs import AssetSpec
from servo.sdk.definitions.project import Project


def made(name: str, *upstream: str, **options: Any) -> AssetsDefinition:
    """An asset of this name that depends on those."""

    def fn() -> None: ...

    return asset(name=name, deps=upstream, **options)(fn)


def test_assets_come_in_the_order_of_the_graph_whatever_order_they_were_given_in() -> None:
    given = [made("c", "b"), made("a"), made("b", "a")]
    assert Project(given).order == [AssetKey(name) for name in "abc"]
    assert Project(reversed(given)).order == Project(given).order


def test_a_parameter_finds_its_asset_by_key_by_prefix_or_by_group() -> None:
    @asset(key_prefix="raw")
    def orders() -> None: ...

    @asset(key_prefix="raw")
    def neighbour(orders: int) -> None:
        del orders

    @asset(key_prefix="clean")
    def elsewhere(orders: int) -> None:
        del orders

    project = Project([orders, neighbour, elsewhere])
    assert project.inputs[neighbour.key] == {"orders": orders.key}
    assert project.inputs[elsewhere.key] == {"orders": orders.key}


def test_a_parameter_that_is_no_asset_is_told_with_what_was_meant() -> None:
    @asset
    def orders() -> None: ...

    @asset
    def report(ordrs: int) -> None:
        del ordrs

    with pytest.raises(Invalid) as told:
        Project([orders, report])
    assert "test_project.py" in str(told.value)
    assert "'orders'" in str(told.value.remedy)


def test_a_dependency_outside_the_project_is_allowed() -> None:
    project = Project([made("a", "somewhere_else"), AssetSpec("known", deps=["b"])])
    assert project.upstream[AssetKey("a")] == (AssetKey("somewhere_else"),)
    assert [d.upstream for d in project.definitions()] == [("somewhere_else",), ("b",)]


def test_a_key_is_defined_once() -> None:
    with pytest.raises(Invalid, match="defined twice") as told:
        Project([made("a"), made("a")])
    assert str(told.value).count("test_project.py") == 2


def test_a_cycle_is_told_whole() -> None:
    with pytest.raises(Invalid, match="a → b → c → a"):
        Project([made("a", "c"), made("b", "a"), made("c", "b")])


def test_a_plan_has_the_chosen_assets_and_the_edges_between_them() -> None:
    project = Project([made("a"), made("b", "a"), made("c", "b"), AssetSpec("d", deps=["c"])])
    plan = plan_assets(project, [AssetKey("a"), AssetKey("c"), AssetKey("d")])
    assert [(task.task_key, task.upstream) for task in plan.tasks] == [
        ("a:materialize", ()),
        ("c:materialize", ()),
    ]


def test_how_an_asset_is_run_is_in_its_plan() -> None:
    policy = RetryPolicy(
        max_retries=2, delay=1.5, backoff=Backoff.LINEAR, no_retry_on=[ValueError], max_delay=60
    )
    project = Project([made("a", retry_policy=policy, pool="db", timeout=2, code_version="7")])
    (task,) = plan_assets(project, project.order).tasks
    assert (task.pool, task.timeout_ms, task.code_version) == ("db", 2000, "7")
    assert (task.retry.max_attempts, task.retry.delay_ms, task.retry.cap_ms) == (3, 1500, 60_000)
    assert task.retry.backoff is StoredBackoff.LINEAR
    assert task.retry.no_retry_on == ("ValueError",)


def test_without_a_policy_an_asset_is_tried_once() -> None:
    (task,) = plan_assets(Project([made("a")]), [AssetKey("a")]).tasks
    assert task.retry.max_attempts == 1


@pytest.mark.parametrize("options", [{"max_retries": -1}, {"delay": -1.0}])
def test_a_policy_that_makes_no_sense_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        RetryPolicy(**options)
