"""Leading a workspace from this process: its lock, its lease, its socket, and the leader itself.

    led = try_to_lead(address, world)
    if led is None:
        ...                      # another process leads: see `who_leads`
    with led: led.service.commit(batch)

The lock comes first (it decides on this machine), then the lease where other machines can reach the
store, then the takeover. A healthy leader is therefore never fenced by accident. A crash between
the steps is safe: a lock is released with its process, a lease expires or is known to belong to a
dead process, and a takeover can be repeated at any point.
"""

from collections.abc import Callable
from concurrent.futures import Future
from functools import partial

from servo.config import Settings
from servo.core.events.envelope import Answer, Batch
from servo.errors import Conflict, Fenced
from servo.leader.lease import LeaderAdvert, LeaderLease, read_lease
from servo.leader.service import Service
from servo.leader.workers import Workers
from servo.ports.world import World
from servo.workspace.address import Address
from servo.workspace.leader_connection import AskCode, LeaderNotReady
from servo.workspace.leader_lock import Leader, LeaderLock, advert, leader_here, runs_here
from servo.workspace.leader_socket.server import LeaderServer

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
            "the store, for longer than its lease",
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
        lease: LeaderLease | None = None,
        server: LeaderServer | None = None,
    ) -> None:
        self.service = service
        self.world = world
        self._lock = lock
        self._lease = lease
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

    def keep_lease(self) -> None:
        """Renew the lease if the service, which usually does it, was not started.

        `Fenced` if another process holds it.
        """
        if self._lease is not None and not self._lease.renew_if_due():
            raise Fenced(
                "another process holds the lease", remedy="wait until it stops, or try again"
            )

    def stop(self) -> None:
        """Stop accepting requests, publish what is left, and release the leadership."""
        if self._server is not None:
            self._server.close()
        self.service.stop()
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
    waiting: list[Service] = []
    server = LeaderServer(address, partial(_submit, waiting))
    found = advert(leader, since=world.clock.now(), socket_path=server.path)
    lease = _lease(address, world, found, settings) if address.is_shared else None
    try:
        if lease is not None and not lease.acquire():
            server.close()
            lock.release()
            return None
        waiting.append(Service(world, address.paths, settings, workers=workers, lease=lease))
    except BaseException:
        server.close()
        raise
    lock.advertise(found)
    return Led(waiting[0], world, lock=lock, lease=lease, server=server)


def _submit(led: list[Service], batch: Batch) -> "Future[Answer]":
    """Hand a batch to the leader that is being made, once it is there."""
    if not led or not led[0].leads:
        raise LeaderNotReady
    return led[0].submit(batch)


def _lease(
    address: Address, world: World, found: LeaderAdvert, settings: Settings | None
) -> LeaderLease:
    return LeaderLease(
        world.store,
        world.clock,
        address.paths,
        settings or Settings(),
        holder=world.entropy.token_bytes(16).hex(),
        advert=found,
        # We hold the lock of this machine: whoever held it before us has ended.
        is_dead=runs_here,
    )


def who_leads(address: Address, world: World) -> LeaderAdvert | None:
    """The live leader of a workspace, as far as this process can know; None if there is none."""
    here = leader_here(address)
    if not address.is_shared:
        return here
    lease = read_lease(world.store, address.paths)
    if lease is None or lease.expires <= world.clock.now():
        return here  # it takes the lease in a moment, or was suspended and lost it
    if lease.leader is None:
        return here or LeaderAdvert(pid=0)
    if runs_here(lease.leader):
        return here
    return lease.leader
