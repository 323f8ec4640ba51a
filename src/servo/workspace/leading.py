"""Leading a workspace from this process: its lock, its lease, its socket, and the leader itself.

    led = try_to_lead(address, world)
    if led is None:
        ...                      # another process leads: see `who_leads`
    with led: led.service.commit(batch)

The lock comes first (it decides on this machine), then the lease where other machines can reach the
store, then the takeover. A healthy leader is therefore never fenced by accident. A crash between
the steps is safe: a lock is released with its process, a lease expires or is known to belong to a
dead process, and a takeover can be repeated at any point.

One store may have several locks on this machine, because it can be spelled in several ways, and one
lock may stand for several stores, if a name means another server to another process. So a lease of
this machine is void only if the lock that it names is free, and a leader takes a request only from
callers that see its lease in their store.
"""

from collections.abc import Callable
from concurrent.futures import Future
from functools import partial

import msgspec

from servo.config import Settings
from servo.core.events.envelope import Answer, Batch
from servo.errors import Conflict, Fenced
from servo.leader.leases.inquiry import LeaseInquiry
from servo.leader.leases.lease import LeaderAdvert, LeaderLease, Lease, read_lease
from servo.leader.loaded_code import LoadedCode
from servo.leader.service import Service
from servo.leader.workers import Workers
from servo.ports.world import World
from servo.workspace.address import Address
from servo.workspace.leader_connection import AskCode, LeaderNotReady, LeadsAnotherStore
from servo.workspace.leader_lock import (
    Leader,
    LeaderLock,
    advert,
    holder_of,
    leader_here,
    lock_of,
    runs_here,
)
from servo.workspace.leader_socket.server import LeaderServer
from servo.workspace.lock_and_lease import LockAndLease

NOBODY = Leader()


class LedByAnother(Conflict):
    """Another process leads the workspace, and is healthy."""

    def __init__(self, leader: LeaderAdvert) -> None:
        super().__init__(
            f"{described(leader)} leads this workspace",
            remedy="wait until it exits, or stop it; its unfinished runs are then resumed",
        )
        self.leader = leader


class Replaced(Fenced):
    """This process led the workspace, and another process has taken over."""

    def __init__(self, leader: LeaderAdvert | None) -> None:
        who = "another process" if leader is None else described(leader)
        super().__init__(
            f"{who} has taken over this workspace: this process was suspended, or could not reach "
            "the store, for longer than its lease, or its lock or lease was deleted",
            remedy="committed work is kept and the new leader continues it; "
            "see `servo run list`, or repeat the command",
        )


def described(leader: LeaderAdvert) -> str:
    """A leader, as messages describe it."""
    if not leader.pid:
        return "another process"  # it has just begun to lead, or its lease does not name it
    what = f"`servo {leader.command}`" if leader.command else "a process"
    if runs_here(leader):
        return f"{what} (process {leader.pid})"
    return f"{what} (process {leader.pid} on {leader.host or 'another machine'})"


class Led:
    """A workspace that this process leads, from `__enter__` to `__exit__`."""

    def __init__(
        self,
        service: Service,
        world: World,
        *,
        lock: LeaderLock | None = None,
        right: LockAndLease | None = None,
        server: LeaderServer | None = None,
    ) -> None:
        self.service = service
        self.world = world
        self._lock = lock
        self._right = right
        self._server = server

    def __enter__(self) -> "Led":
        try:
            _ = self.service.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def answer_questions(self, answer: Callable[[AskCode], bytes]) -> None:
        """Answer questions of other processes that need user code."""
        if self._server is not None:
            self._server.answer_question = answer

    def tell_code(self, code: dict[str, LoadedCode]) -> None:
        """Tell other processes which code this process has loaded."""
        if self._right is not None:
            self._right.tell_code(code)
            self.service.wake()  # which renews the lease

    def keep_lease(self) -> None:
        """Renew the lease if the service, which usually does it, was not started.

        `Fenced` if another process holds it.
        """
        if self._right is not None and not self._right.renew_if_due():
            raise Fenced(
                "another process holds the lock or the lease",
                remedy="wait until it stops, or try again",
            )

    def submit(self, batch: Batch, lease: str | None) -> "Future[Answer]":
        """Take a batch from a process that sees this lease in its store."""
        if not self.service.leads:
            raise LeaderNotReady
        if self._right is not None and not self._right.is_named_by(lease):
            self.service.wake()
            raise LeadsAnotherStore
        return self.service.submit(batch)

    def stop(self) -> None:
        """Stop accepting requests, publish what is left, and release the leadership."""
        try:
            if self._server is not None:
                self._server.close()
            self.service.stop()
        finally:
            # Whatever failed: a process that goes on would wait for itself to end.
            if self._lock is not None:
                self._lock.release()


