"""Snapshots: one version at a time, read your own writes, the past, and files that are gone."""

from datetime import UTC, datetime, timedelta

import pytest

from servo.core.manifest import Manifest, Tier, encode, first_claim
from servo.core.state.rows.row import Row
from servo.core.state.rows.system import QuotaRow
from servo.core.state.state import State
from servo.core.state.tables import TABLES
from servo.errors import Corrupt, NotFound, Unavailable
from servo.ledger.paths import Paths
from servo.ports.object_store import Blob, ObjectMeta
from servo.projection.files.files import Gone, Lru, fetch
from servo.projection.files.manifest_store import ManifestStore
from servo.projection.files.parquet import to_rows
from servo.projection.files.schema import schema
from servo.projection.publish.publisher import Publisher
from servo.projection.read.load import load_state
from servo.projection.read.reader import Reader, Snapshot
from servo.projection.upkeep.compare import canonical_rows, differences, dump
from servo.storage.memory import MemoryStore
from servo.testing.clock import CountingEntropy, ManualClock

START = datetime(2026, 1, 1, tzinfo=UTC)
PATHS = Paths("acme", "prod")


class Watched(MemoryStore):
    def __init__(self) -> None:
        super().__init__(ManualClock())
        self.reads: list[str] = []
        self.silent = 0

    def get(self, key: str) -> Blob:
        if self.silent:
            self.silent -= 1
            raise Unavailable("timed out")
        self.reads.append(key)
        return super().get(key)

    def list_after(
        self, prefix: str, *, after: str = "", limit: int | None = None
    ) -> list[ObjectMeta]:
        self.reads.append("list")
        return super().list_after(prefix, after=after, limit=limit)


class Leader:
    """Publishes one quota after the other, an entry and an hour apart."""

    def __init__(self) -> None:
        self.store = Watched()
        self.state = State("acme", "prod")
        self.publisher = Publisher(self.store, PATHS, CountingEntropy())
        claim = first_claim(identity="ab" * 16, owner="me", nonce="first", ts=START)
        self.manifest: Manifest = encode(claim)[1]
        assert ManifestStore(self.store, PATHS).create(self.manifest) is None

    def publish(self, name: str, weight: int = 1) -> None:
        self.state.seq += 1
        self.state.ts = START + timedelta(hours=self.state.seq)
        row = quota(name, weight, self.state.seq)
        self.state.quotas.put(("pool", name), row)
        self.state.seal()
        self.write()

    def drop(self, name: str) -> None:
        self.state.seq += 1
        self.state.quotas.drop(("pool", name))
        self.state.seal()
        self.write()

    def write(self) -> None:
        capture = self.publisher.capture(
            self.state, now=START, close_after=timedelta(hours=1), max_rows=100
        )
        self.manifest = self.publisher.write(
            capture, self.manifest, epoch=1, owner="me", nonce=f"n{self.state.seq}", ts=START
        )
        assert capture is not None
        self.publisher.release(self.state, capture)

    def merge_everything(self) -> None:
        """Replace all files of the table by one and forget the old ones, as a collector does."""
        files = self.manifest.files("quotas", Tier.ACTIVE)
        plan = self.publisher.plan_merge(self.manifest)
        assert plan is not None
        result = self.publisher.merge(plan)
        self.manifest = self.publisher.write(
            None, self.manifest, epoch=1, owner="me", nonce="merged", ts=START, merges=[result]
        )
        for file in files:
            self.store.delete(file.key)


def quota(name: str, weight: int, version: int) -> QuotaRow:
    return QuotaRow(scope="pool", name=name, weight=weight, updated_at=START, row_version=version)


def names(snapshot: Snapshot) -> list[str]:
    return sorted(snapshot.table("quotas").column("name").to_pylist())


# --- snapshots ------------------------------------------------------------------------------------


def test_a_table_has_one_row_for_every_key_and_none_that_was_dropped() -> None:
    leader = Leader()
    for name, weight in (("a", 1), ("b", 1), ("a", 2)):
        leader.publish(name, weight)
    leader.drop("b")
    snapshot = Snapshot(leader.store, leader.manifest)
    assert snapshot.rows("quotas") == [quota("a", 2, 3)]
    assert snapshot.applied_seq == 4


def test_what_has_changed_since_an_entry_is_read_from_the_files_that_can_have_it() -> None:
    leader = Leader()
    for name in "abcadefgh":
        leader.publish(name, weight=leader.state.seq + 1)
    for merged in (False, True):
        if merged:
            leader.drop("c")
            leader.merge_everything()
            leader.publish("e")
            leader.drop("e")
        snapshot = Snapshot(leader.store, leader.manifest)
        for seq in range(leader.state.seq + 1):
            found = to_rows(TABLES["quotas"], snapshot.changed_since("quotas", seq))
            whole = [row for row in snapshot.rows("quotas") if row.row_version > seq]
            assert sorted(found, key=repr) == sorted(whole, key=repr)


