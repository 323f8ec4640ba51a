"""Verification finds everything that is wrong, says where, and what to do about it."""

from collections.abc import Callable
from datetime import timedelta
from hashlib import sha256

import pytest
from msgspec.structs import replace

from servo.config import Settings
from servo.core.events.codec import encode_entry
from servo.core.events.dispatch import Handover
from servo.core.events.envelope import Batch, Status, Verdict
from servo.core.events.originals import MAX_INLINE, original_of
from servo.core.events.runs import PlanSegmentExpanded
from servo.core.events.tasks import StoredLog
from servo.core.manifest import Tier, encode, referenced
from servo.projection.upkeep.gc import collect
from servo.projection.upkeep.verify import Problem, ProblemPart, VerifyReport, verify
from servo.testing.archives import archive_range
from servo.testing.builders import specs
from servo.testing.workspaces import StoredStory

HOUR = timedelta(hours=1)


def told() -> StoredStory:
    story = StoredStory()
    for number in range(4):
        _ = story.plan({"a": [], "b": ["a"]}, run_id=f"run_{number}")
        _ = story.execute("a", run_id=f"run_{number}")
        _ = story.execute("b", run_id=f"run_{number}")
        story.wait(minutes=40)
        _ = story.publish(close_after=HOUR)
    digest = story.plan_by_digest(specs({"x": []}), run_id="big")
    _ = story.tell(PlanSegmentExpanded(run_id="big", index=0, digest=digest))
    _ = story.publish(close_after=HOUR)
    return story


def problems(story: StoredStory) -> tuple[Problem, ...]:
    return verify(story.store, story.paths).problems


