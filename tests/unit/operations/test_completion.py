"""Completion as an operation: what begins with what was typed, in a useful order."""

import pytest

from servo import asset, materialize
from servo.operations.completion import (
    MOST,
    Completion,
    complete_assets,
    complete_backfills,
    complete_runs,
)
from servo.testing.backfills import backfill_created
from servo.testing.operating import workspace_of, workspace_told
from servo.testing.workspaces import StoredStory
from servo.workspace.instance.instance import ServoInstance
from servo.workspace.workspace import Workspace


@asset(key_prefix="shop")
def orders() -> None: ...


@asset(key_prefix="shop")
def items() -> None: ...


@asset
def other() -> None: ...


@pytest.fixture
def workspace() -> Workspace:
    instance = ServoInstance.ephemeral()
    assert materialize([orders, items, other], instance=instance).success
    return workspace_of(instance)


def test_keys_that_begin_like_this_are_in_order(workspace: Workspace) -> None:
    assert complete_assets(workspace, "sh") == [
        Completion(value="shop/items"),
        Completion(value="shop/orders"),
    ]
    assert complete_assets(workspace, "z") == []
    assert len(complete_assets(workspace, "")) == 3


def test_runs_are_newest_first_with_their_states_and_not_too_many() -> None:
    story = StoredStory()
    for number in range(MOST + 1):
        _ = story.request(f"run_{number:03}")
        story.wait(seconds=1)
    _ = story.publish()
    found = complete_runs(workspace_told(story), "run_")
    assert found[0] == Completion(value=f"run_{MOST}", description="PENDING")
    assert (len(found), found[-1].value) == (MOST, "run_001")
    assert [one.value for one in complete_runs(workspace_told(story), "run_05")] == [
        f"run_05{digit}" for digit in range(9, -1, -1)
    ]


def test_backfills_have_their_states(workspace: Workspace) -> None:
    story = StoredStory()
    for name in ("bf_a", "bf_b", "other"):
        assert story.tell(backfill_created("partition=d:2026-01-01", name=name)).applied
        story.wait(seconds=1)
    _ = story.publish()
    assert complete_backfills(workspace_told(story), "bf") == [
        Completion(value="bf_b", description="RUNNING"),
        Completion(value="bf_a", description="RUNNING"),
    ]
    assert complete_backfills(workspace, "") == []