def test_files_without_anything_new_are_not_read() -> None:
    leader = Leader()
    for name in ("a", "b", "c"):
        leader.publish(name)
    leader.store.reads.clear()
    snapshot = Snapshot(leader.store, leader.manifest)
    assert snapshot.changed_since("quotas", 2).column("name").to_pylist() == ["c"]
    assert len(leader.store.reads) == 1


def test_a_table_has_its_public_schema_with_and_without_rows() -> None:
    leader = Leader()
    spec = TABLES["quotas"]
    assert Snapshot(leader.store, leader.manifest).table("quotas").num_rows == 0
    for _ in range(2):
        found = Snapshot(leader.store, leader.manifest).table("quotas")
        assert found.schema.equals(schema(spec.row, spec.key))
        leader.publish("a")


def test_only_the_columns_that_are_asked_for_come() -> None:
    leader = Leader()
    leader.publish("a", 7)
    leader.publish("a", 8)
    found = Snapshot(leader.store, leader.manifest).table("quotas", only=["weight", "tenant_id"])
    assert found.to_pydict() == {"weight": [8], "tenant_id": ["acme"]}


def test_a_table_that_is_published_from_memory_only_is_empty() -> None:
    leader = Leader()
    assert Snapshot(leader.store, leader.manifest).rows("task_heartbeats") == []


def test_a_table_that_does_not_exist_is_not_found() -> None:
    leader = Leader()
    with pytest.raises(NotFound, match="use one of runs, tasks"):
        _ = Snapshot(leader.store, leader.manifest).table("secrets")


def test_a_column_that_does_not_exist_is_not_found() -> None:
    leader = Leader()
    with pytest.raises(NotFound, match="quotas has no column mood; choose from tenant_id"):
        _ = Snapshot(leader.store, leader.manifest).table("quotas", only=["name", "mood"])


def test_a_snapshot_stays_as_it_is_while_others_publish() -> None:
    leader = Leader()
    leader.publish("a")
    snapshot = Snapshot(leader.store, leader.manifest)
    leader.publish("b")
    assert names(snapshot) == ["a"]


def test_a_file_is_fetched_once() -> None:
    leader = Leader()
    leader.publish("a")
    reader = Reader(leader.store, PATHS)
    assert names(reader.snapshot()) == ["a"]
    leader.store.reads.clear()
    assert names(reader.snapshot()) == ["a"]
    assert leader.store.reads == ["list"]


def test_a_damaged_file_is_found_out_before_it_is_parsed() -> None:
    leader = Leader()
    leader.publish("a")
    (file,) = leader.manifest.files("quotas", Tier.ACTIVE)
    for broken in (b"", b"x" * file.size, leader.store.get(file.key).data + b" "):
        _ = leader.store.put(file.key, broken)
        with pytest.raises(Corrupt, match="is damaged"):
            _ = Snapshot(leader.store, leader.manifest).table("quotas")
        with pytest.raises(Corrupt, match="is damaged"):
            _ = load_state(leader.store, leader.manifest, "acme", "prod")


def test_a_store_that_does_not_answer_at_once_is_asked_again() -> None:
    leader = Leader()
    leader.publish("a")
    (file,) = leader.manifest.files("quotas", Tier.ACTIVE)
    leader.store.silent = 2
    assert len(fetch(leader.store, file)) == file.size
    leader.store.silent = 3
    with pytest.raises(Unavailable):
        _ = fetch(leader.store, file)


# --- the newest -----------------------------------------------------------------------------------


def test_a_reader_sees_what_was_published_last() -> None:
    leader = Leader()
    reader = Reader(leader.store, PATHS)
    for name in "abc":
        leader.publish(name)
        assert reader.snapshot().manifest == leader.manifest


def test_a_workspace_that_published_nothing_is_not_found() -> None:
    with pytest.raises(NotFound, match=r"workspace .* of tenant .* is empty"):
        _ = Reader(Watched(), PATHS).snapshot()


def test_whoever_knows_a_sequence_number_reads_their_own_write_or_is_told_to_wait() -> None:
    leader = Leader()
    reader = Reader(leader.store, PATHS)
    leader.publish("a")
    with pytest.raises(
        Unavailable, match="entry 2 is not published yet; the newest published is 1"
    ):
        _ = reader.snapshot(min_seq=2)
    leader.publish("b")
    assert names(reader.snapshot(min_seq=2)) == ["a", "b"]


def test_a_snapshot_that_is_new_enough_needs_no_request() -> None:
    leader = Leader()
    reader = Reader(leader.store, PATHS)
    leader.publish("a")
    _ = reader.snapshot()
    leader.store.reads.clear()
    assert reader.snapshot(min_seq=1).applied_seq == 1
    assert leader.store.reads == []


# --- files that are gone --------------------------------------------------------------------------


