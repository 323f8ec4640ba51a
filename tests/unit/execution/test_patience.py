"""A store that is away is infrastructure: executions wait for it, and never fail on its account."""

import logging
from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

import pytest

from servo.core.events.tasks import TaskOutcome
from servo.errors import Conflict, Unavailable
from servo.execution.attempt import STORE_UNAVAILABLE, failed
from servo.execution.outputs.patience import LONGEST_PAUSE, Patience, StoreOutage
from servo.execution.outputs.store import INLINE_BYTES, OutputStore
from servo.ledger.paths import MARKER, Paths
from servo.ports.object_store import Blob, ObjectMeta
from servo.storage.memory import MemoryStore
from servo.testing.clock import ManualClock
from servo.testing.stored_outputs import save_output

PATHS = Paths("acme", "prod")
LIMIT = timedelta(minutes=5)
LARGE = "x" * (INLINE_BYTES + 1)
T = TypeVar("T")
AWAY = Unavailable("the store did not answer", remedy="check the network")


class Outage(MemoryStore):
    """A store that does not answer the next calls; `applied` are made all the same."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self.away = 0
        self.applied = False

    def put(self, key: str, data: bytes) -> ObjectMeta:
        return self._call(lambda: MemoryStore.put(self, key, data))

    def create(self, key: str, data: bytes) -> ObjectMeta:
        return self._call(lambda: MemoryStore.create(self, key, data))

    def get(self, key: str) -> Blob:
        return self._call(lambda: MemoryStore.get(self, key))

    def _call(self, call: Callable[[], T]) -> T:
        if not self.away:
            return call()
        self.away -= 1
        if self.applied:
            _ = call()
        raise AWAY


class Waiting:
    """Outputs in a store that goes away, by a clock that only waiting moves."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = Outage(self.clock)
        self.pauses: list[float] = []
        patience = Patience(self.clock, logging.getLogger("test"), limit=LIMIT, pause=self._pause)
        self.outputs = OutputStore(self.store, PATHS, patience=patience)

    def _pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.clock.advance(timedelta(seconds=seconds))


@pytest.mark.parametrize("applied", [False, True])
@pytest.mark.parametrize("value", ["small", LARGE], ids=["in-the-marker", "in-a-file"])
def test_an_output_survives_an_outage_while_it_is_written(value: str, applied: bool) -> None:
    waiting = Waiting()
    waiting.store.away, waiting.store.applied = 7, applied
    output = save_output(waiting.outputs, "ns/a", "e1", value)
    assert waiting.outputs.load(output.uri, output.content_hash) == value
    if not applied:
        assert waiting.pauses == [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, LONGEST_PAUSE]


def test_an_input_is_read_again_until_the_store_is_back() -> None:
    waiting = Waiting()
    output = save_output(waiting.outputs, "ns/a", "e1", LARGE)
    waiting.store.away = 9
    assert waiting.outputs.load(output.uri, output.content_hash) == LARGE


def test_an_outage_that_lasts_is_a_loss_of_infrastructure() -> None:
    waiting = Waiting()
    waiting.store.away = 1_000
    with pytest.raises(StoreOutage, match=r"cannot create .*: the store did not answer") as lost:
        _ = save_output(waiting.outputs, "ns/a", "e1", "small")
    assert sum(waiting.pauses) == LIMIT.total_seconds()
    done = failed("e1", lost.value)
    assert done.error is not None
    assert (done.outcome, done.error.code) == (TaskOutcome.INTERRUPTED, STORE_UNAVAILABLE)
    assert done.retry_after_ms is None, "it waits longer for each further outage"


def test_unavailable_that_user_code_raises_is_its_own_failure() -> None:
    assert failed("e1", Unavailable("an API is away")).outcome is TaskOutcome.FAILED


def test_a_marker_of_another_content_is_a_conflict_and_not_an_outage() -> None:
    waiting = Waiting()
    _ = waiting.store.put(f"{PATHS.output('ns/a', 'e1')}{MARKER}", b"{}")
    with pytest.raises(Conflict):
        _ = save_output(waiting.outputs, "ns/a", "e1", "small")
    assert waiting.pauses == []
