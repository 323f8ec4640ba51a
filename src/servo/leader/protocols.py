"""The interfaces of a leader that workers and triggers use.

`servo.leader.service.Service`, a leader on a thread of this process, is all of these. Workers and
triggers name only what they need, so a leader elsewhere, in a simulation or in a test fits as well.
"""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Protocol, TypeVar

from servo.core.events.envelope import Answer, Batch
from servo.core.state.state import State
from servo.errors import ServoError
from servo.leader.heartbeats import BeatReply
from servo.leader.requests import Beat, Reply

T = TypeVar("T")


class WatchedLeader(Protocol):
    """A leader that announces its changes."""

    def watch(self, look: Callable[[State], None]) -> None:
        """Call `look` after every entry and every takeover; it must be quick."""
        ...


class LeaderForWorkers(WatchedLeader, Protocol):
    """Takes reports and beats of executions, and assigns what is ready to run.

    Everything but `watch` raises `Unavailable` while there is no leader, and `Fenced` once another
    process leads.
    """

    def send(self, batch: Batch, reply: Reply) -> None:
        """Report; `reply` is called with the answer, from another thread.

        `Invalid` at once if the ledger cannot take it.
        """
        ...

    def commit(self, batch: Batch) -> Answer:
        """Report and wait for the answer."""
        ...

    def beat(self, beat: Beat) -> "Future[BeatReply]":
        """Report that an execution is alive."""
        ...

    def wake(self) -> None:
        """Report that a worker has become idle."""
        ...


class SubmitsBatches(Protocol):
    """Submits batches to the ledger."""

    def submit(self, batch: Batch) -> "Future[Answer]":
        """Send a batch; `Invalid` at once if it cannot go there."""
        ...


class LeaderForTriggers(SubmitsBatches, Protocol):
    """Shows its state, and accepts batches derived from it."""

    def read(self, look: Callable[[State], T]) -> T:
        """Return what `look` finds in the state, all of which is durable.

        The leader calls `look`, which must be quick and may not wait. `Unavailable` while there is
        no leader.
        """
        ...


class WatchedLeaderForTriggers(WatchedLeader, LeaderForTriggers, Protocol):
    """One that also announces its changes."""


class LeaderOfRuns(WatchedLeader, Protocol):
    """Executes runs that callers wait for, as long as it leads."""

    @property
    def over(self) -> bool:
        """Whether it will not lead again."""
        ...

    @property
    def failure(self) -> ServoError | None:
        """Why it no longer leads."""
        ...
