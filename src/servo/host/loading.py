"""`load_asset()`: the value of an asset, now or as it was."""

import os
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from servo.core.state.rows.assets import AssetRow, MaterializationRow, PartitionStatusRow
from servo.errors import Invalid, NotFound
from servo.execution.outputs.store import OutputStore
from servo.projection.partitions.stored import PartitionName, StoredPartitions, is_partitioned
from servo.projection.read.lookup import Lookup
from servo.projection.read.reader import Reader, Snapshot
from servo.projection.read.replay import AsOf
from servo.sdk.assets.specs import to_key
from servo.workspace.address import DEFAULT_NAME, Address
from servo.workspace.composition import open_to_read
from servo.workspace.usual_address import usual_address


def load_asset(
    key: Any,
    *,
    partition: PartitionName | None = None,
    as_of: AsOf | None = None,
    store: str | None = None,
    tenant: str | None = None,
    workspace: str | None = None,
) -> Any:
    """The value of an asset: the latest, or the latest at an instant or after a ledger entry.

    `partition` is the key of one, or the key of each dimension by its name; without it, an asset
    with partitions is loaded as a dict of all materialized partitions by key. A wiped asset has no
    value. Outputs in quarantine are never loaded. What an IO manager stored is loaded by that
    manager. Data that the asset's retention no longer keeps raises `NotFound`.

    Without `store`, it reads the workspace that commands in this folder use: `$SERVO_STORE`, the
    project file, or the folder `.servo`. With `store`, the project file is not consulted.
    """
    address = _address(store, tenant, workspace)
    address.check_exists()  # a mistyped folder would be created by reading from it
    world, paths = open_to_read(address.store), address.paths
    reader = Reader(world.store, paths)
    asked = _Asked(reader.snapshot(as_of=as_of), to_key(key).canonical(), world.clock.now(), as_of)
    made = asked.made(partition)
    _check_kept(reader if as_of is not None else None, list(made.values()))
    outputs = OutputStore(world.store, paths)
    values = {
        name: outputs.load(row.output_uri, row.content_hash) if row.output_uri else None
        for name, row in made.items()
    }
    return values if asked.whole(partition) else values[_ONE]


def _address(store: str | None, tenant: str | None, workspace: str | None) -> Address:
    if store is None:
        return usual_address(Path.cwd(), os.environ, tenant=tenant, workspace=workspace)
    return Address.of(store, tenant or DEFAULT_NAME, workspace or DEFAULT_NAME)


_ONE = ""


class _Asked:
    """One asset in one snapshot, and which of its outputs are meant."""

    def __init__(self, snapshot: Snapshot, name: str, now: datetime, as_of: AsOf | None) -> None:
        self._lookup = Lookup(snapshot)
        self._name = name
        self._when = "" if as_of is None else f" as of {as_of}"
        self._row = next(iter(self._lookup.all(AssetRow, asset_key=name)), None)
        self._partitions = (
            None
            if self._row is None or not is_partitioned(self._row)
            else StoredPartitions(snapshot, self._row, now)
        )

    def whole(self, partition: PartitionName | None) -> bool:
        """Whether all partitions are meant."""
        return self._partitions is not None and partition is None

    def made(self, partition: PartitionName | None) -> dict[str, MaterializationRow]:
        """The outputs that are meant, by the names of their partitions; of one only, by none."""
        if self._partitions is None:
            if partition is not None and self._row is not None:
                raise Invalid(
                    f"{self._name} has no partitions", remedy="load it without a partition"
                )
            return {_ONE: self._output(self._row, self._name)}
        if partition is not None:
            row = self._partitions.one(partition)
            return {_ONE: self._output(row, f"{self._name}:{partition}")}
        rows = self._partitions.made()
        ids = [row.last_materialization_id or "" for row in rows.values()]
        found = self._lookup.any(MaterializationRow, "materialization_id", ids)
        outputs = {row.materialization_id: row for row in found}
        return {name: outputs[made] for name, made in zip(rows, ids, strict=True)}

    def _output(self, row: AssetRow | PartitionStatusRow | None, what: str) -> MaterializationRow:
        made = None if row is None else row.last_materialization_id
        if made is None:
            raise NotFound(
                f"{what} has not been materialized{self._when}", remedy="materialize it first"
            )
        return self._lookup.all(MaterializationRow, materialization_id=made)[0]


def _check_kept(now: Reader | None, made: Sequence[MaterializationRow]) -> None:
    """`NotFound` if data has expired: the past does not know it yet, so the present is asked."""
    if now is not None:
        ids = [row.materialization_id for row in made]
        lookup = Lookup(now.snapshot())
        made = lookup.any(MaterializationRow, "materialization_id", ids)
    for row in made:
        if row.expired_at is not None:
            raise NotFound(
                f"the data of {row.asset_key} from {row.created_at} expired at {row.expired_at}",
                remedy="load a newer version; to keep more of them, extend the asset's retention",
            )
