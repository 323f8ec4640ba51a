"""The current time, for calls that do not pass one.

Nothing here reads a clock. The process that runs user code sets one once; code that makes decisions
passes the time explicitly.
"""

from collections.abc import Callable
from datetime import datetime

from servo.errors import Invalid

_provided: list[Callable[[], datetime]] = []


def set_now(now: Callable[[], datetime]) -> None:
    """Set the clock, once per process and before user code runs."""
    _provided[:] = [now]


def is_told() -> bool:
    """Whether a clock is set."""
    return bool(_provided)


def present(given: datetime | None) -> datetime:
    """The given time, or else the current one."""
    if given is not None:
        return given
    if not _provided:
        raise Invalid("the current time is unknown", remedy="pass current_time=…")
    return _provided[0]()
