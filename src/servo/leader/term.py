"""The time of one leader's term.

Wall clocks jump: forward, and every lease looks expired; back, and nothing is ever due. Within a
term, time therefore runs at the speed of the monotonic clock from the last entry's time, and never
behind the wall clock by more than it lost. A wall clock that runs ahead of it by more than
`tolerance` is adopted, and that counts as a stall, so that nothing expires because of a jump.
"""

from datetime import datetime, timedelta

from servo.ports.clock import Clock

TICK = timedelta(microseconds=1)


class TermClock:
    """Gives a leader the current time, always later than the last entry.

    The term begins with the fence: `last` is its time and `fenced_at` when it was written. A clock
    that jumps before the first reading has jumped within the term.
    """

    def __init__(
        self, clock: Clock, last: datetime, tolerance: timedelta, *, fenced_at: float
    ) -> None:
        self._clock = clock
        self._tolerance = tolerance
        self._base = last + TICK
        self._started = fenced_at
        self.jumped = False

    def now(self) -> datetime:
        """The current time of this term."""
        elapsed = timedelta(seconds=self._clock.monotonic() - self._started)
        present = self._base + elapsed
        wall = self._clock.now()
        if wall - present > self._tolerance:
            self._base += wall - present
            self.jumped = True
            return wall
        return present

    def monotonic(self) -> float:
        return self._clock.monotonic()
