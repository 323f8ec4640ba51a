"""Every kind of stored object, damaged: always noticed, never a wrong answer, the right remedy.

Each object is flipped or cut in several ways. Whoever reads then gets what was written, because
the object is not needed, or `Corrupt`: nothing in between. Verification finds it every time.
"""

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from functools import cache

import pytest
from msgspec.structs import replace

from servo.core.events.codec import encode_entry
from servo.core.events.runs import PlanSegmentExpanded
from servo.core.events.tasks import TaskOutcome
from servo.core.manifest import FileEntry, Tier
from servo.core.state.rows.row import Row
from servo.errors import Corrupt
from servo.leader.ports import Ports
from servo.leader.republish import republish
from servo.leader.takeover import take_over
from servo.ledger.archive import ArchiveDue, delete_archived
from servo.ports.object_store import ObjectStore
from servo.ports.world import World
from servo.projection.files.manifest_store import ManifestStore
from servo.projection.read.cold import ColdRows
from servo.projection.read.reader import Reader
from servo.projection.read.replay import ignore
from servo.projection.read.sql import query
from servo.projection.read.time_travel import Overlaid, Past, snapshot_at
from servo.projection.upkeep.compare import Dump, dump
from servo.projection.upkeep.rebuild import rebuild
from servo.projection.upkeep.verify import ProblemPart, verify
from servo.storage.memory import MemoryStore
from servo.testing.archives import archive_range
from servo.testing.builders import specs
from servo.testing.clock import SeededEntropy
from servo.testing.dumps import dump_snapshot
from servo.testing.leader import InlineBackground
from servo.testing.workspaces import StoredStory

HOUR = timedelta(hours=1)
ARCHIVED = 6

Damage = Callable[[bytes], bytes]


def flip(place: float) -> Damage:
    """Change one bit at a fraction of the object."""

    def change(data: bytes) -> bytes:
        at = min(int(place * len(data)), len(data) - 1)
        return data[:at] + bytes([data[at] ^ 16]) + data[at + 1 :]

    return change


