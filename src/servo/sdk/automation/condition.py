"""Automation conditions: when an asset is materialized automatically.

    AutomationCondition.eager()
    AutomationCondition.on_cron("0 6 * * *") & ~AutomationCondition.in_progress()

Conditions are defined and evaluated in the core; this module exports them to users.
"""

from servo.core.automation.condition import (
    And,
    AssetMatches,
    AutomationCondition,
    Checks,
    Deps,
    NewlyTrue,
    Not,
    Operand,
    Or,
    Since,
)

__all__ = [
    "And",
    "AssetMatches",
    "AutomationCondition",
    "Checks",
    "Deps",
    "NewlyTrue",
    "Not",
    "Operand",
    "Or",
    "Since",
]
