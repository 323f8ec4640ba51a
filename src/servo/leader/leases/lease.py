"""The lease: which machine should lead. It is for liveness, never for safety.

The lease keeps standbys from taking over from a healthy leader. It is an object with a holder, an
expiry and how to reach the holder, renewed while its holder leads. Believing it wrongly costs a
takeover and nothing else: what keeps two leaders from both writing is the ledger.

Who cannot reach the holder otherwise asks it through the lease (`LeaseInquiry`): the holder clears
the question by renewing. A leader that was killed is therefore found dead within seconds, long
before its lease expires.

Anybody who can write to the bucket can delete or damage the object. Its holder writes it again at
the next look. To others, a damaged lease is held by an unknown process for as long as a lease lasts
from when it was written, or until nobody has mended it for seconds.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated, Protocol

import msgspec
from msgspec.structs import replace

from servo.config import Settings
from servo.core.wrong_clocks import is_far_ahead
from servo.errors import Conflict, NotFound, Unavailable
from servo.leader.loaded_code import LoadedCode
from servo.ledger.paths import Paths
from servo.ports.clock import Clock
from servo.ports.object_store import Blob, ObjectStore

RETRY_AFTER = timedelta(seconds=1)

ANSWER_WITHIN = 7.0
"""Seconds until a leader that was asked is given up: three of its looks, and a second more."""

_TRIES = 3
UNKNOWN = ""
_RELEASED = datetime(1970, 1, 1, tzinfo=UTC)
"""Not the present, which a clock that is behind has yet to reach."""


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
    can look there. `lock` is the file in that registry that it holds locked while it lives, and
    `lock_inode` tells it from a later file of that name. `socket` is a unix socket on that machine.
    A leader that `stays` takes requests from other processes until it is stopped; one that does not
    ends with its own work. `locations` are the code locations that it has workers for, and `code`
    is what it has loaded of them. `triggers` are those that it hosts for them.
    """

    pid: int
    host: str = ""
    machine: str = ""
    lock: str = ""
    lock_inode: int = 0
    socket: str = ""
    stays: bool = False
    command: str = ""
    locations: tuple[str, ...] = ()
    code: dict[str, LoadedCode] = {}
    triggers: HostedTriggers = HostedTriggers.NONE
    since: datetime | None = None

    def hosts(self, triggers: HostedTriggers, *locations: str) -> bool:
        """Whether it hosts these triggers for all of these code locations."""
        return self.triggers.include(triggers) and {*locations} <= {*self.locations}


