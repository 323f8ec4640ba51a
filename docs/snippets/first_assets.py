"""Three assets, made here and now."""

from servo import asset, materialize


@asset
def orders() -> list[dict[str, int | str]]:
    """Where the data comes from."""
    return [{"customer": "ada", "amount": 3}, {"customer": "bob", "amount": 4}]


@asset
def customers(orders: list[dict[str, int | str]]) -> list[str]:
    """The parameter names the asset it is made from."""
    return sorted({str(order["customer"]) for order in orders})


@asset(deps=[customers])
def report(orders: list[dict[str, int | str]]) -> str:
    """Made after `customers`, without loading it."""
    return f"{len(orders)} orders"


result = materialize([orders, customers, report])
print(result.success, result.asset_value("customers"), result.asset_value("report"))
