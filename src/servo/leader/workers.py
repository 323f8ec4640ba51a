"""Workers that the leader can hand a task to directly."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from servo.controllers.dispatch import IdleWorker
from servo.core.keys import TaskOperation
from servo.errors import Internal


class Assignment(msgspec.Struct, frozen=True, kw_only=True):
    """A granted attempt on its way to the worker that was named in the grant.

    `inputs` are the latest outputs of what the asset is made from, as they were at the grant: by
    asset, or by `place_of` for its partitions, the materialization and where it is stored. `labels`
    are the run's, `tags` the task's. `failures` are the attempts before that user code has ended.
    With `isolated` it runs in a process of its own.
    """

    worker_id: str
    exec_id: str
    run_id: str
    task_key: str
    attempt: int
    attempt_id: str
    fencing_token: int
    failures: int = 0
    asset_key: str = ""
    also_makes: tuple[str, ...] = ()
    partition_key: str | None = None
    also_partitions: tuple[str, ...] = ()
    inputs: dict[str, tuple[str, str]] = {}
    labels: dict[str, str] = {}
    operation: TaskOperation = TaskOperation.MATERIALIZE
    tags: dict[str, str] = {}
    isolated: bool = False


class Workers(Protocol):
    """A pool of workers known to be idle or busy."""

    def idle(self) -> Sequence[IdleWorker]:
        """Workers that wait for a task, each with the execution id it would run it under."""
        ...

    def assign(self, assignments: Sequence[Assignment]) -> None:
        """Start granted attempts, at least one; called once their grants are durable."""
        ...


class NoWorkers:
    """A leader without workers of its own: everything goes through a queue."""

    def idle(self) -> Sequence[IdleWorker]:
        return ()

    def assign(self, assignments: Sequence[Assignment]) -> None:
        lost = assignments[0].task_key
        raise Internal(f"{lost} was handed to nobody", remedy="report this as a bug")
