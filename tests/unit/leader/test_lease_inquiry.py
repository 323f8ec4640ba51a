"""A leader that cannot be reached is asked through its lease, and found dead if it is silent."""

from datetime import timedelta

import pytest

from servo.config import Settings
from servo.errors import Invalid, Unavailable
from servo.leader.leases import keeper
from servo.leader.leases.inquiry import ASK_EVERY, LeaseInquiry
from servo.leader.leases.keeper import LeaseKeeper
from servo.leader.leases.lease import ANSWER_WITHIN, LeaderLease, read_lease
from servo.ledger.paths import Paths
from servo.ports.object_store import Blob, ObjectMeta
from servo.ports.world import World
from servo.storage.memory import MemoryStore
from servo.testing.clock import ManualClock, SeededEntropy
from servo.testing.eventually import eventually

PATHS = Paths("acme", "prod")
LOOK = timedelta(seconds=ASK_EVERY)
SILENCE = timedelta(seconds=ANSWER_WITHIN)


class Bucket(MemoryStore):
    """A bucket that can be out of reach, and in which somebody may be faster."""

    down = False
    read_only = False
    faster: LeaderLease | None = None
    writes = 0

    def get(self, key: str) -> Blob:
        if self.down:
            raise Unavailable("the store refused", may_have_applied=False)
        found = super().get(key)
        faster, self.faster = self.faster, None
        if faster is not None:
            faster.answer()
        return found

    def replace_if(self, key: str, data: bytes, *, version: str) -> ObjectMeta:
        if self.read_only:
            raise Invalid("access denied", remedy="grant it")
        self.writes += 1
        return super().replace_if(key, data, version=version)


