"""Tests that call assets, or materialize them."""

from typing import Any

from servo import (
    AssetExecutionContext,
    Config,
    ConfigurableResource,
    MaterializeResult,
    ServoInstance,
    asset,
    build_asset_context,
    materialize,
    materialize_to_memory,
)


class Warehouse(ConfigurableResource[Any]):
    """The source of orders."""

    url: str

    def orders(self) -> list[int]:
        """Query a real warehouse."""
        raise ConnectionError(self.url)


class FakeWarehouse(Warehouse):
    """Needs no network."""

    def orders(self) -> list[int]:
        """Always the same."""
        return [350, 1200, 99]


class Limits(Config):
    """Configuration of the orders."""

    at_least: int = 100


@asset
def orders(context: AssetExecutionContext, config: Limits, warehouse: Warehouse) -> list[int]:
    """Amounts in cents."""
    found = [amount for amount in warehouse.orders() if amount >= config.at_least]
    context.add_output_metadata({"rows": len(found)})
    return found


@asset
def revenue(orders: list[int]) -> MaterializeResult:
    """Their sum."""
    return MaterializeResult(value=sum(orders), metadata={"orders": len(orders)})


FAKE = FakeWarehouse(url="nowhere")


def test_an_asset_is_a_function() -> None:
    """Pass parameters, or leave them to the context."""
    assert revenue([1, 2]).value == 3
    context = build_asset_context(resources={"warehouse": FAKE}, asset_config={"at_least": 1000})
    assert orders(context) == [1200]
    assert context.get_output_metadata() == {"rows": 1}
    assert orders(build_asset_context(), warehouse=FAKE, config=Limits(at_least=0)) == [
        350,
        1200,
        99,
    ]


def test_assets_fit_together() -> None:
    """Run the whole engine in this process; values stay in memory."""
    result = materialize_to_memory([orders, revenue], resources={"warehouse": FAKE})
    assert result.success
    assert result.asset_value("revenue") == 1550


def test_what_is_recorded() -> None:
    """An instance knows what was materialized, and by which run."""
    instance = ServoInstance.ephemeral()
    run = materialize([orders, revenue], resources={"warehouse": FAKE}, instance=instance)
    event = instance.get_latest_materialization_event("revenue")
    assert event is not None
    assert event.run_id == run.run_id
    assert event.fact.metadata["orders"].value == 2


test_an_asset_is_a_function()
test_assets_fit_together()
test_what_is_recorded()
print("all good")
