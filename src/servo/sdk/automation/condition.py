"""When an asset is to be made without anybody asking.

    AutomationCondition.eager()
    AutomationCondition.on_cron("0 6 * * *") & ~AutomationCondition.in_progress()

Conditions are values of the core, which evaluates them; this is where users find them.
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
