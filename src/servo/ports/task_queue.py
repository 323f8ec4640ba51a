"""Where deliveries to remote workers go.

A queue delivers at least once, in any order, sometimes late, and may lose what it has. It
remembers the names it was given: sending the same name again is accepted and delivers nothing
new. Servo asks for no more than that, because a delivery is an offer: the worker that takes it
must still be granted the attempt.
"""

from typing import Protocol

import msgspec


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """An offer to run one attempt."""

    name: str
    queue: str
    tenant: str
    workspace: str
    run_id: str
    task_key: str
    attempt: int
    attempt_id: str
    delivery: int


class TaskQueue(Protocol):
    """Takes deliveries for workers."""

    def send(self, delivery: Delivery) -> None:
        """Hand over a delivery; `Unavailable` if the queue did not take it."""
        ...
