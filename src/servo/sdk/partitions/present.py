"""What time it is, for definitions that are asked without being told.

Nothing here reads a clock. Who runs the code says which one counts, once for the process; whatever
decides anything passes the time in.
"""

from collections.abc import Callable
from datetime import datetime

from servo.errors import Invalid

_provided: list[Callable[[], datetime]] = []


def set_now(now: Callable[[], datetime]) -> None:
    """Say what tells the time; once for the process, before users' code runs."""
    _provided[:] = [now]


def is_told() -> bool:
    """Whether anybody says what time it is."""
    return bool(_provided)


def present(given: datetime | None) -> datetime:
    """The time that was given, or else the one it is."""
    if given is not None:
        return given
    if not _provided:
        raise Invalid("the current time is unknown", remedy="pass current_time=…")
    return _provided[0]()
