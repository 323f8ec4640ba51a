"""The time of a ledger goes on from one leader to the next, even if a clock was ahead."""

from datetime import timedelta

import pytest

from servo.core.events.envelope import Batch
from servo.core.events.quotas import QuotaSet
from servo.leader.ledger_time import ledger_time
from servo.leader.service import Service
from servo.leader.term import TICK
from servo.ledger.paths import Paths
from servo.ports.world import World
from servo.storage.memory import MemoryStore
from servo.testing.builders import START, Story
from servo.testing.clock import ManualClock
from servo.workspace.system import SystemEntropy

YEAR = timedelta(days=365)
HOUR = timedelta(hours=1)
MOMENT = timedelta(milliseconds=1)


class Workspace:
    """A workspace that is led for a moment each time."""

    def __init__(self) -> None:
        self.clock = ManualClock(START)
        self.store = MemoryStore(self.clock)
        self.paths = Paths("t", "w")

    def lead(self) -> timedelta:
        """Write something; the time of the ledger then, since the start."""
        world = World(self.store, self.clock, SystemEntropy())
        with Service(world, self.paths) as service:
            seq = service.read(lambda state: state.seq)
            batch = Batch(id=f"b{seq}", events=(QuotaSet(max_daily_runs=seq),))
            assert service.commit(batch).applied
            return service.read(lambda state: state.ts) - START


@pytest.fixture
def workspace() -> Workspace:
    return Workspace()


def test_the_time_of_a_ledger_is_that_of_the_clock(workspace: Workspace) -> None:
    assert workspace.lead() < MOMENT
    workspace.clock.advance(HOUR)
    assert HOUR <= workspace.lead() < HOUR + MOMENT


def test_time_passes_between_leaders_after_a_clock_that_was_ahead_is_put_right(
    workspace: Workspace,
) -> None:
    workspace.clock.jump(YEAR)
    ahead = workspace.lead()
    assert ahead >= YEAR
    workspace.clock.jump(-YEAR)
    assert workspace.lead() - ahead < MOMENT, "it is unknown how long ago that was"
    for count in range(1, 4):
        workspace.clock.advance(HOUR)
        assert count * HOUR <= workspace.lead() - ahead < count * HOUR + MOMENT


def test_a_clock_that_was_a_little_ahead_is_waited_for(workspace: Workspace) -> None:
    workspace.clock.jump(HOUR)
    ahead = workspace.lead()
    workspace.clock.jump(-HOUR)
    workspace.clock.advance(HOUR / 2)
    assert workspace.lead() - ahead < MOMENT
    workspace.clock.advance(HOUR)
    assert workspace.lead() >= 1.5 * HOUR


def test_an_archived_entry_does_not_say_when_it_was_written() -> None:
    state = Story().state
    state.seq, state.ts = 7, START + YEAR
    store = MemoryStore(ManualClock(START))
    assert ledger_time(store, Paths("t", "w"), state, START) == START + YEAR + TICK
