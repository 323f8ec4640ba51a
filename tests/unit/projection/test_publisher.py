"""Publishing what the fold made: what is written, what is kept, and what every failure leaves."""

from collections.abc import Sequence
from datetime import timedelta

import pytest
from msgspec.structs import replace

from servo.core.manifest import Manifest, Tier, encode, first_claim, next_claim, referenced
from servo.core.state.state import State
from servo.errors import Fenced, Internal, Unavailable
from servo.ledger.paths import Paths
from servo.ports.object_store import ObjectMeta, ObjectStore
from servo.projection.files.manifest_store import ManifestStore
from servo.projection.files.segment_store import Objects, one_by_one
from servo.projection.publish.capture import PendingPublish
from servo.projection.publish.merge import MergeResult
from servo.projection.publish.publisher import Publisher
from servo.projection.read.cold import ColdRows
from servo.projection.read.load import load_state
from servo.projection.read.reader import Snapshot
from servo.projection.upkeep.compare import differences, dump
from servo.storage.memory import MemoryStore
from servo.testing.builders import START, Story, task_key
from servo.testing.clock import CountingEntropy, ManualClock
from servo.testing.dumps import dump_snapshot

PATHS = Paths("acme", "prod")
HOUR = timedelta(hours=1)


class Watched(MemoryStore):
    """Records what is written and deleted, and fails on command."""

    def __init__(self) -> None:
        super().__init__(ManualClock())
        self.written: list[str] = []
        self.deleted: list[str] = []
        self.fail_puts = 0
        self.create_error: Unavailable | None = None

    def put(self, key: str, data: bytes) -> ObjectMeta:
        if self.fail_puts:
            self.fail_puts -= 1
            raise Unavailable("timed out", may_have_applied=True)
        self.written.append(key)
        return super().put(key, data)

    def create(self, key: str, data: bytes) -> ObjectMeta:
        if self.create_error is not None:
            raise self.create_error
        self.written.append(key)
        return super().create(key, data)

    def delete(self, key: str) -> None:
        self.deleted.append(key)
        super().delete(key)


class Desk:
    """A leader's publisher with its store, and the manifest it stands on."""

    def __init__(self) -> None:
        self.store = Watched()
        self.cold = ColdRows(self.store)
        self.publisher = Publisher(self.store, PATHS, CountingEntropy(), cold=self.cold)
        claim = first_claim(identity="ab" * 16, owner="me", nonce="first", ts=START)
        self.manifest: Manifest = encode(claim)[1]
        assert ManifestStore(self.store, PATHS).create(self.manifest) is None
        self.store.written.clear()

    def capture(self, story: Story, max_rows: int = 1000) -> PendingPublish | None:
        return self.publisher.capture(
            story.state, now=story.now, close_after=HOUR, max_rows=max_rows
        )

    def write(self, capture: PendingPublish | None, merges: Sequence[MergeResult] = ()) -> None:
        self.manifest = self.publisher.write(
            capture,
            self.manifest,
            epoch=1,
            owner="me",
            nonce=f"n{self.manifest.v + 1}",
            ts=START,
            merges=merges,
        )

    def publish(self, story: Story, max_rows: int = 1000) -> PendingPublish:
        capture = self.capture(story, max_rows)
        assert capture is not None
        self.write(capture)
        self.publisher.release(story.state, capture)
        return capture

    def loaded(self) -> State:
        return load_state(self.store, self.manifest, "acme", "prod")

    def snapshot(self) -> Snapshot:
        return Snapshot(self.store, self.manifest)


def told() -> Story:
    """A run of two tasks, finished, and another one under way."""
    story = Story()
    _ = story.plan({"a": [], "b": ["a"]})
    _ = story.execute("a")
    _ = story.execute("b")
    _ = story.plan({"a": [], "b": ["a"]}, run_id="run_2")
    _ = story.execute("a", run_id="run_2")
    return story


# --- what is published ----------------------------------------------------------------------------


