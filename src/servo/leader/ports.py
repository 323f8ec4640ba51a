"""The ports of one leader, in one value."""

import msgspec

from servo.ports.background import Background
from servo.ports.clock import Clock
from servo.ports.entropy import Entropy
from servo.ports.object_store import ObjectStore
from servo.ports.task_queue import TaskQueue


class Ports(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a leader may touch. `queue` is absent where all workers are local."""

    store: ObjectStore
    clock: Clock
    entropy: Entropy
    background: Background
    queue: TaskQueue | None = None

    def nonce(self) -> str:
        """A name that was never used before."""
        return self.entropy.token_bytes(16).hex()
