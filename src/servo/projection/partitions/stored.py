"""The records of an asset's partitions, under the names that people use.

A name is read by the definition that was last deployed. A partition that was removed from the
definition, or that only the code can name, is found by its values.
"""

from collections.abc import Mapping
from datetime import datetime

from servo.core.explain.naming import find_partition
from servo.core.partitions import shown_partition
from servo.core.state.rows.assets import AssetRow, PartitionStatusRow
from servo.errors import Invalid, NotFound
from servo.projection.partitions.report import PartitionReader
from servo.projection.read.lookup import Lookup
from servo.projection.read.reader import Snapshot
from servo.sdk.partitions.definition import MultiPartitionKey, PartitionsDefinition
from servo.sdk.partitions.text import partitions_from_text

PartitionName = str | Mapping[str, str]
"""A partition: its key, or that of each dimension."""


class StoredPartitions:
    """The partitions of one asset in one snapshot."""

    def __init__(self, snapshot: Snapshot, asset: AssetRow, now: datetime) -> None:
        self._snapshot = snapshot
        self._asset = asset.asset_key
        self._definition = _definition(asset)
        self._moment = PartitionReader(snapshot, now).moment

    def made(self) -> dict[str, PartitionStatusRow]:
        """Those that are materialized, by name, in the order of their definition."""
        rows = Lookup(self._snapshot).all(PartitionStatusRow, asset_key=self._asset)
        found = {self._name(row.partition_key): row for row in rows if row.last_materialization_id}
        if self._definition is None:
            return dict(sorted(found.items()))
        space = self._moment.space(self._definition)
        places = {name: space.number(name) if name in space else -1 for name in found}
        return {name: found[name] for name in sorted(found, key=lambda name: (places[name], name))}

    def typed(self, name: PartitionName) -> str | None:
        """The partition that the definition has under this name; None if it has no such one."""
        text = name if isinstance(name, str) else MultiPartitionKey(name)
        if self._definition is None:
            return None
        try:
            known = text in self._moment.space(self._definition)
            return self._definition.typed_key(text).canonical() if known else None
        except Invalid:
            return None

    def one(self, name: PartitionName) -> PartitionStatusRow | None:
        """The record of a partition; `NotFound` if there is no such partition."""
        lookup = Lookup(self._snapshot)
        typed = self.typed(name)
        if typed is None:
            keys = lookup.values("partition_status", "partition_key", asset_key=self._asset)
            text = name if isinstance(name, str) else MultiPartitionKey(name)
            typed = find_partition(keys, self._asset, text)
            if typed not in keys:
                raise NotFound(
                    f"{self._asset} has no partition {text!r}",
                    remedy=f"see `servo partitions list {self._asset}`",
                )
        rows = lookup.all(PartitionStatusRow, asset_key=self._asset, partition_key=typed)
        return next(iter(rows), None)

    def _name(self, typed: str) -> str:
        if self._definition is not None:
            try:
                return self._definition.plain_key(typed)
            except Invalid:
                pass  # a partition from before the definition changed
        return str(shown_partition(typed))


def is_partitioned(asset: AssetRow) -> bool:
    """Whether an asset has partitions, as far as is recorded."""
    return bool(asset.partitions) or asset.last_partition_key is not None


def _definition(asset: AssetRow) -> PartitionsDefinition | None:
    try:
        return partitions_from_text(asset.partitions)
    except Invalid:
        return None  # only its code knows its partitions_def
