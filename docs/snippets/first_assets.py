"""Three assets, materialized in this process."""

from servo import asset, materialize


@asset
def orders() -> list[dict[str, int | str]]:
    """The source data."""
    return [{"customer": "ada", "amount": 3}, {"customer": "bob", "amount": 4}]


@asset
def customers(orders: list[dict[str, int | str]]) -> list[str]:
    """The parameter names the upstream asset."""
    return sorted({str(order["customer"]) for order in orders})


@asset(deps=[customers])
def report(orders: list[dict[str, int | str]]) -> str:
    """Runs after `customers`, without loading it."""
    return f"{len(orders)} orders"


result = materialize([orders, customers, report])
print(result.success, result.asset_value("customers"), result.asset_value("report"))
