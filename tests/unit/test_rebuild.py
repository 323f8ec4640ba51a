"""The projection made again from the ledger, and the workspace as it was at any moment."""

from datetime import timedelta
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from servo.config import Settings
from servo.core.events.runs import PlanSegmentExpanded
from servo.core.events.tasks import TaskOutcome
from servo.core.fold.apply import apply_entry
from servo.core.state.state import State
from servo.errors import Corrupt, NotFound
from servo.projection.read.reader import Snapshot
from servo.projection.read.replay import NOTHING
from servo.projection.read.time_travel import Overlaid, Past, snapshot_at, state_at
from servo.projection.upkeep.compare import Dump, dump
from servo.projection.upkeep.gc import collect
from servo.projection.upkeep.rebuild import newest_intact, objects_of, rebuild
from servo.projection.upkeep.row_diff import RowDiff, row_diffs
from servo.testing.builders import specs
from servo.testing.dumps import dump_snapshot
from servo.testing.workspaces import StoredStory

HOUR = timedelta(hours=1)
DAG = {"a": [], "b": ["a"], "c": ["a"]}


def told(runs: int = 6) -> StoredStory:
    """Runs that succeed, fail, close; publishes and merges between them; one plan by digest."""
    story = StoredStory()
    for number in range(runs):
        run = f"run_{number}"
        _ = story.plan(DAG, run_id=run)
        _ = story.execute(
            "a", TaskOutcome.FAILED if number % 3 == 2 else TaskOutcome.SUCCEEDED, run
        )
        if number % 3 != 2:
            _ = story.execute("b", run_id=run)
        story.wait(minutes=40)
        if number % 2:
            _ = story.publish(close_after=HOUR)
            _ = story.merge()
    digest = story.plan_by_digest(specs({"x": [], "y": ["x"]}), run_id="big")
    _ = story.tell(PlanSegmentExpanded(run_id="big", index=0, digest=digest))
    return story


@cache
def shared() -> StoredStory:
    """One story for tests that only look."""
    return told()


def folded(story: StoredStory, until: int) -> Dump:
    """What the ledger says after an entry, by folding it in memory."""
    state = State(story.state.tenant, story.state.workspace)
    state.plan_segments = dict(story.state.plan_segments)
    for entry, _, digest in story.entries[:until]:
        _ = apply_entry(state, entry, digest)
    return dump(state)


def end_of(story: StoredStory) -> Dump:
    return folded(story, len(story.entries))


# --- rebuild --------------------------------------------------------------------------------------


def test_the_whole_ledger_folds_to_everything() -> None:
    story = told()
    past = rebuild(story.store, story.paths, from_genesis=True)
    assert past.base is NOTHING
    assert dump(past.state) == end_of(story)
    assert (past.state.seq, past.state.last_hash) == (story.state.seq, story.state.last_hash)


def test_behind_the_newest_version_it_folds_to_the_same() -> None:
    story = told()
    past = rebuild(story.store, story.paths, from_genesis=False)
    assert past.base == story.manifests.read(story.manifest.v)
    assert dump_snapshot(Overlaid(story.store, story.paths, past)) == end_of(story)


def test_progress_is_told_entry_by_entry() -> None:
    story = told(2)
    seen: list[int] = []
    _ = rebuild(story.store, story.paths, from_genesis=True, progress=seen.append)
    assert seen == [*range(1, story.state.seq + 1)]


def test_it_works_from_the_archive_alone() -> None:
    story = told()
    _ = story.publish()
    expected = end_of(story)
    story.wait(days=30)
    report = collect(
        story.store,
        story.paths,
        current=story.manifest,
        in_flight=(),
        now=story.now,
        settings=Settings(),
    )
    assert report.entries == story.state.seq
    assert dump(rebuild(story.store, story.paths, from_genesis=True).state) == expected


def test_a_version_with_a_damaged_file_is_passed_over_for_an_older_one() -> None:
    story = told()
    before = story.manifest
    _ = story.publish()
    for ref in objects_of(story.manifest):
        if ref not in list(objects_of(before)):
            _ = story.store.put(ref.key, b"x" * ref.size)
    assert newest_intact(story.store, story.paths).v == before.v
    past = rebuild(story.store, story.paths, from_genesis=False)
    assert past.base.v == before.v
    assert dump_snapshot(Overlaid(story.store, story.paths, past)) == end_of(story)


def test_without_any_intact_version_it_begins_at_the_beginning() -> None:
    story = told()
    for key in story.objects(story.paths.manifest_prefix):
        _ = story.store.put(key, b"{}")
    past = rebuild(story.store, story.paths, from_genesis=False)
    assert past.base is NOTHING
    assert dump(past.state) == end_of(story)


def test_a_hole_in_the_ledger_is_not_its_end() -> None:
    story = told()
    story.store.delete(story.paths.ledger_entry(5))
    with pytest.raises(Corrupt, match="ledger entry 5 is missing, but entry 6 exists; restore"):
        _ = rebuild(story.store, story.paths, from_genesis=True)


def test_a_ledger_that_lost_its_end_is_not_complete() -> None:
    story = told()
    _ = story.publish()
    story.store.delete(story.paths.ledger_entry(story.state.seq))
    with pytest.raises(
        Corrupt, match=r"the ledger ends with entry \d+, but entry \d+ was published"
    ):
        _ = rebuild(story.store, story.paths, from_genesis=True)


