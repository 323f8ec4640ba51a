"""Quotas: how much may run at once in a workspace, and in each of its pools."""

import msgspec
from msgspec.structs import replace

from servo.core.events.quotas import PoolLimitSet, QuotaSet
from servo.core.state.rows.system import QuotaRow
from servo.errors import Invalid, NotFound
from servo.operations.listing import Listing
from servo.projection.read.lookup import Lookup
from servo.projection.read.reader import Snapshot
from servo.projection.read.replay import AsOf
from servo.workspace.receipt import Receipt
from servo.workspace.workspace import Workspace

WORKSPACE = "workspace"
POOL = "pool"
LIMITS = tuple(name for name in QuotaSet.__struct_fields__ if name.startswith("max_"))


class PoolLimit(msgspec.Struct, frozen=True, kw_only=True):
    """A pool and its new limit, None if it has none any more."""

    pool: str
    limit: int | None
    receipt: Receipt


class QuotaChanged(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of a workspace that were set."""

    limits: dict[str, int]
    receipt: Receipt


def list_pools(workspace: Workspace, *, as_of: AsOf | None = None) -> Listing[QuotaRow]:
    """The pools that have a limit, by name."""
    return workspace.read(lambda snapshot: Listing(items=_limited_pools(snapshot)), as_of=as_of)


def set_pool_limit(workspace: Workspace, pool: str, limit: int) -> PoolLimit:
    """Let at most `limit` tasks of a pool run at once; 0 holds all of them back."""
    receipt = workspace.submit(PoolLimitSet(pool=pool, limit=limit)).checked()
    return PoolLimit(pool=pool, limit=limit, receipt=receipt)


def remove_pool_limit(workspace: Workspace, pool: str) -> PoolLimit:
    """Let any number of tasks of a pool run at once; `NotFound` if it has no limit."""
    if all(row.name != pool for row in list_pools(workspace).items):
        raise NotFound(f"the pool {pool} has no limit", remedy="see `servo admin pool list`")
    receipt = workspace.submit(PoolLimitSet(pool=pool, limit=None)).checked()
    return PoolLimit(pool=pool, limit=None, receipt=receipt)


def get_quota(workspace: Workspace, *, as_of: AsOf | None = None) -> QuotaRow | None:
    """The limits of the workspace itself; None if none was ever set."""
    return workspace.read(_quota, as_of=as_of)


def set_quota(workspace: Workspace, limits: dict[str, int]) -> QuotaChanged:
    """Set limits of the workspace by their names; those that are not named stay as they are."""
    unknown = sorted(set(limits) - set(LIMITS))
    if unknown or not limits:
        what = f"there is no limit {', '.join(unknown)}" if unknown else "no limit is named"
        raise Invalid(what, remedy=f"use some of {', '.join(LIMITS)}")
    receipt = workspace.submit(replace(QuotaSet(), **limits)).checked()
    return QuotaChanged(limits=limits, receipt=receipt)


# --- what a snapshot knows ------------------------------------------------------------------------


def _limited_pools(snapshot: Snapshot) -> list[QuotaRow]:
    rows = Lookup(snapshot).all(QuotaRow, scope=POOL)
    limited = [row for row in rows if row.max_concurrent_tasks is not None]
    return sorted(limited, key=lambda row: row.name)


def _quota(snapshot: Snapshot) -> QuotaRow | None:
    return next(iter(Lookup(snapshot).all(QuotaRow, scope=WORKSPACE)), None)
