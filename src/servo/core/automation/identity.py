"""The identity of a condition, regardless of labels: the name under which its state is stored.

Two nodes that say the same about the same asset share their state, wherever they are in a tree. So
an edited condition keeps the state of its unchanged parts.
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
    """A condition as a string without labels: equal for conditions that mean the same."""
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
    """The name of the stored state of a condition of an asset or a check."""
    text = f"{asset}\n{check}\n{together}\n{told(condition)}"
    return sha256(text.encode()).hexdigest()[:_LENGTH]