def change_a_digit(data: bytes) -> bytes:
    """Another number or name, in JSON that is still JSON."""
    at = next(n for n in range(len(data) // 2, len(data)) if data[n : n + 1].isdigit())
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


DAMAGES: dict[str, Damage] = {
    "another-digit": change_a_digit,
    "first-byte": flip(0),
    "in-the-middle": flip(1 / 2),
    "last-byte": flip(1),
    "empty": lambda _: b"",
    "cut": lambda data: data[: len(data) * 2 // 3],
    "longer": lambda data: data + b"}",
}


# --- a workspace with one of everything -----------------------------------------------------------


@cache
def story() -> StoredStory:
    """Archived and hot entries, unmerged, merged and closed files, a plan, a hint."""
    told = StoredStory()
    for number in range(5):
        run = f"run_{number}"
        _ = told.plan({"a": [], "b": ["a"]}, run_id=run)
        outcome = TaskOutcome.FAILED if number == 3 else TaskOutcome.SUCCEEDED
        _ = told.execute("a", outcome, run)
        if number != 3:
            _ = told.execute("b", run_id=run)
        told.wait(minutes=50)
        _ = told.publish(close_after=HOUR)
    _ = told.merge()
    digest = told.plan_by_digest(specs({"x": [], "y": ["x"]}), run_id="big")
    _ = told.tell(PlanSegmentExpanded(run_id="big", index=0, digest=digest))
    _ = told.publish(close_after=HOUR)
    _ = told.plan({"a": []}, run_id="behind")
    _ = archive_range(told.store, told.paths, 1, ARCHIVED)
    due = ArchiveDue(upto=ARCHIVED, older_than=told.now)
    assert len(delete_archived(told.store, told.paths, due, limit=100)) == ARCHIVED
    told.manifests.write_hint(told.manifest.v)
    return told


@cache
def truth() -> tuple[Dump, Dump]:
    """What is published, and what the ledger says at its end."""
    told = story()
    published = dump_snapshot(Reader(told.store, told.paths).snapshot())
    return published, dump(rebuild(told.store, told.paths, from_genesis=True).state)


def _file(table: str, tier: Tier, *, merged: bool) -> str:
    files = story().manifest.files(table, tier)
    return next(file.key for file in files if (file.level > 0) == merged)


KINDS: dict[str, Callable[[], str]] = {
    "entry": lambda: story().paths.ledger_entry(ARCHIVED + 3),
    "published-entry": lambda: story().paths.ledger_entry(story().manifest.applied_seq),
    "last-entry": lambda: story().paths.ledger_entry(story().state.seq),
    "segment": lambda: story().paths.archive_segment(1, ARCHIVED),
    "manifest": lambda: story().paths.manifest(story().manifest.v),
    "past-manifest": lambda: story().paths.manifest(3),
    "unmerged-file": lambda: _file("tasks", Tier.ACTIVE, merged=False),
    "merged-file": lambda: _file("tasks", Tier.ACTIVE, merged=True),
    "closed-file": lambda: _file("tasks", Tier.CLOSED, merged=True),
    "plan": lambda: story().objects(story().paths.plans_prefix)[0],
}


def damaged(told: StoredStory, key: str, damage: Damage) -> MemoryStore:
    """A copy of the store with one object damaged."""
    copy = MemoryStore(told.clock)
    for meta in told.store.list_after(told.paths.root):
        data = told.store.get(meta.key).data
        _ = copy.create(meta.key, damage(data) if meta.key == key else data)
    return copy


def ports(store: ObjectStore) -> Ports:
    return Ports(
        store=store,
        clock=story().clock,
        entropy=SeededEntropy(),
        background=InlineBackground(),
    )


every_kind = pytest.mark.parametrize("kind", sorted(KINDS))
every_damage = pytest.mark.parametrize("damage", list(DAMAGES))


# --- never a wrong answer -------------------------------------------------------------------------


@every_damage
@every_kind
def test_whoever_reads_gets_what_was_written_or_corrupt(kind: str, damage: str) -> None:
    paths = story().paths
    store = damaged(story(), KINDS[kind](), DAMAGES[damage])
    published, everything = truth()
    with suppress(Corrupt):
        assert dump_snapshot(Reader(store, paths).snapshot()) == published
    with suppress(Corrupt):
        assert dump(rebuild(store, paths, from_genesis=True).state) == everything
    with suppress(Corrupt):
        past = rebuild(store, paths, from_genesis=False)
        assert dump_snapshot(Overlaid(store, paths, past)) == everything
    with suppress(Corrupt):
        assert dump_snapshot(snapshot_at(store, paths, story().state.seq)) == everything


@every_damage
@every_kind
def test_a_new_leader_begins_with_what_was_written_or_not_at_all(kind: str, damage: str) -> None:
    store = damaged(story(), KINDS[kind](), DAMAGES[damage])
    with suppress(Corrupt):
        leadership = take_over(ports(store), story().paths)
        past = Past(state=leadership.state, base=leadership.manifest)
        found = dump_snapshot(Overlaid(store, story().paths, past))
        assert found == truth()[1]


@every_damage
@every_kind
def test_verification_finds_it(kind: str, damage: str) -> None:
    key = KINDS[kind]()
    report = verify(damaged(story(), key, DAMAGES[damage]), story().paths)
    assert any(_names(problem.what, key) for problem in report.problems), report.problems
    assert all(problem.remedy for problem in report.problems)


def _names(what: str, key: str) -> bool:
    if "/ledger/" in key:
        return f"ledger entry {int(key[-25:-5])} " in what
    return key in what


# --- the right error ------------------------------------------------------------------------------


@every_damage
@pytest.mark.parametrize("kind", ["entry", "segment"])
def test_a_damaged_ledger_stops_the_workspace_and_says_so(kind: str, damage: str) -> None:
    store = damaged(story(), KINDS[kind](), DAMAGES[damage])
    with pytest.raises(Corrupt, match=r"is damaged.*; restore this object from a backup"):
        _ = rebuild(store, story().paths, from_genesis=True)
    # What is published does not depend on it and can still be read.
    assert dump_snapshot(Reader(store, story().paths).snapshot()) == truth()[0]


@every_damage
def test_a_damaged_entry_that_is_not_published_keeps_everybody_from_leading(damage: str) -> None:
    store = damaged(story(), KINDS["last-entry"](), DAMAGES[damage])
    with pytest.raises(Corrupt, match=r"is damaged.*; restore this object from a backup"):
        _ = take_over(ports(store), story().paths)


def without_entries(*lost: int) -> MemoryStore:
    """A copy of the store without some ledger entries."""
    copy = damaged(story(), "", DAMAGES["empty"])
    for seq in lost:
        copy.delete(story().paths.ledger_entry(seq))
    return copy


@pytest.mark.parametrize("newest", [True, False])
def test_nobody_leads_a_ledger_that_lost_the_last_entry_it_published(newest: bool) -> None:
    published, paths = story().manifest.applied_seq, story().paths
    later = range(published + 1, story().state.seq + 1) if newest else ()
    store = without_entries(published, *later)
    before = [meta.key for meta in store.list_after("")]
    with pytest.raises(Corrupt, match=f"ledger entry {published} was published and is missing"):
        _ = take_over(ports(store), paths)
    assert [meta.key for meta in store.list_after("")] == before, "a refusal writes nothing"
    assert dump_snapshot(Reader(store, paths).snapshot()) == truth()[0]
    entry = paths.ledger_entry(published)
    _ = store.create(entry, story().store.get(entry).data)
    assert take_over(ports(store), paths).state.seq > published


def test_nobody_leads_a_ledger_whose_last_published_entry_is_another() -> None:
    published, paths = story().manifest.applied_seq, story().paths
    store = without_entries(published)
    entry = story().entries[published - 1][0]
    other, _ = encode_entry(replace(entry, nonce="another"), ())
    _ = store.create(paths.ledger_entry(published), other)
    with pytest.raises(Corrupt, match=f"entry {published} was published and was replaced"):
        _ = take_over(ports(store), paths)


@every_damage
@pytest.mark.parametrize("kind", ["unmerged-file", "merged-file", "closed-file"])
def test_a_damaged_file_is_never_parsed_and_is_rebuilt(kind: str, damage: str) -> None:
    paths = story().paths
    store = damaged(story(), KINDS[kind](), DAMAGES[damage])
    with pytest.raises(Corrupt, match=r"is damaged.*; rebuild the projection from the ledger"):
        _ = dump_snapshot(Reader(store, paths).snapshot())
    with pytest.raises(Corrupt, match="rebuild the projection"):
        _ = query(Reader(store, paths).snapshot(), "select count(*) from tasks")
    _ = republish(World(store, story().clock, SeededEntropy()), paths, progress=ignore)
    assert dump_snapshot(Reader(store, paths).snapshot()) == truth()[1]
    newest = ManifestStore(store, paths).latest()
    assert newest is not None
    assert KINDS[kind]() not in [f.key for held in newest.tables.values() for f in held.files]


@every_damage
def test_a_damaged_newest_manifest_keeps_everybody_from_reading_and_is_rebuilt(damage: str) -> None:
    paths = story().paths
    store = damaged(story(), KINDS["manifest"](), DAMAGES[damage])
    remedy = "restore this object from a backup, or rebuild the projection from the ledger"
    for use in (lambda: Reader(store, paths).snapshot(), lambda: take_over(ports(store), paths)):
        with pytest.raises(Corrupt, match=rf"is damaged.*; {remedy}"):
            _ = use()
    _ = republish(World(store, story().clock, SeededEntropy()), paths, progress=ignore)
    assert dump_snapshot(Reader(store, paths).snapshot()) == truth()[1]


@every_damage
def test_a_damaged_plan_is_noticed_by_the_fold_that_needs_it(damage: str) -> None:
    store = damaged(story(), KINDS["plan"](), DAMAGES[damage])
    with pytest.raises(Corrupt, match=r"plan chunk .* does not match its hash; restore the object"):
        _ = rebuild(store, story().paths, from_genesis=True)


@every_damage
def test_a_damaged_hint_is_harmless(damage: str) -> None:
    paths = story().paths
    store = damaged(story(), paths.manifest_hint, DAMAGES[damage])
    assert dump_snapshot(Reader(store, paths).snapshot()) == truth()[0]
    assert verify(store, paths).sound
    assert take_over(ports(store), paths).manifest.v == story().manifest.v + 1


@pytest.mark.parametrize("hint", [b'{"v":99999}', b'{"v":-1}', b'{"v":0}', b'{"v":1}', b"null"])
def test_a_hint_that_lies_is_harmless(hint: bytes) -> None:
    paths = story().paths
    store = damaged(story(), paths.manifest_hint, lambda _: hint)
    assert Reader(store, paths).snapshot().manifest.v == story().manifest.v


# --- files that are asked by key ------------------------------------------------------------------


@cache
def large() -> tuple[StoredStory, FileEntry]:
    """A workspace with a closed file large enough for a key index."""
    told = StoredStory()
    for number in range(2_100):
        _ = told.request(f"run_{number}")
    manifest = told.publish()
    files = manifest.files("run_key_index", Tier.CLOSED)
    return told, next(file for file in files if file.bloom is not None)


def _asked(store: ObjectStore) -> list[Row]:
    wanted = ["key-run_7", "key-run_2000", "never"]
    return ColdRows(store).fetch(large()[0].manifest, "run_key_index", wanted)


def _bloom_key() -> str:
    bloom = large()[1].bloom
    assert bloom is not None
    return bloom.key


def test_rows_are_found_by_key_in_a_file_that_is_whole() -> None:
    told, _ = large()
    assert [getattr(row, "run_id", None) for row in _asked(told.store)] == ["run_7", "run_2000"]


@every_damage
def test_a_damaged_key_index_is_noticed(damage: str) -> None:
    told, _ = large()
    store = damaged(told, _bloom_key(), DAMAGES[damage])
    with pytest.raises(Corrupt, match=r"is damaged.*; rebuild the projection"):
        _ = _asked(store)


@every_damage
def test_a_damaged_part_of_a_file_is_noticed_when_it_is_asked(damage: str) -> None:
    told, file = large()
    store = damaged(told, file.key, DAMAGES[damage])
    expected = _asked(told.store)
    with suppress(Corrupt):
        assert _asked(store) == expected


@pytest.mark.parametrize("place", [0, 1 / 5, 2 / 5, 3 / 5, 4 / 5, 1])
def test_no_bit_of_a_file_that_is_asked_by_key_can_change_unnoticed(place: float) -> None:
    told, file = large()
    with pytest.raises(Corrupt, match=r"is damaged.*; rebuild the projection"):
        _ = _asked(damaged(told, file.key, flip(place)))


@pytest.mark.slow
@every_damage
@pytest.mark.parametrize("which", ["index", "file"])
def test_verification_finds_what_is_asked_by_key(which: str, damage: str) -> None:
    told, file = large()
    key = file.key if which == "file" else _bloom_key()
    report = verify(damaged(told, key, DAMAGES[damage]), told.paths)
    assert [problem.part for problem in report.problems] == [ProblemPart.FILES]
    assert key in report.problems[0].what
