"""Who should lead, where several processes could: for liveness, never for safety.

The lease keeps standbys from taking over a leader that is well. It is an object with a holder and
an expiry, renewed while its holder leads. Believing it wrongly costs a takeover and nothing else:
what keeps two leaders from both writing is the ledger.
"""

from datetime import datetime

import msgspec

from servo.config import Settings
from servo.errors import Conflict, NotFound
from servo.leader.ports import Ports
from servo.ledger.paths import Paths


class _Lease(msgspec.Struct, frozen=True, kw_only=True):
    holder: str
    expires: datetime


class LeaderLease:
    """One process's view of the lease of a workspace."""

    def __init__(self, ports: Ports, paths: Paths, settings: Settings) -> None:
        self._store = ports.store
        self._clock = ports.clock
        self._key = paths.lease
        self._settings = settings
        self._me = ports.nonce()
        self._renew_at: datetime | None = None

    def acquire(self) -> bool:
        """Take the lease if nobody has it or it has run out; whether we have it now."""
        try:
            blob = self._store.get(self._key)
        except NotFound:
            return self._write(None)
        held = msgspec.json.decode(blob.data, type=_Lease)
        if held.holder != self._me and held.expires > self._clock.now():
            return False
        return self._write(blob.meta.version)

    def renew_if_due(self) -> bool:
        """Extend the lease every so often; False once somebody else has it."""
        if self._renew_at is not None and self._clock.now() < self._renew_at:
            return True
        return self.acquire()

    def release(self) -> None:
        """Let a standby take over at once."""
        try:
            blob = self._store.get(self._key)
            if msgspec.json.decode(blob.data, type=_Lease).holder == self._me:
                gone = _Lease(holder=self._me, expires=self._clock.now())
                self._store.replace_if(
                    self._key, msgspec.json.encode(gone), version=blob.meta.version
                )
        except (NotFound, Conflict):
            return

    def _write(self, version: str | None) -> bool:
        now = self._clock.now()
        lease = _Lease(holder=self._me, expires=now + self._settings.lease_for)
        data = msgspec.json.encode(lease)
        try:
            if version is None:
                self._store.create(self._key, data)
            else:
                self._store.replace_if(self._key, data, version=version)
        except Conflict:
            return False
        self._renew_at = now + self._settings.renew_every
        return True
