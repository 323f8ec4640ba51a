"""The lease is taken when nobody alive has it, and kept by whoever renews it in time."""

from datetime import timedelta

import msgspec
import pytest

from servo.config import Settings
from servo.leader.lease import HostedTriggers, LeaderAdvert, LeaderLease
from servo.ledger.paths import Paths
from servo.storage.memory import MemoryStore
from servo.testing.clock import ManualClock

LEASE = Settings().lease_for
MOMENT = timedelta(seconds=1)


class Several:
    """Processes that could lead one workspace."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self._store = MemoryStore(self.clock)

    def process(self, name: str) -> LeaderLease:
        paths = Paths("acme", "prod")
        return LeaderLease(self._store, self.clock, paths, Settings(), holder=name)


def test_a_lease_is_not_taken_from_a_holder_that_renews_it() -> None:
    world = Several()
    first, second = world.process("first"), world.process("second")
    assert first.acquire()
    for _ in range(5):
        world.clock.advance(LEASE / 2)
        assert first.renew_if_due()
        assert not second.acquire()


def test_a_holder_that_was_silent_for_longer_than_its_lease_is_replaced() -> None:
    world = Several()
    first, second = world.process("first"), world.process("second")
    assert first.acquire()
    world.clock.advance(LEASE + MOMENT)
    assert second.acquire()
    assert not first.renew_if_due()


def test_whoever_was_replaced_does_not_renew_although_its_successor_has_let_go() -> None:
    world = Several()
    first, second = world.process("first"), world.process("second")
    assert first.acquire()
    world.clock.advance(LEASE + MOMENT)
    assert second.acquire()
    second.release()
    assert not first.renew_if_due(), "somebody has led meanwhile, and has written"
    assert first.acquire(), "it can lead again, once it has taken over"


def test_a_holder_that_was_silent_and_not_replaced_renews() -> None:
    world = Several()
    first = world.process("first")
    assert first.acquire()
    world.clock.advance(LEASE * 3)
    assert first.renew_if_due()
    assert not world.process("second").acquire()


@pytest.mark.parametrize(
    ("hosted", "included"),
    [
        (HostedTriggers.NONE, {HostedTriggers.NONE}),
        (HostedTriggers.BACKFILLS, {HostedTriggers.NONE, HostedTriggers.BACKFILLS}),
        (HostedTriggers.ALL, {*HostedTriggers}),
    ],
)
def test_a_leader_hosts_triggers_for_its_own_locations(
    hosted: HostedTriggers, included: set[HostedTriggers]
) -> None:
    leader = LeaderAdvert(pid=1, locations=("a.py", "b.py"), triggers=hosted)
    assert {wanted for wanted in HostedTriggers if leader.hosts(wanted, "b.py")} == included
    assert not any(leader.hosts(wanted, "a.py", "c.py") for wanted in HostedTriggers)


def test_an_advert_from_before_triggers_were_named_hosts_none() -> None:
    older = msgspec.json.decode(b'{"pid": 1, "stays": true}', type=LeaderAdvert)
    assert older == LeaderAdvert(pid=1, stays=True, triggers=HostedTriggers.NONE)
