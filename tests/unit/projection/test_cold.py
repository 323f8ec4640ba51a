"""Looking up rows that have left memory: little is read, and nothing unverified."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

import pytest
from msgspec.structs import replace

from servo.core.manifest import FileEntry, Manifest, TableFiles, Tier, encode, first_claim
from servo.core.state.rows.row import Row
from servo.core.state.rows.system import IdempotencyKeyRow
from servo.core.state.state import State
from servo.core.state.tables import TableSpec
from servo.errors import Corrupt, Internal
from servo.ledger.paths import Paths
from servo.ports.object_store import Blob
from servo.projection.files.bloom import BloomBuilder, probe
from servo.projection.files.files import Gone
from servo.projection.files.manifest_store import ManifestStore
from servo.projection.files.parquet import to_rows
from servo.projection.files.segment_store import FilePlacement, SegmentStore, build, one_by_one
from servo.projection.publish.capture import TierChange
from servo.projection.publish.publisher import Publisher
from servo.projection.read.cold import ColdRows
from servo.projection.read.load import load_state
from servo.storage.memory import MemoryStore
from servo.testing.clock import CountingEntropy, ManualClock

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PATHS = Paths("acme", "prod")
TABLE = "idempotency_keys"
MANY = 40_000  # three row groups


class Watched(MemoryStore):
    """Records what is read, and how much."""

    def __init__(self) -> None:
        super().__init__(ManualClock())
        self.reads: list[tuple[str, int]] = []

    def get(self, key: str) -> Blob:
        blob = super().get(key)
        self.reads.append((key.rpartition(".")[2], len(blob.data)))
        return blob

    def get_range(self, key: str, *, start: int, length: int) -> bytes:
        data = super().get(key).data[start : start + length]
        self.reads.append(("range", len(data)))
        return data

    def damage(self, key: str, at: int) -> None:
        data = bytearray(super().get(key).data)
        data[at] ^= 1
        _ = self.put(key, bytes(data))


def answer(number: int, version: int = 1) -> IdempotencyKeyRow:
    return IdempotencyKeyRow(
        idempotency_key=f"key-{number:08d}",
        request_hash=f"hash {version}",
        answer="{}",
        created_at=NOW,
        row_version=version,
    )


def key(number: int) -> str:
    return f"key-{number:08d}"


class Closed:
    """A workspace with answers in its closed tier, one file a publish."""

    def __init__(self) -> None:
        self.store = Watched()
        self.state = State("acme", "prod")
        self.learned = ColdRows(self.store)
        self.publisher = Publisher(self.store, PATHS, CountingEntropy(), cold=self.learned)
        claim = first_claim(identity="ab" * 16, owner="me", nonce="first", ts=NOW)
        self.manifest: Manifest = encode(claim)[1]
        assert ManifestStore(self.store, PATHS).create(self.manifest) is None

    def publish(self, numbers: Sequence[int], dropped: Sequence[int] = ()) -> None:
        self.state.seq += 1
        for number in numbers:
            self.state.answers.put(key(number), answer(number, self.state.seq))
        self.state.seal()
        self.state.answers.dirty |= {key(number): None for number in dropped}
        capture = self.publisher.capture(
            self.state, now=NOW, close_after=timedelta(hours=1), max_rows=10**6
        )
        self.manifest = self.publisher.write(
            capture, self.manifest, epoch=1, owner="me", nonce=f"n{self.state.seq}", ts=NOW
        )
        assert capture is not None
        self.publisher.release(self.state, capture)
        self.store.reads.clear()

    def fetch(self, cold: ColdRows, *numbers: int) -> list[Row]:
        return cold.fetch(self.manifest, TABLE, [key(number) for number in numbers])

    def file(self) -> str:
        return self.manifest.files(TABLE, Tier.CLOSED)[-1].key


def test_rows_come_back_in_the_order_in_which_they_were_asked_for() -> None:
    closed = Closed()
    closed.publish(range(10))
    found = closed.fetch(ColdRows(closed.store), 7, 99, 3)
    assert found == [answer(7), answer(3)]


def test_the_newest_version_is_found_wherever_it_is() -> None:
    closed = Closed()
    closed.publish(range(10))
    closed.publish([3])
    closed.publish([4])
    assert closed.fetch(ColdRows(closed.store), 3, 4, 5) == [answer(3, 2), answer(4, 3), answer(5)]


def test_a_row_that_was_dropped_is_not_found() -> None:
    closed = Closed()
    closed.publish(range(10))
    closed.publish([8], dropped=[3])
    assert closed.fetch(ColdRows(closed.store), 3, 8) == [answer(8, 2)]


def test_a_tombstone_is_found_beside_rows_that_are_older_than_the_row_it_hides() -> None:
    """A run that is closed late brings old rows into a file with a new tombstone."""
    closed = Closed()
    segments = SegmentStore(closed.store, PATHS, cold=None, uploads=one_by_one)
    files: list[FileEntry] = []
    for rows, tombstones in (([answer(3, 9)], []), ([answer(1, 2)], [(key(3), 10)])):
        change = TierChange()
        change.rows.extend(rows)
        change.tombstones.extend(tombstones)
        nonce = f"n{len(files)}"
        place = FilePlacement(
            table=TABLE, tier=Tier.CLOSED, level=0, seq=10, nonce=nonce, written_at=NOW
        )
        staged = segments.stage(place, build(place, change, PATHS))
        segments.put([staged])
        files.append(staged.file)
    assert [file.max_seq for file in files] == [9, 2]
    held = TableFiles(files=tuple(files))
    closed.manifest = replace(closed.manifest, tables={TABLE: held})
    assert closed.fetch(ColdRows(closed.store), 3, 1) == [answer(1, 2)]


def test_rows_published_before_their_table_became_history_are_found_where_they_are() -> None:
    closed = Closed()
    segments = SegmentStore(closed.store, PATHS, cold=None, uploads=one_by_one)
    change = TierChange()
    change.rows.extend([answer(3), answer(4)])
    place = FilePlacement(
        table=TABLE, tier=Tier.ACTIVE, level=1, seq=1, nonce="old", written_at=NOW
    )
    staged = segments.stage(place, build(place, change, PATHS))
    segments.put([staged])
    tables = {TABLE: TableFiles(files=(staged.file,))}
    closed.manifest = replace(closed.manifest, tables=tables)
    closed.state.seq = 1
    closed.publish([4], dropped=[])
    assert closed.fetch(ColdRows(closed.store), 3, 4) == [answer(3), answer(4, 2)]
    assert not load_state(closed.store, closed.manifest, "acme", "prod").answers.rows
    closed.publish([5], dropped=[3])
    assert closed.fetch(ColdRows(closed.store), 3, 4, 5) == [answer(4, 2), answer(5, 3)]


def test_many_rows_of_a_group_cost_one_look_at_its_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = Closed()
    closed.publish(range(MANY))
    cold = ColdRows(closed.store)
    wanted = [*range(100, 200), 34_321, 50, 50]
    read: list[int] = []

    def counted(spec: TableSpec, table: Any) -> list[Row]:
        read.append(table.num_rows)
        return to_rows(spec, table)

    monkeypatch.setattr("servo.projection.read.cold.to_rows", counted)
    assert closed.fetch(cold, *wanted) == [answer(number) for number in wanted[:-1]]
    assert read == [101, 1]


def test_keys_outside_the_range_of_a_file_read_nothing() -> None:
    closed = Closed()
    closed.publish(range(10, 20))
    assert closed.fetch(ColdRows(closed.store), 5, 25) == []
    assert closed.store.reads == []


def test_a_small_file_is_read_once() -> None:
    closed = Closed()
    closed.publish(range(0, 100, 2))
    cold = ColdRows(closed.store)
    assert closed.fetch(cold, 3) == []
    assert closed.fetch(cold, 4) == [answer(4)]
    assert [kind for kind, _ in closed.store.reads] == ["parquet"]


def test_what_was_just_published_is_known_without_a_request() -> None:
    closed = Closed()
    closed.publish(range(0, 100, 2))
    closed.publish(range(0, 10_000, 2))
    assert closed.fetch(closed.learned, 3) == []
    assert closed.store.reads == []


def test_of_a_large_file_only_the_index_and_one_group_are_read() -> None:
    closed = Closed()
    closed.publish(range(MANY))
    size = closed.manifest.files(TABLE, Tier.CLOSED)[0].size
    cold = ColdRows(closed.store)
    assert closed.fetch(cold, 34_321) == [answer(34_321)]
    assert [kind for kind, _ in closed.store.reads] == ["json", "range", "range"]
    assert sum(length for kind, length in closed.store.reads if kind == "range") < size / 2


def test_the_first_and_last_keys_of_every_group_are_found() -> None:
    closed = Closed()
    closed.publish(range(MANY))
    for number in (0, 16_383, 16_384, 32_767, 32_768, MANY - 1):
        assert closed.fetch(closed.learned, number) == [answer(number)]


def test_a_key_that_a_large_file_does_not_have_is_hardly_ever_looked_for() -> None:
    closed = Closed()
    closed.publish(range(0, 40_000, 2))
    for number in range(1, 2001, 2):
        assert closed.fetch(closed.learned, number) == []
    # Two groups with a footer each, however often the filter errs: what was read once is kept.
    assert len(closed.store.reads) <= 4


def test_what_does_not_fit_into_memory_is_fetched_again() -> None:
    closed = Closed()
    closed.publish(range(0, 100, 2))
    cold = ColdRows(closed.store, max_bytes=100)
    assert closed.fetch(cold, 4) == closed.fetch(cold, 4) == [answer(4)]
    assert len(closed.store.reads) == 2


def test_a_damaged_small_file_is_found_out() -> None:
    closed = Closed()
    closed.publish(range(10))
    closed.store.damage(closed.file(), 200)
    with pytest.raises(Corrupt, match="do not match their hash"):
        _ = closed.fetch(ColdRows(closed.store), 4)


def test_a_damaged_group_is_found_out_and_the_others_are_not_affected() -> None:
    closed = Closed()
    closed.publish(range(MANY))
    closed.store.damage(closed.file(), 100)
    cold = ColdRows(closed.store)
    with pytest.raises(Corrupt, match="a part of"):
        _ = closed.fetch(cold, 4)
    assert closed.fetch(cold, 39_000) == [answer(39_000)]


def test_a_damaged_footer_or_index_is_found_out() -> None:
    closed = Closed()
    closed.publish(range(5000))
    file = closed.manifest.files(TABLE, Tier.CLOSED)[0]
    assert file.bloom is not None
    closed.store.damage(file.key, file.size - 20)
    with pytest.raises(Corrupt, match="a part of"):
        _ = closed.fetch(ColdRows(closed.store), 4)
    closed.store.damage(file.bloom.key, 20)
    with pytest.raises(Corrupt, match=r"keys\.json is damaged"):
        _ = closed.fetch(ColdRows(closed.store), 4)


def test_a_file_that_was_collected_says_so() -> None:
    closed = Closed()
    closed.publish(range(10))
    closed.store.delete(closed.file())
    with pytest.raises(Gone):
        _ = closed.fetch(ColdRows(closed.store), 4)


def test_a_table_that_is_not_indexed_cannot_be_asked() -> None:
    closed = Closed()
    with pytest.raises(Internal, match="ledger_index cannot be read by key"):
        _ = closed.learned.fetch(closed.manifest, "ledger_index", [(1, 0)])


def test_a_filter_errs_about_once_in_a_hundred() -> None:
    builder = BloomBuilder(20_000)
    builder.add((key(number),) for number in range(20_000))
    bloom = builder.build()
    wrong = sum(bloom.admits(probe((key(number),))) for number in range(20_000, 40_000))
    assert wrong < 400


def test_an_index_of_another_form_asks_for_an_upgrade() -> None:
    closed = Closed()
    closed.publish(range(5000))
    (file,) = closed.manifest.files(TABLE, Tier.CLOSED)
    assert file.bloom is not None
    other = b'{"kind":"later"}'
    _ = closed.store.put(file.bloom.key, other)
    bloom = replace(file.bloom, size=len(other), sha256=sha256(other).hexdigest())
    held = replace(closed.manifest.tables[TABLE], files=(replace(file, bloom=bloom),))
    manifest = replace(closed.manifest, tables={TABLE: held})
    with pytest.raises(Corrupt, match="upgrade Servo"):
        _ = ColdRows(closed.store).fetch(manifest, TABLE, [key(4)])
