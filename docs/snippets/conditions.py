"""Assets with automation conditions, and a test of the conditions."""

from servo import (
    AutomationCondition,
    ServoInstance,
    asset,
    evaluate_automation_conditions,
    materialize,
)


@asset
def orders() -> list[int]:
    return [3, 5]


@asset(automation_condition=AutomationCondition.eager())
def revenue(orders: list[int]) -> int:
    return sum(orders)


@asset(automation_condition=AutomationCondition.eager())
def report(revenue: int) -> str:
    return f"{revenue} euros"


@asset(automation_condition=AutomationCondition.on_cron("0 6 * * *", "Europe/Berlin"))
def archive(orders: list[int]) -> int:
    return len(orders)


if __name__ == "__main__":
    assets = [orders, revenue, report, archive]
    instance = ServoInstance.ephemeral()

    first = evaluate_automation_conditions(assets, instance)
    print(first.total_requested)  # 0: a new condition starts from the current state

    materialize([orders], instance=instance)
    second = evaluate_automation_conditions(assets, instance, cursor=first.cursor)
    print(second.get_num_requested("revenue"))  # 1
    print(second.get_num_requested("report"))  # 1, in the same run

    third = evaluate_automation_conditions(assets, instance, cursor=second.cursor)
    print(third.total_requested)  # 0: already requested
