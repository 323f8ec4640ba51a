"""Servo under Dagster's names: `import servo.dagster as dg`.

It has everything that `servo` exports, and Dagster's own and older spellings. Unsupported names can
be imported and raise an error only when they are used, so a file that merely mentions one works.
`servo materialize --as-dagster` puts this module in the place of `dagster`.
"""

from importlib import import_module
from typing import Any

from servo.dagster.names import place_of, reason_against, supported
from servo.dagster.unsupported import Unsupported

__version__ = "1.11.0"
"""The version of Dagster whose public names these are."""


def __getattr__(name: str) -> Any:
    """Load a name from where it is defined."""
    if name == "__all__":
        return sorted(supported())
    place = place_of(name)
    if place is not None:
        module, _, attribute = place.partition(":")
        value = getattr(import_module(module), attribute or name)
    elif reason := reason_against(name):
        value = Unsupported(name, reason)
    else:
        raise AttributeError(f"module 'servo.dagster' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(supported())