def test_readers_see_what_the_fold_made() -> None:
    desk, story = Desk(), told()
    before = dump(story.state)
    _ = desk.publish(story)
    assert differences(before, dump_snapshot(desk.snapshot())) == []
    assert desk.snapshot().applied_seq == story.state.seq


def test_a_leader_loads_what_was_alive_and_where_the_ledger_stood() -> None:
    desk, story = Desk(), told()
    _ = desk.publish(story)
    loaded = desk.loaded()
    assert dump(loaded) == dump(story.state)
    assert (loaded.seq, loaded.epoch) == (story.state.seq, story.state.epoch)
    assert (loaded.ts, loaded.last_hash) == (story.state.ts, story.state.last_hash)
    assert loaded.index.runs_active == {"run_2": None}
    assert not any(table.dirty for table in loaded.tables.values())


def test_one_file_is_written_for_every_changed_table_and_then_the_manifest() -> None:
    desk, story = Desk(), told()
    _ = desk.publish(story)
    desk.store.written.clear()
    _ = story.execute("b", run_id="run_2")
    capture = desk.publish(story)
    *files, manifest = desk.store.written
    assert len(files) == len(capture.changed)
    assert manifest == PATHS.manifest(desk.manifest.v)
    assert set(files) < set(referenced(desk.manifest))


def test_a_publish_writes_the_rows_that_changed_and_no_others() -> None:
    desk, story = Desk(), told()
    _ = desk.publish(story)
    _ = story.dispatch("b", run_id="run_2")
    _ = desk.publish(story)
    newest = desk.manifest.files("tasks", Tier.ACTIVE)[-1]
    assert (newest.rows, newest.level, newest.tombstones) == (1, 0, 0)
    assert newest.min_key == newest.max_key == ("run_2", task_key("b"))
    assert newest.min_seq == newest.max_seq == story.state.seq


def test_nothing_is_published_while_nothing_changes() -> None:
    desk, story = Desk(), told()
    _ = desk.publish(story)
    assert desk.capture(story) is None
    story.wait(days=30)
    run = story.run("run_2")
    assert run.finished_at is None


def test_an_entry_without_rows_is_published_as_progress() -> None:
    desk, story = Desk(), told()
    _ = desk.publish(story)
    story.state.seq += 1  # a dead entry of a former leader only takes up its number
    capture = desk.publish(story)
    assert capture.changed == {}
    assert desk.manifest.applied_seq == story.state.seq


def test_changes_are_taken_whole_however_many_there_are() -> None:
    desk, story = Desk(), told()
    before = dump(story.state)
    _ = desk.publish(story, max_rows=1)
    assert differences(before, dump_snapshot(desk.snapshot())) == []


# --- what leaves memory ---------------------------------------------------------------------------


def test_rows_that_are_only_asked_by_key_leave_memory_once_published() -> None:
    desk, story = Desk(), told()
    keys = list(story.state.run_keys.rows)
    rows = list(story.state.run_keys.values())
    _ = desk.publish(story)
    assert len(story.state.run_keys) == len(story.state.ledger_index) == 0
    assert desk.cold.fetch(desk.manifest, "run_key_index", keys) == rows
    assert desk.manifest.files("run_key_index", Tier.ACTIVE) == ()


def test_a_row_that_changed_during_the_publish_stays() -> None:
    desk, story = Desk(), told()
    capture = desk.capture(story)
    _ = story.request("run_3")
    desk.write(capture)
    assert capture is not None
    desk.publisher.release(story.state, capture)
    assert list(story.state.run_keys.rows) == ["key-run_3"]


def closed(desk: Desk, story: Story) -> None:
    _ = desk.publish(story)
    story.wait(hours=2)
    _ = desk.publish(story)


def bring_back(desk: Desk, story: Story, table: str, key: object) -> None:
    story.state.hydrate(table, desk.cold.fetch(desk.manifest, table, [key]))
    assert key in story.state.tables[table]


