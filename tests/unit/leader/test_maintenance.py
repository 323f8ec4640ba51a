"""What the leader does beside its work: publish, leave hints, merge, collect."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec

from servo.config import Settings
from servo.core.events.envelope import Batch
from servo.core.events.runs import RunRequested
from servo.leader.engine import Engine
from servo.leader.ports import Ports
from servo.leader.requests import request as sent
from servo.leader.takeover import take_over
from servo.ledger.paths import Paths
from servo.ports.object_store import ObjectStore
from servo.storage.memory import MemoryStore
from servo.testing.clock import ManualClock, SeededEntropy
from servo.testing.leader import HandLeader

SOON = timedelta(milliseconds=300)
"""Longer than a leader waits between two publishes, shorter than between two hints."""


def new_leader() -> HandLeader:
    clock = ManualClock()
    return HandLeader(MemoryStore(clock), clock=clock)


def request(run_id: str) -> RunRequested:
    return RunRequested(run_id=run_id, run_key=run_id, request_fingerprint="fp")


def hinted(store: ObjectStore, leader: HandLeader) -> int:
    return msgspec.json.decode(store.get(leader.paths.manifest_hint).data)["v"]


def publish(leader: HandLeader, run_id: str) -> int:
    """Change something, let it be published, and return the version."""
    _ = leader.tell(request(run_id))
    leader.clock.advance(SOON)
    for _ in range(4):
        leader.engine.step()
    return leader.engine.maintenance.manifest.v


def test_the_hint_names_the_manifest_that_was_published_and_follows_within_a_second() -> None:
    leader = new_leader()
    store = leader.ports.store
    first = publish(leader, "run_1")
    assert hinted(store, leader) == first
    second = publish(leader, "run_2")
    assert second > first
    assert hinted(store, leader) == first
    leader.clock.advance(timedelta(seconds=1))
    third = publish(leader, "run_3")
    assert hinted(store, leader) == third


class Waiting:
    """A background whose jobs never end."""

    def __init__(self) -> None:
        self.work: Callable[[], Any] | None = None

    def start(self, work: Callable[[], Any]) -> "Waiting":
        self.work = work
        return self

    def done(self) -> bool:
        return False

    def result(self) -> Any:
        assert self.work is not None
        return self.work()


def test_nothing_is_due_while_a_job_runs() -> None:
    clock, paths = ManualClock(), Paths("acme", "prod")
    background = Waiting()
    ports = Ports(
        store=MemoryStore(clock), clock=clock, entropy=SeededEntropy(0), background=background
    )
    engine = Engine(ports, paths, Settings(), take_over(ports, paths))
    for run_id in ("run_1", "run_2"):
        engine.inbox.put(sent(Batch(id=run_id, events=(request(run_id),)), lambda _: None))
        engine.step()
    assert background.work is not None  # it publishes the first run, and the second one waits
    assert any(table.dirty for table in engine.state.tables.values())
    assert engine.maintenance.next_due(engine.state) is None
