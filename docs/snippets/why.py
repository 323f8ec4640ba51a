"""A shop with a failing asset and a quarantined one, explained by `servo why`."""

from servo import AssetCheckResult, asset, asset_check, materialize
from servo.cli.main import run as servo


@asset
def orders() -> list[int]:
    raise ValueError("orders.csv has no header")


@asset
def cleaned(orders: list[int]) -> list[int]:
    return sorted(orders)


@asset
def revenue(cleaned: list[int]) -> int:
    return sum(cleaned)


@asset(quarantine=True)
def prices() -> list[int]:
    return [3, -1]


@asset_check(asset=prices, blocking=True)
def positive(prices: list[int]) -> AssetCheckResult:
    return AssetCheckResult(passed=min(prices) > 0, description="1 price is below 0")


materialize([orders, cleaned, revenue, prices, positive], store="shop", raise_on_error=False)
for question in (["why", "revenue"], ["why", "prices"], ["why-not", "orders"]):
    print("$ servo", *question)
    servo([*question, "--store", "shop"])
