"""`materialize_to_memory()`: values that nobody stores."""

from pathlib import Path
from typing import Any

import pytest

from servo import (
    AssetOut,
    ConfigurableIOManager,
    InputContext,
    MaterializeResult,
    Output,
    OutputContext,
    ServoInstance,
    asset,
    asset_check,
    io_manager,
    materialize,
    materialize_to_memory,
    multi_asset,
)
from servo.errors import Invalid, NotFound
from servo.host.materialize import MaterializationFailed


class Forbidden(ConfigurableIOManager):
    """Must not be used."""

    def handle_output(self, context: OutputContext, obj: Any) -> None:
        raise AssertionError(f"{context} was given {obj}")

    def load_input(self, context: InputContext) -> Any:
        raise AssertionError(f"{context} was asked")


@io_manager
def forbidden() -> Forbidden:
    return Forbidden()


@asset(io_manager_key="lake")
def numbers() -> Output:
    return Output([1, 2], metadata={"rows": 2})


@asset(key_prefix="shop")
def total(numbers: list[int]) -> Any:
    return lambda: sum(numbers)  # what could not be stored


@asset(io_manager_key="nowhere")
def told(total: Any) -> int:
    return total()


def test_values_are_the_same_objects_and_no_io_manager_is_used() -> None:
    resources = {"io_manager": Forbidden(), "lake": forbidden}
    result = materialize_to_memory([numbers, total, told], resources=resources)
    assert result.success
    assert result.asset_value("numbers") == [1, 2]
    assert result.asset_value(total)() == result.output_for_node("told") == 3
    assert result.output_for_node("shop__total")() == 3


def test_every_io_manager_of_several_outputs_is_replaced() -> None:
    @multi_asset(outs={"a": AssetOut(io_manager_key="lake"), "b": AssetOut(io_manager_key="sea")})
    def both() -> tuple[int, int]:
        return 1, 2

    result = materialize_to_memory([both], resources={"lake": Forbidden()})
    assert (result.asset_value("a"), result.asset_value("b")) == (1, 2)


def test_nothing_is_stored_but_what_happened() -> None:
    instance = ServoInstance.ephemeral()
    _ = materialize_to_memory([numbers], instance=instance)
    keys = [meta.key for meta in instance.world.store.list_after("", limit=1000)]
    assert keys
    assert not [key for key in keys if key.startswith("default/default/assets/")]
    event = instance.get_latest_materialization_event("numbers")
    assert event is not None
    assert event.fact.metadata["rows"].value == 2


def test_two_calls_share_nothing() -> None:
    _ = materialize_to_memory([numbers], resources={"lake": Forbidden()})

    with pytest.raises(MaterializationFailed, match="there is no value in memory for numbers"):
        materialize_to_memory([numbers, total], selection="shop/total")


def test_what_was_not_made_has_no_value() -> None:
    @asset
    def nothing() -> None: ...

    @asset
    def elsewhere() -> MaterializeResult:
        return MaterializeResult(metadata={"rows": 1})

    result = materialize_to_memory([nothing, elsewhere, numbers], selection=["nothing", elsewhere])
    assert result.asset_value("nothing") is None
    assert result.asset_value("elsewhere") is None
    with pytest.raises(NotFound, match="numbers was not materialized in this run"):
        result.asset_value("numbers")


def test_checks_see_the_values_and_failures_are_told() -> None:
    @asset_check(asset=numbers, blocking=True)
    def none_at_all(numbers: list[int]) -> bool:
        return not numbers

    result = materialize_to_memory([numbers, none_at_all], raise_on_error=False)
    assert not result.success
    assert "none_at_all" in next(iter(result.failures.values()))


def test_a_run_is_kept_in_the_instance_or_the_folder_that_is_given(tmp_path: Path) -> None:
    @asset
    def one() -> int:
        return 1

    instance = ServoInstance.ephemeral()
    first = materialize([one], instance=instance, tags={"n": "1"})
    second = materialize([one], instance=instance)
    assert [run.run_id for run in instance.get_runs()] == [second.run_id, first.run_id]
    with pytest.raises(Invalid, match="both store and instance"):
        materialize([one], instance=instance, store=str(tmp_path))


def test_a_partition_of_what_has_none_is_refused() -> None:
    with pytest.raises(Invalid, match="numbers has no partitions; leave out the partition"):
        materialize([numbers], partition_key="2026-01-01")
