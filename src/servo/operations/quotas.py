"""Quotas: limits of a workspace and its pools, and the weights of its lanes."""

import msgspec

from servo.core.events.quotas import LaneWeightSet, PoolLimitSet
from servo.core.fold.quotas import MAX_WEIGHT
from servo.core.ids import check_text
from servo.core.lanes import LaneWeight, default_weight, lane_weights
from servo.core.quotas import QUOTAS, WorkspaceLimit, quota_set, workspace_limits
from servo.core.state.rows.system import QuotaRow
from servo.errors import Invalid, NotFound
from servo.operations.interface.listing import Listing
from servo.operations.interface.moments import PRESENT
from servo.operations.interface.numbers import check_number
from servo.operations.interface.roles import operation
from servo.projection.read.lookup import Lookup
from servo.projection.read.reader import Snapshot
from servo.projection.read.replay import AsOf
from servo.workspace.receipt import Receipt
from servo.workspace.workspace import Workspace

__all__ = [
    "LaneChanged",
    "LaneWeight",
    "PoolLimit",
    "QuotaChanged",
    "WorkspaceLimit",
    "get_quota",
    "list_lanes",
    "list_pools",
    "remove_pool_limit",
    "reset_lane_weight",
    "set_lane_weight",
    "set_pool_limit",
    "set_quota",
]

WORKSPACE = "workspace"
POOL = "pool"
LANE = "lane"
LIMITS = tuple(quota.name for quota in QUOTAS)

MAX_LIMIT = 10**15
_ALLOWED_LIMITS = range(MAX_LIMIT + 1)
_ALLOWED_WEIGHTS = range(1, MAX_WEIGHT + 1)


class PoolLimit(msgspec.Struct, frozen=True, kw_only=True):
    """A pool and its new limit; None if it has none."""

    pool: str
    limit: int | None
    receipt: Receipt


class QuotaChanged(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of a workspace that were set; None is one that was lifted."""

    limits: dict[str, int | None]
    receipt: Receipt


class LaneChanged(msgspec.Struct, frozen=True, kw_only=True):
    """A lane and its new weight."""

    lane: str
    weight: int
    receipt: Receipt


# --- pools ----------------------------------------------------------------------------------------


@operation
def list_pools(workspace: Workspace, *, as_of: AsOf | None = None) -> Listing[QuotaRow]:
    """The pools that have a limit, by name."""
    return workspace.read(lambda snapshot: Listing(items=_limited_pools(snapshot)), as_of=as_of)


@operation
def set_pool_limit(workspace: Workspace, pool: str, limit: int) -> PoolLimit:
    """Let at most `limit` tasks of a pool run at once; with 0, none starts."""
    event = PoolLimitSet(
        pool=check_text(pool, "pool"), limit=check_number(limit, "limit", _ALLOWED_LIMITS)
    )
    return PoolLimit(pool=pool, limit=limit, receipt=workspace.submit(event).checked())


@operation
def remove_pool_limit(workspace: Workspace, pool: str) -> PoolLimit:
    """Remove the limit of a pool; `NotFound` if it has none."""
    if all(row.name != pool for row in list_pools(workspace, as_of=PRESENT).items):
        raise NotFound(f"the pool {pool} has no limit", remedy="see `servo admin pool list`")
    receipt = workspace.submit(PoolLimitSet(pool=pool, limit=None)).checked()
    return PoolLimit(pool=pool, limit=None, receipt=receipt)


# --- the workspace --------------------------------------------------------------------------------


@operation
def get_quota(workspace: Workspace, *, as_of: AsOf | None = None) -> Listing[WorkspaceLimit]:
    """Every limit of the workspace itself, set or by default."""
    return workspace.read(
        lambda snapshot: Listing(items=list(workspace_limits(_quota(snapshot)))), as_of=as_of
    )


@operation
def set_quota(workspace: Workspace, limits: dict[str, int | None]) -> QuotaChanged:
    """Set limits of the workspace by their names; None lifts one, and the others stay."""
    unknown = sorted(set(limits) - set(LIMITS))
    if unknown or not limits:
        what = f"there is no limit {', '.join(unknown)}" if unknown else "no limit was given"
        raise Invalid(what, remedy=f"choose from {', '.join(LIMITS)}")
    for name, limit in limits.items():
        if limit is not None:
            _ = check_number(limit, name, _ALLOWED_LIMITS)
    receipt = workspace.submit(quota_set(limits)).checked()
    return QuotaChanged(limits=limits, receipt=receipt)


# --- lanes ----------------------------------------------------------------------------------------


@operation
def list_lanes(workspace: Workspace, *, as_of: AsOf | None = None) -> Listing[LaneWeight]:
    """The lanes with their weights, the largest share first."""
    return workspace.read(lambda snapshot: Listing(items=_lanes(snapshot)), as_of=as_of)


@operation
def set_lane_weight(workspace: Workspace, lane: str, weight: int) -> LaneChanged:
    """Give a lane a weight: twice the weight gets twice the tasks when lanes compete."""
    event = LaneWeightSet(
        lane=check_text(lane, "lane"), weight=check_number(weight, "weight", _ALLOWED_WEIGHTS)
    )
    return LaneChanged(lane=lane, weight=weight, receipt=workspace.submit(event).checked())


@operation
def reset_lane_weight(workspace: Workspace, lane: str) -> LaneChanged:
    """Give a lane its default weight again."""
    return set_lane_weight(workspace, lane, default_weight(lane))


# --- what a snapshot knows ------------------------------------------------------------------------


def _limited_pools(snapshot: Snapshot) -> list[QuotaRow]:
    rows = Lookup(snapshot).all(QuotaRow, scope=POOL)
    limited = [row for row in rows if row.max_concurrent_tasks is not None]
    return sorted(limited, key=lambda row: row.name)


def _quota(snapshot: Snapshot) -> QuotaRow | None:
    return next(iter(Lookup(snapshot).all(QuotaRow, scope=WORKSPACE)), None)


def _lanes(snapshot: Snapshot) -> list[LaneWeight]:
    rows = Lookup(snapshot).all(QuotaRow, scope=LANE)
    given = {row.name: row.weight for row in rows if row.weight is not None}
    return list(lane_weights(given))
