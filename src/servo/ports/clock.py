"""Time, as an argument to everything that needs it.

`now` is the wall clock in UTC and may jump; `monotonic` only measures how long something took
and never goes back. Nothing outside the implementation of this port reads a clock.
"""

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """Where the present comes from."""

    def now(self) -> datetime:
        """The current instant, aware, in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds since some fixed point; only differences mean anything."""
        ...
