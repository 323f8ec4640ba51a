"""A manifest or an entry that was changed and sealed again: its hash is right, what it says is not.

Bytes are not damaged here, so no hash tells. Each test makes one claim untrue with a small writer
that seals what it wrote, and looks for the problem that names the object and the claim.
"""

from collections.abc import Callable
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from servo.core.events.codec import encode_batch, encode_entry
from servo.core.events.envelope import Entry
from servo.core.events.runs import RunRequested
from servo.core.manifest import FileEntry, Manifest, ObjectRef, TableFiles, Tier, encode
from servo.core.state.tables import TABLES
from servo.errors import Corrupt
from servo.ledger.paths import Paths
from servo.projection.files.parquet import encode as encode_rows
from servo.projection.files.segment import KeyIndex
from servo.projection.read.cold import ColdRows
from servo.projection.read.load import load_state
from servo.projection.upkeep.verify import RUNBOOKS, Problem, ProblemPart, verify
from servo.testing.builders import START
from servo.testing.workspaces import StoredStory

HOUR = timedelta(hours=1)
ROOT = Path(__file__).parents[2]


def told() -> StoredStory:
    """Finished runs in both tiers, merged files, and one run that is not over."""
    story = StoredStory()
    for number in range(4):
        _ = story.plan({"a": [], "b": ["a"]}, run_id=f"run_{number}")
        _ = story.execute("a", run_id=f"run_{number}")
        _ = story.execute("b", run_id=f"run_{number}")
        story.wait(minutes=40)
        _ = story.publish(close_after=HOUR)
    _ = story.merge()
    _ = story.plan({"a": []}, run_id="running")
    _ = story.publish(close_after=HOUR)
    return story


def problems(story: StoredStory) -> list[Problem]:
    return list(verify(story.store, story.paths, quick=True).problems)


# --- the writers that seal ------------------------------------------------------------------------


def reseal(story: StoredStory, manifest: Manifest) -> None:
    """Replace a version by another one, sealed as it should be."""
    data, sealed = encode(manifest)
    _ = story.store.put(story.paths.manifest(manifest.v), data)
    if manifest.v == story.manifest.v:
        story.manifest = sealed


def redescribe(
    story: StoredStory, table: str, change: Callable[[FileEntry], FileEntry], tier: Tier
) -> FileEntry:
    """Let the newest version describe its largest file of a table and tier otherwise."""
    held = story.manifest.tables[table].files
    chosen = max((f for f in held if f.tier is tier), key=lambda f: f.rows)
    files = tuple([change(file) if file is chosen else file for file in held])
    tables = {**story.manifest.tables, table: TableFiles(files=files)}
    reseal(story, replace(story.manifest, tables=tables))
    return chosen


def reseal_from(story: StoredStory, seq: int, change: Callable[[Entry], Entry]) -> None:
    """Change one entry and write it and all later ones again, as one chain of hashes.

    Versions are changed to name the new hashes, so that nothing but the change itself is wrong.
    """
    digests: dict[int, str] = {}
    before = story.entries[seq - 2][2] if seq > 1 else ""
    for entry, _, _ in story.entries[seq - 1 :]:
        changed = replace(change(entry) if entry.seq == seq else entry, prev_hash=before)
        data, before = encode_entry(changed, [encode_batch(batch) for batch in changed.batches])
        _ = story.store.put(story.paths.ledger_entry(entry.seq), data)
        digests[entry.seq] = before
    previous = ""
    for v in story.manifests.versions():
        held = story.manifests.read(v)
        last = digests.get(held.applied_seq, held.last_hash)
        data, sealed = encode(replace(held, last_hash=last, prev_hash=previous))
        _ = story.store.put(story.paths.manifest(v), data)
        previous = sealed.sha256


# --- what a manifest says of a file ---------------------------------------------------------------

