"""Which assets of a request are stale, for requests with `stale_assets_only`.

An asset or a partition is stale if it was never materialized, if its code version has changed
since, if an upstream asset was materialized after it, or if it is older than its policy allows.
Assets downstream of a stale asset of the same request are stale as well: they will be as soon as
that one is materialized.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime

from servo.core.freshness import FreshnessState, judge, read_policy
from servo.core.keys import AssetKey
from servo.core.state.rows.assets import AssetRow
from servo.errors import Invalid
from servo.projection.files.arrow import pa, pc
from servo.projection.partitions.report import PartitionReader
from servo.projection.read.reader import Snapshot
from servo.sdk.definitions.project import Project


def stale_of(
    project: Project,
    keys: Sequence[AssetKey],
    partition: str | None,
    *,
    snapshot: Snapshot,
    now: datetime,
) -> tuple[AssetKey, ...]:
    """The stale ones among these assets, judged by one partition if it is named."""
    workspace = PartitionReader(snapshot, now)
    whole = _WholeAssets(workspace.assets, snapshot, now)
    found: dict[AssetKey, None] = {}
    for key in project.executable(keys):
        row = workspace.assets.get(key.canonical())
        if row is None or any(up in found for up in project.upstream[key]):
            found[key] = None
        elif partition is not None and row.partitions:
            if _is_stale(workspace, row, partition):
                found[key] = None
        elif whole.is_stale(row):
            found[key] = None
    return tuple(found)


def _is_stale(workspace: PartitionReader, row: AssetRow, partition: str) -> bool:
    """Whether a partition is stale; an unknown one was never materialized."""
    report = workspace.report(row.asset_key)
    number = report.space.ordinal(partition)
    return number is None or bool(sum(report.stale.values()) >> number & 1)


class _WholeAssets:
    """The current state of assets without partitions."""

    def __init__(self, rows: Mapping[str, AssetRow], snapshot: Snapshot, now: datetime) -> None:
        self._rows = rows
        self._snapshot = snapshot
        self._now = now

    def is_stale(self, row: AssetRow) -> bool:
        made = row.last_materialization_seq
        if made is None:
            return True
        above = [self._rows[name] for name in row.upstream if name in self._rows]
        if any((up.last_materialization_seq or 0) > made for up in above):
            return True
        return self._code_changed(row) or self._is_old(row)

    def _code_changed(self, row: AssetRow) -> bool:
        if not row.code_version:
            return False
        made = self._snapshot.table("materializations", only=("materialization_id", "code_version"))
        mine = made.filter(
            pc.equal(made["materialization_id"], pa.scalar(row.last_materialization_id))
        )
        return any(version != row.code_version for version in mine["code_version"].to_pylist())

    def _is_old(self, row: AssetRow) -> bool:
        try:
            policy = read_policy(row.freshness_policy) if row.freshness_policy else None
        except Invalid:
            return False
        if policy is None:
            return False
        state = judge(policy, row.last_materialization_at, self._now).state
        return state is FreshnessState.FAIL
