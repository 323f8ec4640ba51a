"""Garbage is deleted, and nothing else."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from servo.config import Settings
from servo.core.manifest import encode, next_claim, referenced
from servo.errors import Conflict, Fenced, NotFound
from servo.ledger.reader import LedgerReader
from servo.projection.read.reader import Snapshot
from servo.projection.upkeep.gc import Collector, GcReport, collect
from servo.projection.upkeep.orphans import delete_plans, orphaned_plans
from servo.projection.upkeep.pins import Pin, pin, read_pins
from servo.projection.upkeep.verify import verify
from servo.testing.builders import specs
from servo.testing.workspaces import StoredStory

DAY = timedelta(days=1)

# The newest and the one before are kept; nothing by hour or by day.
SHORT = Settings(
    keep_all_for=timedelta(hours=2),
    keep_hourly_for=timedelta(0),
    keep_daily_for=timedelta(0),
    gc_min_age=timedelta(hours=2),
    archive_after=timedelta(hours=4),
)
OLD = 3.5  # hours: older than any age in SHORT but that of the archive


def collected(story: StoredStory, settings: Settings = SHORT, **options: Any) -> GcReport:
    values: dict[str, Any] = {"in_flight": (), "now": story.now, **options}
    return collect(story.store, story.paths, current=story.manifest, settings=settings, **values)


def busy(count: int = 6, **wait: float) -> StoredStory:
    """A workspace that published a run and merged, again and again."""
    story = StoredStory()
    for number in range(count):
        _ = story.plan({"a": []}, run_id=f"run_{number}")
        _ = story.publish()
        _ = story.merge()
        story.wait(**wait)
    return story


def files(story: StoredStory) -> set[str]:
    return set(story.objects(story.paths.state_prefix))


def missing(story: StoredStory) -> dict[int, set[str]]:
    """What kept versions name and the store does not have."""
    stored = files(story)
    kept = {v: set(referenced(story.manifests.read(v))) for v in story.manifests.versions()}
    return {v: named - stored for v, named in kept.items() if named - stored}


# --- what goes and what stays ---------------------------------------------------------------------


def test_what_only_dropped_versions_named_is_deleted() -> None:
    story = busy()
    story.wait(hours=OLD)
    assert len(files(story)) > len(set(referenced(story.manifest)))
    report = collected(story)
    newest, previous = story.manifest.v, story.manifest.v - 1
    assert story.manifests.versions() == [previous, newest]
    kept = {name for v in (previous, newest) for name in referenced(story.manifests.read(v))}
    assert files(story) == kept
    assert report.manifests == newest - 2
    assert report.files > 0
    assert report.bytes > 0
    assert not report.problems
    assert verify(story.store, story.paths).sound


def test_nothing_is_deleted_before_its_time() -> None:
    story = busy(minutes=1)
    before = story.objects()
    assert collected(story) == GcReport()
    assert story.objects() == before


def test_a_second_round_finds_nothing() -> None:
    story = busy()
    story.wait(hours=OLD)
    assert collected(story).files
    assert collected(story) == GcReport()


def test_a_dry_run_says_what_would_go_and_deletes_nothing() -> None:
    story = busy()
    story.wait(hours=OLD)
    before = story.objects()
    said = collected(story, dry_run=True)
    assert [key for key in story.objects() if key in before] == before
    done = collected(story)
    assert (said.manifests, said.files, said.deleted) == (done.manifests, done.files, done.deleted)


def test_files_of_a_version_that_is_kept_for_its_hour_stay() -> None:
    story = busy(5, minutes=30)
    hourly = replace(SHORT, keep_hourly_for=30 * DAY)
    story.wait(hours=OLD)
    _ = collected(story, hourly)
    assert len(story.manifests.versions()) > 2
    assert missing(story) == {}
    for v in story.manifests.versions():
        _ = Snapshot(story.store, story.manifests.read(v)).rows("runs")


def test_a_file_in_flight_stays_however_old() -> None:
    story = busy(1)
    key = story.paths.state_file("runs", "on-its-way.parquet")
    _ = story.store.put(key, b"rows")
    story.wait(hours=OLD)
    _ = collected(story, in_flight=[key])
    assert key in files(story)
    _ = collected(story)
    assert key not in files(story)


def merge_late(story: StoredStory, minutes: int) -> None:
    """Write a merged file and name it only after a while."""
    plan = story.publisher.plan_merge(story.manifest)
    if plan is not None:
        merged = story.publisher.merge(plan)
        story.wait(minutes=minutes)
        _ = story.publish(merges=[merged])


def test_a_file_that_was_named_late_stays_as_long_as_a_version_names_it() -> None:
    """Named almost half of the least age after it was written, and merged away at once."""
    story = busy(2)
    for number in range(2):
        _ = story.plan({"a": []}, run_id=f"more_{number}")
        _ = story.publish()
    before = files(story)
    merge_late(story, minutes=59)
    late, written = story.manifest, files(story) - before
    for number in range(4):
        _ = story.plan({"a": []}, run_id=f"later_{number}")
        _ = story.publish()
        _ = story.merge()
    merged_away = written & set(referenced(late)) - set(referenced(story.manifest))
    assert merged_away
    while late.v in story.manifests.versions():
        assert missing(story) == {}
        story.wait(minutes=7)
        _ = collected(story)
    story.wait(hours=OLD)
    _ = collected(story)
    assert not merged_away & files(story)


def test_the_ledger_is_not_garbage() -> None:
    story = busy()
    before = story.objects(story.paths.ledger_prefix)
    story.wait(hours=OLD)
    _ = collected(story)
    assert story.objects(story.paths.ledger_prefix) == before


def test_a_plan_is_not_garbage_for_a_leader() -> None:
    story = busy()
    _ = story.store.put(story.paths.plan("ab" * 32), b"{}")
    story.wait(days=400)
    _ = collected(story)
    assert story.objects(story.paths.plans_prefix)


# --- clocks ---------------------------------------------------------------------------------------


def test_a_clock_that_is_ahead_deletes_nothing_early() -> None:
    story = busy(minutes=1)
    before = story.objects()
    ahead = collected(story, now=story.now + 30 * DAY)
    assert ahead == GcReport()
    assert [key for key in story.objects() if key in before] == before


def test_a_clock_that_is_behind_deletes_late_and_not_never() -> None:
    story = busy()
    story.wait(hours=OLD)
    behind = story.now - 2 * DAY
    assert not collected(story, now=behind).files  # all that was seen was written long ago
    _ = story.plan({"a": []}, run_id="new")
    _ = story.publish()
    assert collected(story, now=behind).files


def test_a_workspace_where_nothing_happens_is_written_to_only_to_learn_the_time() -> None:
    story = busy(1)
    before = story.objects()
    story.wait(hours=1)
    marked = replace(SHORT, gc_min_age=timedelta(hours=8))
    _ = collected(story, marked)
    assert story.objects() == before
    story.wait(hours=OLD)
    _ = collected(story, marked)
    assert set(story.objects()) - set(before) == {"acme/prod/gc/orchestration.json"}


# --- pins -----------------------------------------------------------------------------------------


def test_a_pinned_version_keeps_its_files_until_the_pin_expires() -> None:
    story = busy(3)
    held = story.manifest
    pin(story.store, story.paths, Pin(id="audit", v=held.v, expires=story.now + DAY))
    for number in range(3):
        _ = story.plan({"a": []}, run_id=f"more_{number}")
        _ = story.publish()
        _ = story.merge()
    story.wait(hours=OLD)
    _ = collected(story)
    assert held.v in story.manifests.versions()
    assert missing(story) == {}
    story.wait(days=2)
    report = collected(story)
    assert held.v not in story.manifests.versions()
    assert report.pins == 1
    assert not read_pins(story.store, story.paths)


def test_a_version_that_is_gone_cannot_be_pinned() -> None:
    story = busy()
    story.wait(hours=OLD)
    _ = collected(story)
    wanted = Pin(id="audit", v=1, expires=story.now + DAY)
    with pytest.raises(NotFound, match=r"version 1 .* has been deleted; pin a version"):
        pin(story.store, story.paths, wanted)
    assert not read_pins(story.store, story.paths)


def test_a_pin_is_let_go_by_its_name_and_cannot_be_taken_twice() -> None:
    story = busy(1)
    wanted = Pin(id="audit", v=1, expires=story.now + DAY)
    pin(story.store, story.paths, wanted)
    with pytest.raises(Conflict):
        pin(story.store, story.paths, wanted)
    story.store.delete(story.paths.pin("audit"))
    assert not read_pins(story.store, story.paths)


def test_nothing_is_collected_while_a_pin_cannot_be_read() -> None:
    story = busy()
    _ = story.store.put(story.paths.pin("audit"), b"{")
    story.wait(hours=OLD)
    before = story.objects()
    report = collected(story)
    assert "delete or rewrite it" in report.problems[0]
    assert [key for key in story.objects() if key in before] == before


# --- what could go wrong --------------------------------------------------------------------------


def test_no_file_is_deleted_while_a_kept_version_cannot_be_read() -> None:
    story = busy(5, minutes=30)
    hourly = replace(SHORT, keep_hourly_for=30 * DAY)
    story.wait(hours=OLD)
    before = files(story)
    key = story.paths.manifest(story.manifest.v - 1)
    _ = story.store.put(key, story.store.get(key).data[:-1])
    # Written again just now, so it is young; let it age like the others.
    story.wait(hours=OLD)
    report = collected(story, hourly)
    assert "is damaged" in report.problems[0]
    assert files(story) == before


def test_a_leader_that_was_replaced_deletes_nothing() -> None:
    story = busy()
    story.wait(hours=OLD)
    stolen = next_claim(story.manifest, owner="owner-2", nonce="n", ts=story.now)
    _ = story.manifests.create(encode(stolen)[1])
    before = story.objects()
    with pytest.raises(Fenced, match="nothing was deleted"):
        _ = collected(story)
    assert story.objects() == before


def test_a_latecomer_among_the_manifests_goes_after_its_day() -> None:
    story = busy()
    story.wait(hours=OLD)
    _ = collected(story)
    late = story.manifests.read(story.manifest.v - 1)
    _ = story.store.create(story.paths.manifest(1), encode(replace(late, v=1))[0])
    _ = collected(story, replace(SHORT, keep_hourly_for=30 * DAY))
    assert 1 in story.manifests.versions()
    story.wait(hours=OLD)
    _ = collected(story, replace(SHORT, keep_hourly_for=30 * DAY))
    assert 1 not in story.manifests.versions()


def test_a_step_does_a_bounded_part_and_the_steps_together_all() -> None:
    whole, parts = busy(9), busy(9)
    for story in (whole, parts):
        story.wait(hours=OLD)
    done = collected(whole)
    collector = Collector(parts.store, parts.paths, SHORT, limit=3)
    report, steps = GcReport(more=True), 0
    while report.more:
        step = collector.step(current=parts.manifest, in_flight=(), now=parts.now)
        assert step.manifests <= 3
        assert step.files <= 3
        report, steps = report + step, steps + 1
    assert steps > 3
    assert (report.manifests, report.files) == (done.manifests, done.files)
    assert parts.objects() == whole.objects()


def test_a_crash_after_any_delete_leaves_a_sound_workspace() -> None:
    for limit in range(1, 6):
        story = busy(5)
        story.wait(hours=OLD)
        collector = Collector(story.store, story.paths, SHORT, limit=limit)
        _ = collector.step(current=story.manifest, in_flight=(), now=story.now)
        assert missing(story) == {}
        assert collected(story).problems == ()
        assert verify(story.store, story.paths).sound


# --- the ledger -----------------------------------------------------------------------------------


def test_old_entries_are_archived_and_their_hot_copies_deleted() -> None:
    story = busy()
    count = story.state.seq
    story.wait(days=2)
    report = collected(story)
    assert (report.packed, report.entries) == (count, count)
    assert story.objects(story.paths.ledger_prefix) == []
    assert len(story.objects(story.paths.archive_prefix)) == 1
    assert len(list(LedgerReader(story.store, story.paths).forward(0))) == count
    assert verify(story.store, story.paths).sound


def test_entries_stay_hot_for_their_time_and_until_there_are_enough() -> None:
    story = busy()
    story.wait(hours=27)  # archived after 4 hours, and a day more while they are few
    assert collected(story).packed == 0
    story.wait(hours=2)
    assert collected(story).packed == story.state.seq


def test_entries_that_a_version_of_the_last_day_builds_on_stay_hot() -> None:
    story = busy(3)
    began = story.manifest.applied_seq
    for number in range(3):
        _ = story.plan({"a": []}, run_id=f"new_{number}")
    story.wait(days=2)
    _ = story.publish()
    _ = collected(story)
    hot = story.objects(story.paths.ledger_prefix)
    assert hot == [story.paths.ledger_entry(began + n) for n in (1, 2, 3)]


def test_the_ledger_goes_on_after_it_was_archived() -> None:
    story = busy(3)
    for day in range(5):
        story.wait(days=1)
        _ = story.plan({"a": []}, run_id=f"day_{day}")
        _ = story.publish()
        assert collected(story).problems == ()
    assert len(list(LedgerReader(story.store, story.paths).forward(0))) == story.state.seq
    assert verify(story.store, story.paths).sound


# --- plans ----------------------------------------------------------------------------------------


def test_a_plan_is_an_orphan_when_nothing_in_the_ledger_names_it() -> None:
    story = busy(1)
    named = story.paths.plan(story.plan_by_digest(specs({"x": []}), run_id="big"))
    orphan, young = story.paths.plan("ab" * 32), story.paths.plan("cd" * 32)
    _ = story.store.put(orphan, b"{}")
    story.wait(days=2)
    _ = story.store.put(young, b"{}")
    found = orphaned_plans(
        story.store, story.paths, older_than=story.now - DAY, through=story.state.seq
    )
    assert [meta.key for meta in found] == [orphan]
    assert delete_plans(story.store, found, older_than=story.now - DAY) == 1
    assert story.objects(story.paths.plans_prefix) == sorted([named, young])


def test_a_plan_that_waits_in_the_inbox_to_be_named_is_no_orphan() -> None:
    story = busy(1)
    _ = story.store.put(story.paths.plan("ab" * 32), b"{}")
    _ = story.store.put(story.paths.inbox_item("01"), b'{"digest":"' + b"ab" * 32 + b'"}')
    story.wait(days=2)
    assert not orphaned_plans(
        story.store, story.paths, older_than=story.now, through=story.state.seq
    )


def test_a_plan_that_was_stored_again_meanwhile_is_not_deleted() -> None:
    story = busy(1)
    key = story.paths.plan("ab" * 32)
    _ = story.store.put(key, b"{}")
    story.wait(days=2)
    limit = story.now - DAY
    found = orphaned_plans(story.store, story.paths, older_than=limit, through=story.state.seq)
    _ = story.store.put(key, b"{}")
    assert delete_plans(story.store, found, older_than=limit) == 0


def test_no_plan_is_an_orphan_of_a_ledger_with_a_hole() -> None:
    story = busy(3)
    _ = story.store.put(story.paths.plan("ab" * 32), b"{}")
    story.store.delete(story.paths.ledger_entry(2))
    story.wait(days=2)
    with pytest.raises(Exception, match="ledger entry 2 is missing"):
        _ = orphaned_plans(story.store, story.paths, older_than=story.now, through=story.state.seq)


# --- all together ---------------------------------------------------------------------------------

_ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("run"), st.just(0)),
        st.tuples(st.just("publish"), st.just(0)),
        st.tuples(st.just("merge"), st.sampled_from([0, 20, 59])),
        st.tuples(st.just("wait"), st.sampled_from([1, 30, 59, 90, 125, 600, 3_000])),
        st.tuples(st.just("gc"), st.just(0)),
        st.tuples(st.just("pin"), st.integers(0, 5)),
    ),
    max_size=40,
)


@given(_ACTIONS)
def test_whatever_happens_every_kept_version_has_its_files_and_the_ledger_its_entries(
    actions: list[tuple[str, int]],
) -> None:
    story = StoredStory()
    for number, (action, amount) in enumerate(actions):
        match action:
            case "run":
                _ = story.plan({"a": []}, run_id=f"run_{number}")
            case "publish":
                _ = story.publish()
            case "merge":
                merge_late(story, minutes=amount)
            case "wait":
                story.wait(minutes=amount)
            case "pin":
                versions = story.manifests.versions()
                v = versions[min(amount, len(versions) - 1)]
                until = story.now + timedelta(hours=amount)
                pin(story.store, story.paths, Pin(id=f"p{number}", v=v, expires=until))
            case _:
                assert collected(story).problems == ()
                assert missing(story) == {}
    assert missing(story) == {}
    assert len(list(LedgerReader(story.store, story.paths).forward(0))) == story.state.seq
    story.wait(days=30)
    _ = collected(story)
    kept = [story.manifests.read(v) for v in story.manifests.versions()]
    assert files(story) == {name for manifest in kept for name in referenced(manifest)}
