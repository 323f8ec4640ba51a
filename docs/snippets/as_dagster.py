import servo.dagster as dg


@dg.asset(compute_kind="python")
def orders(context: dg.AssetExecutionContext) -> dg.MaterializeResult:
    context.log.info("three orders")
    return dg.MaterializeResult(metadata={"preview": dg.MetadataValue.md("| id |\n|---|")})


@dg.asset(
    deps=[orders],
    partitions_def=dg.DailyPartitionsDefinition(start_date="2024-01-01"),
    automation_condition=dg.AutomationCondition.eager(),
)
def daily_revenue(context: dg.AssetExecutionContext) -> None: ...


defs = dg.Definitions(
    assets=[orders, daily_revenue],
    schedules=[dg.ScheduleDefinition(name="nightly", target="orders", cron_schedule="0 2 * * *")],
)

if __name__ == "__main__":
    print(dg.materialize([orders]).success)
