"""Since when partitions are stale, computed only on demand.

Only the latest output of a partition and of its upstream partitions is known, so the answer is an
upper bound: after an upstream asset was materialized twice, the second time counts. For several
partitions, the earliest time is returned.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import cached_property

from servo.core.freshness import judge, read_policy
from servo.core.state.rows.assets import AssetRow
from servo.errors import Invalid
from servo.projection.files.arrow import ArrowColumn, pa, pc
from servo.projection.partitions.newest import newest
from servo.projection.partitions.table import PartitionTable, UpstreamTable
from servo.sdk.partitions.status import StaleReason

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

StaleSince = Callable[[StaleReason, int, int], datetime | None]
"""The reason, and the numbers of the first and the last of the partitions."""


def never_known(reason: StaleReason, low: int, high: int) -> None:
    """The answer if nothing is recorded."""
    del reason, low, high


class StaleTimes:
    """The partitions of one asset, at one moment."""

    def __init__(
        self,
        asset: AssetRow,
        table: PartitionTable,
        upstream: Sequence[UpstreamTable],
        now: datetime,
    ) -> None:
        self._asset = asset
        self._table = table
        self._upstream = upstream
        self._now = now

    def since(self, reason: StaleReason, low: int, high: int) -> datetime | None:
        """Since when the first of these partitions is stale; None if that is not known."""
        match reason:
            case StaleReason.NEVER_MATERIALIZED:
                return None
            case StaleReason.CODE_CHANGED:
                return self._asset.code_changed_at
            case StaleReason.UPSTREAM_CHANGED:
                return _earliest(self._changed_at, low, high)
            case StaleReason.FRESHNESS_POLICY:
                made_at = _earliest(self._table.made_at, low, high)
                return fails_since(self._asset, made_at, self._now)

    @cached_property
    def _changed_at(self) -> ArrowColumn:
        """When the first upstream that is newer than a partition was materialized; null if none."""
        found: ArrowColumn | None = None
        for one in self._upstream:
            times = newest(one.edge, one.made_at())
            is_newer = pc.greater(newest(one.edge, one.made), self._table.made)
            times = pc.if_else(is_newer, times, pa.scalar(None, times.type))
            found = times if found is None else pc.min_element_wise(found, times)
        return pa.array([], pa.int64()) if found is None else found


def fails_since(asset: AssetRow, made_at: datetime | None, now: datetime) -> datetime | None:
    """Since when an output of this time is older than the policy of its asset allows."""
    try:
        return judge(read_policy(asset.freshness_policy), made_at, now).since
    except Invalid:
        return None  # of a later version: unknown


def microseconds(at: datetime | None) -> int:
    """An instant as the columns here have it; 0 for none."""
    return 0 if at is None else (at - _EPOCH) // timedelta(microseconds=1)


def _earliest(times: ArrowColumn, low: int, high: int) -> datetime | None:
    found = pc.min(times.slice(low, high + 1 - low)).as_py()
    return None if not found else _EPOCH + timedelta(microseconds=found)
