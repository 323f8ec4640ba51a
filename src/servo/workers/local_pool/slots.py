"""How many executions a pool takes, and the ids it offers for them.

Short tasks would spend their time waiting for the leader's next commit. So while tasks are short, a
pool takes more of them than it has processes: as many as it would run in a moment. If they turn out
to be long, it takes no more, and gives back those that would wait for long.

One long task among short ones does not change this, because giving back costs the leader as much as
granting; several in a row do. The caller holds the pool's lock.
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
    """The execution slots of a pool."""

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
        """How many executions may be queued in one process."""
        return DEEPEST if self.short else 1

    def took(self, seconds: float) -> None:
        """Record how long an execution took."""
        # Its exact length says nothing more about the next ones, and one of many says little.
        usual = self._usual_seconds
        moved = usual + WEIGHT * (min(seconds, LONG_SECONDS) - usual)
        self._usual_seconds = min(moved, MOST_GROWTH * usual + LEAST_GROWTH_SECONDS)

    def take_long(self) -> None:
        """Record that executions take long, although none has ended yet."""
        self._usual_seconds = LONG_SECONDS

    def too_many(self, held: int) -> int:
        """How many of the held executions would wait for long, and should go back to the leader."""
        return max(held - max(self._within(LONG_SECONDS), self.size), 0)

    def _within(self, seconds: float) -> int:
        """How many executions all processes together finish in a time."""
        return int(self.size * seconds / max(self._usual_seconds, 1e-6))

    def free(self, held: int) -> list[str]:
        """An execution id for every slot that is free while so many are held."""
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
        """Mark these ids as used."""
        used = set(exec_ids)
        self._spare = [exec_id for exec_id in self._spare if exec_id not in used]

    def forget(self) -> None:
        """Forget the offered ids: an unknown grant may have used one."""
        self._spare.clear()
