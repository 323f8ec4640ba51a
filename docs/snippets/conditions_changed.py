"""Conditions made of conditions."""

from datetime import timedelta

from servo import AssetSelection, AutomationCondition, DailyPartitionsDefinition, asset

days = DailyPartitionsDefinition(start_date="2025-01-01")

# Also without everything that is missing upstream, and not when the last attempt failed.
bold = (
    AutomationCondition.eager().without(~AutomationCondition.any_deps_missing())
    & ~AutomationCondition.execution_failed()
).with_label("bold")

# Every partition that changes upstream, not only the latest one.
thorough = AutomationCondition.eager().without(AutomationCondition.in_latest_time_window())

# The last week, when a source other than the noisy one was updated.
calm = (
    AutomationCondition.eager()
    .replace(
        AutomationCondition.in_latest_time_window(),
        AutomationCondition.in_latest_time_window(timedelta(days=7)),
    )
    .ignore(AssetSelection.assets("noise"))
)

# Only on good data.
careful = AutomationCondition.eager() & AutomationCondition.all_deps_blocking_checks_passed()

# When it is too old, and not more than once while it is being made.
kept_fresh = AutomationCondition.freshness_failed() & ~AutomationCondition.in_progress()


@asset(partitions_def=days, automation_condition=calm)
def daily() -> None: ...


print(bold.get_label(), calm, sep="\n")
