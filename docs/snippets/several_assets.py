"""A function that produces two assets, and one that observes a third."""

from servo import AssetOut, DataVersion, asset, materialize, multi_asset, observable_source_asset


@multi_asset(outs={"users": AssetOut(), "orders": AssetOut(group_name="sales")})
def dump() -> tuple[list[str], list[int]]:
    return ["ada", "grace"], [120, 80]


@asset
def revenue(orders: list[int]) -> int:
    return sum(orders)


@observable_source_asset
def exchange_rates() -> DataVersion:
    return DataVersion("2026-11-15")


if __name__ == "__main__":
    done = materialize([dump, revenue, exchange_rates])
    print(done.asset_value("revenue"))
