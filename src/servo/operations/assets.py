"""Assets: show one, list its outputs, and wipe it."""

import json
from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec
from msgspec.structs import asdict, replace

from servo.core.events.assets import AssetWiped
from servo.core.events.tasks import Gate, TaskOutcome
from servo.core.explain.records import Subject
from servo.core.freshness import UNJUDGED, FreshnessState, judge, read_policy
from servo.core.state.rows.assets import (
    AssetRow,
    CheckResultRow,
    MaterializationRow,
    PartitionStatusRow,
)
from servo.core.state.rows.conditions import AssetFreshnessRow, FreshnessChangeRow
from servo.errors import Conflict, Invalid, NotFound
from servo.operations.interface.listing import Page
from servo.operations.interface.moments import PRESENT, AsOf, instant_of
from servo.operations.interface.roles import operation, step
from servo.operations.interface.subjects import asset_in
from servo.projection.partitions.asset_names import find_asset
from servo.projection.read.lookup import Lookup
from servo.projection.read.reader import Snapshot
from servo.sdk.metadata.entries import decode_metadata
from servo.workspace.receipt import Receipt
from servo.workspace.workspace import Workspace


class OutputVerdict(StrEnum):
    """The status of an output."""

    LATEST = "latest"
    PROMOTED = "promoted"
    WARNED = "promoted with a warning"
    HELD = "quarantined"
    REJECTED = "rejected"
    WIPED = "wiped"


class Freshness(msgspec.Struct, frozen=True, kw_only=True):
    """Whether an asset meets its freshness policy, since when, and when that may change."""

    policy: str
    state: FreshnessState = FreshnessState.UNKNOWN
    since: datetime | None = None
    next_change: datetime | None = None


class AssetDetail(msgspec.Struct, frozen=True, kw_only=True):
    """An asset, its latest output with its metadata, and the last result of each check.

    With `partition_key`, the output and the checks are those of this partition. Otherwise they are
    the latest of any partition.
    """

    asset: AssetRow
    partition_key: str | None = None
    downstream: list[str]
    latest: MaterializationRow | None
    metadata: dict[str, Any] = {}
    checks: list[CheckResultRow]
    freshness: Freshness | None = None


class AssetOutput(MaterializationRow, frozen=True, kw_only=True):
    """One output of an asset, and its status."""

    verdict: OutputVerdict


class AssetHistory(msgspec.Struct, frozen=True, kw_only=True):
    """A page of an asset's outputs, newest first.

    `late_successes` counts attempts that succeeded after Servo had given them up.
    """

    asset_key: str
    items: list[AssetOutput]
    next_cursor: str | None = None
    late_successes: int = 0


class FreshnessHistory(msgspec.Struct, frozen=True, kw_only=True):
    """A page of the changes of an asset's freshness, newest first."""

    asset_key: str
    policy: str
    items: list[FreshnessChangeRow]
    next_cursor: str | None = None


class AssetToWipe(msgspec.Struct, frozen=True, kw_only=True):
    """What a wipe would remove."""

    asset_key: str
    last_materialization_id: str


class WipeResult(msgspec.Struct, frozen=True, kw_only=True):
    """An asset whose outputs no longer count, and the workspace's answer."""

    asset_key: str
    receipt: Receipt


@operation
def get_asset(
    workspace: Workspace,
    key: str,
    *,
    partition: str | None = None,
    as_of: AsOf | None = None,
) -> AssetDetail:
    """One asset, or a partition of it, and its latest output.

    The last part of a key is enough if it is unambiguous. `ASSET:PARTITION` names a partition, too.
    """

    def use(snapshot: Snapshot) -> AssetDetail:
        now = instant_of(snapshot, as_of, workspace.now())
        return asset_detail(snapshot, asset_in(snapshot, key, partition, now), now)

    return workspace.read(use, as_of=as_of)


@operation
def list_outputs(
    workspace: Workspace, key: str, page: Page, *, as_of: AsOf | None = None
) -> AssetHistory:
    """The outputs of an asset, newest first, with the status of each."""
    return workspace.read(lambda snapshot: outputs_of_asset(snapshot, key, page), as_of=as_of)


@operation
def list_freshness_changes(
    workspace: Workspace, key: str, page: Page, *, as_of: AsOf | None = None
) -> FreshnessHistory:
    """The changes of an asset's freshness, newest first."""
    return workspace.read(lambda snapshot: freshness_changes(snapshot, key, page), as_of=as_of)


@operation
def preview_wipe(workspace: Workspace, key: str) -> AssetToWipe:
    """What `wipe_asset` would remove; `Conflict` if there is nothing."""
    row = workspace.read(lambda snapshot: find_asset_row(snapshot, key), as_of=PRESENT)
    if row.last_materialization_id is None:
        raise Conflict(
            f"{row.asset_key} has no output to wipe",
            remedy=f"see `servo asset history {row.asset_key}`",
        )
    return AssetToWipe(asset_key=row.asset_key, last_materialization_id=row.last_materialization_id)


@operation
def wipe_asset(workspace: Workspace, key: str) -> WipeResult:
    """Wipe an asset: from now on it counts as never materialized."""
    found = preview_wipe(workspace, key).asset_key
    event = AssetWiped(asset_key=found, requested_by=workspace.actor)
    return WipeResult(asset_key=found, receipt=workspace.submit(event).checked())