class Machines:
    """Machines that share a bucket and nothing else."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = Bucket(self.clock)
        self.entropy = SeededEntropy()

    def leader(self, name: str) -> LeaderLease:
        return LeaderLease(self.store, self.clock, PATHS, Settings(), holder=name)

    def asker(self) -> LeaseInquiry:
        return LeaseInquiry(World(self.store, self.clock, self.entropy), PATHS)

    def ask_for(self, duration: timedelta, *askers: LeaseInquiry) -> None:
        """Let askers ask for some time, a little more often than they may."""
        until = self.clock.now() + duration
        while self.clock.now() < until:
            for asker in askers:
                asker.ask()
            self.clock.advance(LOOK / 2)
        for asker in askers:
            asker.ask()

    def holder(self) -> str | None:
        """The holder of a lease that has not expired."""
        lease = read_lease(self.store, PATHS)
        return lease.holder if lease and lease.expires > self.clock.now() else None


def test_a_leader_that_does_not_answer_loses_its_lease_within_seconds() -> None:
    machines = Machines()
    assert machines.leader("dead").acquire()
    asker = machines.asker()
    machines.ask_for(SILENCE - LOOK, asker)
    assert machines.holder() == "dead"
    machines.ask_for(LOOK * 2, asker)
    assert machines.holder() is None
    assert machines.leader("next").acquire()


def test_a_leader_that_answers_keeps_its_lease() -> None:
    machines = Machines()
    leader, asker = machines.leader("alive"), machines.asker()
    assert leader.acquire()
    for _ in range(20):
        machines.ask_for(SILENCE - LOOK, asker)
        leader.answer()
        assert not machines.leader("next").acquire()
    assert leader.renew_if_due()


def test_a_renewal_is_an_answer() -> None:
    machines = Machines()
    leader, asker = machines.leader("alive"), machines.asker()
    assert leader.acquire()
    for _ in range(5):
        machines.ask_for(SILENCE - LOOK, asker)
        leader.renew_soon()
        assert leader.renew_if_due()
        assert machines.holder() == "alive"


def test_an_answer_in_the_last_moment_counts() -> None:
    machines = Machines()
    leader, asker = machines.leader("slow"), machines.asker()
    assert leader.acquire()
    machines.ask_for(SILENCE - LOOK / 2, asker)
    machines.store.faster = leader
    machines.clock.advance(LOOK)
    asker.ask()
    assert machines.store.faster is None, "it answered between the look and the verdict"
    assert machines.holder() == "slow"


def test_a_leader_that_was_given_up_continues_if_nobody_leads_yet() -> None:
    machines = Machines()
    leader, asker = machines.leader("suspended"), machines.asker()
    assert leader.acquire()
    machines.ask_for(SILENCE + LOOK, asker)
    assert machines.holder() is None
    leader.renew_soon()
    assert leader.renew_if_due()
    assert machines.holder() == "suspended"


def test_a_leader_that_was_given_up_and_replaced_stops() -> None:
    machines = Machines()
    leader, asker = machines.leader("suspended"), machines.asker()
    assert leader.acquire()
    machines.ask_for(SILENCE + LOOK, asker)
    assert machines.leader("next").acquire()
    leader.answer()
    assert machines.holder() == "next"
    assert not leader.renew_if_due(), "the answer has found the lease of another"


def test_processes_that_ask_at_the_same_time_share_a_question() -> None:
    machines = Machines()
    assert machines.leader("dead").acquire()
    first, second = machines.asker(), machines.asker()
    machines.ask_for(SILENCE - LOOK, first, second)
    assert machines.store.writes == 1
    machines.ask_for(LOOK * 2, first, second)
    assert machines.holder() is None


def test_who_comes_later_waits_for_the_answer_itself() -> None:
    machines = Machines()
    leader = machines.leader("alive")
    assert leader.acquire()
    machines.asker().ask()  # and then it ended
    machines.clock.advance(SILENCE)
    later = machines.asker()
    later.ask()
    assert machines.holder() == "alive"
    machines.ask_for(SILENCE - LOOK, later)
    leader.answer()
    machines.ask_for(LOOK, later)
    assert machines.holder() == "alive"


def test_a_process_that_was_suspended_after_its_question_asks_again() -> None:
    machines = Machines()
    leader, asker = machines.leader("alive"), machines.asker()
    assert leader.acquire()
    asker.ask()
    leader.answer()
    machines.clock.advance(SILENCE * 2)
    asker.ask()
    assert machines.holder() == "alive"
    machines.ask_for(SILENCE - LOOK, asker)
    assert machines.holder() == "alive"


def test_a_leader_is_not_judged_while_the_store_cannot_be_reached() -> None:
    machines = Machines()
    leader, asker = machines.leader("alive"), machines.asker()
    assert leader.acquire()
    asker.ask()
    leader.answer()
    machines.store.down = True
    machines.ask_for(SILENCE * 2, asker)
    machines.store.down = False
    asker.ask()
    assert machines.holder() == "alive"


def test_who_may_not_write_waits_until_the_lease_expires() -> None:
    machines = Machines()
    assert machines.leader("dead").acquire()
    machines.store.read_only = True
    machines.ask_for(SILENCE * 2, machines.asker())
    assert machines.holder() == "dead"


@pytest.mark.parametrize("content", [None, b'{"holder":"x","expires":"2001-01-01T00:00:00Z"}'])
def test_nobody_is_asked_through_a_lease_that_nobody_holds(content: bytes | None) -> None:
    machines = Machines()
    if content is not None:
        _ = machines.store.put(PATHS.lease, content)
    machines.ask_for(SILENCE, machines.asker())
    assert machines.store.writes == 0


def test_a_damaged_lease_that_nobody_mends_is_free_within_seconds() -> None:
    machines = Machines()
    _ = machines.store.put(PATHS.lease, b"garbage")
    asker = machines.asker()
    machines.ask_for(SILENCE - LOOK, asker)
    assert not machines.leader("next").acquire()
    machines.ask_for(LOOK * 2, asker)
    assert machines.leader("next").acquire()


def test_a_damaged_lease_is_mended_by_its_holder() -> None:
    machines = Machines()
    leader, asker = machines.leader("alive"), machines.asker()
    assert leader.acquire()
    for _ in range(5):
        _ = machines.store.put(PATHS.lease, b"garbage")
        machines.ask_for(SILENCE - LOOK, asker)
        leader.answer()
        assert machines.holder() == "alive"


def test_a_lease_that_was_deleted_is_written_again_soon() -> None:
    machines = Machines()
    leader = machines.leader("alive")
    assert leader.acquire()
    machines.store.delete(PATHS.lease)
    leader.answer()
    assert leader.renew_if_due()
    assert machines.holder() == "alive"


# --- the thread that answers ----------------------------------------------------------------------


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper, "LOOK_EVERY", 0.01)


def is_asked(machines: Machines) -> bool:
    lease = read_lease(machines.store, PATHS)
    return lease is not None and lease.asked != ""


@pytest.mark.usefixtures("impatient")
def test_questions_are_answered_while_the_leader_moves() -> None:
    machines = Machines()
    leader, asker = machines.leader("busy"), machines.asker()
    assert leader.acquire()
    answering = LeaseKeeper(leader, machines.clock)
    answering.start()
    try:
        for _ in range(3):
            asker.ask()
            machines.clock.advance(LOOK)
            eventually(lambda: not is_asked(machines))
    finally:
        answering.stop()
    machines.clock.advance(LOOK)
    asker.ask()
    machines.ask_for(SILENCE + LOOK, asker)
    assert machines.holder() is None, "nobody answers any more"


def test_nobody_answers_for_a_leader_that_is_stuck() -> None:
    machines = Machines()
    leader, asker = machines.leader("stuck"), machines.asker()
    assert leader.acquire()
    answering = LeaseKeeper(leader, machines.clock)
    asker.ask()
    machines.clock.advance(Settings().lease_for)
    answering.look()
    assert is_asked(machines)
    answering.moved()
    answering.look()
    assert not is_asked(machines)


def test_a_store_out_of_reach_does_not_end_the_answers() -> None:
    machines = Machines()
    leader, asker = machines.leader("alive"), machines.asker()
    assert leader.acquire()
    answering = LeaseKeeper(leader, machines.clock)
    asker.ask()
    machines.store.down = True
    answering.look()
    machines.store.down = False
    assert is_asked(machines)
    answering.look()
    assert not is_asked(machines)
