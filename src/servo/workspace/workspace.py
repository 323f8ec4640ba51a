"""A workspace, as operations see it: it can be read, and it accepts requests.

    workspace = open_workspace(Address.of(".servo"))
    runs = workspace.read(lambda snapshot: snapshot.rows("runs"))
    receipt = workspace.submit(RunCancelRequested(run_id=run))

`submit` is the only way to write. It returns a receipt, for refused requests too, wherever the
leader is: in this process, in another one on this machine, on another machine, or nowhere.
"""

import threading
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from functools import partial
from typing import TypeVar

from msgspec.structs import replace

from servo.core.events.envelope import Event
from servo.core.ids import ulid
from servo.errors import NotFound, Unavailable
from servo.leader.leases.lease import LeaderAdvert
from servo.ledger.paths import Paths
from servo.ports.clock import Clock
from servo.ports.entropy import Entropy
from servo.ports.object_store import ObjectStore
from servo.ports.world import World
from servo.projection.read.reader import Reader, Snapshot
from servo.projection.read.replay import AsOf, ReplayProgress, ignore
from servo.projection.read.time_travel import snapshot_at
from servo.workspace.address import Address
from servo.workspace.channels import AnyChannel, Channel
from servo.workspace.composition import open_to_read, open_world
from servo.workspace.identity import this_process
from servo.workspace.leader_lock import Leader
from servo.workspace.leading import LeaderWatch, Led, try_to_lead, who_leads
from servo.workspace.origins import CausingRow, batch_from, origin_of
from servo.workspace.receipt import Receipt

CREATED_WITHIN = 30.0
LOOK_EVERY = 0.05

T = TypeVar("T")


Replaying = Callable[[AsOf], AbstractContextManager[ReplayProgress]]
"""Opens a progress report for a read that replays the ledger up to a moment."""


@contextmanager
def unwatched(as_of: AsOf) -> Generator[ReplayProgress]:
    """A replay that nobody watches."""
    del as_of
    yield ignore


class Workspace:
    """One workspace: `read` it, `submit` to it.

    `channel` is how requests reach the ledger. `actor` is who they come from unless they say
    otherwise. `to_lead` opens the store as a leader needs it, which is more work than reading it.
    """

    def __init__(
        self,
        address: Address,
        world: World,
        channel: Channel,
        *,
        actor: str | None = None,
        to_lead: Callable[[], World] | None = None,
        replaying: Replaying = unwatched,
    ) -> None:
        self.address = address
        self._replaying = replaying
        self.actor = actor or this_process()
        self._world = world
        self._channel = channel
        self._to_lead = to_lead or (lambda: world)
        self._reader = Reader(world.store, address.paths)
        self._watch = LeaderWatch(address, world)

    # --- what is there ------------------------------------------------------------------------

    @property
    def paths(self) -> Paths:
        """Where in the store everything of this workspace is."""
        return self.address.paths

    @property
    def store(self) -> ObjectStore:
        """The store, for what is not a table: plans, logs and outputs."""
        return self._world.store

    @property
    def clock(self) -> Clock:
        """The clock of readers."""
        return self._world.clock

    @property
    def entropy(self) -> Entropy:
        """The source of unique tokens."""
        return self._world.entropy

    def now(self) -> datetime:
        """The current time."""
        return self._world.clock.now()

    def token(self, size: int = 12) -> str:
        """A unique token."""
        return self._world.entropy.token_bytes(size).hex()

    def leader(self) -> LeaderAdvert | None:
        """The leader, as far as this process can know; None if there is none."""
        return who_leads(self.address, self._world)

    def awaited_leader(self) -> LeaderAdvert | None:
        """The leader that this process waits for; None once it is found dead."""
        return self._watch.leader()

    def is_led(self) -> bool:
        """Whether there is a leader that is known to be alive, for a caller that asks again."""
        return self._watch.is_alive()

    def identity(self) -> bytes:
        """The seed of its run ids; a workspace that does not exist yet is created.

        `Unavailable` if another process has begun to create it and does not finish.
        """
        until, pause = self.clock.monotonic() + CREATED_WITHIN, threading.Event()
        while True:
            try:
                return self.read(lambda snapshot: bytes.fromhex(snapshot.manifest.identity))
            except NotFound:
                led = self.try_to_lead(command="")
            if led is not None:
                with led:
                    continue  # who leads has written the first manifest by now
            if self.clock.monotonic() > until:
                raise Unavailable("the workspace is being created", remedy="try again")
            _ = pause.wait(LOOK_EVERY)

    def try_to_lead(self, *, command: str) -> Led | None:
        """Become the leader, not yet started; None if another process leads.

        For maintenance that only a leader may do. Requests go through `submit`.
        """
        return try_to_lead(self.address, self._to_lead(), leader=Leader(command=command))

    # --- reading ------------------------------------------------------------------------------

    def read(
        self,
        use: Callable[[Snapshot], T],
        *,
        as_of: AsOf | None = None,
        min_seq: int = 0,
    ) -> T:
        """Call `use` with a snapshot of the workspace: now, or as of a ledger entry or a time.

        With `min_seq`, at least the effects of that entry are seen: what is not published yet is
        folded from the ledger.
        """
        if as_of is not None:
            return use(self._replayed(as_of))
        if min_seq and self._published_seq() < min_seq:
            return use(self._replayed(min_seq))
        return self._reader.read(use)

    def _replayed(self, as_of: AsOf) -> Snapshot:
        with self._replaying(as_of) as progress:
            return snapshot_at(self.store, self.paths, as_of, progress=progress)

    def _published_seq(self) -> int:
        try:
            return self._reader.snapshot().applied_seq
        except NotFound:
            return 0

    # --- writing ------------------------------------------------------------------------------

    def submit(
        self,
        *events: Event,
        actor: str | None = None,
        request_id: str | None = None,
        cause: CausingRow | None = None,
    ) -> Receipt:
        """Submit events as one batch; the receipt.

        A request id that was used before for the same events returns the first answer again, and
        nothing is applied twice. `cause` is the row of what led to this, such as the run that is
        repeated; its correlation is kept.
        """
        origin = origin_of(actor or self.actor, cause)
        name = ulid(self.now(), self._world.entropy.token_bytes(10))
        batch = batch_from(f"request-{name}", events, origin, sent_at=self.now())
        return self._channel.send(replace(batch, request_id=request_id or batch.id))


def open_workspace(
    address: Address,
    *,
    actor: str | None = None,
    must_exist: bool = True,
    replaying: Replaying = unwatched,
) -> Workspace:
    """The workspace at an address; `NotFound` if its store is a folder that does not exist."""
    if must_exist:
        address.check_exists()
    world = open_to_read(address.store)
    to_lead = partial(open_world, address.store)
    channel = AnyChannel(address, world, to_lead)
    return Workspace(address, world, channel, actor=actor, to_lead=to_lead, replaying=replaying)