def test_a_run_that_is_over_for_an_hour_moves_to_the_closed_tier() -> None:
    desk, story = Desk(), told()
    before = dump(story.state)
    run, task = story.run(), story.task("a")
    closed(desk, story)
    assert list(story.state.runs.rows) == ["run_2"]
    assert {key[0] for key in story.state.tasks.rows} == {"run_2"}
    assert {key[0] for key in story.state.edges.rows} == {"run_2"}
    assert {row.run_id for row in story.state.outbox.values()} <= {"run_2"}
    assert dump(desk.loaded()) == dump(story.state)
    assert differences(before, dump_snapshot(desk.snapshot())) == []
    assert desk.cold.fetch(desk.manifest, "runs", ["run_1"]) == [run]
    assert desk.cold.fetch(desk.manifest, "tasks", [("run_1", task_key("a"))]) == [task]


def test_a_run_is_not_closed_a_moment_too_early() -> None:
    desk, story = Desk(), told()
    _ = desk.publish(story)
    finished = story.run().finished_at
    assert finished is not None
    assert desk.publisher.next_closing(HOUR) == finished + HOUR
    story.now = finished + HOUR - timedelta(microseconds=1)
    assert desk.capture(story) is None
    story.now = finished + HOUR
    capture = desk.capture(story)
    assert capture is not None
    assert [run.run_id for run in capture.closing] == ["run_1"]


def test_a_run_whose_rows_are_not_published_yet_is_not_closed() -> None:
    desk, story = Desk(), told()
    story.wait(hours=2)
    assert desk.publish(story).closing == ()
    assert [run.run_id for run in desk.publish(story).closing] == ["run_1"]


def test_a_large_run_moves_in_parts_and_its_own_row_first() -> None:
    desk, story = Desk(), Story()
    _ = story.plan({f"t{number}": [] for number in range(5)})
    for number in range(5):
        _ = story.execute(f"t{number}")
    before = dump(story.state)
    _ = desk.publish(story)
    story.wait(hours=2)
    _ = desk.publish(story, max_rows=3)
    assert len(story.state.runs) == 0
    assert len(story.state.tasks) == 3
    assert dump(desk.loaded()) == dump(story.state)
    _ = desk.publish(story, max_rows=3)
    assert len(story.state.tasks) == 0
    assert dump(desk.loaded()) == dump(story.state)
    assert differences(before, dump_snapshot(desk.snapshot())) == []


def test_a_start_in_the_middle_of_a_large_runs_move_ends_it() -> None:
    desk, story = Desk(), Story()
    _ = story.plan({f"t{number}": [] for number in range(5)})
    for number in range(5):
        _ = story.execute(f"t{number}")
    before = dump(story.state)
    _ = desk.publish(story)
    story.wait(hours=2)
    _ = desk.publish(story, max_rows=3)
    story.state = desk.loaded()
    desk.publisher = Publisher(desk.store, PATHS, CountingEntropy(), cold=desk.cold)
    story.wait(hours=2)
    _ = desk.publish(story)
    assert len(story.state.tasks) == 0
    assert differences(before, dump_snapshot(desk.snapshot())) == []


def test_a_run_that_changes_while_it_is_closing_stays_and_is_closed_again() -> None:
    desk, story = Desk(), told()
    _ = desk.publish(story)
    story.wait(hours=2)
    capture = desk.capture(story)
    assert capture is not None
    late = replace(story.task("a"), worker_id="late", row_version=story.state.seq + 1)
    story.state.seq += 1
    story.state.tasks.put(("run_1", task_key("a")), late)
    story.state.seal()
    desk.write(capture)
    desk.publisher.release(story.state, capture)
    assert "run_1" in story.state.runs
    _ = desk.publish(story)
    _ = desk.publish(story)
    assert "run_1" not in story.state.runs
    assert desk.cold.fetch(desk.manifest, "tasks", [("run_1", task_key("a"))]) == [late]
    assert dump(desk.loaded()) == dump(story.state)


