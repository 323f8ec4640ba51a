"""The stored data of assets, as tables that SQL can read.

Tables stay as they are. Of plain values, a list of objects becomes a table; a list of anything else
becomes a column `value`, an object one row, and a single value one row with one column. A pickle is
never opened here: only the code that wrote it knows what is in it. An asset with partitions is one
table of all materialized partitions, with a column that names the partition of each row.
"""

import json
from collections.abc import Sequence
from datetime import datetime
from importlib import import_module
from typing import Any, cast

from servo.core.state.rows.assets import AssetRow, MaterializationRow, PartitionStatusRow
from servo.errors import Invalid, NotFound
from servo.execution.outputs.store import OutputStore
from servo.execution.outputs.tables import PREFIX, arrow_table
from servo.projection.files.arrow import ArrowTable, pa
from servo.projection.partitions.asset_names import find_asset
from servo.projection.partitions.stored import StoredPartitions, is_partitioned
from servo.projection.read.lookup import Lookup
from servo.projection.read.reader import Snapshot

COLUMN = "value"
PARTITION = "_partition"


class AssetData:
    """The latest outputs of a snapshot's assets, read on demand."""

    def __init__(self, snapshot: Snapshot, outputs: OutputStore, now: datetime) -> None:
        self._snapshot = snapshot
        self._outputs = outputs
        self._now = now
        self._assets: dict[str, AssetRow] | None = None

    def names(self) -> list[str]:
        """Every asset that is known."""
        return sorted(self._known())

    def table(self, name: str) -> ArrowTable:
        """The data of the asset of this name; an error that says why there is none."""
        key = find_asset(self._known(), name)
        row = self._known()[key]
        if row.last_materialization_id is None:
            raise NotFound(
                f"{key} has not been materialized",
                remedy=f"run `servo materialize` first; see `servo asset show {key}`",
            )
        if not row.last_output_uri:
            raise self._not_here(key, row.last_materialization_id)
        if is_partitioned(row):
            return self._partitions(row)
        return self._read(key, row)

    def _read(self, key: str, row: AssetRow | PartitionStatusRow) -> ArrowTable:
        codec, data = self._outputs.read(row.last_output_uri, row.last_content_hash)
        return arrow_table(data) if codec.startswith(PREFIX) else as_table(key, codec, data)

    def _partitions(self, asset: AssetRow) -> ArrowTable:
        """Every partition that stored something; a column is missing where a partition lacks it."""
        rows = StoredPartitions(self._snapshot, asset, self._now).made()
        tables: list[ArrowTable] = []
        for name, row in rows.items():
            if row.last_output_uri:
                table = self._read(f"{asset.asset_key}:{name}", row)
                tables.append(_named(table, name))
        try:
            return pa.concat_tables(tables, promote_options="permissive")
        except import_module("pyarrow").ArrowException as error:
            raise Invalid(
                f"the partitions of {asset.asset_key} cannot be combined into one table: {error}",
                remedy=f"use servo.load_asset({asset.asset_key!r}), which returns each partition",
            ) from error

    def _known(self) -> dict[str, AssetRow]:
        if self._assets is None:
            rows = self._snapshot.rows("assets")
            self._assets = {row.asset_key: row for row in rows if isinstance(row, AssetRow)}
        return self._assets

    def _not_here(self, key: str, made: str) -> Invalid:
        found = Lookup(self._snapshot).all(MaterializationRow, materialization_id=made)
        manager = next((row.output_format for row in found), "")
        if manager:
            return Invalid(
                f"{key} is stored by its IO manager {manager!r}, which only Python can read",
                remedy="read it where the IO manager keeps it, or return the table itself",
            )
        return Invalid(
            f"{key} returns nothing, so it has no stored data",
            remedy="return a table or plain data from its function",
        )


def _named(table: ArrowTable, partition: str) -> ArrowTable:
    """A table with the partition that it is of in every row."""
    if PARTITION in table.column_names:
        return table
    named = pa.repeat(pa.scalar(partition, pa.string()), len(table))
    return table.append_column(PARTITION, named)


def as_table(key: str, codec: str, data: bytes) -> ArrowTable:
    """A plain value as a table; `Invalid` if it has no such form."""
    match codec:
        case "json":
            return _from_json(key, json.loads(data))
        case "text":
            return _column([data.decode()])
        case "bytes":
            return _column([data])
        case _:
            raise Invalid(
                f"{key} is stored as a {codec}, which only Python can read",
                remedy=f"use servo.load_asset({key!r}), or return a table or plain data",
            )


def _from_json(key: str, value: Any) -> ArrowTable:
    try:
        if isinstance(value, dict):
            return _objects([cast("dict[str, Any]", value)])
        if not isinstance(value, list):
            return _column([value])
        items = cast("list[Any]", value)
        objects = bool(items) and all(isinstance(item, dict) for item in items)
        return _objects(items) if objects else _column(items)
    except (import_module("pyarrow").ArrowException, OverflowError) as error:
        raise Invalid(
            f"the values of {key} cannot be read as a table: {error}",
            remedy=f"give each column one type, or use servo.load_asset({key!r})",
        ) from error


def _objects(items: Sequence[dict[str, Any]]) -> ArrowTable:
    names = dict.fromkeys(name for item in items for name in item)
    if not names:
        return _column([None] * len(items))
    table = {name: [item.get(name) for item in items] for name in names}
    return import_module("pyarrow").table(table)


def _column(values: Sequence[Any]) -> ArrowTable:
    return import_module("pyarrow").table({COLUMN: values})
