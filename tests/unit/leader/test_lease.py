"""The lease is taken when nobody alive has it, and kept by whoever renews it in time."""

from collections.abc import Sequence
from datetime import timedelta

import msgspec
import pytest

from servo.config import Settings
from servo.leader.leases.lease import HostedTriggers, LeaderAdvert, LeaderLease, read_lease
from servo.ledger.paths import Paths
from servo.ports.object_store import ObjectMeta
from servo.storage.memory import MemoryStore
from servo.testing.clock import ManualClock

LEASE = Settings().lease_for
YEAR = timedelta(days=365)
MOMENT = timedelta(seconds=1)
RENEWAL = Settings().renew_every + MOMENT
PATHS = Paths("acme", "prod")
DAMAGED = (
    b"",
    b"garbage",
    b"\xff\xfe",
    b"[]",
    b'{"holder": "\xff", "expires": "2024-01-01T00:00:00Z"}',
    b'{"holder": "first", "expires": "2024-01-01T00:00:00"}',
)


class DamagingStore(MemoryStore):
    """Somebody else overwrites an object just before it is replaced."""

    before_replacing: Sequence[bytes] = ()

    def replace_if(self, key: str, data: bytes, *, version: str) -> ObjectMeta:
        if self.before_replacing:
            first, *self.before_replacing = self.before_replacing
            _ = self.put(key, first)
        return super().replace_if(key, data, version=version)


class Several:
    """Processes that could lead one workspace."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = DamagingStore(self.clock)

    def process(
        self, name: str, alive: dict[int, bool] | None = None, clock: ManualClock | None = None
    ) -> LeaderLease:
        """A process; on its machine, these others are known to be alive or not."""
        return LeaderLease(
            self.store,
            clock or self.clock,
            PATHS,
            Settings(),
            holder=name,
            advert=LeaderAdvert(pid=len(name)),
            is_alive=lambda leader: (alive or {}).get(leader.pid),
        )

    def write(self, data: bytes) -> None:
        """Overwrite the lease, as somebody who knows nothing of it would."""
        _ = self.store.put(PATHS.lease, data)

    def holder(self) -> str | None:
        """The holder that the lease names."""
        lease = read_lease(self.store, PATHS)
        return None if lease is None else lease.holder


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


@pytest.mark.parametrize("data", DAMAGED)
def test_a_damaged_lease_does_not_end_its_holder_which_writes_it_again(data: bytes) -> None:
    world = Several()
    first, second = world.process("first"), world.process("second")
    assert first.acquire()
    world.write(data)
    assert world.holder() == ""
    assert not second.acquire(), "its holder may be healthy"
    world.clock.advance(RENEWAL)
    assert first.renew_if_due()
    assert world.holder() == "first"
    world.write(data)
    first.release()
    assert second.acquire()


@pytest.mark.parametrize("data", DAMAGED)
def test_a_damaged_lease_that_nobody_writes_again_expires(data: bytes) -> None:
    world = Several()
    world.write(data)
    second = world.process("second")
    world.clock.advance(LEASE - MOMENT)
    assert not second.acquire()
    world.clock.advance(2 * MOMENT)
    assert second.acquire()


def test_a_lease_that_is_damaged_while_it_is_renewed_does_not_end_its_holder() -> None:
    world = Several()
    first = world.process("first")
    assert first.acquire()
    world.store.before_replacing = [b"garbage", b"more garbage"]
    world.clock.advance(RENEWAL)
    assert first.renew_if_due()
    assert world.holder() == "first"
    world.store.before_replacing = [b"garbage"] * 10
    world.clock.advance(RENEWAL)
    assert first.renew_if_due(), "nobody else is known to hold it"
    world.store.before_replacing = []
    world.clock.advance(2 * MOMENT)
    assert first.renew_if_due()
    assert world.holder() == "first"


def test_a_lease_that_was_deleted_is_written_again_at_the_next_renewal() -> None:
    world = Several()
    first = world.process("first")
    assert first.acquire()
    world.store.delete(PATHS.lease)
    assert first.renew_if_due()
    assert world.holder() is None, "it is not due yet"
    world.clock.advance(RENEWAL)
    assert first.renew_if_due()
    assert world.holder() == "first"
    world.store.delete(PATHS.lease)
    first.renew_soon()
    assert first.renew_if_due()
    assert world.holder() == "first"


def test_whoever_takes_a_deleted_lease_first_holds_it() -> None:
    world = Several()
    first, second = world.process("first"), world.process("second")
    assert first.acquire()
    world.store.delete(PATHS.lease)
    assert second.acquire()
    world.clock.advance(RENEWAL)
    assert not first.renew_if_due()


def test_a_holder_that_is_known_to_live_or_to_have_ended_counts_whatever_its_lease_says() -> None:
    world = Several()
    assert world.process("first").acquire()
    assert not world.process("second", {5: True}).acquire()
    world.clock.advance(LEASE + MOMENT)
    assert not world.process("second", {5: True}).acquire(), "it is suspended"
    assert world.process("second").acquire()
    assert world.process("3rd", {6: False}).acquire()


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


def test_a_holder_whose_clock_is_a_year_ahead_gets_no_longer_lease() -> None:
    world = Several()
    ahead = ManualClock(world.clock.now() + YEAR)
    assert world.process("first", clock=ahead).acquire()
    assert not world.process("second").acquire()
    world.clock.advance(LEASE + MOMENT)
    assert world.process("second").acquire()


def test_a_lease_is_renewed_when_the_clock_was_set_back() -> None:
    world = Several()
    first = world.process("first")
    assert first.acquire()
    world.clock.jump(-YEAR)
    world.clock.advance(RENEWAL)
    assert first.renew_if_due()
    lease = read_lease(world.store, PATHS)
    assert lease is not None
    assert lease.expires == world.clock.now() + LEASE


def test_a_released_lease_is_free_for_a_process_whose_clock_is_behind() -> None:
    world = Several()
    first = world.process("first")
    assert first.acquire()
    first.release()
    behind = ManualClock(world.clock.now() - LEASE)
    assert world.process("second", clock=behind).acquire()


def test_who_was_suspended_while_another_took_the_lease_does_not_hold_it() -> None:
    world = Several()
    first, second = world.process("first"), world.process("second")
    assert first.acquire()
    assert first.is_current()
    world.clock.advance(LEASE + MOMENT)
    assert second.acquire()
    assert not first.is_current()
    assert world.holder() == "second"


def test_who_was_suspended_and_not_replaced_holds_the_lease_and_renews_it() -> None:
    world = Several()
    first = world.process("first")
    assert first.acquire()
    world.clock.advance(LEASE + MOMENT)
    assert first.is_current()
    assert not world.process("second").acquire()
