"""Customised conditions."""

from datetime import timedelta

from servo import AssetSelection, AutomationCondition, DailyPartitionsDefinition, asset

days = DailyPartitionsDefinition(start_date="2025-01-01")

# Run even if an input is missing, but not if the last attempt failed.
bold = (
    AutomationCondition.eager().without(~AutomationCondition.any_deps_missing())
    & ~AutomationCondition.execution_failed()
).with_label("bold")

# Follow every upstream partition, not only the latest one.
thorough = AutomationCondition.eager().without(AutomationCondition.in_latest_time_window())

# Cover the last week, and ignore updates of one noisy source.
calm = (
    AutomationCondition.eager()
    .replace(
        AutomationCondition.in_latest_time_window(),
        AutomationCondition.in_latest_time_window(timedelta(days=7)),
    )
    .ignore(AssetSelection.assets("noise"))
)

# Run only on checked data.
careful = AutomationCondition.eager() & AutomationCondition.all_deps_blocking_checks_passed()

# Run when the asset is too old, unless it is already running.
kept_fresh = AutomationCondition.freshness_failed() & ~AutomationCondition.in_progress()


@asset(partitions_def=days, automation_condition=calm)
def daily() -> None: ...


if __name__ == "__main__":
    print(bold.get_label(), calm, sep="\n")
