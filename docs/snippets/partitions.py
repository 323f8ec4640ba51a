"""Daily orders and monthly invoices."""

from servo import (
    AssetExecutionContext,
    DailyPartitionsDefinition,
    MonthlyPartitionsDefinition,
    ServoInstance,
    asset,
    materialize,
)

days = DailyPartitionsDefinition("2024-01-01", timezone="Europe/Berlin")
months = MonthlyPartitionsDefinition("2024-01", fmt="%Y-%m", timezone="Europe/Berlin")


@asset(partitions_def=days)
def orders(context: AssetExecutionContext) -> list[str]:
    window = context.partition_time_window
    return [f"order of {window.start:%d %B}"]


@asset(partitions_def=months)
def invoices(context: AssetExecutionContext, orders: dict[str, list[str]]) -> int:
    context.log.info("%s has %s days", context.partition_key, len(orders))
    return sum(len(of_a_day) for of_a_day in orders.values())


if __name__ == "__main__":
    instance = ServoInstance.ephemeral()
    one = materialize([orders], partition_key="2024-02-29", instance=instance)
    print(one.asset_value("orders"))

    both = materialize([orders, invoices], partition_key="2024-02", instance=instance)
    print(both.asset_value("invoices"))
