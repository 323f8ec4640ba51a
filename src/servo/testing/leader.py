"""A leader that a test steps by hand: the real engine on any store, without threads."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from servo.config import Settings
from servo.core.events.envelope import Answer, Batch, Event
from servo.errors import ServoError
from servo.leader.engine import Engine
from servo.leader.ports import Ports
from servo.leader.requests import Beat, BeatRequest, request
from servo.leader.service import Service
from servo.leader.takeover import take_over
from servo.leader.workers import Workers
from servo.ledger.paths import Paths
from servo.ports.object_store import ObjectStore
from servo.ports.task_queue import Delivery, TaskQueue
from servo.testing.clock import ManualClock, SeededEntropy
from servo.workspace.address import DEFAULT_NAME
from servo.workspace.composition import open_world


class InlineJob:
    """A job that was done when it was started."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._value: Any = None
        self._error: Exception | None = None
        try:
            self._value = work()
        except Exception as error:  # noqa: BLE001 - raised where the result is asked for
            self._error = error

    def done(self) -> bool:
        return True

    def result(self) -> Any:
        if self._error is not None:
            raise self._error
        return self._value


class InlineBackground:
    """Does every job at once."""

    def start(self, work: Callable[[], Any]) -> InlineJob:
        return InlineJob(work)


class ListQueue:
    """A queue that only remembers what it was sent."""

    def __init__(self) -> None:
        self.sent: list[Delivery] = []

    def send(self, delivery: Delivery) -> None:
        self.sent.append(delivery)


class HandLeader:
    """A leader with a clock and a queue that belong to the test."""

    def __init__(
        self,
        store: ObjectStore,
        *,
        settings: Settings | None = None,
        seed: int = 0,
        clock: ManualClock | None = None,
        queue: TaskQueue | None = None,
        workers: Workers | None = None,
    ) -> None:
        self.clock = ManualClock() if clock is None else clock
        self.queue = ListQueue()
        self.paths = Paths("acme", "prod")
        self.ports = Ports(
            store=store,
            clock=self.clock,
            entropy=SeededEntropy(seed),
            background=InlineBackground(),
            queue=self.queue if queue is None else queue,
        )
        self.settings = Settings() if settings is None else settings
        leadership = take_over(self.ports, self.paths)
        self.engine = Engine(self.ports, self.paths, self.settings, leadership, workers=workers)
        self._batches = 0

    def batch(self, *events: Event, **fields: Any) -> Batch:
        self._batches += 1
        values: dict[str, Any] = {
            "id": f"{self.engine.ownership.owner[:8]}-{self._batches}",
            "events": events,
            **fields,
        }
        return Batch(**values)

    def send(self, *batches: Batch) -> list[Answer | ServoError]:
        """Leave batches for the leader; the list fills when it answers."""
        answers: list[Answer | ServoError] = []
        for batch in batches:
            self.engine.inbox.put(request(batch, answers.append))
        return answers

    def tell(self, *events: Event, **fields: Any) -> Answer | ServoError:
        """Send a batch, let the leader take a step, and return what it said."""
        answers = self.send(self.batch(*events, **fields))
        self.engine.step()
        return answers[0]

    def beat(self, beat: Beat) -> str | ServoError:
        """Tell the leader that an execution lives."""
        answers: list[str | ServoError] = []
        self.engine.inbox.beats.append(BeatRequest(beat=beat, reply=answers.append))
        self.engine.step()
        return answers[0]

    def run_for(self, duration: timedelta, *, step: timedelta = timedelta(seconds=1)) -> None:
        """Let time pass with the leader stepping."""
        passed = timedelta(0)
        while passed < duration:
            self.clock.advance(step)
            passed += step
            self.engine.step()


def open_service(
    url: str,
    *,
    tenant: str = DEFAULT_NAME,
    workspace: str = DEFAULT_NAME,
    settings: Settings | None = None,
) -> Service:
    """A leader for a workspace in the store at `url`, not yet started; it takes no lock or lease.

    For programs that know that nobody else leads; the product uses `try_to_lead`.
    """
    return Service(open_world(url), Paths(tenant, workspace), settings)
