"""A workspace that lost its manifests: nobody begins it anew, and its ledger restores all of it."""

from collections.abc import Callable
from datetime import timedelta
from functools import cache

import pytest
from msgspec.structs import replace

from servo.core.events.codec import decode_entry, encode_entry
from servo.core.manifest import Manifest, decode, encode, first_claim, next_claim
from servo.core.state.state import State
from servo.errors import Corrupt, Fenced, NotFound
from servo.leader.ports import Ports
from servo.leader.republish import republish
from servo.leader.takeover import Overtaken, claim_epoch, replay_tail, take_over
from servo.ledger.archive import ArchiveDue, delete_archived
from servo.ledger.paths import Paths
from servo.ledger.reader import LedgerReader
from servo.ports.object_store import ObjectMeta
from servo.ports.world import World
from servo.projection.files.manifest_store import ManifestStore
from servo.projection.read.hydration import Hydrator
from servo.projection.read.load import load_state
from servo.projection.read.reader import Reader
from servo.projection.read.replay import ignore
from servo.projection.upkeep.compare import Dump, dump
from servo.projection.upkeep.rebuild import rebuild
from servo.projection.upkeep.row_diff import compare
from servo.projection.upkeep.verify import ProblemPart, verify
from servo.storage.memory import MemoryStore
from servo.testing.archives import archive_range
from servo.testing.builders import IDENTITY
from servo.testing.clock import ManualClock, SeededEntropy
from servo.testing.dumps import dump_snapshot
from servo.testing.leader import InlineBackground
from servo.testing.workspaces import StoredStory

PATHS = Paths("acme", "prod")
ARCHIVED = 4
REBUILD = r"run `servo admin rebuild`"


@cache
def story() -> StoredStory:
    """Finished runs, files in both tiers, an entry that is not published, an archive."""
    told = StoredStory()
    for number in range(3):
        run = f"run_{number}"
        _ = told.plan({"a": [], "b": ["a"]}, run_id=run)
        _ = told.execute("a", run_id=run)
        _ = told.execute("b", run_id=run)
        told.wait(minutes=50)
        _ = told.publish(close_after=timedelta(hours=1))
    _ = told.plan({"a": []}, run_id="behind")
    return told


@cache
def truth() -> Dump:
    return dump(rebuild(story().store, PATHS, from_genesis=True).state)


def without(*prefixes: str, archived: bool = False) -> MemoryStore:
    """A copy of the store without what is under `prefixes`, its first entries archived or not."""
    told = story()
    copy = MemoryStore(told.clock)
    for meta in told.store.list_after(PATHS.root):
        if not meta.key.startswith(prefixes):
            _ = copy.create(meta.key, told.store.get(meta.key).data)
    if archived:
        _ = archive_range(copy, PATHS, 1, ARCHIVED)
        due = ArchiveDue(upto=ARCHIVED, older_than=told.now)
        assert len(delete_archived(copy, PATHS, due, limit=100)) == ARCHIVED
    return copy


MANIFESTS = f"{PATHS.root}manifests/"
STATE = f"{PATHS.root}state/"


def ports(store: MemoryStore, seed: int = 0) -> Ports:
    return Ports(
        store=store,
        clock=story().clock,
        entropy=SeededEntropy(seed),
        background=InlineBackground(),
    )


def keys(store: MemoryStore) -> list[str]:
    return [meta.key for meta in store.list_after("")]


# --- the identity is in the ledger ----------------------------------------------------------------


def test_the_first_entry_carries_the_identity_of_the_workspace_and_no_other_does() -> None:
    store = MemoryStore(ManualClock(story().now))
    first = take_over(ports(store, 1), PATHS)
    _ = take_over(ports(store, 2), PATHS)
    entries = [entry for entry, _ in LedgerReader(store, PATHS).forward(0)]
    assert [entry.identity for entry in entries] == [first.manifest.identity, ""]


def test_an_entry_without_an_identity_is_written_without_the_field() -> None:
    entry, data, _ = story().entries[1]
    assert b"identity" not in data
    assert decode_entry(data, what="entry")[0].identity == entry.identity == ""


@pytest.mark.parametrize("archived", [False, True])
def test_the_identity_is_found_in_the_ledger_and_in_its_archive(archived: bool) -> None:
    assert LedgerReader(without(MANIFESTS, archived=archived), PATHS).identity() == IDENTITY


def test_a_ledger_without_entries_has_no_identity() -> None:
    assert LedgerReader(MemoryStore(story().clock), PATHS).identity() is None


# --- nobody begins anew ---------------------------------------------------------------------------