def test_a_run_that_was_looked_up_and_not_changed_leaves_again_without_being_written() -> None:
    desk, story = Desk(), told()
    closed(desk, story)
    key = ("run_1", task_key("a"))
    bring_back(desk, story, "runs", "run_1")
    bring_back(desk, story, "tasks", key)
    bring_back(desk, story, "run_key_index", "key-run_1")
    desk.store.written.clear()
    assert desk.capture(story) is None
    assert "run_1" not in story.state.runs
    assert key not in story.state.tasks
    assert len(story.state.run_keys) == 0
    assert desk.store.written == []


def test_a_row_that_came_back_and_changed_is_found_in_its_new_form() -> None:
    desk, story = Desk(), told()
    closed(desk, story)
    key = ("run_1", task_key("a"))
    bring_back(desk, story, "runs", "run_1")
    bring_back(desk, story, "tasks", key)
    story.state.seq += 1
    late = replace(story.state.tasks.rows[key], error_code="late", row_version=story.state.seq)
    story.state.tasks.put(key, late)
    story.state.seal()
    _ = desk.publish(story)
    assert late in desk.snapshot().rows("tasks")
    assert len(desk.snapshot().rows("tasks")) == 4
    _ = desk.publish(story)
    assert "run_1" not in story.state.runs
    assert desk.cold.fetch(desk.manifest, "tasks", [key]) == [late]


def test_a_row_that_came_back_and_was_dropped_is_found_nowhere() -> None:
    desk, story = Desk(), told()
    closed(desk, story)
    key = ("run_1", task_key("a"))
    bring_back(desk, story, "runs", "run_1")
    bring_back(desk, story, "tasks", key)
    story.state.seq += 1
    story.state.tasks.drop(key)
    story.state.seal()
    _ = desk.publish(story)
    assert len(desk.snapshot().rows("tasks")) == 3
    assert key not in desk.loaded().tasks
    assert desk.cold.fetch(desk.manifest, "tasks", [key]) == []


# --- failures -------------------------------------------------------------------------------------


def test_a_leader_that_lost_the_slot_is_fenced_and_deletes_nothing() -> None:
    desk, story = Desk(), told()
    rival = next_claim(desk.manifest, owner="rival", nonce="r", ts=START)
    assert ManifestStore(desk.store, PATHS).create(rival) is None
    with pytest.raises(Fenced, match="manifest 2"):
        desk.write(desk.capture(story))
    assert desk.store.deleted == []


def test_a_manifest_that_cannot_follow_is_not_written() -> None:
    desk, story = Desk(), told()
    capture = desk.capture(story)
    for epoch, owner in ((3, "me"), (2, "me"), (1, "somebody")):
        with pytest.raises(Internal, match="a manifest breaks the rule"):
            _ = desk.publisher.write(
                capture, desk.manifest, epoch=epoch, owner=owner, nonce="n", ts=START
            )
    assert ManifestStore(desk.store, PATHS).latest() == desk.manifest


def test_an_unknown_outcome_says_so_and_deletes_nothing() -> None:
    desk, story = Desk(), told()
    desk.store.create_error = Unavailable("timed out", may_have_applied=True)
    with pytest.raises(Unavailable) as caught:
        desk.write(desk.capture(story))
    assert caught.value.may_have_applied
    assert desk.store.deleted == []


def test_a_file_that_cannot_be_written_is_a_certain_failure() -> None:
    desk, story = Desk(), told()
    capture = desk.capture(story)
    desk.store.fail_puts = 3
    with pytest.raises(Unavailable) as caught:
        desk.write(capture)
    assert not caught.value.may_have_applied
    assert ManifestStore(desk.store, PATHS).latest() == desk.manifest


def test_a_file_is_written_again_when_the_store_did_not_answer() -> None:
    desk, story = Desk(), told()
    before = dump(story.state)
    desk.store.fail_puts = 2
    _ = desk.publish(story)
    assert differences(before, dump_snapshot(desk.snapshot())) == []


