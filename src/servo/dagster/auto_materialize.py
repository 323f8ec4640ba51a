"""Auto-materialize policies, the older spelling of automation conditions."""

from typing import Any

import msgspec

from servo.errors import Invalid
from servo.sdk.automation.condition import AutomationCondition


class AutoMaterializeRule(msgspec.Struct, frozen=True):
    """One rule for when to materialize an asset, or when to skip it."""

    condition: AutomationCondition
    skips: bool = False

    @staticmethod
    def materialize_on_missing() -> "AutoMaterializeRule":
        """Materialize it when it is missing."""
        return AutoMaterializeRule(AutomationCondition.newly_missing().since_last_handled())

    @staticmethod
    def materialize_on_parent_updated(updated_parent_filter: Any = None) -> "AutoMaterializeRule":
        """Materialize it when an upstream asset was updated."""
        if updated_parent_filter is not None:
            raise Invalid(
                "updated_parent_filter is not supported",
                remedy="use AutomationCondition.any_deps_updated().ignore(…)",
            )
        return AutoMaterializeRule(AutomationCondition.any_deps_updated().since_last_handled())

    @staticmethod
    def materialize_on_cron(
        cron_schedule: str, timezone: str = "UTC", all_partitions: bool = False
    ) -> "AutoMaterializeRule":
        """Materialize it once per tick."""
        if all_partitions:
            raise Invalid("all_partitions is not supported", remedy="use a backfill")
        tick = AutomationCondition.cron_tick_passed(cron_schedule, timezone)
        return AutoMaterializeRule(tick.since_last_handled())

    @staticmethod
    def skip_on_parent_missing() -> "AutoMaterializeRule":
        """Skip it while an upstream asset is missing."""
        return AutoMaterializeRule(AutomationCondition.any_deps_missing(), skips=True)

    @staticmethod
    def skip_on_not_all_parents_updated_since_cron(
        cron_schedule: str, timezone: str = "UTC"
    ) -> "AutoMaterializeRule":
        """Skip it until all upstream assets were updated since the last tick."""
        every = AutomationCondition.all_deps_updated_since_cron(cron_schedule, timezone)
        return AutoMaterializeRule(~every, skips=True)

    @staticmethod
    def skip_on_backfill_in_progress(all_partitions: bool = False) -> "AutoMaterializeRule":
        """Skip it while a backfill materializes it."""
        del all_partitions
        return AutoMaterializeRule(AutomationCondition.backfill_in_progress(), skips=True)

    @staticmethod
    def skip_on_run_in_progress() -> "AutoMaterializeRule":
        """Skip it while a run materializes it."""
        return AutoMaterializeRule(AutomationCondition.run_in_progress(), skips=True)


class AutoMaterializePolicy(msgspec.Struct, frozen=True):
    """When an asset is materialized automatically: a condition, and additional rules."""

    condition: AutomationCondition | None
    rules: tuple[AutoMaterializeRule, ...] = ()

    @staticmethod
    def eager(max_materializations_per_minute: int | None = 1) -> "AutoMaterializePolicy":
        """Materialize it when an upstream asset was updated."""
        del max_materializations_per_minute
        return AutoMaterializePolicy(AutomationCondition.eager())

    @staticmethod
    def lazy(max_materializations_per_minute: int | None = 1) -> "AutoMaterializePolicy":
        """Materialize it when a downstream asset needs it."""
        del max_materializations_per_minute
        return AutoMaterializePolicy(AutomationCondition.any_downstream_conditions())

    def with_rules(self, *rules: AutoMaterializeRule) -> "AutoMaterializePolicy":
        """The same policy with more rules."""
        return msgspec.structs.replace(self, rules=(*self.rules, *rules))

    def without_rules(self, *rules: AutoMaterializeRule) -> "AutoMaterializePolicy":
        """The same policy without some of the added rules."""
        if strangers := [rule for rule in rules if rule not in self.rules]:
            raise Invalid(
                f"the policy has no rule {strangers[0]}",
                remedy="use an AutomationCondition and its method without(…) instead",
            )
        left = tuple(rule for rule in self.rules if rule not in rules)
        return msgspec.structs.replace(self, rules=left)

    def to_automation_condition(self) -> AutomationCondition | None:
        """The equivalent automation condition."""
        made = self.condition
        for rule in self.rules:
            if rule.skips:
                made = ~rule.condition if made is None else made & ~rule.condition
            else:
                made = rule.condition if made is None else made | rule.condition
        return made
