"""What is stored of assets, as tables that SQL can read.

Tables are what they are. Of plain values a list of objects is a table already; a list of anything
else is a column `value`, an object is one row, and a single value is one row with one column. A
pickle is never opened here: only the code that made it knows what is in it.
"""

import json
from collections.abc import Sequence
from importlib import import_module
from typing import Any, cast

from servo.core.state.rows.assets import AssetRow, MaterializationRow
from servo.errors import Invalid, NotFound
from servo.projection.arrow import ArrowTable
from servo.projection.reader import Snapshot
from servo.worker.naming import find_asset
from servo.worker.outputs import OutputStore
from servo.worker.tables import PREFIX, arrow_table

COLUMN = "value"


class AssetData:
    """The latest outputs of a snapshot's assets; read when they are asked for."""

    def __init__(self, snapshot: Snapshot, outputs: OutputStore) -> None:
        self._snapshot = snapshot
        self._outputs = outputs
        self._assets: dict[str, AssetRow] | None = None

    def names(self) -> list[str]:
        """Every asset that is known."""
        return sorted(self._known())

    def table(self, name: str) -> ArrowTable:
        """The data of the asset that is called this; an error that says why there is none."""
        key = find_asset(self._known(), name)
        row = self._known()[key]
        if row.last_materialization_id is None:
            raise NotFound(
                f"{key} has not been materialized",
                remedy=f"run `servo materialize`, then ask again; see `servo asset show {key}`",
            )
        if not row.last_output_uri:
            raise self._not_here(key, row.last_materialization_id)
        codec, data = self._outputs.read(row.last_output_uri)
        if codec.startswith(PREFIX):
            return arrow_table(data)
        return as_table(key, codec, data)

    def _known(self) -> dict[str, AssetRow]:
        if self._assets is None:
            rows = self._snapshot.rows("assets")
            self._assets = {row.asset_key: row for row in rows if isinstance(row, AssetRow)}
        return self._assets

    def _not_here(self, key: str, made: str) -> Invalid:
        rows = self._snapshot.rows("materializations")
        found = [r for r in rows if isinstance(r, MaterializationRow)]
        manager = next((r.output_format for r in found if r.materialization_id == made), "")
        if manager:
            return Invalid(
                f"{key} is stored by its IO manager {manager!r}, which only Python can ask",
                remedy="read it where the IO manager keeps it, or return the table itself",
            )
        return Invalid(
            f"{key} returns nothing, so nothing is stored of it",
            remedy="return a table or plain data from its function",
        )


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
            f"the values of {key} do not make a table: {error}",
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