def flip(story: StoredStory, key: str) -> None:
    """Change one bit in the middle of an object."""
    data = bytearray(story.store.get(key).data)
    data[len(data) // 2] ^= 4
    _ = story.store.put(key, bytes(data))


def test_a_sound_workspace_is_sound_and_counted() -> None:
    story = told()
    report = verify(story.store, story.paths)
    assert report == VerifyReport(
        entries=story.state.seq,
        manifests=story.manifest.v,
        files=len(story.objects(story.paths.state_prefix)),
        bytes=sum(meta.size for meta in story.store.list_after(story.paths.state_prefix)),
        plans=1,
        applied_seq=story.state.seq,
        compared=True,
        logs=0,
    )
    assert report.sound


def test_an_empty_workspace_is_sound() -> None:
    story = StoredStory()
    assert verify(story.store, story.paths).sound


def with_log(story: StoredStory, text: bytes) -> str:
    """Let an execution store a log and report it; the key of the log."""
    _ = story.plan({"said": []}, run_id="said")
    _ = story.dispatch("said", "said", handover=Handover(exec_id="e", worker_id="w"))
    key = story.paths.log("said", "said", 1, "e")
    _ = story.store.put(key, text)
    log = StoredLog(key=key, size=len(text), sha256=sha256(text).hexdigest())
    assert story.finish("said", run_id="said", log=log).applied
    _ = story.publish()
    return key


def test_logs_that_were_reported_are_verified() -> None:
    story = told()
    _ = with_log(story, b"hello")
    report = verify(story.store, story.paths)
    assert (report.logs, report.problems) == (1, ())


@pytest.mark.parametrize("stored", [b"hell", b"hullo", b""])
def test_a_log_of_other_bytes_is_found(stored: bytes) -> None:
    story = told()
    key = with_log(story, b"hello")
    _ = story.store.put(key, stored)
    (problem,) = problems(story)
    assert (problem.part, key in problem.what) == (ProblemPart.LOGS, True)
    assert verify(story.store, story.paths, quick=True).sound


def test_a_log_that_is_gone_is_found() -> None:
    story = told()
    key = with_log(story, b"hello")
    story.store.delete(key)
    (problem,) = problems(story)
    assert problem.what == f"the log {key} is missing"


def test_an_archived_workspace_is_sound() -> None:
    story = told()
    story.wait(days=30)
    _ = collect(
        story.store,
        story.paths,
        current=story.manifest,
        in_flight=(),
        now=story.now,
        settings=Settings(),
    )
    report = verify(story.store, story.paths)
    assert (report.sound, report.compared, report.entries) == (True, True, story.state.seq)


def test_progress_is_told_for_every_part() -> None:
    story = told()
    _ = with_log(story, b"hello")
    refused = Verdict(status=Status.REJECTED, code="too_large")
    original = original_of("inbox:1", b"x" * (MAX_INLINE + 1))
    _ = story.commit(Batch(id="b", parkable=True, verdict=refused, original=original))
    seen: dict[ProblemPart, tuple[int, int]] = {}

    def note(part: ProblemPart, done: int, total: int) -> None:
        assert 0 < done <= total
        seen[part] = done, total

    _ = verify(story.store, story.paths, progress=note)
    assert [*seen, ProblemPart.OUTPUTS] == list(ProblemPart)
    assert all(done == total for done, total in seen.values())


# --- the ledger -----------------------------------------------------------------------------------


def test_a_damaged_entry_is_found_and_stops_the_comparison_only() -> None:
    story = told()
    flip(story, story.paths.ledger_entry(3))
    flip(story, story.paths.ledger_entry(7))
    report = verify(story.store, story.paths)
    assert [(p.part, p.what[:27]) for p in report.problems] == [
        (ProblemPart.LEDGER, "ledger entry 3 is damaged: "),
        (ProblemPart.LEDGER, "ledger entry 7 is damaged: "),
    ]
    assert report.problems[0].remedy.startswith("restore this object from a backup")
    assert not report.compared


def test_missing_entries_are_found_as_one_hole() -> None:
    story = told()
    for seq in (3, 4, 5, 9):
        story.store.delete(story.paths.ledger_entry(seq))
    assert [p.what for p in problems(story)] == [
        "ledger entries 3 to 5 are missing",
        "ledger entry 9 is missing",
    ]


def test_an_exchanged_entry_is_found_by_the_chain() -> None:
    story = told()
    entry, _, _ = story.entries[4]
    forged, _ = encode_entry(replace(entry, nonce="forged"), ())
    _ = story.store.put(story.paths.ledger_entry(5), forged)
    assert [p.what for p in problems(story)] == [
        "ledger entry 6 does not continue the chain of hashes",
        "manifest 2 applies entry 5, which is not in this ledger (in the past version 2)",
    ]


def test_an_entry_in_the_wrong_place_is_found() -> None:
    story = told()
    _ = story.store.put(story.paths.ledger_entry(5), story.entries[5][1])
    assert problems(story)[0].what == "the object of ledger entry 5 holds entry 6"


def test_a_damaged_segment_is_found_even_while_the_hot_copies_are_there() -> None:
    story = told()
    key = archive_range(story.store, story.paths, 1, 4)
    assert not problems(story)
    flip(story, key)
    assert key in problems(story)[0].what


def test_a_hot_copy_that_is_not_what_was_archived_is_found() -> None:
    story = told()
    _ = archive_range(story.store, story.paths, 1, 4)
    entry, _, _ = story.entries[1]
    forged, _ = encode_entry(replace(entry, nonce="late"), ())
    _ = story.store.put(story.paths.ledger_entry(2), forged)
    found = [p for p in problems(story) if "was archived" in p.what]
    assert [p.remedy.partition(":")[0] for p in found] == ["delete this object"]


def test_a_ledger_that_lost_its_end_is_found() -> None:
    story = told()
    last = story.state.seq
    story.store.delete(story.paths.ledger_entry(last))
    found = problems(story)
    assert found[0].what == (
        f"manifest {story.manifest.v} applies entry {last}, which is not in this ledger"
    )


# --- manifests and files --------------------------------------------------------------------------


def test_a_damaged_manifest_is_found() -> None:
    story = told()
    flip(story, story.paths.manifest(2))
    assert [p.part for p in problems(story)] == [ProblemPart.MANIFESTS]


def test_a_manifest_that_cannot_follow_the_one_before_is_found() -> None:
    story = told()
    newest = story.manifest
    forged, _ = encode(replace(newest, v=newest.v + 1, nonce="n", epoch=newest.epoch + 5))
    _ = story.store.create(story.paths.manifest(newest.v + 1), forged)
    found = problems(story)
    assert found[0].what.startswith(f"manifest {newest.v + 1} cannot follow manifest {newest.v}: ")


@pytest.mark.parametrize("damage", ["flipped", "missing", "cut"])
@pytest.mark.parametrize("tier", list(Tier))
def test_a_damaged_file_of_the_newest_version_is_found(tier: Tier, damage: str) -> None:
    story = told()
    key = story.manifest.files("tasks", tier)[0].key
    damages: dict[str, Callable[[], object]] = {
        "flipped": lambda: flip(story, key),
        "missing": lambda: story.store.delete(key),
        "cut": lambda: story.store.put(key, story.store.get(key).data[:-1]),
    }
    _ = damages[damage]()
    report = verify(story.store, story.paths)
    assert [p.part for p in report.problems] == [ProblemPart.FILES]
    assert key in report.problems[0].what
    assert report.problems[0].remedy.startswith("rebuild the projection from the ledger")
    assert not report.compared


def test_a_damaged_file_of_a_past_version_is_found_and_the_newest_still_compared() -> None:
    story = told()
    key = story.manifest.files("tasks", Tier.ACTIVE)[0].key
    _ = story.merge()
    assert key not in referenced(story.manifest)
    flip(story, key)
    report = verify(story.store, story.paths)
    assert [p.part for p in report.problems] == [ProblemPart.FILES]
    assert "in the past version" in report.problems[0].what
    assert report.compared


# --- plans and rows -------------------------------------------------------------------------------


def test_a_damaged_plan_is_found() -> None:
    story = told()
    key = story.objects(story.paths.plans_prefix)[0]
    flip(story, key)
    report = verify(story.store, story.paths)
    assert [(p.part, p.what) for p in report.problems] == [
        (ProblemPart.PLANS, f"{key} does not hold the bytes it is named after")
    ]


def test_a_missing_plan_is_found() -> None:
    story = told()
    story.store.delete(story.objects(story.paths.plans_prefix)[0])
    found = problems(story)
    assert [p.part for p in found] == [ProblemPart.PROJECTION]
    assert found[0].what.endswith(f"and ledger entry {story.state.seq} needs it")


def test_a_row_that_the_ledger_does_not_say_is_found() -> None:
    story = told()
    story.state.runs.dirty["big"] = replace(story.run("big"), error="forged")
    _ = story.publish()
    assert problems(story) == (
        Problem(
            part=ProblemPart.PROJECTION,
            what="runs big: error is 'forged', but the ledger gives ''",
            remedy="rebuild the projection from the ledger with `servo admin rebuild`",
            runbook="corrupt-projection",
        ),
    )