class Lease(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The content of the lease object.

    `asked` names the question of a process that wants to know whether the holder is alive.
    """

    holder: str
    expires: Annotated[datetime, msgspec.Meta(tz=True)]
    leader: LeaderAdvert | None = None
    asked: str = ""


class RightToLead(Protocol):
    """What a process must hold to lead, and may lose to another process."""

    def acquire(self) -> bool:
        """Take it if no other live process has it; whether this process has it now."""
        ...

    def is_current(self) -> bool:
        """Whether no other process has taken it; `Unavailable` if that cannot be found out."""
        ...

    def renew_if_due(self) -> bool:
        """Keep it; False once another process has it."""
        ...

    def release(self) -> None:
        """Give it up, so that another process can lead at once."""
        ...


def read_lease(store: ObjectStore, paths: Paths) -> Lease | None:
    """The current lease of a workspace, expired or not; None if there is none."""
    try:
        return lease_in(store.get(paths.lease))
    except NotFound:
        return None


def released(holder: str) -> Lease:
    """The lease of a process that leads no more: it is expired by every clock."""
    return Lease(holder=holder, expires=_RELEASED)


def _nothing_is_known(leader: LeaderAdvert) -> bool | None:
    del leader
    return None


class LeaderLease:
    """One process's view of the lease of a workspace.

    `is_alive` says whether the process of a leader still runs, None if that is not known. If it is
    known, the lease counts for as long as the process runs; otherwise it counts until it expires.
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
        is_alive: Callable[[LeaderAdvert], bool | None] = _nothing_is_known,
    ) -> None:
        self._store = store
        self._clock = clock
        self._key = paths.lease
        self._settings = settings
        self.holder = holder
        self._advert = advert
        self._is_alive = is_alive
        self._was_held = False
        self._written_at: float | None = None
        self._renew_at: float | None = None

    @property
    def duration(self) -> float:
        """Seconds from a renewal to the end of the lease."""
        return self._settings.lease_for.total_seconds()

    def acquire(self) -> bool:
        """Take the lease if no live process holds it; whether this process holds it now."""
        try:
            blob = self._store.get(self._key)
        except NotFound:
            return self._write(None)
        lease = lease_in(blob)
        if not self._is_own(lease) and self._is_held(lease):
            return False
        return self._write(blob.meta.version)

    def renew_if_due(self) -> bool:
        """Extend the lease at intervals; False once another process holds it."""
        if self._renew_at is not None and self._clock.monotonic() < self._renew_at:
            return True
        try:
            return self._extend()
        except Unavailable:
            # A store that does not answer is no reason to stop: only a takeover is.
            self._renew_at = self._clock.monotonic() + RETRY_AFTER.total_seconds()
            return True

    def is_current(self) -> bool:
        """Whether we still hold the lease; it is looked at only if it can have been lost."""
        written = self._written_at
        if written is not None and self._clock.monotonic() - written < ANSWER_WITHIN:
            return True
        return self._extend()

    def renew_soon(self, advert: LeaderAdvert | None = None) -> None:
        """Renew the lease at the next occasion, with a new description of its holder if given."""
        if advert is not None:
            self._advert = advert
        self._renew_at = None

    def answer(self) -> None:
        """Renew the lease if somebody has asked whether its holder is alive, or has damaged it.

        Called on a thread of its own, so that a leader that is busy for a moment is not replaced.
        What it finds otherwise is left to the leader's thread, at its next step.
        """
        try:
            blob = self._store.get(self._key)
        except NotFound:
            return self.renew_soon()
        lease = lease_in(blob)
        if not self._is_own(lease):
            self.renew_soon()
        elif lease.asked or lease.holder == UNKNOWN:
            _ = self._write(blob.meta.version)
        return None

    def _extend(self) -> bool:
        """Extend the lease if it is still ours, and write it again if it was deleted or damaged.

        Another holder has led since, whether or not its lease has run out: we were replaced.
        """
        for _ in range(_TRIES):
            try:
                blob = self._store.get(self._key)
            except NotFound:
                if self._write(None):
                    return True
                continue
            if not self._is_own(lease_in(blob)):
                return False
            if self._write(blob.meta.version):
                return True
        self._renew_at = self._clock.monotonic() + RETRY_AFTER.total_seconds()
        return True  # it keeps changing, and nobody else is known to hold it

    def release(self) -> None:
        """Release the lease, so that a standby can take over at once; else it expires."""
        try:
            blob = self._store.get(self._key)
            if self._is_own(lease_in(blob)):
                gone = msgspec.json.encode(released(self.holder))
                self._store.replace_if(self._key, gone, version=blob.meta.version)
        except (NotFound, Conflict, Unavailable):
            return

    def _is_own(self, lease: Lease) -> bool:
        """Whether a lease is ours; a damaged one is if we held it before."""
        return lease.holder == self.holder or (lease.holder == UNKNOWN and self._was_held)

    def _is_held(self, lease: Lease) -> bool:
        alive = None if lease.leader is None else self._is_alive(lease.leader)
        return lease.expires > self._clock.now() if alive is None else alive

    def _write(self, version: str | None) -> bool:
        began = self._clock.monotonic()
        expires = self._clock.now() + self._settings.lease_for
        data = msgspec.json.encode(Lease(holder=self.holder, expires=expires, leader=self._advert))
        try:
            if version is None:
                self._store.create(self._key, data)
            else:
                self._store.replace_if(self._key, data, version=version)
        except Conflict:
            return False
        self._was_held = True
        self._written_at = began
        self._renew_at = self._clock.monotonic() + self._settings.renew_every.total_seconds()
        return True


def lease_in(blob: Blob) -> Lease:
    """The lease in an object; if it cannot be read, one of an unknown process that expires.

    A holder whose clock is far ahead of the store's does not get a longer lease.
    """
    in_time = blob.meta.modified + Settings().lease_for
    try:
        lease = msgspec.json.decode(blob.data, type=Lease)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return Lease(holder=UNKNOWN, expires=in_time)
    return replace(lease, expires=in_time) if is_far_ahead(lease.expires, in_time) else lease
