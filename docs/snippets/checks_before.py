"""Checks of an asset's inputs, which run before its function."""

from servo import asset, asset_check, checks, materialize


@asset
def raw_orders() -> list[dict[str, int]]:
    """Orders as received."""
    return [{"id": 1, "amount": 350}]


@asset
def orders(raw_orders: list[dict[str, int]]) -> list[dict[str, int]]:
    """An expensive asset, worth checking its input first."""
    return raw_orders


has_rows = checks.row_count(orders, min=1, when="before", blocking=True)


@asset_check(asset=orders, when="before", blocking=True, timeout=60)
def amounts_are_there(raw_orders: list[dict[str, int]]) -> bool:
    """Every order has an amount."""
    return all("amount" in row for row in raw_orders)


if __name__ == "__main__":
    print(materialize([raw_orders, orders, has_rows, amounts_are_there]).success)
