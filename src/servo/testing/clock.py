"""Time and chance that a test decides."""

from datetime import UTC, datetime, timedelta
from random import Random


class ManualClock:
    """A clock that moves only when told to. The wall can jump without time having passed."""

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self._wall = start
        self._elapsed = 0.0

    def now(self) -> datetime:
        return self._wall

    def monotonic(self) -> float:
        return self._elapsed

    def advance(self, duration: timedelta) -> None:
        """Let time pass."""
        self._wall += duration
        self._elapsed += duration.total_seconds()

    def jump(self, duration: timedelta) -> None:
        """Set the wall clock forward or back."""
        self._wall += duration


class SeededEntropy:
    """Randomness that is the same in every run of a test."""

    def __init__(self, seed: int = 0) -> None:
        self._random = Random(seed)

    def token_bytes(self, count: int) -> bytes:
        return self._random.randbytes(count)


class CountingEntropy:
    """Chance that never repeats and needs no luck: 1, 2, 3 and so on, in as many bytes as asked."""

    def __init__(self) -> None:
        self.count = 0

    def token_bytes(self, count: int) -> bytes:
        self.count += 1
        return self.count.to_bytes(count)