CLAIMS: dict[str, tuple[Callable[[FileEntry], FileEntry], str]] = {
    "fewer rows": (lambda f: replace(f, rows=f.rows - 1), "it says rows 3, but the file has 4"),
    "more rows": (lambda f: replace(f, rows=f.rows + 1), "it says rows 5, but the file has 4"),
    "tombstones": (lambda f: replace(f, tombstones=1), "it says tombstones 1, but the file has 0"),
    "least key": (
        lambda f: replace(f, min_key=("key-run_1",)),
        'it says min_key ["key-run_1"], but the file has ["key-run_0"]',
    ),
    "greatest key": (
        lambda f: replace(f, max_key=("key-run_2",)),
        'it says max_key ["key-run_2"], but the file has ["key-run_3"]',
    ),
    "wider range": (
        lambda f: replace(f, max_key=("z",)),
        'it says max_key ["z"], but the file has ["key-run_3"]',
    ),
    "oldest version": (
        lambda f: replace(f, min_seq=f.min_seq + 1),
        "it says min_seq 2, but the file has 1",
    ),
    "newest version": (
        lambda f: replace(f, max_seq=f.max_seq - 1),
        "it says max_seq 15, but the file has 16",
    ),
    "level": (lambda f: replace(f, level=3), "it says level 3, but the file has 1"),
}


@pytest.mark.parametrize("claim", CLAIMS)
def test_what_a_manifest_says_of_a_file_is_compared_with_its_rows(claim: str) -> None:
    story = told()
    change, why = CLAIMS[claim]
    file = redescribe(story, "run_key_index", change, Tier.CLOSED)
    found = [p for p in problems(story) if p.part is ProblemPart.FILES]
    assert [p.what for p in found] == [
        f"manifest {story.manifest.v} describes {file.key} wrongly: {why}"
    ]
    assert found[0].remedy.startswith("rebuild the projection from the ledger")
    assert found[0].runbook == "corrupt-projection"


def test_a_file_that_is_described_in_two_ways_breaks_a_rule_between_versions() -> None:
    story = told()
    file = redescribe(story, "run_key_index", lambda f: replace(f, max_key=f.min_key), Tier.CLOSED)
    (first, *_) = problems(story)
    assert first.part is ProblemPart.MANIFESTS
    assert f"{file.key} is described as before" in first.what


def test_a_narrowed_range_gave_a_run_key_a_second_run_and_is_found_when_the_file_is_opened() -> (
    None
):
    story = told()
    _ = redescribe(
        story, "run_key_index", lambda f: replace(f, max_key=("key-run_2",)), Tier.CLOSED
    )
    cold = ColdRows(story.store)
    # Outside of the range nobody looks: this is the damage that verification has to find.
    assert cold.fetch(story.manifest, "run_key_index", ["key-run_3"]) == []
    with pytest.raises(Corrupt, match="its range of keys"):
        _ = cold.fetch(story.manifest, "run_key_index", ["key-run_1"])


def test_a_leader_does_not_load_a_file_that_is_described_wrongly() -> None:
    story = told()
    _ = redescribe(story, "runs", lambda f: replace(f, rows=f.rows + 1), Tier.ACTIVE)
    with pytest.raises(Corrupt, match="its rows"):
        _ = load_state(story.store, story.manifest, "acme", "prod")


def test_a_closed_file_with_a_run_that_is_not_over_is_found() -> None:
    story = told()
    held = story.manifest.tables["runs"].files
    files = tuple([replace(f, tier=Tier.CLOSED) if f is held[-1] else f for f in held])
    reseal(
        story,
        replace(story.manifest, tables={**story.manifest.tables, "runs": TableFiles(files=files)}),
    )
    assert [p.what for p in problems(story) if p.part is ProblemPart.PROJECTION] == [
        f"manifest {story.manifest.v} describes {held[-1].key} wrongly: it says tier closed, but "
        "1 of its rows are still active, such as running"
    ]


