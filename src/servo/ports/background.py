"""Work beside the leader's loop: publishing, merging, collecting.

One job at a time. The loop starts it, goes on committing, and looks now and then whether it has
ended. A job touches immutable values and the store, never the leader's state.
"""

from collections.abc import Callable
from typing import Any, Protocol


class Job(Protocol):
    """Work that was started."""

    def done(self) -> bool:
        """Whether it has ended, one way or the other."""
        ...

    def result(self) -> Any:
        """What it returned, or its exception raised; only when done."""
        ...


class Background(Protocol):
    """Starts jobs."""

    def start(self, work: Callable[[], Any]) -> Job:
        """Begin `work` without waiting for it."""
        ...
