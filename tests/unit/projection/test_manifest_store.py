"""Finding the newest manifest whatever the hint says, and creating the next one once."""

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from servo.core.manifest import Manifest, encode, first_claim, next_claim
from servo.errors import Corrupt, Internal, NotFound, Unavailable
from servo.ledger.paths import Paths
from servo.ports.object_store import ObjectMeta
from servo.projection.files.manifest_store import ManifestStore
from servo.storage.memory import MemoryStore
from servo.testing.clock import ManualClock

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PATHS = Paths("acme", "prod")


class Watched(MemoryStore):
    """Counts requests, and can stop answering."""

    def __init__(self) -> None:
        super().__init__(ManualClock())
        self.listings = 0
        self.listed = 0
        self.silent = False

    def list_after(
        self, prefix: str, *, after: str = "", limit: int | None = None
    ) -> list[ObjectMeta]:
        found = super().list_after(prefix, after=after, limit=limit)
        self.listings += 1
        self.listed += len(found)
        return found

    def put(self, key: str, data: bytes) -> ObjectMeta:
        if self.silent:
            raise Unavailable("slow down")
        return super().put(key, data)


def manifest(v: int, nonce: str = "") -> Manifest:
    claim = first_claim(identity="ab" * 16, owner="o", nonce=nonce or f"n{v}", ts=NOW)
    return encode(replace(claim, v=v))[1]


def with_versions(versions: Sequence[int]) -> tuple[Watched, ManifestStore]:
    store = Watched()
    for v in versions:
        _ = store.put(PATHS.manifest(v), encode(manifest(v))[0])
    return store, ManifestStore(store, PATHS)


def test_a_workspace_without_manifests_has_no_newest() -> None:
    _, manifests = with_versions([])
    assert manifests.latest() is None
    assert manifests.versions() == []
    assert not manifests.exists_after(0)


@pytest.mark.parametrize(
    "hint",
    [
        b'{"v":3}',
        b'{"v":1}',
        b'{"v":0}',
        b'{"v":99999}',
        b'{"v":-4}',
        b'{"v":"three"}',
        b"not json",
        b"\xff\xfe",
        b"",
        b'{"v":999999999999999999999999}',
        None,
    ],
)
def test_a_hint_is_never_needed_and_never_believed(hint: bytes | None) -> None:
    store, manifests = with_versions([1, 2, 3])
    if hint is not None:
        _ = store.put(PATHS.manifest_hint, hint)
    assert manifests.latest() == manifest(3)


def test_a_hint_saves_listing_what_came_before_it() -> None:
    store, manifests = with_versions(range(1, 101))
    manifests.write_hint(99)
    store.listed = 0
    assert manifests.latest() == manifest(100)
    assert store.listed == 1


def test_a_hint_that_cannot_be_written_is_not_missed() -> None:
    store, manifests = with_versions([1])
    store.silent = True
    manifests.write_hint(1)
    assert manifests.latest() == manifest(1)


def test_without_a_hint_the_newest_of_many_is_found_in_few_requests() -> None:
    store, manifests = with_versions([*range(1, 3000), 5000, 70_000, *range(70_500, 70_600)])
    assert manifests.latest() == manifest(70_599)
    assert store.listings < 40
    assert store.listed < 1500


def test_what_else_lies_in_the_folder_is_not_taken_for_a_manifest() -> None:
    store, manifests = with_versions([1, 2])
    for name in (".DS_Store", f"{1:020d}.json.tmp", f"{2:020d}.json.tmp", "zzz"):
        _ = store.put(PATHS.manifest_prefix + name, b"?")
    assert manifests.latest() == manifest(2)
    assert manifests.versions() == [1, 2]


@given(st.sets(st.integers(1, 3000), min_size=1, max_size=400), st.integers(0, 4000))
def test_the_newest_is_found_among_any_versions_with_any_hint(
    versions: set[int], hint: int
) -> None:
    store, manifests = with_versions(sorted(versions))
    _ = store.put(PATHS.manifest_hint, b'{"v":%d}' % hint)
    found = manifests.latest()
    assert found is not None
    assert found.v == max(versions)


def test_a_known_manifest_is_returned_as_it_is_while_it_is_the_newest() -> None:
    store, manifests = with_versions([1, 2])
    known = manifests.latest()
    assert known is not None
    assert manifests.latest(known=known) is known
    _ = store.put(PATHS.manifest(3), encode(manifest(3))[0])
    assert manifests.latest(known=known) == manifest(3)


def test_the_next_version_can_be_probed() -> None:
    _, manifests = with_versions([1, 2])
    assert manifests.exists_after(1)
    assert not manifests.exists_after(2)


def test_a_version_that_was_collected_is_not_found() -> None:
    _, manifests = with_versions([2])
    with pytest.raises(NotFound):
        _ = manifests.read(1)


def test_a_manifest_under_the_name_of_another_is_damage() -> None:
    store, manifests = with_versions([1])
    _ = store.put(PATHS.manifest(2), encode(manifest(1))[0])
    with pytest.raises(Corrupt, match="holds version 1"):
        _ = manifests.read(2)


def test_of_two_who_create_a_version_one_wins_and_the_other_sees_it() -> None:
    _, manifests = with_versions([])
    mine, theirs = manifest(1, "mine"), manifest(1, "theirs")
    assert manifests.create(mine) is None
    assert manifests.create(theirs) == mine
    assert manifests.latest() == mine


def test_creating_what_i_have_created_is_still_mine() -> None:
    _, manifests = with_versions([])
    assert manifests.create(manifest(1)) is None
    assert manifests.create(manifest(1)) is None


def test_a_first_manifest_without_an_identity_is_refused() -> None:
    _, manifests = with_versions([])
    with pytest.raises(Internal, match="salt"):
        _ = manifests.create(replace(manifest(1), identity=""))


def test_a_slot_with_damaged_bytes_is_reported_as_such() -> None:
    store, manifests = with_versions([1])
    _ = store.put(PATHS.manifest(2), b"\x00" * 100)
    with pytest.raises(Corrupt):
        _ = manifests.create(next_claim(manifest(1), owner="o2", nonce="n", ts=NOW))