def test_a_file_with_the_wrong_date_is_found() -> None:
    story = told()
    early = START - timedelta(days=1)
    newest = story.manifest.tables["runs"].files[-1]
    files = (*story.manifest.tables["runs"].files[:-1], replace(newest, written_at=early))
    tables = {**story.manifest.tables, "runs": TableFiles(files=files)}
    reseal(story, replace(story.manifest, tables=tables))
    assert "new files of runs have the time of the manifest" in problems(story)[0].what


# --- which files a manifest names -----------------------------------------------------------------


def with_tables(story: StoredStory, **tables: TableFiles) -> None:
    reseal(story, replace(story.manifest, tables={**story.manifest.tables, **tables}))


def test_a_table_that_is_left_out_is_found() -> None:
    story = told()
    tables = {name: held for name, held in story.manifest.tables.items() if name != "runs"}
    reseal(story, replace(story.manifest, tables=tables))
    found = [p.what for p in problems(story) if p.part is ProblemPart.PROJECTION]
    assert "runs run_0 is in the ledger but not published" in found


def test_a_file_of_another_table_is_found() -> None:
    story = told()
    runs = story.manifest.tables["runs"]
    with_tables(story, timers=runs)
    found = [p.what for p in problems(story)]
    folder = f"{story.paths.state_prefix}timers/"
    key = runs.files[0].key
    v = story.manifest.v
    assert f"manifest {v} names {key} as a file of timers, which is not in {folder}" in found
    assert f"{key} is not a file of timers of this workspace: it has no column timer_id" in found


def test_a_table_that_nobody_knows_is_not_passed_over_in_silence() -> None:
    story = told()
    with_tables(story, later=TableFiles())
    assert [p.what for p in problems(story)] == [
        f"manifest {story.manifest.v} names the table later, which this version of Servo does "
        "not know"
    ]


def exchange(story: StoredStory, table: str, data: bytes) -> FileEntry:
    """Put other bytes in the place of a table's last file, and describe them as they are."""
    held = story.manifest.tables[table].files
    _ = story.store.put(held[-1].key, data)
    new = replace(held[-1], size=len(data), sha256=sha256(data).hexdigest())
    with_tables(story, **{table: TableFiles(files=(*held[:-1], new))})
    return new


def test_rows_of_another_workspace_are_found() -> None:
    story = told()
    data = encode_rows(TABLES["runs"], [story.run("running")], (), Paths("acme", "dev"))
    file = exchange(story, "runs", data)
    assert (
        f"{file.key} is not a file of runs of this workspace: its column workspace_id is not prod "
        "in every row"
    ) in [p.what for p in problems(story)]


# --- the key index --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def large() -> StoredStory:
    """A closed file that is large enough for a key index."""
    story = StoredStory()
    batches = [story.batch(*_request(number)) for number in range(2_100)]
    for start in range(0, len(batches), 100):
        _ = story.commit(*batches[start : start + 100])
    _ = story.publish()
    return story


def _request(number: int) -> tuple[Any, ...]:
    run = f"run_{number:04d}"
    return (RunRequested(run_id=run, run_key=f"key-{run}", request_fingerprint="fp"),)


INDEXES: dict[str, tuple[Callable[[KeyIndex], KeyIndex], str]] = {
    "filter": (
        lambda i: replace(i, bloom=replace(i.bloom, bits=bytes(len(i.bloom.bits)))),
        "its filter excludes 2100 of the keys that are in the file",
    ),
    "first keys": (
        lambda i: replace(i, first_keys=(("key-run_0001",),)),
        "the first keys of its groups are not those of the file",
    ),
    "parts": (
        lambda i: replace(i, footer=replace(i.footer, start=i.footer.start - 1)),
        "its parts are not those of the file",
    ),
}


