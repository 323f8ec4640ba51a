"""How many executions a pool takes, and the ids it offers for them.

Short tasks would spend their time waiting for the leader's next commit, so a pool takes more than
it has processes when they have been short lately: as many as it would run in a moment. If they turn
out long after all, it takes no more of them and gives back what would have to wait for long.

A long one now and then is no reason for that, and giving back costs the leader as much as granting:
it takes several in a row. The caller holds the pool's lock.
"""

from collections.abc import Iterable

from servo.ports.entropy import Entropy

BACKLOG_SECONDS = 0.02
MAX_BACKLOG = 256
DEEPEST = 32
LONG_SECONDS = 0.25
ID_BYTES = 10
WEIGHT = 0.2
MOST_GROWTH = 2
LEAST_GROWTH_SECONDS = 0.001


class Slots:
    """The places of a pool."""

    def __init__(self, size: int, entropy: Entropy) -> None:
        self.size = size
        self._entropy = entropy
        self._usual_seconds = 0.1
        self._spare: list[str] = []

    @property
    def short(self) -> bool:
        """Whether executions have been short lately."""
        return self._usual_seconds < BACKLOG_SECONDS

    @property
    def depth(self) -> int:
        """How many executions a process may be given, one behind another."""
        return DEEPEST if self.short else 1

    def took(self, seconds: float) -> None:
        """An execution took so long."""
        # However long it was, that says no more of the next ones, and one of many says little.
        usual = self._usual_seconds
        moved = usual + WEIGHT * (min(seconds, LONG_SECONDS) - usual)
        self._usual_seconds = min(moved, MOST_GROWTH * usual + LEAST_GROWTH_SECONDS)

    def take_long(self) -> None:
        """Executions take long, though none has ended that says so."""
        self._usual_seconds = LONG_SECONDS

    def too_many(self, held: int) -> int:
        """How many of those that are held would wait for long, and better do with the leader."""
        return max(held - max(self._within(LONG_SECONDS), self.size), 0)

    def _within(self, seconds: float) -> int:
        """How many executions all processes together end in a time."""
        return int(self.size * seconds / max(self._usual_seconds, 1e-6))

    def free(self, held: int) -> list[str]:
        """An execution id for every place that is free while so many are held."""
        backlog = min(self._within(BACKLOG_SECONDS), MAX_BACKLOG)
        free = max(self.size + backlog - held, 0)
        if free > len(self._spare):
            self._spare += self._new_ids(free - len(self._spare))
        return self._spare[:free]

    def _new_ids(self, count: int) -> list[str]:
        """New execution ids. Asking the system for randomness costs as much as running a task."""
        drawn = self._entropy.token_bytes(count * ID_BYTES)
        return [f"x{drawn[n : n + ID_BYTES].hex()}" for n in range(0, len(drawn), ID_BYTES)]

    def take(self, exec_ids: Iterable[str]) -> None:
        """These ids are used."""
        used = set(exec_ids)
        self._spare = [exec_id for exec_id in self._spare if exec_id not in used]

    def forget(self) -> None:
        """Offer no id again that was offered: a grant that nobody knows of may have it."""
        self._spare.clear()
