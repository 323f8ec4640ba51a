"""Whether the holder of a lease that cannot be reached otherwise is alive: ask it, and wait.

A process that waits for a leader on another machine writes a question into the lease. The leader
looks at its lease every two seconds and clears the question by renewing the lease, so a question
that is still there after several looks was put to a dead process, to one that is suspended, or to
one that cannot reach the store. Its lease is then released for it: whoever wants to lead, can.

Clocks of two machines are never compared: who asks measures its own waiting. Every change replaces
the version of the lease that it was decided on, so an answer that comes in time always counts. One
that comes too late finds the lease released, and takes it back if nobody leads yet. A leader that
is judged wrongly is replaced, which costs a takeover and nothing else.
"""

import msgspec
from msgspec.structs import replace

from servo.errors import ServoError
from servo.leader.leases.lease import ANSWER_WITHIN, UNKNOWN, lease_in, released
from servo.ledger.paths import Paths
from servo.ports.object_store import Blob
from servo.ports.world import World

ASK_EVERY = 1.0
"""Seconds."""


class LeaseInquiry:
    """One process that waits for a leader, and what it has asked so far."""

    def __init__(self, world: World, paths: Paths) -> None:
        self._world = world
        self._key = paths.lease
        self._look_at = 0.0
        self._pending = ""
        self._since = 0.0
        self.is_answered = False
        """Whether the holder has answered the last question."""

    def ask(self) -> None:
        """Ask the holder, or release its lease if it has not answered in time.

        It is cheap to call often, and never raises because of the store: it will be called again. A
        process that may not write the lease asks nobody, and waits until the lease expires.
        """
        now = self._world.clock.monotonic()
        if now < self._look_at:
            return
        self._look_at = now + ASK_EVERY
        try:
            self._look(self._world.store.get(self._key), now)
        except ServoError:
            return  # nobody holds it, the holder has renewed it, or the store does not let us

    def _look(self, blob: Blob, now: float) -> None:
        lease = lease_in(blob)
        if lease.expires <= self._world.clock.now():
            return
        # A damaged lease is a question by itself: its holder writes it again.
        asked = blob.meta.version if lease.holder == UNKNOWN else lease.asked
        self.is_answered = bool(self._pending) and not asked
        if not asked:
            self._pending = self._world.entropy.token_bytes(8).hex()
            self._since = now
            self._replace(blob, msgspec.json.encode(replace(lease, asked=self._pending)))
        elif asked != self._pending:
            # Somebody else has asked. We have not seen for how long there was no answer.
            self._pending, self._since = asked, now
        elif now - self._since >= ANSWER_WITHIN:
            self._replace(blob, msgspec.json.encode(released(lease.holder)))

    def _replace(self, blob: Blob, data: bytes) -> None:
        _ = self._world.store.replace_if(self._key, data, version=blob.meta.version)
