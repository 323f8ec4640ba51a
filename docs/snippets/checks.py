"""An asset, and a blocking check that keeps bad data out."""

from servo import AssetCheckResult, asset, asset_check, materialize


@asset
def orders() -> list[int]:
    """Amounts in cents."""
    return [350, 1200, 99]


@asset_check(asset=orders, blocking=True)
def nobody_pays_nothing(orders: list[int]) -> AssetCheckResult:
    """Every order has an amount."""
    wrong = [amount for amount in orders if amount <= 0]
    return AssetCheckResult(passed=not wrong, metadata={"wrong": len(wrong)})


print(materialize([orders, nobody_pays_nothing]).success)
