"""Whether deploying would change anything, by what the workspace holds."""

from datetime import timedelta
from typing import Any

import pytest

from servo import (
    AssetSpec,
    AutomationCondition,
    DailyPartitionsDefinition,
    FreshnessPolicy,
)
from servo.core.declared import Declared
from servo.core.events.assets import AssetDefinition
from servo.operations.deployments import submit_deployment
from servo.operations.interface.moments import PRESENT
from servo.planning.deployment import changes, is_deployed
from servo.projection.read.time_travel import state_at
from servo.sdk.definitions.definitions import Definitions
from servo.testing.operating import workspace_of
from servo.workspace.instance.instance import ServoInstance
from servo.workspace.workspace import Workspace

RICH = AssetSpec(
    "rich",
    deps=["raw"],
    description="what it is",
    tags={"team": "shop", "tier": ""},
    owners=["ada@example.com"],
    kinds={"sql", "parquet"},
    group_name="shop",
    partitions_def=DailyPartitionsDefinition(start_date="2026-01-01"),
    automation_condition=AutomationCondition.eager(),
)


@pytest.fixture
def workspace() -> Workspace:
    made = workspace_of(ServoInstance.ephemeral())
    _ = made.identity()
    return made


def definitions(*specs: AssetSpec) -> tuple[AssetDefinition, ...]:
    return Definitions(list(specs)).project().definitions()


def deploy(workspace: Workspace, *specs: AssetSpec, location: str = "shop.py") -> int:
    """Deploy a location; how many events that took."""
    declared = Declared(assets=definitions(*specs))
    state = state_at(workspace.store, workspace.paths, PRESENT).state
    found = changes(state, location, declared)
    submit_deployment(workspace, found, declared)
    return len(found)


def test_the_same_code_is_deployed_once(workspace: Workspace) -> None:
    specs = AssetSpec("raw"), RICH
    assert deploy(workspace, *specs) == 1
    assert deploy(workspace, *specs) == 0


def test_after_an_edit_of_one_asset_the_code_is_deployed_once(workspace: Workspace) -> None:
    assert deploy(workspace, AssetSpec("a"), AssetSpec("b")) == 1
    edited = AssetSpec("a", description="now with words"), AssetSpec("b")
    assert deploy(workspace, *edited) == 1
    assert deploy(workspace, *edited) == 0


def test_after_an_asset_was_removed_the_code_is_deployed_once(workspace: Workspace) -> None:
    assert deploy(workspace, AssetSpec("a"), AssetSpec("b")) == 1
    assert deploy(workspace, AssetSpec("a")) == 1
    assert deploy(workspace, AssetSpec("a")) == 0
    assert deploy(workspace, AssetSpec("a"), AssetSpec("b")) == 1, "and it may come back"


def test_a_location_without_assets_has_nothing_to_deploy(workspace: Workspace) -> None:
    assert deploy(workspace) == 0
    assert deploy(workspace, AssetSpec("a")) == 1
    assert deploy(workspace) == 1
    assert deploy(workspace) == 0


def test_an_asset_that_moved_to_another_location_is_deployed_there(workspace: Workspace) -> None:
    assert deploy(workspace, AssetSpec("a"), location="one.py") == 1
    assert deploy(workspace, AssetSpec("a"), location="two.py") == 1
    assert deploy(workspace, AssetSpec("a"), location="two.py") == 0


@pytest.mark.parametrize(
    "edited",
    [
        {"description": "other"},
        {"tags": {"team": "shop"}},
        {"owners": []},
        {"kinds": {"sql"}},
        {"group_name": "other"},
        {"deps": []},
        {"partitions_def": DailyPartitionsDefinition(start_date="2026-01-02")},
        {"automation_condition": None},
        {"code_version": "2"},
        {"freshness_policy": FreshnessPolicy.time_window(fail_window=timedelta(hours=1))},
    ],
    ids=lambda edited: next(iter(edited)),
)
def test_any_edit_is_seen(edited: dict[str, Any]) -> None:
    before, after = (
        definitions(AssetSpec("raw"), one) for one in (RICH, RICH.replace_attributes(**edited))
    )
    workspace = workspace_of(ServoInstance.ephemeral())
    _ = workspace.identity()
    _ = deploy(workspace, AssetSpec("raw"), RICH)
    rows = state_at(workspace.store, workspace.paths, PRESENT).state.assets.rows
    assert is_deployed(rows, "shop.py", before)
    assert not is_deployed(rows, "shop.py", after)
