"""What a condition is, whatever it is called: the name under which its state is kept.

Two nodes that say the same about the same asset have the same state, wherever they stand in a tree.
So a condition can be changed and keeps what is remembered for the parts that stay.
"""

from hashlib import sha256

from servo.core.automation.condition import (
    AssetMatches,
    AutomationCondition,
    Checks,
    Deps,
    Operand,
)

_LENGTH = 16


def told(condition: AutomationCondition) -> str:
    """A condition as a string in which labels do not count: equal for those that mean the same."""
    below = ",".join(told(child) for child in condition.children())
    return f"{type(condition).__name__}[{_details(condition)}]({below})"


def _details(condition: AutomationCondition) -> str:
    match condition:
        case Operand():
            return repr(condition)
        case Deps():
            return f"{condition.every} {condition.allowed} {condition.ignored}"
        case Checks():
            return f"{condition.every} {condition.blocking_only}"
        case AssetMatches():
            return condition.key.canonical()
        case _:
            return ""


def name_of(condition: AutomationCondition, asset: str, check: str, *, together: bool) -> str:
    """The name of what is remembered for a condition of an asset or a check."""
    text = f"{asset}\n{check}\n{together}\n{told(condition)}"
    return sha256(text.encode()).hexdigest()[:_LENGTH]
