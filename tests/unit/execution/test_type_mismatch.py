"""Values that are not what a function says of them: told at once, and not tried again."""

from collections.abc import Iterator
from typing import Any

import pandas as pd
import polars as pl
import pytest

from servo import (
    AssetIn,
    AssetOut,
    DailyPartitionsDefinition,
    IOManager,
    LastPartitionMapping,
    MaterializeResult,
    Output,
    RetryPolicy,
    Skip,
    asset,
    materialize,
    multi_asset,
)
from servo.host.materialize import MaterializationFailed

AGAIN = RetryPolicy(max_retries=5, delay=0)


def message_of(*assets: Any, **options: Any) -> str:
    with pytest.raises(MaterializationFailed) as caught:
        _ = materialize(list(assets), **options)
    return str(caught.value)


def test_what_is_returned_is_what_the_annotation_says() -> None:
    calls: list[int] = []

    @asset(retry_policy=AGAIN)
    def orders() -> int:
        calls.append(1)
        return "many"  # pyright: ignore[reportReturnType] - the mistake

    expected = "orders returned a str, but its annotation says -> int"
    assert expected in message_of(orders)
    assert calls == [1]  # the same code would return the same


def test_a_forgotten_return_is_told() -> None:
    @asset
    def orders() -> pl.DataFrame:  # pyright: ignore[reportReturnType] - the mistake
        _ = pl.DataFrame()

    assert "orders returned None, but its annotation says -> DataFrame" in message_of(orders)


@pytest.mark.parametrize("result", [Output("x"), MaterializeResult(value="x")])
def test_the_value_within_a_result_counts(result: Any) -> None:
    @asset
    def orders() -> Output[int]:
        return result

    assert "orders returned a str" in message_of(orders)


def test_what_says_more_than_a_value_is_none() -> None:
    @asset
    def made() -> MaterializeResult[int]:
        return MaterializeResult()

    @asset
    def skipped() -> int | Skip:
        return Skip("not today")

    @asset
    def yielded() -> Iterator[Output[int]]:
        yield Output(1)

    @asset
    def silent() -> None: ...

    result = materialize([made, skipped, yielded, silent])
    assert result.success


def test_what_is_given_is_what_the_annotation_says() -> None:
    @asset
    def orders() -> dict[str, int]:
        return {"a": 1}

    @asset(retry_policy=AGAIN)
    def total(orders: pl.DataFrame) -> int:
        return len(orders)

    said = message_of(orders, total)
    assert "total takes orders as DataFrame, and orders is a dict" in said
    assert "correct the annotation of orders, or what makes orders" in said


def test_a_table_of_another_library_is_given_as_the_one_that_is_asked_for() -> None:
    @asset
    def orders() -> pl.DataFrame:
        return pl.DataFrame({"a": [1]})

    @asset
    def total(orders: pd.DataFrame) -> int:
        return len(orders)

    assert materialize([orders, total]).output_for_node("total") == 1


def test_several_outputs_are_not_held_to_the_annotation_of_all_of_them() -> None:
    @multi_asset(outs={"a": AssetOut(), "b": AssetOut()})
    def both() -> tuple[int, str]:
        return 1, "x"

    assert materialize([both]).success


def test_partitions_that_may_be_missing_are_none_whatever_is_asked_for() -> None:
    days = DailyPartitionsDefinition("2026-01-01", end_date="2026-01-03")

    @asset(partitions_def=days, metadata={"allow_missing_partitions": True})
    def orders() -> int:
        return 1

    seen: list[object] = []

    @asset(ins={"orders": AssetIn(partition_mapping=LastPartitionMapping())})
    def total(orders: int) -> None:
        seen.append(orders)

    assert materialize([total, orders], selection=[total]).success
    assert seen == [None]


class Texts(IOManager):
    def handle_output(self, context: Any, obj: object) -> None: ...

    def load_input(self, context: Any) -> object:
        del context
        return "text"


def test_what_an_io_manager_loads_is_held_to_it_too() -> None:
    @asset(io_manager_key="strings")
    def orders() -> int:
        return 1

    @asset
    def total(orders: int) -> None:
        del orders

    said = message_of(orders, total, resources={"strings": Texts()})
    assert "total takes orders as int, and orders is a str" in said