def test_a_plan_that_is_gone_is_said_by_the_entry_that_needs_it() -> None:
    story = told()
    for key in story.objects(story.paths.plans_prefix):
        story.store.delete(key)
    with pytest.raises(Corrupt, match=rf"plans/.*, and ledger entry {story.state.seq} needs it"):
        _ = rebuild(story.store, story.paths, from_genesis=True)


# --- what differs ---------------------------------------------------------------------------------


def diffs(story: StoredStory) -> list[RowDiff]:
    past = rebuild(story.store, story.paths, from_genesis=True)
    published = Snapshot(story.store, story.manifest)
    return list(row_diffs(published, Overlaid(story.store, story.paths, past)))


def test_a_published_projection_differs_in_nothing() -> None:
    story = told()
    _ = story.publish(close_after=HOUR)
    assert diffs(story) == []


def test_rows_that_differ_are_named_with_both_values() -> None:
    story = told(2)
    _ = story.publish()
    runs = story.state.runs
    runs.dirty["run_1"] = replace(runs.rows["run_1"], error="forged")
    runs.dirty["big"] = None
    runs.dirty["never"] = replace(runs.rows["big"], run_id="never")
    _ = story.publish()
    found = {diff.key: diff for diff in diffs(story)}
    assert found == {
        ("run_1",): RowDiff(
            table="runs",
            key=("run_1",),
            published=True,
            rebuilt=True,
            columns={"error": ("forged", "")},
        ),
        ("big",): RowDiff(table="runs", key=("big",), published=False, rebuilt=True),
        ("never",): RowDiff(table="runs", key=("never",), published=True, rebuilt=False),
    }


def test_rows_of_runs_that_are_over_are_marked() -> None:
    story = StoredStory()
    _ = story.plan({"a": []})
    _ = story.execute("a")
    _ = story.publish()
    key = ("run_1", story.task("a").task_key)
    story.state.tasks.dirty[key] = replace(story.task("a"), attempt=7)
    _ = story.publish()
    assert [(diff.key, diff.over) for diff in diffs(story)] == [(key, True)]


# --- any moment -----------------------------------------------------------------------------------


@settings(max_examples=15)
@given(st.data())
def test_the_past_is_what_the_ledger_said_then(data: st.DataObject) -> None:
    story = shared()
    seq = data.draw(st.integers(0, story.state.seq))
    snapshot = snapshot_at(story.store, story.paths, seq)
    assert snapshot.applied_seq == seq
    assert dump_snapshot(snapshot) == folded(story, seq)


@settings(max_examples=8)
@given(st.data())
def test_an_instant_is_the_last_entry_at_or_before_it(data: st.DataObject) -> None:
    story = shared()
    seq = data.draw(st.integers(1, story.state.seq))
    ts = story.entries[seq - 1][0].ts
    last = max(entry.seq for entry, _, _ in story.entries if entry.ts <= ts)
    assert state_at(story.store, story.paths, ts).state.seq == last
    assert dump_snapshot(snapshot_at(story.store, story.paths, ts)) == folded(story, last)


def test_an_instant_before_everything_is_empty_and_one_to_come_is_now() -> None:
    story = told(2)
    early = snapshot_at(story.store, story.paths, story.entries[0][0].ts - HOUR)
    assert (early.applied_seq, early.rows("runs")) == (0, [])
    late = snapshot_at(story.store, story.paths, story.now + HOUR)
    assert late.applied_seq == story.state.seq
    assert late.as_of == story.state.ts


def test_an_entry_to_come_is_not_found() -> None:
    story = told(2)
    with pytest.raises(NotFound, match=r"ends with entry \d+ and has no entry 999; use an entry"):
        _ = state_at(story.store, story.paths, 999)


def test_the_nearest_version_is_used_and_only_the_ledger_behind_it_replayed() -> None:
    story = told()
    seen: list[int] = []
    past = state_at(story.store, story.paths, story.manifest.applied_seq + 1, progress=seen.append)
    assert past.base.applied_seq == story.manifest.applied_seq
    assert seen == [story.manifest.applied_seq + 1]


def test_versions_whose_files_are_gone_or_damaged_are_passed_over() -> None:
    story = told()
    names = [ref.key for ref in objects_of(story.manifest)]
    for place, key in enumerate(names):
        if place % 2:
            story.store.delete(key)
        else:
            _ = story.store.put(key, b"nonsense")
    _ = story.store.put(story.paths.manifest(story.manifest.v), b"nonsense")
    seq = story.state.seq
    snapshot = snapshot_at(story.store, story.paths, seq)
    assert dump_snapshot(snapshot) == folded(story, seq)


def test_some_columns_of_the_past_are_the_same_as_all_of_them() -> None:
    story = told()
    snapshot = snapshot_at(story.store, story.paths, story.state.seq)
    some = snapshot.table("tasks", only=["state", "task_key"])
    assert some.to_pylist() == snapshot.table("tasks").select(["state", "task_key"]).to_pylist()
    assert some.schema.names == ["state", "task_key"]


def test_a_row_that_was_dropped_since_is_not_in_the_past() -> None:
    story = told(2)
    state = rebuild(story.store, story.paths, from_genesis=False)
    state.state.runs.dirty["run_0"] = None
    overlaid = Overlaid(story.store, story.paths, Past(state=state.state, base=state.base))
    assert "run_0" not in [row["run_id"] for row in overlaid.table("runs").to_pylist()]
