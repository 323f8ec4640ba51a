"""How long an execution waits for a store that does not answer.

A store that cannot be reached says nothing about user code, and what was computed may have taken
hours. So an execution repeats its own reads and writes for some minutes, with growing pauses. If
the store is still away then, it ends with `StoreOutage`: a loss of infrastructure, which counts
against the task's own budget for such losses and never as a failure of user code.

Repeating is safe: a `put` writes the same bytes again, and a `create` that meets its own first try
finds its own bytes (`OutputStore` compares them).
"""

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

from servo.errors import Unavailable
from servo.ports.clock import Clock
from servo.sdk.assets.context import Logger

LIMIT = timedelta(minutes=5)
FIRST_PAUSE = 0.25
LONGEST_PAUSE = 10.0

T = TypeVar("T")
_Pause = Callable[[float], object]


class StoreOutage(Unavailable):
    """The store could not be reached for as long as an execution waits for it."""


class Patience:
    """Repeats what a store did not answer, for a while."""

    def __init__(
        self,
        clock: Clock,
        log: Logger,
        *,
        limit: timedelta = LIMIT,
        pause: _Pause | None = None,
    ) -> None:
        self._clock = clock
        self._log = log
        self._limit = limit.total_seconds()
        # An event that nobody sets: signals interrupt the wait, as they do user code.
        self._pause: _Pause = threading.Event().wait if pause is None else pause

    def insist(self, attempt: Callable[[], T], what: str) -> T:
        """The result of `attempt`, repeated until the store answers; else `StoreOutage`."""
        until = self._clock.monotonic() + self._limit
        pause = FIRST_PAUSE
        while True:
            try:
                return attempt()
            except Unavailable as error:
                left = until - self._clock.monotonic()
                if left <= 0:
                    raise _outage(error, what) from error
                pause = min(pause, left)
                self._log.warning("cannot %s now (%s); trying again", what, error.message)
                self._pause(pause)
                pause = min(pause * 2, LONGEST_PAUSE)


def _outage(error: Unavailable, what: str) -> StoreOutage:
    return StoreOutage(
        f"cannot {what}: {error.message}",
        remedy=error.remedy,
        may_have_applied=error.may_have_applied,
    )
