"""A leader for benchmarks: the real engine on a real folder, driven by hand or by its service."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from servo.config import Settings
from servo.core.events.envelope import Answer, Batch
from servo.errors import ServoError
from servo.leader.background import ThreadBackground
from servo.leader.engine import Engine
from servo.leader.ports import Ports
from servo.leader.requests import request
from servo.leader.service import Service
from servo.leader.takeover import take_over
from servo.ledger.paths import Paths
from servo.ports.object_store import ObjectStore
from servo.ports.world import World
from servo.storage.local import LocalStore
from servo.workspace.system import SystemClock, SystemEntropy

PATHS = Paths("acme", "bench")


def world(store: ObjectStore) -> World:
    return World(store, SystemClock(), SystemEntropy())


def service(folder: Path, settings: Settings | None = None) -> Service:
    return Service(world(LocalStore(folder)), PATHS, settings)


@contextmanager
def ports(store: ObjectStore) -> Generator[Ports]:
    """Everything a leader needs, with a thread for its publishing."""
    background = ThreadBackground(lambda: None)
    try:
        yield Ports(
            store=store, clock=SystemClock(), entropy=SystemEntropy(), background=background
        )
    finally:
        background.close()


class ByHand:
    """An engine whose every step is taken by whoever measures it."""

    def __init__(self, held: Ports) -> None:
        self.engine = Engine(held, PATHS, Settings(), take_over(held, PATHS))
        self._answers: list[Answer | ServoError] = []

    def submit(self, batch: Batch) -> None:
        self.engine.inbox.put(request(batch, self._answers.append))

    def commit(self, batch: Batch) -> Answer:
        """One batch, one step, one answer."""
        self.submit(batch)
        _ = self.engine.step()
        return self.answer()

    def answer(self) -> Answer:
        answer = self._answers.pop()
        assert isinstance(answer, Answer), answer
        assert answer.applied, answer
        return answer
