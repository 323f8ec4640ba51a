"""Daily orders with checks and a schedule, and their total."""

from servo import (
    AssetExecutionContext,
    DailyPartitionsDefinition,
    DefaultScheduleStatus,
    asset,
    build_schedule_from_partitioned_job,
    checks,
    define_asset_job,
)

days = DailyPartitionsDefinition("2026-01-01")


@asset(partitions_def=days, metadata={"allow_missing_partitions": True})
def orders(context: AssetExecutionContext) -> list[dict[str, object]]:
    """The orders of one day."""
    return [{"day": context.partition_key, "amount": amount} for amount in (350, 1200)]


@asset
def revenue(orders: dict[str, list[dict[str, int]]]) -> int:
    """The sum over all materialized days."""
    return sum(order["amount"] for of_a_day in orders.values() for order in of_a_day)


orders_checks = [
    checks.row_count(orders, min=1, blocking=True),
    checks.not_null(orders, ["amount"], blocking=True),
]

daily = build_schedule_from_partitioned_job(
    define_asset_job("daily_orders", selection="orders", partitions_def=days),
    default_status=DefaultScheduleStatus.RUNNING,
)
