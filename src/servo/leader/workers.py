"""Workers to which the leader can assign tasks directly."""

from collections.abc import Sequence
from typing import Protocol

from servo.controllers.dispatch import IdleWorker
from servo.errors import Internal
from servo.leader.assignments import Assignment


class Workers(Protocol):
    """A pool of workers known to be idle or busy."""

    def idle(self) -> Sequence[IdleWorker]:
        """Idle workers, each with the execution id for its next task."""
        ...

    def assign(self, assignments: Sequence[Assignment]) -> None:
        """Start granted attempts, at least one; called once their grants are durable."""
        ...


class NoWorkers:
    """A leader without local workers: everything goes through a queue."""

    def idle(self) -> Sequence[IdleWorker]:
        return ()

    def assign(self, assignments: Sequence[Assignment]) -> None:
        lost = assignments[0].task_key
        raise Internal(f"no worker received {lost}", remedy="report this as a bug")
