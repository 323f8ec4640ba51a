"""A host of triggers on a leader in memory, for tests that decide when and what is evaluated."""

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Self, TypeVar

from servo.core.events.envelope import Batch, Event
from servo.core.state.rows.row import Row
from servo.leader.service import Service, World
from servo.ledger.paths import Paths
from servo.projection.read.time_travel import snapshot_at
from servo.storage.memory import MemoryStore
from servo.testing.builders import START
from servo.testing.clock import ManualClock
from servo.triggers.host import TriggerContext, TriggerKind, Triggers
from servo.workspace.system import SystemEntropy

R = TypeVar("R", bound=Row)

_PATHS = Paths("t", "w")
_MOST_LOOKS = 2_000
_PAUSE = 0.005


class TriggerHost:
    """A leader, and a host of one kind of trigger; their clock stands still until a test moves it.

    `evaluators` are whatever answers as an `EvaluatorPool` does. `road` makes the way to the leader
    on which something may happen to batches.
    """

    def __init__(
        self,
        evaluators: Any,
        kind: Callable[[TriggerContext], TriggerKind],
        *,
        road: Callable[[Service], Any] = lambda service: service,
    ) -> None:
        self.clock = ManualClock(START)
        self.store = MemoryStore(self.clock)
        self.service = Service(World(self.store, self.clock, SystemEntropy()), _PATHS)
        self.context = TriggerContext(road(self.service), evaluators, self.clock, SystemEntropy())
        self.said: list[str] = []
        self.context.say = self.said.append
        self.triggers = Triggers(self.service, self.clock)
        self.triggers.add("", self.context, (kind(self.context),))
        self._sent = 0

    def __enter__(self) -> Self:
        self.service.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.triggers.stop()
        self.service.__exit__(*error)

    def tell(self, *events: Event) -> None:
        """Have the leader apply events."""
        self._sent += 1
        answer = self.service.commit(Batch(id=f"test-{self._sent}", events=events))
        assert answer.applied, answer  # noqa: S101 - a test that cannot begin says why

    def settle(self, **later: float) -> None:
        """Let time pass, and everything be done that is due then."""
        self.clock.advance(timedelta(**later))
        for _ in range(_MOST_LOOKS):
            if not self.triggers.look():
                break
            _ = threading.Event().wait(_PAUSE)  # for threads that evaluate and commit

    def recorded(self, table: str, kind: type[R]) -> list[R]:
        """The rows of a table as of now, those that left memory included."""
        seq = self.service.read(lambda state: state.seq)
        found = snapshot_at(self.store, _PATHS, seq).rows(table)
        return [row for row in found if isinstance(row, kind)]
