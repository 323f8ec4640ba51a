"""An asset, and a blocking check that keeps bad data out."""

from servo import AssetCheckResult, asset, asset_check, materialize


@asset
def orders() -> list[int]:
    """Amounts in cents."""
    return [350, 1200, 99]


@asset_check(asset=orders, blocking=True)
def amounts_are_positive(orders: list[int]) -> AssetCheckResult:
    """Every order has an amount."""
    wrong = [amount for amount in orders if amount <= 0]
    return AssetCheckResult(passed=not wrong, metadata={"wrong": len(wrong)})


if __name__ == "__main__":
    print(materialize([orders, amounts_are_positive]).success)
