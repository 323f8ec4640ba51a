"""How what an instance changes gets into the ledger: the way that is safe.

Through the leader if this process has one, through the inbox if another process may lead, and
otherwise by leading for a moment. An inbox is emptied every few seconds; who leaves something there
waits until it is, for a while. What was left there is durable, and is carried out by whoever leads.
"""

import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from servo.core.events.codec import encode_batch
from servo.core.events.envelope import Batch, Event
from servo.core.ids import ulid
from servo.errors import Conflict, NotFound
from servo.leader.service import Service, World
from servo.ledger.paths import Paths
from servo.workspace.registry import at_work, registry_folder

LOOK_EVERY = 0.02
SEQUENCED_WITHIN = 10.0


def address_of(url: str, paths: Paths) -> str:
    """The workspace as a pool of this machine would register it."""
    store = url if "://" in url else str(Path(url).expanduser().absolute())
    return f"{store}|{paths.tenant}|{paths.workspace}"


class Changes:
    """What is changed in one workspace; `alone` is whether nobody else can be at work in it."""

    def __init__(self, world: World, paths: Paths, *, address: str, alone: bool) -> None:
        self._world = world
        self._paths = paths
        self._address = address
        self._alone = alone
        self._service: Service | None = None

    @contextmanager
    def through(self, service: Service) -> Generator[None]:
        """Have a leader of this process take what is changed meanwhile."""
        before, self._service = self._service, service
        try:
            yield
        finally:
            self._service = before

    def commit(self, *events: Event) -> None:
        """Have events carried out together; `Conflict` if the workspace is known to refuse them."""
        if not events:
            return
        now = self._world.clock.now()
        name = ulid(now, self._world.entropy.token_bytes(10))
        actor = self._world.identity
        batch = Batch(id=f"instance-{name}", events=events, actor=actor, sent_at=now)
        if self._service is not None:
            _submit(self._service, batch)
        elif self._alone or self._nobody_leads():
            with Service(self._world, self._paths) as service:
                _submit(service, batch)
        else:
            self._leave(name, batch)

    def _nobody_leads(self) -> bool:
        """Whether this machine would know of a leader, and knows of none."""
        local = bool(self._address) and "://" not in self._address
        return local and at_work(registry_folder(), self._address) is None

    def _leave(self, name: str, batch: Batch) -> None:
        key = self._paths.inbox_item(name)
        self._world.store.create(key, encode_batch(batch))
        until = self._world.clock.monotonic() + SEQUENCED_WITHIN
        pause = threading.Event()
        with suppress(NotFound):
            while self._world.clock.monotonic() < until:
                _ = self._world.store.get(key)
                pause.wait(LOOK_EVERY)


def _submit(service: Service, batch: Batch) -> None:
    answer = service.commit(batch)
    if not answer.applied:
        raise Conflict(f"the workspace refused: {answer.reason}", remedy="correct the request")
