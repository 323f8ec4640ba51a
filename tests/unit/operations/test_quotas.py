"""Limits of pools and of a workspace: what is set is seen, and what makes no sense is refused."""

import pytest

from servo.core.lanes import DEFAULT_WEIGHTS
from servo.errors import Invalid, NotFound
from servo.operations.quotas import (
    MAX_LIMIT,
    get_quota,
    list_lanes,
    list_pools,
    remove_pool_limit,
    reset_lane_weight,
    set_lane_weight,
    set_pool_limit,
    set_quota,
)
from servo.workspace.address import Address
from servo.workspace.channels import AnyChannel
from servo.workspace.composition import in_memory
from servo.workspace.workspace import Workspace


@pytest.fixture
def workspace() -> Workspace:
    address, world = Address("memory://quotas"), in_memory()
    return Workspace(address, world, AnyChannel(address, world))


def limits(workspace: Workspace, as_of: int | None = None) -> dict[str, int | None]:
    rows = list_pools(workspace, as_of=as_of).items
    return {row.name: row.max_concurrent_tasks for row in rows}


def test_pools_are_listed_while_they_have_a_limit(workspace: Workspace) -> None:
    first = set_pool_limit(workspace, "warehouse", 2)
    _ = set_pool_limit(workspace, "api", 0)
    assert limits(workspace) == {"api": 0, "warehouse": 2}
    assert remove_pool_limit(workspace, "warehouse").limit is None
    assert limits(workspace) == {"api": 0}
    assert limits(workspace, as_of=first.receipt.seq) == {"warehouse": 2}


def test_a_pool_without_a_limit_has_none_to_remove(workspace: Workspace) -> None:
    _ = set_pool_limit(workspace, "warehouse", 2)
    with pytest.raises(NotFound, match="the pool werehouse has no limit"):
        _ = remove_pool_limit(workspace, "werehouse")


def test_a_quota_keeps_the_limits_that_are_not_named(workspace: Workspace) -> None:
    _ = set_quota(workspace, {"max_concurrent_runs": 3})
    assert set_quota(workspace, {"max_concurrent_tasks": 7}).receipt.applied
    found = {
        limit.name: limit.limit for limit in get_quota(workspace).items if not limit.is_default
    }
    assert found == {"max_concurrent_runs": 3, "max_concurrent_tasks": 7}


def test_a_limit_that_is_lifted_has_its_default_again(workspace: Workspace) -> None:
    _ = set_quota(workspace, {"max_concurrent_runs": 3, "max_daily_runs": 5})
    _ = set_quota(workspace, {"max_concurrent_runs": None})
    found = {
        limit.name: limit.limit for limit in get_quota(workspace).items if not limit.is_default
    }
    assert found == {"max_daily_runs": 5}


def test_the_weight_of_a_lane_is_set_and_reset(workspace: Workspace) -> None:
    def weights() -> dict[str, int]:
        return {row.lane: row.weight for row in list_lanes(workspace).items}

    _ = set_lane_weight(workspace, "backfills", 500)
    assert weights()["backfills"] == 500
    assert reset_lane_weight(workspace, "backfills").weight == 100
    assert weights() == dict(DEFAULT_WEIGHTS)


@pytest.mark.parametrize("weight", [-1, 0, 1_000_001])
def test_a_weight_that_cannot_be_is_refused_with_those_that_can(
    weight: int, workspace: Workspace
) -> None:
    with pytest.raises(Invalid) as refused:
        _ = set_lane_weight(workspace, "backfills", weight)
    assert str(refused.value) == (f"invalid weight: {weight}; use a whole number from 1 to 1000000")


@pytest.mark.parametrize("limit", [-1, MAX_LIMIT + 1, 10**30])
def test_a_limit_that_cannot_be_is_refused_with_those_that_can(
    limit: int, workspace: Workspace
) -> None:
    remedy = f"use a whole number from 0 to {MAX_LIMIT}"
    with pytest.raises(Invalid) as refused:
        _ = set_pool_limit(workspace, "warehouse", limit)
    assert str(refused.value) == f"invalid limit: {limit}; {remedy}"
    with pytest.raises(Invalid) as refused:
        _ = set_quota(workspace, {"max_daily_runs": limit, "max_concurrent_runs": None})
    assert str(refused.value) == f"invalid max_daily_runs: {limit}; {remedy}"


@pytest.mark.parametrize("name", ["", "a\x00b", "x" * 2_000])
def test_a_pool_or_a_lane_needs_a_name_that_can_be_stored(name: str, workspace: Workspace) -> None:
    with pytest.raises(Invalid, match=r"^pool"):
        _ = set_pool_limit(workspace, name, 1)
    with pytest.raises(Invalid, match=r"^lane"):
        _ = set_lane_weight(workspace, name, 1)


@pytest.mark.parametrize("given", [{}, {"max_concurrent_dreams": 1}, {"v": 1}])
def test_a_limit_that_does_not_exist_is_refused(
    given: dict[str, int | None], workspace: Workspace
) -> None:
    with pytest.raises(Invalid, match="choose from max_concurrent_tasks, max_concurrent_runs"):
        _ = set_quota(workspace, given)
