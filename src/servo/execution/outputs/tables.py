"""Tables as Parquet, and back in their original type.

Polars, pandas, Arrow and DuckDB are recognised by where a value's type comes from, so none of them
is imported unless user code does. The stored file is plain Parquet for anything to read.
"""

from hashlib import sha256
from importlib import import_module
from typing import Any

import msgspec

PREFIX = "parquet/"


class Encoded(msgspec.Struct, frozen=True, kw_only=True):
    """A table as bytes, and what is known of it."""

    kind: str
    data: bytes
    rows: int
    schema_hash: str


def kind_of(value: Any) -> str:
    """Which library a table comes from; empty if it is none."""
    home = type(value).__module__.partition(".")[0].removeprefix("_")
    name = type(value).__name__
    known = {
        ("polars", "DataFrame"): "polars",
        ("polars", "LazyFrame"): "polars",
        ("pandas", "DataFrame"): "pandas",
        ("pyarrow", "Table"): "arrow",
        ("pyarrow", "RecordBatch"): "arrow",
        ("duckdb", "DuckDBPyRelation"): "duckdb",
    }
    return known.get((home, name), "")


def encode_table(value: Any, kind: str) -> Encoded:
    """A table as Parquet."""
    table = to_arrow(value, kind)
    pyarrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    sink = pyarrow.BufferOutputStream()
    parquet.write_table(table, sink, compression="zstd")
    schema = table.schema.remove_metadata().to_string()
    return Encoded(
        kind=kind,
        data=sink.getvalue().to_pybytes(),
        rows=table.num_rows,
        schema_hash=sha256(schema.encode()).hexdigest(),
    )


def to_arrow(value: Any, kind: str) -> Any:
    """A table of any kind as one of Arrow."""
    pyarrow = import_module("pyarrow")
    match kind:
        case "polars":
            frame = value.collect() if type(value).__name__ == "LazyFrame" else value
            return frame.to_arrow()
        case "pandas":
            return pyarrow.Table.from_pandas(value)
        case "duckdb":
            return value.to_arrow_table()
        case _:
            return (
                value if isinstance(value, pyarrow.Table) else pyarrow.Table.from_batches([value])
            )


def decode_table(data: bytes, kind: str) -> Any:
    """A stored table in the type of its library; tables of DuckDB come back as Arrow."""
    table = arrow_table(data)
    match kind:
        case "polars":
            return import_module("polars").from_arrow(table)
        case "pandas":
            return table.to_pandas()
        case _:
            return table


def arrow_table(data: bytes) -> Any:
    """A stored table, as Arrow."""
    pyarrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    return parquet.ParquetFile(pyarrow.BufferReader(data)).read()


def as_asked(value: Any, hint: Any) -> Any:
    """A loaded table, converted to the library of the parameter's annotation."""
    wanted = kind_of_type(hint)
    found = kind_of(value)
    if not wanted or not found or wanted == found:
        return value
    table = to_arrow(value, found)
    match wanted:
        case "polars":
            return import_module("polars").from_arrow(table)
        case "pandas":
            return table.to_pandas()
        case _:
            return table


def kind_of_type(hint: Any) -> str:
    """Which library an annotation is of; empty if it is of none."""
    home = getattr(hint, "__module__", "").partition(".")[0]
    name = getattr(hint, "__name__", "")
    known = {
        ("polars", "DataFrame"): "polars",
        ("pandas", "DataFrame"): "pandas",
        ("pyarrow", "Table"): "arrow",
    }
    return known.get((home, name), "")
