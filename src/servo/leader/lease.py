"""The lease: which machine should lead. It is for liveness, never for safety.

The lease keeps standbys from taking over from a healthy leader. It is an object with a holder, an
expiry and how to reach the holder, renewed while its holder leads. Believing it wrongly costs a
takeover and nothing else: what keeps two leaders from both writing is the ledger.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from enum import StrEnum

import msgspec

from servo.config import Settings
from servo.errors import Conflict, Corrupt, NotFound, Unavailable
from servo.ledger.paths import Paths
from servo.ports.clock import Clock
from servo.ports.object_store import ObjectStore

RETRY_AFTER = timedelta(seconds=1)


class HostedTriggers(StrEnum):
    """The triggers that a leader hosts: none, those that continue backfills, or every kind."""

    NONE = "none"
    BACKFILLS = "backfills"
    ALL = "all"

    def include(self, wanted: "HostedTriggers") -> bool:
        """Whether these include the wanted triggers."""
        return self is HostedTriggers.ALL or wanted in (HostedTriggers.NONE, self)


class LeaderAdvert(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A leader, and how to reach it.

    `machine` names the registry of the machine it runs on, so that another process knows whether it
    can look there. `socket` is a unix socket on that machine. A leader that `stays` takes requests
    from other processes until it is stopped; one that does not ends with its own work. `locations`
    are the code locations that it has workers for. `triggers` are those that it hosts for them.
    """

    pid: int
    host: str = ""
    machine: str = ""
    socket: str = ""
    stays: bool = False
    command: str = ""
    locations: tuple[str, ...] = ()
    triggers: HostedTriggers = HostedTriggers.NONE
    since: datetime | None = None

    def hosts(self, triggers: HostedTriggers, *locations: str) -> bool:
        """Whether it hosts these triggers for all of these code locations."""
        return self.triggers.include(triggers) and {*locations} <= {*self.locations}


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """The content of the lease object."""

    holder: str
    expires: datetime
    leader: LeaderAdvert | None = None


def read_lease(store: ObjectStore, paths: Paths) -> Lease | None:
    """The current lease of a workspace, expired or not; None if it was never taken."""
    try:
        return _decoded(store.get(paths.lease).data)
    except NotFound:
        return None


def _nobody_is_dead(leader: LeaderAdvert) -> bool:
    del leader
    return False


class LeaderLease:
    """One process's view of the lease of a workspace.

    `is_dead` says whether a holder is known to have ended: its lease then need not expire.
    """

    def __init__(  # noqa: PLR0913 - where the lease is, whose it is, and how long it lasts
        self,
        store: ObjectStore,
        clock: Clock,
        paths: Paths,
        settings: Settings,
        *,
        holder: str,
        advert: LeaderAdvert | None = None,
        is_dead: Callable[[LeaderAdvert], bool] = _nobody_is_dead,
    ) -> None:
        self._store = store
        self._clock = clock
        self._key = paths.lease
        self._settings = settings
        self._me = holder
        self._advert = advert
        self._is_dead = is_dead
        self._renew_at: datetime | None = None

    def acquire(self) -> bool:
        """Take the lease if no live process holds it; whether this process holds it now."""
        try:
            blob = self._store.get(self._key)
        except NotFound:
            return self._write(None)
        held = _decoded(blob.data)
        if held.holder != self._me and held.expires > self._clock.now():
            dead = held.leader is not None and self._is_dead(held.leader)
            if not dead:
                return False
        return self._write(blob.meta.version)

    def renew_if_due(self) -> bool:
        """Extend the lease at intervals; False once another process holds it."""
        if self._renew_at is not None and self._clock.now() < self._renew_at:
            return True
        try:
            return self._extend()
        except Unavailable:
            # A store that does not answer is no reason to stop: only a takeover is.
            self._renew_at = self._clock.now() + RETRY_AFTER
            return True

    def _extend(self) -> bool:
        """Extend the lease if it is still ours.

        Another holder has led since, whether or not its lease has run out: we were replaced.
        """
        try:
            blob = self._store.get(self._key)
        except NotFound:
            return self._write(None)
        return _decoded(blob.data).holder == self._me and self._write(blob.meta.version)

    def release(self) -> None:
        """Release the lease, so that a standby can take over at once."""
        try:
            blob = self._store.get(self._key)
            if _decoded(blob.data).holder == self._me:
                gone = Lease(holder=self._me, expires=self._clock.now())
                self._store.replace_if(
                    self._key, msgspec.json.encode(gone), version=blob.meta.version
                )
        except (NotFound, Conflict):
            return

    def _write(self, version: str | None) -> bool:
        now = self._clock.now()
        expires = now + self._settings.lease_for
        data = msgspec.json.encode(Lease(holder=self._me, expires=expires, leader=self._advert))
        try:
            if version is None:
                self._store.create(self._key, data)
            else:
                self._store.replace_if(self._key, data, version=version)
        except Conflict:
            return False
        self._renew_at = now + self._settings.renew_every
        return True


def _decoded(data: bytes) -> Lease:
    try:
        return msgspec.json.decode(data, type=Lease)
    except msgspec.MsgspecError:
        raise Corrupt(
            "the leader's lease cannot be read",
            remedy="delete leases/orchestration.json; the next leader writes a new one",
        ) from None