def test_after_a_certain_failure_everything_is_published_by_the_next_try() -> None:
    desk, story = Desk(), told()
    _ = desk.publish(story)
    story.wait(hours=2)
    _ = story.dispatch("b", run_id="run_2")
    capture = desk.capture(story)
    assert capture is not None
    assert capture.closing
    desk.store.create_error = Unavailable("disk full", may_have_applied=False)
    with pytest.raises(Unavailable):
        desk.write(capture)
    desk.store.create_error = None
    _ = story.claim("b", run_id="run_2")
    newer = story.task("b", "run_2")
    desk.publisher.restore(story.state, capture)
    assert story.state.tasks.dirty[("run_2", task_key("b"))] is newer
    before = dump(story.state)
    _ = desk.publish(story)
    after = dump_snapshot(desk.snapshot())
    assert [line for line in differences(before, after) if "only on the left" in line] == []
    assert dump(desk.loaded()) == dump(story.state)
    assert "run_1" not in story.state.runs


def test_a_failure_that_found_nothing_changed_is_tried_again() -> None:
    desk, story = Desk(), told()
    _ = desk.publish(story)
    story.state.seq += 1
    capture = desk.capture(story)
    assert capture is not None
    desk.publisher.restore(story.state, capture)
    assert desk.capture(story) is not None


def test_a_second_capture_before_the_first_is_settled_is_a_bug() -> None:
    desk, story = Desk(), told()
    capture = desk.capture(story)
    assert capture is not None
    with pytest.raises(Internal):
        _ = desk.capture(story)
    desk.publisher.release(story.state, capture)
    with pytest.raises(Internal):
        desk.publisher.release(story.state, capture)


def test_a_capture_in_the_middle_of_an_entry_is_a_bug() -> None:
    desk, story = Desk(), told()
    story.state.runs.put("run_1", story.run())
    with pytest.raises(Internal, match="between entries"):
        _ = desk.capture(story)


# --- merging and uploading ------------------------------------------------------------------------


def test_merged_files_take_the_place_of_their_inputs() -> None:
    desk, story = Desk(), Story()
    _ = story.plan({f"t{number}": [] for number in range(9)})
    _ = desk.publish(story)
    for number in range(9):
        _ = story.execute(f"t{number}")
        _ = desk.publish(story)
    before = dump_snapshot(desk.snapshot())
    unmerged = desk.manifest
    taken: list[str] = []
    while (plan := desk.publisher.plan_merge(desk.manifest, taken)) is not None:
        result = desk.publisher.merge(plan)
        taken.extend(result.inputs)
        desk.write(None, [result])
    assert dump_snapshot(desk.snapshot()) == before
    assert dump(desk.loaded()) == dump(story.state)
    assert len(list(referenced(desk.manifest))) < len(list(referenced(unmerged)))
    assert desk.manifest.applied_seq == unmerged.applied_seq
    assert all(len(held.files) < 8 for held in desk.manifest.tables.values())


def test_a_merge_whose_inputs_are_gone_is_left_out() -> None:
    desk, story = Desk(), Story()
    _ = story.plan({f"t{number}": [] for number in range(9)})
    _ = desk.publish(story)
    for number in range(8):
        _ = story.execute(f"t{number}")
        _ = desk.publish(story)
    plan = desk.publisher.plan_merge(desk.manifest)
    assert plan is not None
    first, second = desk.publisher.merge(plan), desk.publisher.merge(plan)
    assert first.output is not None
    assert second.output is not None
    assert first.output.key != second.output.key
    desk.write(None, [first, second])
    named = list(referenced(desk.manifest))
    assert first.output.key in named
    assert second.output.key not in named


def test_all_files_of_a_publish_are_handed_over_together() -> None:
    desk, story = Desk(), told()
    batches: list[list[str]] = []

    def at_once(store: ObjectStore, objects: Objects) -> None:
        batches.append([key for key, _ in objects])
        one_by_one(store, objects)

    desk.publisher = Publisher(desk.store, PATHS, CountingEntropy(), uploads=at_once)
    capture = desk.publish(story)
    assert [len(batch) for batch in batches] == [len(capture.changed)]
