"""Daily orders, monthly invoices, and a backfill of both for a quarter."""

import sys

from servo import (
    AssetExecutionContext,
    DailyPartitionsDefinition,
    MonthlyPartitionsDefinition,
    asset,
)
from servo.cli.main import run

days = DailyPartitionsDefinition("2024-01-01", end_date="2024-04-01")
months = MonthlyPartitionsDefinition("2024-01", fmt="%Y-%m", end_date="2024-04")


@asset(partitions_def=days)
def orders(context: AssetExecutionContext) -> list[str]:
    return [f"order of {context.partition_key}"]


@asset(partitions_def=months)
def invoices(orders: dict[str, list[str]]) -> int:
    return sum(len(of_a_day) for of_a_day in orders.values())


if __name__ == "__main__":
    # What `servo backfill create backfill.py --all --chunk-size 20 --wait` does.
    sys.exit(run(["backfill", "create", __file__, "--all", "--chunk-size", "20", "--wait"]))
