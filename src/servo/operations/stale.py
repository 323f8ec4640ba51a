"""What is stale in a workspace: which assets and partitions, why, and since when.

Assets are looked at in the order of their keys until a page is full. Of an asset with partitions,
only the stale ones are listed; consecutive ones with the same reason form one range.
"""

from collections.abc import Iterator
from datetime import datetime

import msgspec

from servo.core.freshness import FreshnessState, judge, read_policy
from servo.core.state.rows.assets import AssetRow, MaterializationRow
from servo.errors import Invalid
from servo.operations.interface.listing import DEFAULT_LIMIT, check_limit
from servo.operations.interface.moments import AsOf, instant_of
from servo.operations.interface.roles import operation
from servo.operations.partitions import PartitionFilter, PartitionRange, ranges_of
from servo.projection.partitions.report import PartitionReader
from servo.projection.read.lookup import Lookup
from servo.projection.read.reader import Snapshot
from servo.sdk.partitions.status import StaleReason
from servo.workspace.workspace import Workspace


class StaleItem(msgspec.Struct, frozen=True, kw_only=True):
    """Something stale: an asset, or consecutive partitions of one, from `first` to `last`.

    `since` is when the first of them became stale at the latest; None if that is not known, as of
    what was never materialized.
    """

    asset_key: str
    first: str | None = None
    last: str | None = None
    count: int = 1
    reason: StaleReason
    since: datetime | None = None


class StaleQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A page: `limit` items, starting at `asset`, after its partition `after`."""

    limit: int = DEFAULT_LIMIT
    asset: str | None = None
    after: str | None = None

    def __post_init__(self) -> None:
        check_limit(self.limit)


class StaleListing(msgspec.Struct, frozen=True, kw_only=True):
    """A page of what is stale; `next_asset` and `next_after` are where the next page begins."""

    items: list[StaleItem]
    next_asset: str | None = None
    next_after: str | None = None


@operation
def list_stale(
    workspace: Workspace, query: StaleQuery, *, as_of: AsOf | None = None
) -> StaleListing:
    """The stale assets and partitions of a workspace."""

    def use(snapshot: Snapshot) -> StaleListing:
        return _page(_Stale(snapshot, instant_of(snapshot, as_of, workspace.now())), query)

    return workspace.read(use, as_of=as_of)


def _page(stale: "_Stale", query: StaleQuery) -> StaleListing:
    items: list[StaleItem] = []
    for asset in stale.assets():
        if query.asset is not None and asset.asset_key < query.asset:
            continue
        after = query.after if asset.asset_key == query.asset else None
        items += stale.of(asset, query.limit + 1 - len(items), after)
        if len(items) > query.limit:
            break
    shown = items[: query.limit]
    if len(items) <= query.limit:
        return StaleListing(items=shown)
    following = items[query.limit]
    same = bool(shown) and shown[-1].asset_key == following.asset_key
    return StaleListing(
        items=shown,
        next_asset=following.asset_key,
        next_after=shown[-1].last if same else None,
    )


class _Stale:
    """One snapshot, asked at one moment."""

    def __init__(self, snapshot: Snapshot, now: datetime) -> None:
        self._reader = PartitionReader(snapshot, now)
        self._lookup = Lookup(snapshot)
        self._now = now

    def assets(self) -> Iterator[AssetRow]:
        """Those that are defined, by key."""
        rows = self._reader.assets
        return (rows[key] for key in sorted(rows) if rows[key].defined)

    def of(self, asset: AssetRow, limit: int, after: str | None) -> list[StaleItem]:
        """What is stale of an asset, at most so many."""
        if not asset.partitions:
            return self._whole(asset)
        try:
            report = self._reader.report(asset.asset_key)
        except Invalid:
            return []  # a definition that only its code can read
        found = ranges_of(report, PartitionFilter.STALE, after=after, most=limit)
        return [_item(asset, one) for one in found]

    def _whole(self, asset: AssetRow) -> list[StaleItem]:
        found = self._reason(asset)
        if found is None:
            return []
        return [StaleItem(asset_key=asset.asset_key, reason=found[0], since=found[1])]

    def _reason(self, asset: AssetRow) -> tuple[StaleReason, datetime | None] | None:
        """The first reason for which an asset without partitions is stale, and since when."""
        seq = asset.last_materialization_seq
        if seq is None:
            return StaleReason.NEVER_MATERIALIZED, None
        if self._is_of_other_code(asset):
            return StaleReason.CODE_CHANGED, asset.code_changed_at
        above = (self._reader.assets.get(key) for key in asset.upstream)
        newer = [row for row in above if row and (row.last_materialization_seq or 0) > seq]
        if newer:
            times = [at for row in newer if (at := row.last_materialization_at) is not None]
            return StaleReason.UPSTREAM_CHANGED, min(times, default=None)
        return self._too_old(asset)

    def _is_of_other_code(self, asset: AssetRow) -> bool:
        if not asset.code_version:
            return False
        last = asset.last_materialization_id or ""
        made = self._lookup.all(MaterializationRow, materialization_id=last)
        return any(row.code_version not in ("", asset.code_version) for row in made)

    def _too_old(self, asset: AssetRow) -> tuple[StaleReason, datetime | None] | None:
        if not asset.freshness_policy:
            return None
        try:
            policy = read_policy(asset.freshness_policy)
        except Invalid:
            return None  # of a later version: nothing can be said
        judged = judge(policy, asset.last_materialization_at, self._now)
        failed = judged.state is FreshnessState.FAIL
        return (StaleReason.FRESHNESS_POLICY, judged.since) if failed else None


def _item(asset: AssetRow, found: PartitionRange) -> StaleItem:
    return StaleItem(
        asset_key=asset.asset_key,
        first=found.first,
        last=found.last,
        count=found.count,
        reason=found.stale or StaleReason.NEVER_MATERIALIZED,
        since=found.stale_since,
    )
