"""Where a process works: the ports that it was given, and its name, in one value."""

from servo.ports.clock import Clock
from servo.ports.entropy import Entropy
from servo.ports.object_store import ObjectStore
from servo.ports.task_queue import TaskQueue

UNNAMED = "leader:unnamed"


class World:
    """Where a service runs: its store, its clock, its queue, and as whom.

    `identity` is the actor of this process: of whatever it sends and nobody else has signed.
    """

    def __init__(
        self,
        store: ObjectStore,
        clock: Clock,
        entropy: Entropy,
        queue: TaskQueue | None = None,
        *,
        identity: str = UNNAMED,
    ) -> None:
        self.store = store
        self.clock = clock
        self.entropy = entropy
        self.queue = queue
        self.identity = identity