@pytest.mark.parametrize("damage", INDEXES)
def test_a_key_index_that_does_not_describe_its_file_is_found(
    large: StoredStory, damage: str
) -> None:
    change, why = INDEXES[damage]
    sound = large.manifest
    (file,) = sound.files("run_key_index", Tier.CLOSED)
    assert file.bloom is not None
    original = large.store.get(file.bloom.key).data
    side = msgspec.json.encode(change(msgspec.json.decode(original, type=KeyIndex)))
    ref = ObjectRef(key=file.bloom.key, size=len(side), sha256=sha256(side).hexdigest())
    _ = large.store.put(ref.key, side)
    with_tables(large, run_key_index=TableFiles(files=(replace(file, bloom=ref),)))
    try:
        found = [p.what for p in problems(large) if p.part is ProblemPart.FILES]
        assert found == [f"{ref.key} is not the key index of {file.key}: {why}"]
    finally:
        _ = large.store.put(ref.key, original)
        reseal(large, sound)


# --- where a manifest stands in the ledger --------------------------------------------------------


@pytest.mark.parametrize(
    "fields",
    [{"applied_ts": START + timedelta(days=9)}, {"applied_epoch": 0}],
    ids=["time", "epoch"],
)
def test_what_a_manifest_says_of_its_entry_is_compared_with_the_entry(
    fields: dict[str, object],
) -> None:
    story = told()
    reseal(story, replace(story.manifest, **fields))
    seq = story.manifest.applied_seq
    what = f"manifest {story.manifest.v} says that the ledger had reached epoch "
    assert any(
        p.part is ProblemPart.MANIFESTS and p.what.startswith(what) and f"entry {seq};" in p.what
        for p in problems(story)
    )


def test_a_manifest_that_stands_on_an_earlier_entry_than_its_rows_is_found() -> None:
    story = told()
    entry, _, digest = story.entries[-2]
    reseal(
        story,
        replace(story.manifest, applied_seq=entry.seq, applied_ts=entry.ts, last_hash=digest),
    )
    assert any("is applied" in p.what for p in problems(story))


def test_a_past_manifest_that_was_sealed_again_breaks_the_chain() -> None:
    story = told()
    second = story.manifests.read(2)
    reseal(story, replace(second, ts=second.ts + HOUR))
    assert (
        "manifest 3 cannot follow manifest 2: a manifest breaks the rule that a manifest names the "
        "hash of the one before"
    ) in [p.what for p in problems(story)]


def test_an_identity_that_changed_while_versions_are_missing_is_found() -> None:
    story = told()
    reseal(story, replace(story.manifest, identity="6b" * 32))
    story.store.delete(story.paths.manifest(story.manifest.v - 1))
    assert "the identity of a workspace never changes" in problems(story)[0].what


# --- entries --------------------------------------------------------------------------------------


def test_the_writer_of_chains_changes_nothing_by_itself() -> None:
    story = told()
    reseal_from(story, 5, lambda entry: entry)
    assert problems(story) == []


@pytest.mark.parametrize("back", [timedelta(0), HOUR])
def test_an_entry_that_is_not_later_than_the_one_before_is_found(back: timedelta) -> None:
    story = told()
    reseal_from(story, 7, lambda entry: replace(entry, ts=story.entries[5][0].ts - back))
    found = problems(story)[0]
    assert found.what.startswith("ledger entry 7 is dated ")
    assert found.runbook == "corrupt-ledger-entry"


@pytest.mark.parametrize("epoch", [1, 2])
def test_a_new_leader_that_wrote_no_fence_is_found(epoch: int) -> None:
    story = told()
    last = story.state.seq
    reseal_from(story, last, lambda entry: replace(entry, epoch=epoch, owner="another"))
    assert (
        f"ledger entry {last} is the first of the owner another in epoch {epoch}, and has batches "
        "instead of being a fence"
    ) in [p.what for p in problems(story)]


def test_a_fence_and_the_dead_entries_of_a_former_leader_are_sound() -> None:
    story = told()
    _ = story.commit(epoch=2)
    _ = story.request("later")
    assert problems(story) == []


# --- runbooks -------------------------------------------------------------------------------------


def test_every_part_has_a_runbook_that_exists() -> None:
    assert set(RUNBOOKS) == set(ProblemPart)
    for name in RUNBOOKS.values():
        assert (ROOT / "docs" / "runbooks" / f"{name}.md").exists()
