"""Which run, task, asset or partition a question is about."""

from datetime import datetime
from shlex import quote

from servo.core.explain.naming import find_partition, split_subject
from servo.core.explain.records import Records, Subject
from servo.core.state.rows.assets import AssetRow
from servo.core.state.rows.automation import BackfillRow
from servo.core.state.rows.execution import RunRow, TaskRow
from servo.errors import Conflict, NotFound
from servo.projection.partitions.asset_names import find_asset
from servo.projection.partitions.stored import StoredPartitions
from servo.projection.read.lookup import Lookup
from servo.projection.read.reader import Snapshot


def asset_in(snapshot: Snapshot, text: str, partition: str | None, now: datetime) -> Subject:
    """The asset, or the partition of it, that `ASSET:PARTITION` means.

    A partition is known by its asset's definition, or, as of one that the asset no longer has, by
    something on record of it.
    """
    keys = set(snapshot.table("assets", only=["asset_key"]).column("asset_key").to_pylist())
    name, rest = (text, None) if partition is not None else split_subject(keys, text)
    asset = find_asset(keys, name)
    wanted = partition if partition is not None else rest
    if wanted is None:
        return Subject(asset)
    if defined := _defined(snapshot, asset, wanted, now):
        return Subject(asset, defined)
    known = _partitions(snapshot, asset)
    found = find_partition(known, asset, wanted)
    if found not in known:
        raise NotFound(
            f"{asset} has no partition {wanted!r}",
            remedy=f"see `servo partitions list {quote(asset)}`",
        )
    return Subject(asset, found)


def _defined(snapshot: Snapshot, asset_key: str, text: str, now: datetime) -> str | None:
    """The partition that an asset's definition, as it was deployed, has under this name."""
    [row] = Lookup(snapshot).all(AssetRow, asset_key=asset_key)
    return StoredPartitions(snapshot, row, now).typed(text)


def _partitions(snapshot: Snapshot, asset_key: str) -> set[str]:
    """The partitions of an asset that anything is on record of."""
    lookup = Lookup(snapshot)
    known = {
        *lookup.values("partition_status", "partition_key", asset_key=asset_key),
        *lookup.values("tasks", "partition_key", asset_key=asset_key),
        *lookup.values("tasks", "partition_key", also_makes=asset_key),
    }
    for row in lookup.rows("backfills", asset_selection=asset_key):
        known.update(row.partition_keys if isinstance(row, BackfillRow) else ())
    return known


def task_in(records: Records, run: RunRow, text: str) -> TaskRow:
    """The task of a run that its key, its asset or `ASSET:PARTITION` means."""
    tasks = records.tasks(run.run_id)
    if text in tasks:
        return tasks[text]
    made = {key for row in tasks.values() for key in (row.asset_key, *row.also_makes)}
    name, part = split_subject(made, text)
    try:
        asset = find_asset(made, name)
    except NotFound as error:
        raise NotFound(
            f"{run.run_id} has no task for {name!r}", remedy=f"see `servo run show {run.run_id}`"
        ) from error
    mine = [row for row in tasks.values() if asset in (row.asset_key, *row.also_makes)]
    if part is not None:
        known = {row.partition_key for row in mine if row.partition_key is not None}
        wanted = find_partition(known, asset, part)
        mine = [row for row in mine if row.partition_key == wanted]
    if len(mine) != 1:
        keys = ", ".join(row.task_key for row in mine[:5])
        raise Conflict(
            f"{run.run_id} has {len(mine)} tasks for {text!r}{': ' if keys else ''}{keys}",
            remedy=f"use the key of one task; see `servo run show {run.run_id}`",
        )
    return mine[0]