def test_a_reader_whose_files_were_collected_reads_the_newer_version() -> None:
    leader = Leader()
    for number in range(8):
        leader.publish(f"q{number}")
    reader = Reader(leader.store, PATHS, cache_bytes=0)
    seen: list[int] = []

    def use(snapshot: Snapshot) -> list[str]:
        seen.append(snapshot.manifest.v)
        if len(seen) == 1:
            leader.merge_everything()
        return names(snapshot)

    assert reader.read(use) == [f"q{number}" for number in range(8)]
    assert seen == [leader.manifest.v - 1, leader.manifest.v]


def test_a_reader_that_asks_for_a_sequence_number_is_given_a_newer_version_too() -> None:
    leader = Leader()
    for number in range(8):
        leader.publish(f"q{number}")
    reader = Reader(leader.store, PATHS, cache_bytes=0)
    _ = reader.snapshot()
    leader.merge_everything()
    assert len(reader.read(names, min_seq=8)) == 8


def test_a_missing_file_of_the_newest_version_is_damage() -> None:
    leader = Leader()
    leader.publish("a")
    (file,) = leader.manifest.files("quotas", Tier.ACTIVE)
    leader.store.delete(file.key)
    with pytest.raises(Corrupt, match="refers to a file that does not exist"):
        _ = Reader(leader.store, PATHS).read(names)
    with pytest.raises(Gone):
        _ = load_state(leader.store, leader.manifest, "acme", "prod")


def test_what_the_caller_does_not_find_is_not_taken_for_a_missing_file() -> None:
    leader = Leader()
    leader.publish("a")

    def use(snapshot: Snapshot) -> list[Row]:
        raise NotFound(f"no run in {snapshot.applied_seq}")

    with pytest.raises(NotFound, match="no run in 1"):
        _ = Reader(leader.store, PATHS).read(use)


def test_files_that_vanish_again_and_again_end_in_a_request_to_retry() -> None:
    leader = Leader()
    leader.publish("a")

    def use(snapshot: Snapshot) -> None:
        leader.publish(f"after {snapshot.applied_seq}")
        raise Gone("collected again")

    with pytest.raises(Unavailable, match="while they were being read"):
        Reader(leader.store, PATHS).read(use)


# --- the past -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("seq", "expected"), [(1, ["a"]), (2, ["a", "b"]), (9, ["a", "b", "c"])])
def test_the_past_is_the_newest_version_at_or_before_an_entry(
    seq: int, expected: list[str]
) -> None:
    leader = Leader()
    for name in "abc":
        leader.publish(name)
    assert names(Reader(leader.store, PATHS).snapshot(as_of=seq)) == expected


@pytest.mark.parametrize(("minutes", "expected"), [(60, ["a"]), (119, ["a"]), (120, ["a", "b"])])
def test_the_past_is_the_newest_version_at_or_before_an_instant(
    minutes: int, expected: list[str]
) -> None:
    leader = Leader()
    for name in "abc":
        leader.publish(name)
    at = START + timedelta(minutes=minutes)
    assert names(Reader(leader.store, PATHS).snapshot(as_of=at)) == expected


def test_a_past_that_is_not_kept_is_not_found() -> None:
    leader = Leader()
    leader.publish("a")
    leader.publish("b")
    for v in (1, 2):
        leader.store.delete(PATHS.manifest(v))
    with pytest.raises(NotFound, match="use a later time or ledger entry"):
        _ = Reader(leader.store, PATHS).snapshot(as_of=1)


# --- comparing, caching ---------------------------------------------------------------------------


def test_differences_name_the_row_and_the_column() -> None:
    left, right = State("acme", "prod"), State("acme", "prod")
    left.quotas.put(("pool", "a"), quota("a", 1, 1))
    right.quotas.put(("pool", "a"), quota("a", 2, 1))
    right.quotas.put(("pool", "b"), quota("b", 1, 1))
    left.quotas.put(("pool", "c"), quota("c", 1, 1))
    assert differences(dump(left), dump(right)) == [
        "quotas ('pool', 'a'): weight 1 != 2",
        "quotas ('pool', 'c'): only on the left",
        "quotas ('pool', 'b'): only on the right",
    ]
    assert differences(dump(left), dump(left)) == []
    assert len(differences(dump(left), dump(right), limit=1)) == 1


def test_rows_are_compared_in_the_order_of_their_keys() -> None:
    rows = [quota("b", 1, 1), quota("a", 1, 2)]
    assert canonical_rows(rows) == canonical_rows(reversed(rows))
    assert canonical_rows([]) == []


def test_the_least_recently_used_leave_a_full_cache_first() -> None:
    cache: Lru[int] = Lru(100)
    for number in range(3):
        cache.put(f"k{number}", number, cost=40)
        _ = cache.get("k0")
    assert [cache.get(f"k{number}") for number in range(3)] == [0, None, 2]
    assert cache.held_bytes == 80
    cache.put("k0", 9, cost=10)
    assert (cache.get("k0"), cache.held_bytes) == (9, 50)
    cache.put("huge", 1, cost=101)
    assert cache.get("huge") is None
    assert cache.get("k2") == 2
