"""The lock and the lease of a leader, kept for as long as it leads.

The lock decides on this machine; for a store that other machines can reach, the lease decides among
machines. Both are files that somebody else can delete. The leader looks for them regularly and
puts them back. Until it does, another process may take over, which the ledger makes safe.
"""

import threading

from msgspec.structs import replace

from servo.leader.leases.keeper import LeaseKeeper
from servo.leader.leases.lease import LeaderAdvert, LeaderLease
from servo.leader.loaded_code import LoadedCode
from servo.ports.clock import Clock
from servo.workspace.leader_lock import LeaderLock, LockState

LOOK_EVERY = 1.0
"""Seconds. It costs one look at a local file."""


class LockAndLease:
    """The `RightToLead` of a process that holds the lock of a workspace."""

    def __init__(
        self, lock: LeaderLock, lease: LeaderLease | None, advert: LeaderAdvert, clock: Clock
    ) -> None:
        self._lock = lock
        self._lease = lease
        self._keeper = None if lease is None else LeaseKeeper(lease, clock)
        self._advert = advert
        self._telling = threading.Lock()  # the leader's thread and the one that loads code
        self._clock = clock
        self._look_at = clock.monotonic() + LOOK_EVERY

    def acquire(self) -> bool:
        """Take the lease if there is one to take; the lock is held."""
        if self._lease is None or self._keeper is None:
            return True
        if not self._lease.acquire():
            return False
        self._keeper.start()
        return True

    def is_current(self) -> bool:
        """Whether the lease, if there is one, is still ours; the lock is until it is released."""
        return self._lease is None or self._lease.is_current()

    def renew_if_due(self) -> bool:
        """Put back what was deleted, and renew the lease; False once another process leads."""
        if not self._keep_lock():
            return False
        if self._keeper is not None:
            self._keeper.moved()
        return self._lease is None or self._lease.renew_if_due()

    def release(self) -> None:
        """Release the lease; the lock is released when the process no longer answers."""
        if self._keeper is not None:
            self._keeper.stop()
        if self._lease is not None:
            self._lease.release()

    def is_named_by(self, holder: str | None) -> bool:
        """Whether a store whose lease names this holder is the one that this process leads.

        None stands for a store without leases. If the lease does not name us, it is written again
        soon: it may have been deleted.
        """
        if self._lease is None or holder is None or holder == self._lease.holder:
            return True
        self._lease.renew_soon()
        return False

    def _keep_lock(self) -> bool:
        now = self._clock.monotonic()
        if now < self._look_at:
            return True
        self._look_at = now + LOOK_EVERY
        match self._lock.keep():
            case LockState.KEPT:
                with self._telling:
                    self._lock.mend_advert(self._advert)
                return True
            case LockState.RESTORED:
                self._advertise_again()
                return True
            case LockState.TAKEN:
                # With a lease, that process sees that we lead, and lets go.
                return self._lease is not None

    def tell_code(self, code: dict[str, LoadedCode]) -> None:
        """Advertise that this process has loaded other code."""
        with self._telling:
            self._advert = replace(self._advert, code=code)
            self._tell()

    def _advertise_again(self) -> None:
        with self._telling:
            if self._lease is not None:
                self._advert = replace(self._advert, lock_inode=self._lock.inode)
            self._tell()

    def _tell(self) -> None:
        if self._lease is not None:
            self._lease.renew_soon(self._advert)
        self._lock.advertise(self._advert)
