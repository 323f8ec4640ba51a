"""How many executions a pool takes, and the ids it offers for them.

Short tasks would spend their time waiting for the leader's next commit, so a pool takes a few more
than it has processes when they have been short lately: never so many that one could wait long
behind another. The caller holds the pool's lock.
"""

from servo.ports.entropy import Entropy

BACKLOG_SECONDS = 0.02
MAX_BACKLOG = 64
ID_BYTES = 10
WEIGHT = 0.2


class Places:
    """The places of a pool."""

    def __init__(self, size: int, entropy: Entropy) -> None:
        self._size = size
        self._entropy = entropy
        self._usual_seconds = 0.1
        self._spare: list[str] = []

    @property
    def short(self) -> bool:
        """Whether executions have been short lately."""
        return self._usual_seconds < BACKLOG_SECONDS

    def took(self, seconds: float) -> None:
        """An execution took so long."""
        self._usual_seconds += WEIGHT * (seconds - self._usual_seconds)

    def free(self, held: int) -> list[str]:
        """An execution id for every place that is free while so many are held."""
        backlog = int(self._size * BACKLOG_SECONDS / max(self._usual_seconds, 1e-6))
        free = max(self._size + min(backlog, MAX_BACKLOG) - held, 0)
        if free > len(self._spare):
            self._spare += self._new_ids(free - len(self._spare))
        return self._spare[:free]

    def _new_ids(self, count: int) -> list[str]:
        """New execution ids. Asking the system for randomness costs as much as running a task."""
        drawn = self._entropy.token_bytes(count * ID_BYTES)
        return [f"x{drawn[n : n + ID_BYTES].hex()}" for n in range(0, len(drawn), ID_BYTES)]

    def take(self, exec_id: str) -> None:
        """An id is used."""
        self._spare.remove(exec_id)

    def forget(self) -> None:
        """Offer no id again that was offered: a grant that nobody knows of may have it."""
        self._spare.clear()
