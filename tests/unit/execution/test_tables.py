"""Tables go from asset to asset as Parquet, and arrive as they are asked for."""
# Arrow comes without types.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportUnknownVariableType=false

from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from servo import asset, materialize

ROWS = {"n": [1, 2, 3], "s": ["a", "b", None]}


def made(value: Any) -> Any:
    @asset
    def table() -> Any:
        return value

    return materialize([table])


@pytest.mark.parametrize(
    "value", [pl.DataFrame(ROWS), pd.DataFrame(ROWS), pa.table(ROWS)], ids=["pl", "pd", "pa"]
)
def test_a_table_comes_back_as_it_was(value: Any) -> None:
    back = made(value).asset_value("table")
    assert type(back) is type(value)
    assert back.equals(value)


@pytest.mark.parametrize(
    "value",
    [pl.LazyFrame(ROWS), pa.record_batch(ROWS), duckdb.sql("select 1 as n, 'a' as s")],
    ids=["lazy", "batch", "duckdb"],
)
def test_what_only_becomes_a_table_comes_back_as_one(value: Any) -> None:
    back = made(value).asset_value("table")
    assert list(back.schema if isinstance(back, pl.DataFrame) else back.column_names) == ["n", "s"]


def test_a_parameter_gets_the_kind_of_table_it_asks_for() -> None:
    @asset
    def source() -> pl.DataFrame:
        return pl.DataFrame(ROWS)

    @asset
    def as_pandas(source: pd.DataFrame) -> str:
        return type(source).__module__.partition(".")[0]

    @asset
    def as_arrow(source: pa.Table) -> str:
        return type(source).__module__.partition(".")[0]

    @asset
    def as_it_is(source: pl.DataFrame) -> str:
        return type(source).__module__.partition(".")[0]

    result = materialize([source, as_pandas, as_arrow, as_it_is])
    assert result.asset_value("as_pandas") == "pandas"
    assert result.asset_value("as_arrow") == "pyarrow"
    assert result.asset_value("as_it_is") == "polars"


def test_the_ledger_knows_rows_and_schema(tmp_path: Any) -> None:
    @asset
    def table() -> pl.DataFrame:
        return pl.DataFrame(ROWS)

    result = materialize([table], store=str(tmp_path))
    stored = list(tmp_path.rglob("data.parquet"))
    assert len(stored) == 1
    assert pl.read_parquet(stored[0]).equals(pl.DataFrame(ROWS))
    (row,) = result.materializations
    assert (row.output_format, row.row_count, len(row.schema_hash)) == ("parquet", 3, 64)
