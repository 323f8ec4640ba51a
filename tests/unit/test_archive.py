"""Old entries move into segments, and nothing that happens on the way loses one."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servo.core.events.codec import encode_entry
from servo.core.events.envelope import Entry
from servo.errors import Corrupt, NeedsUpgrade, NotFound, Unavailable
from servo.ledger.archive import (
    ArchiveDue,
    ArchiveReader,
    ArchiveSegment,
    delete_archived,
    read_segment,
    segments_from,
    write_segment,
)
from servo.ledger.packing import FILL_FOR, WORTH_A_SEGMENT, Packer, archived_through
from servo.ledger.paths import Paths
from servo.ledger.reader import LedgerReader
from servo.ledger.segment import MAX_BYTES, MAX_ENTRIES, decode_segment, encode_segment
from servo.ports.object_store import ObjectMeta, ObjectStore
from servo.projection.files.arrow import pa
from servo.storage.memory import MemoryStore
from servo.testing.archives import archive_range, chained_entries
from servo.testing.builders import START
from servo.testing.clock import ManualClock

PATHS = Paths("acme", "prod")
MANY = 1_000


class World:
    """A store with a ledger of some entries, written a second apart."""

    def __init__(self, count: int) -> None:
        self.clock = ManualClock(START)
        self.store = MemoryStore(self.clock)
        self.entries = chained_entries(count)
        for seq, data in enumerate(self.entries, start=1):
            self.clock.advance(timedelta(seconds=1))
            _ = self.store.create(PATHS.ledger_entry(seq), data)

    def due(self, upto: int, *, seconds: int = 10**6) -> ArchiveDue:
        return ArchiveDue(upto=upto, older_than=START + timedelta(seconds=seconds))

    def readable(self) -> list[bytes]:
        reader = LedgerReader(self.store, PATHS)
        found = [reader.read_bytes(seq) for seq in range(1, len(self.entries) + 1)]
        return [data for data in found if data is not None]

    def hot(self) -> int:
        return len(self.store.list_after(PATHS.ledger_prefix))


# --- reading --------------------------------------------------------------------------------------


def test_entries_are_read_back_byte_for_byte_once_their_hot_copies_are_gone() -> None:
    world = World(30)
    _ = archive_range(world.store, PATHS, 1, 12)
    _ = archive_range(world.store, PATHS, 13, 20)
    _ = delete_archived(world.store, PATHS, world.due(30), limit=MANY)
    assert world.hot() == 10
    assert world.readable() == world.entries
    assert [entry.seq for entry, _ in LedgerReader(world.store, PATHS).forward(0)] == [
        *range(1, 31)
    ]


def test_an_entry_that_is_not_archived_is_none() -> None:
    world = World(5)
    archive = ArchiveReader(world.store, PATHS)
    assert archive.read(3) is None
    _ = archive_range(world.store, PATHS, 1, 4)
    assert archive.read(3) == world.entries[2]
    assert archive.read(5) is None


def test_what_is_archived_wins_over_what_a_sleeping_leader_put_in_its_place() -> None:
    world = World(6)
    _ = archive_range(world.store, PATHS, 1, 4)
    _ = delete_archived(world.store, PATHS, world.due(6), limit=MANY)
    late = Entry(seq=3, epoch=1, owner="o", nonce="late", ts=START, prev_hash="", fold_version=1)
    _ = world.store.create(PATHS.ledger_entry(3), encode_entry(late, ())[0])
    archive = ArchiveReader(world.store, PATHS)
    assert archive.covers(3)
    assert archive.read(3) == world.entries[2]
    assert not archive.covers(5)


def test_a_segment_is_an_ordinary_zstd_file_with_an_entry_a_line() -> None:
    world = World(9)
    key = archive_range(world.store, PATHS, 1, 9)
    assert key == f"acme/prod/ledger-archive/orchestration/{1:020d}-{9:020d}.ndjson.zst"
    data = world.store.get(key).data
    lines = pa.CompressedInputStream(pa.BufferReader(data), "zstd").read()
    assert lines == b"".join(entry + b"\n" for entry in world.entries)


def test_finding_an_entry_lists_a_window_and_not_the_archive() -> None:
    class Counting(MemoryStore):
        listed = 0

        def list_after(
            self, prefix: str, *, after: str = "", limit: int | None = None
        ) -> list[ObjectMeta]:
            found = super().list_after(prefix, after=after, limit=limit)
            Counting.listed += len(found)
            return found

    store = Counting(ManualClock(START))
    for first in range(1, 40 * MAX_ENTRIES, MAX_ENTRIES):
        _ = store.create(PATHS.archive_segment(first, first + MAX_ENTRIES - 1), b"")
    found = next(segments_from(store, PATHS, 39 * MAX_ENTRIES))
    assert (found.first, found.last) == (38 * MAX_ENTRIES + 1, 39 * MAX_ENTRIES)
    assert Counting.listed <= 3


def test_what_somebody_else_left_in_the_folders_is_ignored() -> None:
    world = World(4)
    _ = world.store.put(f"{PATHS.archive_prefix}0-notes.txt", b"")
    _ = world.store.put(f"{PATHS.ledger_prefix}00-notes.txt", b"")
    _ = archive_range(world.store, PATHS, 1, 4)
    assert archived_through(world.store, PATHS) == 4
    assert len(delete_archived(world.store, PATHS, world.due(9), limit=MANY)) == 4


def test_what_is_archived_behind_a_missing_entry_does_not_count() -> None:
    world = World(8)
    _ = archive_range(world.store, PATHS, 1, 4)
    _ = archive_range(world.store, PATHS, 6, 8)
    for seq in range(1, 9):
        world.store.delete(PATHS.ledger_entry(seq))
    assert archived_through(world.store, PATHS) == 4
    _ = write_segment(world.store, PATHS, [world.entries[4]])
    assert archived_through(world.store, PATHS) == 8


# --- damage ---------------------------------------------------------------------------------------


@given(st.data())
def test_any_changed_byte_of_a_segment_is_found(data: st.DataObject) -> None:
    whole = encode_segment(chained_entries(5))
    place = data.draw(st.integers(0, len(whole) - 1))
    flipped = whole[place] ^ data.draw(st.integers(1, 255))
    with pytest.raises(Corrupt, match=r"damaged.*; restore this object"):
        _ = decode_segment(whole[:place] + bytes([flipped]) + whole[place + 1 :], what="it")


@given(st.data())
def test_any_missing_end_of_a_segment_is_found(data: st.DataObject) -> None:
    whole = encode_segment(chained_entries(5))
    with pytest.raises(Corrupt):
        _ = decode_segment(whole[: data.draw(st.integers(0, len(whole) - 1))], what="it")


def test_a_segment_under_a_wrong_name_is_found() -> None:
    world = World(4)
    data = world.store.get(archive_range(world.store, PATHS, 1, 4)).data
    wrong = ArchiveSegment(key=PATHS.archive_segment(5, 8), first=5, last=8)
    _ = world.store.create(wrong.key, data)
    with pytest.raises(Corrupt, match="it holds entries 1 to 4"):
        _ = read_segment(world.store, wrong)


def test_a_segment_of_a_later_format_asks_for_an_upgrade() -> None:
    whole = encode_segment(chained_entries(1))
    with pytest.raises(NeedsUpgrade, match="upgrade to the Servo that wrote it"):
        _ = decode_segment(_with_needs(whole, 2), what="it")


def _with_needs(segment: bytes, number: int) -> bytes:
    end = 8 + int.from_bytes(segment[4:8], "little")
    body = (
        segment[8:end]
        .partition(b'"body":')[2][:-1]
        .replace(b'"min_reader":1', b'"min_reader":%d' % number)
    )
    text = b'{"sha256":"%s","body":%s}' % (sha256(body).hexdigest().encode(), body)
    return segment[:4] + len(text).to_bytes(4, "little") + text + segment[end:]


@pytest.mark.parametrize("seq", [1, 4, 8])
def test_a_damaged_entry_is_never_archived(seq: int) -> None:
    world = World(8)
    key = PATHS.ledger_entry(seq)
    data = bytearray(world.entries[seq - 1])
    data[-10] ^= 1
    _ = world.store.put(key, bytes(data))
    with pytest.raises(Corrupt, match=f"ledger entry {seq} is damaged"):
        _ = archive_range(world.store, PATHS, 1, 8)
    assert not world.store.list_after(PATHS.archive_prefix)


def test_an_entry_that_does_not_continue_the_one_before_is_never_archived() -> None:
    world = World(8)
    other = chained_entries(8, filler=3)
    _ = world.store.put(PATHS.ledger_entry(5), other[4])
    with pytest.raises(Corrupt, match="entry 5 does not continue entry 4"):
        _ = archive_range(world.store, PATHS, 1, 8)
    _ = archive_range(world.store, PATHS, 1, 4)
    with pytest.raises(Corrupt, match="entry 5 does not continue the archived entry 4"):
        _ = archive_range(world.store, PATHS, 5, 5)


def test_a_missing_entry_is_never_skipped() -> None:
    world = World(8)
    world.store.delete(PATHS.ledger_entry(5))
    with pytest.raises(NotFound):
        _ = archive_range(world.store, PATHS, 1, 8)
    assert not world.store.list_after(PATHS.archive_prefix)


def test_hot_copies_stay_while_their_segment_is_damaged() -> None:
    world = World(8)
    key = archive_range(world.store, PATHS, 1, 8)
    _ = world.store.put(key, world.store.get(key).data[:-1])
    with pytest.raises(Corrupt):
        _ = delete_archived(world.store, PATHS, world.due(8), limit=MANY)
    assert world.hot() == 8


def test_a_segment_that_holds_something_else_is_not_taken_for_an_earlier_try() -> None:
    world = World(8)
    _ = world.store.create(
        PATHS.archive_segment(1, 8), encode_segment(chained_entries(8, filler=3))
    )
    with pytest.raises(Corrupt, match="does not hold the entries of the ledger"):
        _ = archive_range(world.store, PATHS, 1, 8)


# --- writing --------------------------------------------------------------------------------------


def test_archiving_the_same_range_again_changes_nothing() -> None:
    world = World(8)
    key = archive_range(world.store, PATHS, 1, 8)
    before = world.store.get(key)
    assert archive_range(world.store, PATHS, 1, 8) == key
    assert world.store.get(key) == before


def test_a_segment_ends_where_it_is_full() -> None:
    store = MemoryStore(ManualClock(START))
    big = chained_entries(18, filler=MAX_BYTES // 17)
    for seq, data in enumerate(big, start=1):
        _ = store.create(PATHS.ledger_entry(seq), data)
    key = archive_range(store, PATHS, 1, 18)
    assert key == PATHS.archive_segment(1, 16)


def test_only_what_is_old_and_not_needed_any_more_is_deleted() -> None:
    world = World(20)
    _ = archive_range(world.store, PATHS, 1, 15)
    assert len(delete_archived(world.store, PATHS, world.due(20, seconds=4), limit=MANY)) == 4
    assert len(delete_archived(world.store, PATHS, world.due(9), limit=MANY)) == 5
    assert len(delete_archived(world.store, PATHS, world.due(20), limit=2)) == 2
    assert len(delete_archived(world.store, PATHS, world.due(20), limit=MANY)) == 4
    assert world.hot() == 5
    assert world.readable() == world.entries


class Failing:
    """A store that fails at one call, before or after it has done what it was asked."""

    def __init__(self, store: ObjectStore, at: int = 0, *, after: bool = False) -> None:
        self._store = store
        self._at = at
        self._after = after
        self.calls = 0

    def __getattr__(self, name: str) -> Callable[..., Any]:
        real: Callable[..., Any] = getattr(self._store, name)

        def call(*args: Any, **named: Any) -> Any:
            self.calls += 1
            fails = self.calls == self._at
            if fails and not self._after:
                raise Unavailable("no answer", remedy="retry")
            result = real(*args, **named)
            if fails:
                raise Unavailable("no answer", remedy="retry")
            return result

        return call


def one_round(store: ObjectStore, world: World) -> None:
    if (start := archived_through(store, PATHS)) < 6:
        _ = archive_range(store, PATHS, start + 1, 6)
    _ = delete_archived(store, PATHS, world.due(6), limit=MANY)


def calls_of_a_round() -> int:
    world = World(6)
    counting: Any = Failing(world.store)
    one_round(counting, world)
    return counting.calls


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("at", range(1, calls_of_a_round() + 1))
def test_a_crash_at_any_call_leaves_a_ledger_that_can_be_read_and_finished(
    at: int, *, after: bool
) -> None:
    world = World(6)
    failing: Any = Failing(world.store, at, after=after)
    with pytest.raises(Unavailable):
        one_round(failing, world)
    assert world.readable() == world.entries
    one_round(world.store, world)
    assert world.readable() == world.entries
    assert world.hot() == 0


# --- a little at a time ---------------------------------------------------------------------------


def steps(packer: Packer, due: ArchiveDue, *, reads: int) -> Sequence[ArchiveSegment | None]:
    found: list[ArchiveSegment | None] = [packer.step(due, reads=reads)]
    while packer.under_way:
        found.append(packer.step(due, reads=reads))
    return found


def test_a_packer_reads_a_few_entries_in_each_step() -> None:
    world = World(10)
    due = ArchiveDue(upto=10, older_than=START + FILL_FOR + timedelta(minutes=1))
    found = steps(Packer(world.store, PATHS), due, reads=4)
    assert [segment and (segment.first, segment.last) for segment in found] == [None, None, (1, 10)]
    assert world.readable() == world.entries


def test_a_packer_waits_a_day_for_enough_entries() -> None:
    world = World(10)
    packer = Packer(world.store, PATHS)
    assert packer.step(ArchiveDue(upto=10, older_than=START + FILL_FOR), reads=MANY) is None
    assert not packer.under_way
    later = ArchiveDue(upto=10, older_than=START + FILL_FOR + timedelta(seconds=1))
    found = packer.step(later, reads=MANY)
    assert found is not None
    assert (found.first, found.last) == (1, 10)


def test_a_packer_does_not_wait_when_there_is_enough() -> None:
    world = World(WORTH_A_SEGMENT + 3)
    found = Packer(world.store, PATHS).step(world.due(10**6, seconds=3_000), reads=10_000)
    assert found is not None
    assert (found.first, found.last) == (1, WORTH_A_SEGMENT)


def test_a_packer_goes_on_behind_what_is_archived() -> None:
    world = World(10)
    _ = archive_range(world.store, PATHS, 1, 4)
    _ = delete_archived(world.store, PATHS, world.due(3), limit=MANY)
    found = Packer(world.store, PATHS).step(world.due(8), reads=MANY)
    assert found is not None
    assert (found.first, found.last) == (5, 8)


def test_a_packer_that_failed_begins_again() -> None:
    world = World(10)
    packer = Packer(world.store, PATHS)
    assert packer.step(world.due(10), reads=3) is None
    whole = world.store.get(PATHS.ledger_entry(5)).data
    _ = world.store.put(PATHS.ledger_entry(5), whole[:-3])
    with pytest.raises(Corrupt):
        _ = packer.step(world.due(10), reads=MANY)
    assert not packer.under_way
    _ = world.store.put(PATHS.ledger_entry(5), whole)
    assert packer.step(world.due(10), reads=MANY) is not None
    assert world.readable() == world.entries


def test_a_latecomer_below_the_archive_is_not_archived_again() -> None:
    world = World(10)
    _ = archive_range(world.store, PATHS, 1, 10)
    _ = delete_archived(world.store, PATHS, world.due(10), limit=MANY)
    _ = world.store.create(PATHS.ledger_entry(3), world.entries[2])
    assert archived_through(world.store, PATHS) == 10
    assert Packer(world.store, PATHS).step(world.due(10), reads=MANY) is None
    assert len(delete_archived(world.store, PATHS, world.due(10), limit=MANY)) == 1
