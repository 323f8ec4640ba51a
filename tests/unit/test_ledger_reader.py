"""Where the ledger ends: told from a hole, also while somebody appends to it."""

import pytest

from servo.core.events.codec import encode_entry
from servo.core.events.envelope import Entry
from servo.core.state.state import State
from servo.errors import Corrupt
from servo.ledger.paths import Paths
from servo.ledger.reader import LedgerReader
from servo.ports.object_store import ObjectMeta
from servo.projection.read.replay import NOTHING, Replay
from servo.storage.memory import MemoryStore
from servo.testing.archives import archive_range, chained_entries
from servo.testing.builders import START
from servo.testing.clock import ManualClock

PATHS = Paths("acme", "prod")


class BusyStore(MemoryStore):
    """A store to which another process appends during each listing, as a folder may show it.

    The first of the two new entries is created behind the place that the scan has reached, the
    second before it.
    """

    def __init__(self, *, count: int, appended: int) -> None:
        super().__init__(ManualClock(START))
        self._entries = chained_entries(count + appended)
        self._next = 1
        self.append(count)

    def append(self, count: int) -> None:
        for _ in range(min(count, len(self._entries) + 1 - self._next)):
            _ = self.create(PATHS.ledger_entry(self._next), self._entries[self._next - 1])
            self._next += 1

    def list_after(
        self, prefix: str, *, after: str = "", limit: int | None = None
    ) -> list[ObjectMeta]:
        missed = PATHS.ledger_entry(self._next)
        self.append(2)
        found = super().list_after(prefix, after=after)
        return [meta for meta in found if meta.key != missed][:limit]


def test_the_last_entry_is_the_end() -> None:
    store = BusyStore(count=3, appended=0)
    assert LedgerReader(store, PATHS).ends_after(3)


def test_an_empty_ledger_ends_at_its_beginning() -> None:
    assert LedgerReader(BusyStore(count=0, appended=0), PATHS).ends_after(0)


def test_entries_appended_meanwhile_are_neither_the_end_nor_a_hole() -> None:
    store = BusyStore(count=3, appended=2)
    assert not LedgerReader(store, PATHS).ends_after(3)


def test_a_replay_follows_a_ledger_that_grows_while_it_is_listed() -> None:
    store = BusyStore(count=3, appended=8)
    state = State(tenant="acme", workspace="prod")
    Replay(store, PATHS).forward(state, NOTHING)
    assert state.seq == 11


@pytest.mark.parametrize("archived", [False, True])
def test_an_entry_that_is_missing_before_a_later_one_is_a_hole(archived: bool) -> None:
    store = BusyStore(count=6, appended=0)
    if archived:
        archive_range(store, PATHS, 5, 6)
    store.delete(PATHS.ledger_entry(4))
    with pytest.raises(Corrupt, match="ledger entry 4 is missing, but entry 5 exists"):
        LedgerReader(store, PATHS).ends_after(3)


def test_a_segment_that_reaches_over_the_last_entry_read_is_not_the_end() -> None:
    store = BusyStore(count=6, appended=0)
    archive_range(store, PATHS, 1, 6)
    for seq in range(1, 7):
        store.delete(PATHS.ledger_entry(seq))
    reader = LedgerReader(store, PATHS)
    assert not reader.ends_after(3)
    assert reader.ends_after(6)


def test_an_archived_entry_wins_over_another_object_in_its_slot() -> None:
    store = BusyStore(count=6, appended=0)
    archive_range(store, PATHS, 1, 4)
    archived = store.get(PATHS.ledger_entry(2)).data
    late = Entry(seq=2, epoch=1, owner="late", nonce="late", ts=START, prev_hash="", fold_version=1)
    _ = store.put(PATHS.ledger_entry(2), encode_entry(late, [])[0])
    reader = LedgerReader(store, PATHS)
    assert reader.read_bytes(2) == archived
    assert [entry.owner for entry, _ in reader.forward(0)] == ["o"] * 6
