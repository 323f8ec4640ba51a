"""What a leader knows of its own leadership is as old as the look at the store, not as its end."""

from datetime import timedelta

from servo.leader.ownership import Ownership
from servo.leader.takeover import take_over
from servo.ports.object_store import Blob
from servo.storage.memory import MemoryStore
from servo.testing.clock import ManualClock
from servo.testing.leader import HandLeader


class SlowStore(MemoryStore):
    """A store whose reads take `delay`."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self._clock_of_test = clock
        self.delay = timedelta(0)

    def get(self, key: str) -> Blob:
        self._clock_of_test.advance(self.delay)
        return super().get(key)


def owned(delay: timedelta) -> tuple[Ownership, ManualClock]:
    clock = ManualClock()
    store = SlowStore(clock)
    leader = HandLeader(store, clock=clock)
    ownership = Ownership(leader.ports, leader.paths, take_over(leader.ports, leader.paths))
    store.delay = delay
    return ownership, clock


def test_a_confirmation_counts_from_the_moment_the_look_began() -> None:
    ownership, clock = owned(timedelta(seconds=20))
    clock.advance(timedelta(hours=1))
    began = clock.monotonic()
    ownership.confirm()
    assert ownership.confirmed_at == began
    assert clock.monotonic() - began >= 20


def test_an_append_counts_from_the_moment_it_was_issued() -> None:
    ownership, clock = owned(timedelta(0))
    issued = clock.monotonic()
    clock.advance(timedelta(seconds=9))
    ownership.wrote(issued, timedelta(hours=1))
    assert ownership.confirmed_at == issued


def test_after_a_long_silence_an_append_alone_proves_nothing() -> None:
    ownership, clock = owned(timedelta(seconds=1))
    clock.advance(timedelta(hours=2))
    issued = clock.monotonic()
    ownership.wrote(issued, timedelta(hours=1))
    assert ownership.confirmed_at == issued, "it looked, and began to look at once"
