"""Checks of several assets, and a check that the asset's own function performs."""

from collections.abc import Iterator

from servo import (
    AssetCheckExecutionContext,
    AssetCheckResult,
    AssetCheckSpec,
    AssetIn,
    MaterializeResult,
    asset,
    asset_check,
    materialize,
    multi_asset_check,
)


@asset(check_specs=[AssetCheckSpec("not_empty", asset="customers")])
def customers() -> MaterializeResult:
    """Reports its own check."""
    found = [1, 2, 3]
    good = AssetCheckResult(check_name="not_empty", passed=len(found) > 0)
    return MaterializeResult(value=found, check_results=[good])


@asset
def orders() -> list[int]:
    """The customer of every order."""
    return [1, 1, 3]


@asset_check(asset=orders, additional_ins={"known": AssetIn("customers")}, blocking=True)
def customers_exist(orders: list[int], known: list[int]) -> bool:
    """Every order has an existing customer."""
    return set(orders) <= set(known)


@multi_asset_check(
    specs=[AssetCheckSpec("plausible", asset=customers), AssetCheckSpec("plausible", asset=orders)]
)
def plausible(
    context: AssetCheckExecutionContext, customers: list[int], orders: list[int]
) -> Iterator[AssetCheckResult]:
    """Checks both assets in one function."""
    context.log.info("comparing")
    yield AssetCheckResult(asset_key="customers", passed=len(customers) < 1_000)
    yield AssetCheckResult(asset_key="orders", passed=len(orders) >= len(set(orders)))


if __name__ == "__main__":
    print(materialize([customers, orders, customers_exist, plausible]).success)