@pytest.mark.parametrize("archived", [False, True])
def test_nobody_begins_a_workspace_whose_ledger_has_entries(archived: bool) -> None:
    store = without(MANIFESTS, archived=archived)
    before = keys(store)
    with pytest.raises(Corrupt, match=rf"manifests .* are missing.*; {REBUILD}"):
        _ = take_over(ports(store), PATHS)
    assert keys(store) == before, "a refusal writes nothing"


def test_readers_say_that_the_manifests_are_missing() -> None:
    with pytest.raises(Corrupt, match=rf"manifests .* are missing.*; {REBUILD}"):
        _ = Reader(without(MANIFESTS), PATHS).snapshot()
    with pytest.raises(NotFound, match="is empty"):
        _ = Reader(MemoryStore(story().clock), PATHS).snapshot()


class _LateListing(MemoryStore):
    """Lists manifests as they were before the first entry appeared, once."""

    def __init__(self, source: MemoryStore, hidden: int) -> None:
        super().__init__(story().clock)
        for meta in source.list_after(""):
            _ = self.create(meta.key, source.get(meta.key).data)
        self._hidden = hidden

    def list_after(
        self, prefix: str, *, after: str = "", limit: int | None = None
    ) -> list[ObjectMeta]:
        if prefix == PATHS.manifest_prefix and self._hidden:
            self._hidden -= 1
            return []
        return super().list_after(prefix, after=after, limit=limit)


def test_a_workspace_that_is_created_while_it_is_read_is_not_taken_for_a_damaged_one() -> None:
    assert Reader(_LateListing(without(), 1), PATHS).snapshot().manifest == story().manifest


# --- the ledger restores everything ---------------------------------------------------------------


@pytest.mark.parametrize("archived", [False, True])
@pytest.mark.parametrize("lost", [(MANIFESTS,), (MANIFESTS, STATE)], ids=["manifests", "all"])
def test_a_rebuild_restores_the_same_workspace(lost: tuple[str, ...], archived: bool) -> None:
    store = without(*lost, archived=archived)
    compared = compare(store, PATHS)
    assert (compared.v, compared.differs) == (0, True)
    made = republish(World(store, story().clock, SeededEntropy()), PATHS, progress=ignore)
    assert made.identity == IDENTITY
    assert dump_snapshot(Reader(store, PATHS).snapshot()) == truth()
    assert verify(store, PATHS).sound
    assert take_over(ports(store, 5), PATHS).manifest.identity == IDENTITY


def test_a_rebuild_needs_no_manifest_that_can_be_read() -> None:
    store = without()
    for v in ManifestStore(store, PATHS).versions():
        _ = store.put(PATHS.manifest(v), b"nonsense")
    made = republish(World(store, story().clock, SeededEntropy()), PATHS, progress=ignore)
    assert (made.identity, made.v) == (IDENTITY, story().manifest.v + 2 + 1)
    assert made.epoch > story().manifest.epoch + 1
    assert dump_snapshot(Reader(store, PATHS).snapshot()) == truth()


def test_a_rebuild_replaces_the_manifests_of_another_workspace() -> None:
    store = without(MANIFESTS)
    other = first_claim(identity="cd" * 32, owner="o", nonce="n", ts=story().now)
    assert ManifestStore(store, PATHS).create(encode(other)[1]) is None
    assert any("another identity" in problem.what for problem in verify(store, PATHS).problems)
    with pytest.raises(Corrupt, match=rf"another identity than the ledger; {REBUILD}"):
        _ = take_over(ports(store), PATHS)
    made = republish(World(store, story().clock, SeededEntropy()), PATHS, progress=ignore)
    assert made.identity == IDENTITY
    assert dump_snapshot(Reader(store, PATHS).snapshot()) == truth()


def test_without_a_first_entry_and_a_manifest_nothing_can_be_rebuilt() -> None:
    store = without(MANIFESTS, PATHS.ledger_entry(1))
    for use in (
        lambda: take_over(ports(store), PATHS),
        lambda: republish(World(store, story().clock, SeededEntropy()), PATHS, progress=ignore),
    ):
        with pytest.raises(Corrupt, match="ledger entry 1 is missing, but entry 2 exists"):
            _ = use()


# --- verification ---------------------------------------------------------------------------------


def test_verification_reports_missing_manifests() -> None:
    problems = verify(without(MANIFESTS), PATHS).problems
    assert [problem.part for problem in problems] == [ProblemPart.MANIFESTS]
    assert problems[0].what == "the manifests of this workspace are missing"


