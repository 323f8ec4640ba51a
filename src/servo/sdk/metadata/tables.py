"""Metadata about tables: records, columns, constraints and column lineage."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from servo.errors import Invalid
from servo.sdk.assets.specs import to_key
from servo.sdk.metadata.plain_data import plain_data, type_name
from servo.sdk.option_kinds import of_kind, several

Cell: TypeAlias = str | int | float | bool | None

_set = msgspec.structs.force_setattr


class TableRecord(msgspec.Struct, frozen=True):
    """One row of a table: strings, numbers and booleans by column."""

    data: Mapping[str, Cell]

    def __post_init__(self) -> None:
        for name, value in self.data.items():
            if isinstance(value, Mapping | list | tuple):
                raise Invalid(
                    f"TableRecord: the column {name!r} holds a {type_name(value)}",
                    remedy="use strings, numbers, booleans and None",
                )
        _set(self, "data", plain_data(self.data, "TableRecord"))


class TableConstraints(msgspec.Struct, frozen=True):
    """Constraints on a whole table, in words."""

    other: Sequence[str] = ()

    def __post_init__(self) -> None:
        _set(self, "other", tuple(self.other or ()))


class TableColumnConstraints(msgspec.Struct, frozen=True):
    """Constraints on the values of a column."""

    nullable: bool = True
    unique: bool = False
    other: Sequence[str] = ()

    def __post_init__(self) -> None:
        _set(self, "other", tuple(self.other or ()))


class TableColumn(msgspec.Struct, frozen=True):
    """A column of a table: its name, type, description, constraints and tags."""

    name: str
    type: str = "string"
    description: str | None = None
    constraints: TableColumnConstraints = TableColumnConstraints()
    tags: Mapping[str, str] = {}

    def __post_init__(self) -> None:
        # Callers that pass every option explicitly pass None.
        _set(self, "constraints", self.constraints or TableColumnConstraints())
        _set(self, "tags", dict(self.tags or {}))


class TableSchema(msgspec.Struct, frozen=True):
    """The columns of a table, and its constraints.

    TableSchema(columns=[TableColumn("id", "int"), TableColumn("name", "string")])
    """

    columns: Sequence[TableColumn]
    constraints: TableConstraints = TableConstraints()

    def __post_init__(self) -> None:
        _set(self, "columns", several(self.columns, what="TableSchema: columns"))
        for column in self.columns:
            of_kind(column, TableColumn, what="a column", remedy='use TableColumn("name", "type")')
        _set(self, "constraints", self.constraints or TableConstraints())

    @classmethod
    def from_name_type_dict(cls, name_type_dict: Mapping[str, str]) -> "TableSchema":
        """The schema with columns of these names and types."""
        return cls([TableColumn(name, kind) for name, kind in name_type_dict.items()])


class TableColumnDep(msgspec.Struct, frozen=True):
    """A column of an upstream asset."""

    asset_key: Any
    column_name: str

    def __post_init__(self) -> None:
        key = to_key(self.asset_key, what="TableColumnDep")
        _set(self, "asset_key", key)


class TableColumnLineage(msgspec.Struct, frozen=True):
    """The upstream columns that each column is derived from.

    TableColumnLineage({"total": [TableColumnDep(asset_key="orders", column_name="price")]})
    """

    deps_by_column: Mapping[str, Sequence[TableColumnDep]]

    def __post_init__(self) -> None:
        deps = {name: tuple(columns) for name, columns in self.deps_by_column.items()}
        _set(self, "deps_by_column", deps)
