"""A thread that answers whoever asks through the lease whether this leader is alive.

The leader's thread may be busy for seconds: a takeover on a far store, a large plan. That is no
reason to replace it. One that has not moved for as long as a lease lasts is another matter: its
questions stay unanswered, so that another process can take over.
"""

import threading
from contextlib import suppress

from servo.errors import ServoError
from servo.leader.leases.lease import LeaderLease
from servo.ports.clock import Clock

LOOK_EVERY = 2.0
END_WITHIN = 2.0
"""Seconds."""


class LeaseKeeper:
    """Answers for a leader that moves at least once in the time of a lease."""

    def __init__(self, lease: LeaderLease, clock: Clock) -> None:
        self._lease = lease
        self._clock = clock
        self._moved = clock.monotonic()
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to answer."""
        self.moved()
        if self._thread is None:
            self._thread = threading.Thread(target=self._main, name="servo-lease", daemon=True)
            self._thread.start()

    def moved(self) -> None:
        """The leader is not stuck."""
        self._moved = self._clock.monotonic()

    def stop(self) -> None:
        """Answer no more. An answer under way is refused once the lease has changed."""
        self._over.set()
        if self._thread is not None:
            self._thread.join(END_WITHIN)

    def look(self) -> None:
        """Answer a question, unless the leader is stuck."""
        if self._clock.monotonic() - self._moved < self._lease.duration:
            with suppress(ServoError):  # the store will be back, and so will the question
                self._lease.answer()

    def _main(self) -> None:
        while not self._over.wait(LOOK_EVERY):
            self.look()
