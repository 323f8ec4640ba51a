"""The records of one asset's partitions in columns, and the status that follows from them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime

import msgspec

from servo.core import bitmaps
from servo.projection.files.arrow import ArrowColumn, ArrowTable, pa, pc
from servo.projection.partitions.columns import bits_of
from servo.projection.partitions.newest import newest
from servo.projection.partitions.places import RowPlaces
from servo.sdk.partitions.mapping_resolution import Edge
from servo.sdk.partitions.space import PartitionSpace
from servo.sdk.partitions.status import PartitionStatus, StaleReason, first_reasons, ordinal_of

KEY = "partition_key"
MADE = "last_materialization_seq"
MADE_AT = "last_materialization_at"
VERSION = "last_materialization_code_version"
OUTCOME = "last_attempt_outcome"

_FAILED = ("FAILED", "TIMED_OUT")


class StalenessPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """What counts as current: the version of the code, and since when an output is fresh."""

    code_version: str = ""
    fresh_since: datetime | None = None

    def columns(self) -> list[str]:
        """The columns needed to decide which partitions are current."""
        version = [VERSION] if self.code_version else []
        return version if self.fresh_since is None else [*version, MADE_AT]


class UpstreamTable(msgspec.Struct, frozen=True, kw_only=True):
    """An upstream asset: its mapping, and when each partition was materialized."""

    edge: Edge
    made: ArrowColumn
    made_at: Callable[[], ArrowColumn]
    """The same as instants, in microseconds; read on demand."""


class PartitionTable:
    """The rows of an asset, and the partitions they are about.

    `rows` has a column of keys, and the other columns that will be needed.
    """

    def __init__(self, space: PartitionSpace, rows: ArrowTable, places: RowPlaces) -> None:
        self._space = space
        self._rows = rows
        self.places = places
        self.made: ArrowColumn = places.spread(rows[MADE], 0)
        """The ledger entry of the latest output of each partition, 0 for none."""
        self._there = bits_of(pc.greater(self.made, 0))

    @property
    def made_at(self) -> ArrowColumn:
        """When each partition was last materialized, in microseconds; 0 for never."""
        return self.places.spread(pc.cast(self._rows[MADE_AT], pa.int64()), 0)

    def status(self, in_progress: Iterable[str] = ()) -> PartitionStatus:
        """The status of the partitions; `in_progress` are those in active tasks, by stored key."""
        busy = [ordinal_of(self._space.what, self._space, key) for key in in_progress]
        failed = pc.is_in(self._rows[OUTCOME], value_set=pa.array(_FAILED))
        return PartitionStatus(
            count=self._space.count,
            made=self._there,
            failed=bits_of(self.places.spread(failed, False)),
            in_progress=bitmaps.bitmap(n for n in busy if n is not None),
            outside=tuple(self.places.outside()),
        )

    def stale(
        self, policy: StalenessPolicy, upstream: Sequence[UpstreamTable]
    ) -> Mapping[StaleReason, int]:
        """The partitions that are stale, by the first reason that holds."""
        changed = bitmaps.EMPTY
        for one in upstream:
            changed |= bits_of(pc.greater(newest(one.edge, one.made), self.made))
        return first_reasons(
            {
                StaleReason.NEVER_MATERIALIZED: self._space.everything & ~self._there,
                StaleReason.CODE_CHANGED: self._of_other_code(policy.code_version),
                StaleReason.UPSTREAM_CHANGED: changed,
                StaleReason.FRESHNESS_POLICY: self._too_old(policy.fresh_since),
            }
        )

    def _of_other_code(self, version: str) -> int:
        if not version:
            return bitmaps.EMPTY
        had = self._rows[VERSION]
        other = pc.and_(pc.not_equal(had, version), pc.not_equal(had, ""))
        return bits_of(self.places.spread(other, False))

    def _too_old(self, since: datetime | None) -> int:
        if since is None:
            return bitmaps.EMPTY
        old = pc.less(self._rows[MADE_AT], pa.scalar(since, pa.timestamp("us", "UTC")))
        return bits_of(self.places.spread(old, False))
