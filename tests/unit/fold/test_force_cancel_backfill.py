"""A backfill that is cancelled by force ends at once, whatever the workers of its runs do."""

import pytest
from msgspec.structs import replace

from servo.core.events.backfills import (
    BackfillState,
    BackfillStateChanged,
)
from servo.core.events.envelope import Status
from servo.core.events.runs import PlanCreated
from servo.core.events.tasks import CommittedOutput, TaskOutcome
from servo.core.fold.apply import needs_now
from servo.core.state.states import RunState, TaskState
from servo.testing.backfills import backfill_chunk, backfill_created
from servo.testing.builders import Story, dump, specs

DAYS = ("day:d:2026-01-01", "day:d:2026-01-02")
CANCEL = BackfillStateChanged(backfill_id="bf", to_state=BackfillState.CANCELLING, changed_by="ada")
FORCE = replace(CANCEL, force=True)


def stuck() -> Story:
    """A backfill of two days with a run each; in both runs task `a` runs and `b` waits for it."""
    story = Story()
    created = backfill_created(*DAYS, chunk_size=1)
    story.tell(created)
    for index, day in enumerate(DAYS):
        run = f"run_{index}"
        tasks = specs({"a": (), "b": ("a",)}, partition=day)
        plan = PlanCreated(run_id=run, fingerprint="plan", tasks=tasks)
        assert story.tell(*backfill_chunk(created, index, run_id=run), plan).applied
        story.start("a", run)
    return story


def state(story: Story) -> BackfillState:
    return story.state.backfills.rows["bf"].state


def test_only_force_ends_a_backfill_whose_workers_do_not_answer() -> None:
    waiting, forced = stuck(), stuck()
    waiting.tell(CANCEL)
    assert state(waiting) is BackfillState.CANCELLING
    assert forced.tell(FORCE).data == {"state_version": 2}
    row = forced.state.backfills.rows["bf"]
    assert (row.state, row.finished_at) == (BackfillState.CANCELLED, forced.state.ts)
    assert (row.active_chunks, row.cancelled_chunks) == (0, 2)
    for run_id in ("run_0", "run_1"):
        run = forced.run(run_id)
        assert (run.state, run.cancel_forced) == (RunState.CANCELLED, True)
        assert run.cancel_requested_by == "ada"
        assert {*forced.states(run_id).values()} == {TaskState.CANCELLED}
    assert not forced.state.index.running


def test_a_backfill_that_is_being_cancelled_can_be_forced_to_end() -> None:
    story = stuck()
    story.tell(CANCEL)
    assert story.tell(CANCEL).status is Status.CONFLICT
    assert story.tell(replace(FORCE, changed_by="bob")).data == {"state_version": 3}
    row = story.state.backfills.rows["bf"]
    assert (row.state, row.changed_by) == (BackfillState.CANCELLED, "bob")
    assert story.run("run_0").cancel_requested_by == "ada"


def test_a_success_that_comes_late_is_recorded_and_not_promoted() -> None:
    story = stuck()
    output = CommittedOutput(materialization_id="m", uri="mem")
    report = story.finished("a", run_id="run_0", output=output)
    story.tell(FORCE)
    assert story.tell(report).applied
    assert story.task("a", "run_0").late_outcome is TaskOutcome.SUCCEEDED
    assert not list(story.state.materializations.rows)
    assert state(story) is BackfillState.CANCELLED


@pytest.mark.parametrize("after", [BackfillState.PAUSED, BackfillState.RUNNING])
def test_force_is_for_a_cancel_only(after: BackfillState) -> None:
    story, plain = stuck(), stuck()
    for one, force in ((story, True), (plain, False)):
        one.tell(replace(CANCEL, to_state=BackfillState.PAUSED, force=force))
        if after is BackfillState.RUNNING:
            one.tell(replace(CANCEL, to_state=after, force=force))
    assert dump(story.state)["runs"] == dump(plain.state)["runs"]
    assert state(story) is after


def test_a_backfill_that_is_over_is_left_as_it_ended() -> None:
    story = stuck()
    story.tell(FORCE)
    before = dump(story.state)
    assert story.tell(FORCE).status is Status.CONFLICT
    assert dump(story.state) == before


def test_the_partitions_of_what_is_ended_are_asked_for_only_by_force() -> None:
    story = stuck()
    places = {("partition_status", ("ns/a", day)) for day in DAYS}
    assert places <= {*needs_now(story.state, story.batch(FORCE))}
    assert not places & {*needs_now(story.state, story.batch(CANCEL))}
    story.tell(FORCE)
    for day in DAYS:
        row = story.state.partitions.rows["ns/a", day]
        assert row.last_attempt_outcome is TaskOutcome.CANCELLED