def test_verification_reports_two_owners_of_one_epoch() -> None:
    store = without()
    last, _, _ = story().entries[-1]
    digest = story().entries[-1][2]
    forged = replace(last, seq=last.seq + 1, owner="another", nonce="x", prev_hash=digest)
    _ = store.create(
        PATHS.ledger_entry(forged.seq), encode_entry(replace(forged, batches=()), ())[0]
    )
    whats = [problem.what for problem in verify(store, PATHS).problems]
    assert f"ledger entry {forged.seq} is by another leader of epoch 1" in whats


# --- one owner for every epoch --------------------------------------------------------------------


def _lose_all(store: MemoryStore) -> None:
    for key in [meta.key for meta in store.list_after(MANIFESTS)]:
        store.delete(key)
    _ = republish(World(store, story().clock, SeededEntropy(77)), PATHS, progress=ignore)


def _lose_newest(store: MemoryStore) -> None:
    for v in ManifestStore(store, PATHS).versions()[-2:]:
        store.delete(PATHS.manifest(v))


@pytest.mark.parametrize("lose", [_lose_all, _lose_newest])
def test_every_epoch_has_one_owner_whatever_manifests_are_lost(
    lose: Callable[[MemoryStore], None],
) -> None:
    store = without()
    owners: dict[int, set[str]] = {}

    def note() -> None:
        for v in ManifestStore(store, PATHS).versions():
            found = decode(store.get(PATHS.manifest(v)).data, what="manifest")
            owners.setdefault(found.epoch, set()).add(found.owner)
        for entry, _ in LedgerReader(store, PATHS).forward(0):
            owners.setdefault(entry.epoch, set()).add(entry.owner)

    for number in range(4):
        leadership = take_over(ports(store, 100 + number), PATHS)
        assert leadership.manifest.identity == IDENTITY
        note()
        lose(store)
        note()
    assert {epoch: len(known) for epoch, known in owners.items()} == dict.fromkeys(owners, 1)


def _claimed(store: MemoryStore, seed: int) -> tuple[Manifest, State]:
    claim = claim_epoch(ports(store, seed), ManifestStore(store, PATHS))
    assert claim is not None
    return claim, load_state(store, claim, PATHS.tenant, PATHS.workspace)


def test_a_leader_does_not_write_into_an_epoch_that_has_another_owner() -> None:
    store = without()
    claim, state = _claimed(store, 1)
    store.delete(PATHS.manifest(claim.v))  # lost, with the owner still at work
    other = take_over(ports(store, 2), PATHS)
    assert other.epoch == claim.epoch, "nothing in the store tells of the lost claim"
    with pytest.raises(Overtaken):
        replay_tail(LedgerReader(store, PATHS), Hydrator(store, PATHS, claim), state, claim)


def test_a_leader_whose_epoch_is_taken_claims_a_higher_one() -> None:
    """The owner of the lost claim writes its fence after the next leader has looked at the end."""
    store = without()
    lost, _ = _claimed(store, 1)
    store.delete(PATHS.manifest(lost.v))
    last, _, digest = story().entries[-1]
    fence = replace(
        last,
        seq=last.seq + 1,
        epoch=lost.epoch,
        owner=lost.owner,
        nonce="late",
        ts=last.ts + timedelta(seconds=1),
        prev_hash=digest,
        batches=(),
    )

    class Late(MemoryStore):
        """Gets the fence when the next claim is created."""

        def create(self, key: str, data: bytes) -> ObjectMeta:
            if key == PATHS.manifest(lost.v):
                _ = super().create(PATHS.ledger_entry(fence.seq), encode_entry(fence, ())[0])
            return super().create(key, data)

    late = Late(story().clock)
    for meta in store.list_after(""):
        _ = MemoryStore.create(late, meta.key, store.get(meta.key).data)
    leadership = take_over(ports(late, 2), PATHS)
    assert leadership.epoch == lost.epoch + 1
    owners = {entry.epoch: entry.owner for entry, _ in LedgerReader(late, PATHS).forward(0)}
    assert (owners[lost.epoch], owners[lost.epoch + 1]) == (lost.owner, leadership.owner)


def test_a_leader_that_was_replaced_is_told_so() -> None:
    store = without()
    claim, state = _claimed(store, 1)
    later = take_over(ports(store, 2), PATHS)
    assert later.epoch > claim.epoch
    with pytest.raises(Fenced, match="belongs to a later leader"):
        replay_tail(LedgerReader(store, PATHS), Hydrator(store, PATHS, claim), state, claim)


def test_a_claim_is_above_the_epoch_of_the_last_entry() -> None:
    assert next_claim(story().manifest, owner="o", nonce="n", ts=story().now, above=9).epoch == 10