def try_to_lead(
    address: Address,
    world: World,
    *,
    settings: Settings | None = None,
    workers: Callable[[Service], Workers] | None = None,
    leader: Leader = NOBODY,
) -> Led | None:
    """Become the leader of a workspace, not yet started; None if another process leads it."""
    if address.is_in_memory:
        return Led(Service(world, address.paths, settings, workers=workers), world)
    lock = LeaderLock(address)
    if not lock.acquire():
        return None
    try:
        return _with_lock(address, world, lock, settings, workers, leader)
    except BaseException:
        lock.release()
        raise


def _with_lock(
    address: Address,
    world: World,
    lock: LeaderLock,
    settings: Settings | None,
    workers: Callable[[Service], Workers] | None,
    leader: Leader,
) -> Led | None:
    made: list[Led] = []
    server = LeaderServer(address, partial(_submit, made))
    shared = lock if address.is_shared else None
    found = advert(leader, since=world.clock.now(), socket_path=server.path, lock=shared)
    lease = None if shared is None else _lease(address, world, found, settings, shared)
    right = LockAndLease(lock, lease, found, world.clock)
    try:
        if not right.acquire():
            server.close()
            lock.release()
            return None
        service = Service(world, address.paths, settings, workers=workers, right=right)
    except BaseException:
        server.close()
        right.release()
        raise
    lock.advertise(found)
    made.append(Led(service, world, lock=lock, right=right, server=server))
    return made[0]


def _submit(made: list[Led], batch: Batch, lease: str | None) -> "Future[Answer]":
    """Hand a batch to the leader that is being made, once it is there."""
    if not made:
        raise LeaderNotReady
    return made[0].submit(batch, lease)


def _lease(
    address: Address,
    world: World,
    found: LeaderAdvert,
    settings: Settings | None,
    lock: LeaderLock,
) -> LeaderLease:
    return LeaderLease(
        world.store,
        world.clock,
        address.paths,
        settings or Settings(),
        holder=world.entropy.token_bytes(16).hex(),
        advert=found,
        is_alive=lambda leader: _is_alive(leader, lock),
    )


def _is_alive(leader: LeaderAdvert, ours: LeaderLock) -> bool | None:
    """Whether the process of a leader runs, as far as locks can tell; None if they cannot."""
    if not runs_here(leader):
        return None
    if ours.was_held_by(leader):
        return False
    lock = lock_of(leader)
    return None if lock is None else holder_of(lock) is not None


class FoundLeader(msgspec.Struct, frozen=True):
    """The leader of a workspace, and the holder that the lease in its store names.

    The holder is None for a store without leases, and empty if there is no lease in it.
    """

    leader: LeaderAdvert | None
    lease: str | None = None


def who_leads(address: Address, world: World) -> LeaderAdvert | None:
    """The live leader of a workspace, as far as this process can know; None if there is none."""
    return find_leader(address, world).leader


class LeaderWatch:
    """Watches the leader of a workspace for a process that waits for it.

    A leader on another machine cannot be looked at, so it is asked through its lease.
    """

    def __init__(self, address: Address, world: World) -> None:
        self._address = address
        self._world = world
        self._inquiry = LeaseInquiry(world, address.paths)

    def leader(self) -> LeaderAdvert | None:
        """The leader; None if there is none, or if it has not answered for seconds."""
        found = who_leads(self._address, self._world)
        if found is not None and self._is_elsewhere(found):
            self._inquiry.ask()
        return found

    def is_alive(self) -> bool:
        """Whether there is a leader that is known to be alive: by its lock, or by its answer."""
        found = self.leader()
        return found is not None and (not self._is_elsewhere(found) or self._inquiry.is_answered)

    def _is_elsewhere(self, leader: LeaderAdvert) -> bool:
        return self._address.is_shared and lock_of(leader) is None


def find_leader(address: Address, world: World) -> FoundLeader:
    """The live leader of a workspace, if there is one, and the lease in its store."""
    here = leader_here(address)
    if not address.is_shared:
        return FoundLeader(here)
    lease = read_lease(world.store, address.paths)
    if lease is None:
        return FoundLeader(here, "")  # it takes the lease in a moment
    return FoundLeader(_named(lease, here, world), lease.holder)


def _named(lease: Lease, here: LeaderAdvert | None, world: World) -> LeaderAdvert | None:
    """The live leader that a lease names, or that holds our lock."""
    lock = None if lease.leader is None else lock_of(lease.leader)
    if lock is not None:
        # Whoever holds it leads, or is about to. It may be suspended, and have lost its lease.
        return holder_of(lock) or here
    if lease.expires <= world.clock.now():
        return here
    if lease.leader is None:
        return here or LeaderAdvert(pid=0)
    return lease.leader
