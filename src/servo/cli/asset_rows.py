"""Assets and what was made of them, as published."""

from datetime import datetime
from enum import StrEnum

import msgspec
from msgspec.structs import replace

from servo.core.events.tasks import Gate, TaskOutcome
from servo.core.freshness import UNJUDGED, FreshnessState, judge, read_policy
from servo.core.state.rows.assets import AssetRow, CheckResultRow, MaterializationRow
from servo.core.state.rows.conditions import AssetFreshnessRow, FreshnessChangeRow
from servo.errors import Invalid
from servo.projection.partitions.asset_names import find_asset
from servo.projection.read.lookup import Lookup, Page, Paged
from servo.projection.read.reader import Snapshot


class OutputVerdict(StrEnum):
    """What became of an output."""

    LATEST = "latest"
    PROMOTED = "promoted"
    WARNED = "promoted with a warning"
    HELD = "quarantined"
    REJECTED = "rejected"
    WIPED = "wiped"


class Freshness(msgspec.Struct, frozen=True, kw_only=True):
    """Whether an asset is as fresh as its policy asks, since when, and when that may change."""

    policy: str
    state: FreshnessState = FreshnessState.UNKNOWN
    since: datetime | None = None
    next_change: datetime | None = None


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """An asset, its latest output and what was checked of it."""

    asset: AssetRow
    downstream: list[str]
    latest: MaterializationRow | None
    checks: list[CheckResultRow]
    freshness: Freshness | None = None


def known_of(snapshot: Snapshot, name: str, now: datetime) -> Known:
    """What is known of the asset that is called this."""
    assets = _assets(snapshot)
    row = assets[find_asset(assets, name)]
    lookup, last = Lookup(snapshot), row.last_materialization_id
    made = [] if last is None else lookup.all(MaterializationRow, materialization_id=last)
    return Known(
        asset=row,
        downstream=sorted(
            key
            for key, other in assets.items()
            if other.defined and row.asset_key in other.upstream
        ),
        latest=made[0] if made else None,
        checks=_checks(snapshot, row),
        freshness=_freshness(snapshot, row, now) if row.freshness_policy else None,
    )


class AssetHistory(msgspec.Struct, frozen=True, kw_only=True):
    """An asset, a page of what was made of it, and how many successes came too late to count."""

    asset: AssetRow
    outputs: Paged[MaterializationRow]
    late: int


def history_of(snapshot: Snapshot, name: str, page: Page) -> AssetHistory:
    """What was made of the asset that is called this, newest first."""
    assets, lookup = _assets(snapshot), Lookup(snapshot)
    row = assets[find_asset(assets, name)]
    late = lookup.values("tasks", "late_outcome", asset_key=row.asset_key)
    outputs = lookup.page(
        MaterializationRow,
        page,
        name="materialization_id",
        newest=("created_seq",),
        asset_key=row.asset_key,
    )
    return AssetHistory(asset=row, outputs=outputs, late=late.count(TaskOutcome.SUCCEEDED.value))


def verdict(asset: AssetRow, made: MaterializationRow) -> OutputVerdict:
    """What became of an output of an asset."""
    if made.materialization_id == asset.last_materialization_id:
        return OutputVerdict.LATEST
    if not made.promoted:
        return OutputVerdict.HELD if made.decided_at is None else OutputVerdict.REJECTED
    if asset.last_materialization_id is None:
        return OutputVerdict.WIPED
    return OutputVerdict.WARNED if made.gating_decision is Gate.WARNED else OutputVerdict.PROMOTED


def freshness_rows(snapshot: Snapshot) -> list[AssetFreshnessRow]:
    """How fresh the assets are that were judged, by key."""
    rows = [row for row in snapshot.rows("asset_freshness") if isinstance(row, AssetFreshnessRow)]
    return sorted(rows, key=lambda row: row.asset_key)


def freshness_history(
    snapshot: Snapshot, name: str, page: Page
) -> tuple[AssetRow, Paged[FreshnessChangeRow]]:
    """An asset, and a page of the changes of its freshness, newest first."""
    assets = _assets(snapshot)
    row = assets[find_asset(assets, name)]
    changes = Lookup(snapshot).page(
        FreshnessChangeRow, page, name="version", newest=("version",), asset_key=row.asset_key
    )
    return row, changes


def _freshness(snapshot: Snapshot, asset: AssetRow, now: datetime) -> Freshness:
    found = Freshness(policy=asset.freshness_policy)
    row = next((r for r in freshness_rows(snapshot) if r.asset_key == asset.asset_key), None)
    if row is None:
        return found
    try:
        judged = judge(read_policy(asset.freshness_policy), asset.last_materialization_at, now)
    except Invalid:  # written by somebody else; nobody judges it any more
        judged = UNJUDGED
    due = judged.next_due if judged.state is row.state else None
    return replace(found, state=row.state, since=row.changed_at, next_change=due)


def _assets(snapshot: Snapshot) -> dict[str, AssetRow]:
    rows = snapshot.rows("assets")
    return {row.asset_key: row for row in rows if isinstance(row, AssetRow)}


def _checks(snapshot: Snapshot, asset: AssetRow) -> list[CheckResultRow]:
    """What every check said when it ran last."""
    mine = Lookup(snapshot).all(CheckResultRow, asset_key=asset.asset_key)
    newest = {row.check_name: row for row in sorted(mine, key=lambda row: row.evaluated_at)}
    return [newest[name] for name in sorted(newest)]