# --- what a snapshot knows ------------------------------------------------------------------------


def asset_detail(snapshot: Snapshot, subject: Subject, now: datetime) -> AssetDetail:
    """An asset or a partition of it, its latest output and its checks."""
    assets = asset_rows(snapshot)
    row, part = assets[subject.asset_key], subject.partition_key
    lookup = Lookup(snapshot)
    last = row.last_materialization_id if part is None else _last_of(lookup, subject)
    made = [] if last is None else lookup.all(MaterializationRow, materialization_id=last)
    below = [o.asset_key for o in assets.values() if o.defined and row.asset_key in o.upstream]
    return AssetDetail(
        asset=row,
        partition_key=part,
        downstream=sorted(below),
        latest=made[0] if made else None,
        metadata=plain_metadata(made[0].metadata) if made else {},
        checks=_last_results(lookup, subject),
        freshness=_freshness(lookup, row, now) if row.freshness_policy else None,
    )


def outputs_of_asset(snapshot: Snapshot, name: str, page: Page) -> AssetHistory:
    """A page of the outputs of an asset."""
    row, lookup = find_asset_row(snapshot, name), Lookup(snapshot)
    late = lookup.values("tasks", "late_outcome", asset_key=row.asset_key)
    found = lookup.page(
        MaterializationRow,
        page,
        name="materialization_id",
        newest=("created_seq",),
        asset_key=row.asset_key,
    )
    return AssetHistory(
        asset_key=row.asset_key,
        items=[AssetOutput(**asdict(one), verdict=verdict(row, one)) for one in found.rows],
        next_cursor=found.older,
        late_successes=late.count(TaskOutcome.SUCCEEDED.value),
    )


def freshness_changes(snapshot: Snapshot, name: str, page: Page) -> FreshnessHistory:
    """A page of the changes of an asset's freshness."""
    row = find_asset_row(snapshot, name)
    found = Lookup(snapshot).page(
        FreshnessChangeRow, page, name="version", newest=("version",), asset_key=row.asset_key
    )
    return FreshnessHistory(
        asset_key=row.asset_key,
        policy=row.freshness_policy,
        items=found.rows,
        next_cursor=found.older,
    )


def asset_rows(snapshot: Snapshot) -> dict[str, AssetRow]:
    """Every asset that the workspace knows, by key."""
    rows = snapshot.rows("assets")
    return {row.asset_key: row for row in rows if isinstance(row, AssetRow)}


@step
def locations_of_assets(workspace: Workspace, keys: Sequence[str]) -> dict[str, str]:
    """The code locations that deployed assets with these keys; unknown keys are left out."""
    try:
        rows = workspace.read(asset_rows)
    except NotFound:
        return {}
    return {key: rows[key].location for key in keys if key in rows and rows[key].defined}


def find_asset_row(snapshot: Snapshot, name: str) -> AssetRow:
    """The asset with this name; `NotFound` suggests similar ones, `Conflict` lists all matches."""
    assets = asset_rows(snapshot)
    return assets[find_asset(assets, name)]


def verdict(asset: AssetRow, made: MaterializationRow) -> OutputVerdict:
    """The status of an output of an asset."""
    if made.materialization_id == asset.last_materialization_id:
        return OutputVerdict.LATEST
    if not made.promoted:
        return OutputVerdict.HELD if made.decided_at is None else OutputVerdict.REJECTED
    if asset.last_materialization_id is None:
        return OutputVerdict.WIPED
    return OutputVerdict.WARNED if made.gating_decision is Gate.WARNED else OutputVerdict.PROMOTED


def plain_metadata(metadata: str) -> dict[str, Any]:
    """Stored metadata as plain values by name."""
    known = decode_metadata(metadata)  # `Corrupt` unless all of it can be read
    return {name: json.loads(metadata)[name]["value"] for name in known}


def _freshness(lookup: Lookup, asset: AssetRow, now: datetime) -> Freshness:
    found = Freshness(policy=asset.freshness_policy)
    judgement = lookup.all(AssetFreshnessRow, asset_key=asset.asset_key)
    if not judgement:
        return found
    row = judgement[0]
    try:
        judged = judge(read_policy(asset.freshness_policy), asset.last_materialization_at, now)
    except Invalid:  # written by a later version, which this one cannot judge by
        judged = UNJUDGED
    due = judged.next_due if judged.state is row.state else None
    return replace(found, state=row.state, since=row.changed_at, next_change=due)


def _last_of(lookup: Lookup, subject: Subject) -> str | None:
    """The latest output of a partition."""
    found = lookup.all(
        PartitionStatusRow,
        asset_key=subject.asset_key,
        partition_key=subject.partition_key or "",
    )
    return found[0].last_materialization_id if found else None


def _last_results(lookup: Lookup, subject: Subject) -> list[CheckResultRow]:
    """The last result of each check of an asset or a partition, by name."""
    part = {} if subject.partition_key is None else {"partition_key": subject.partition_key}
    mine = lookup.all(CheckResultRow, asset_key=subject.asset_key, **part)
    newest = {row.check_name: row for row in sorted(mine, key=lambda row: row.evaluated_at)}
    return [newest[name] for name in sorted(newest)]
