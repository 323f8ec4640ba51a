"""A task that defines several assets, and assets that others make."""

from typing import Any

import pytest

from servo.core.events.assets import AssetReported
from servo.core.events.envelope import Status
from servo.core.events.tasks import CommittedOutput, Gate, TaskError, TaskOutcome
from servo.core.keys import TaskOperation
from servo.core.retry import RetryRules
from servo.testing.builders import Story

ONCE = RetryRules(max_attempts=1, max_infra_retries=0)


def several(**changes: Any) -> Story:
    """A run with one task that makes ns/a, ns/b and ns/c, and is running."""
    story = Story()
    story.plan({"a": ()}, also_makes=("ns/b", "ns/c"), retry=ONCE, **changes)
    story.start("a")
    return story


def made(key: str, name: str, gate: Gate = Gate.PROMOTED) -> CommittedOutput:
    return CommittedOutput(materialization_id=name, asset_key=key, uri=f"mem://{name}", gate=gate)


def latest(story: Story, key: str) -> str | None:
    row = story.state.assets.rows.get(key)
    return None if row is None else row.last_materialization_id


def test_every_output_becomes_the_latest_of_its_asset_at_once() -> None:
    story = several()
    story.finish("a", outputs=(made("", "m1"), made("ns/b", "m2"), made("ns/c", "m3")))
    assert [latest(story, key) for key in ("ns/a", "ns/b", "ns/c")] == ["m1", "m2", "m3"]
    assert {row.row_version for row in story.state.materializations.values()} == {story.state.seq}
    assert story.task("a").materialization_id == "m1"


def test_an_asset_that_was_not_produced_stays_as_it_was() -> None:
    story = several()
    story.finish("a", outputs=(made("ns/b", "m2"),))
    assert [latest(story, key) for key in ("ns/a", "ns/b", "ns/c")] == [None, "m2", None]


def test_one_output_may_be_held_back_and_another_not() -> None:
    story = several()
    story.finish("a", outputs=(made("ns/a", "m1", Gate.QUARANTINED), made("ns/b", "m2")))
    assert (latest(story, "ns/a"), latest(story, "ns/b")) == (None, "m2")


def test_every_partition_of_several_outputs_is_recorded() -> None:
    story = several(partition="day:d:2024-01-01")
    story.finish("a", outputs=(made("ns/a", "m1"), made("ns/b", "m2")))
    rows = story.state.partitions.rows
    assert rows["ns/b", "day:d:2024-01-01"].last_materialization_id == "m2"


@pytest.mark.parametrize(
    "outputs",
    [
        (made("ns/elsewhere", "m1"),),
        (made("ns/b", "m1"), made("ns/b", "m2")),
        (made("ns/a", "m1"), made("", "m2")),
        (made("ns/a", "m1"), made("ns/b", "m1")),
        (made("ns/a", ""),),
    ],
)
def test_outputs_that_are_not_of_the_task_or_not_told_apart_are_refused(
    outputs: tuple[CommittedOutput, ...],
) -> None:
    story = several()
    answer = story.tell(story.finished("a", outputs=outputs))
    assert answer.status is Status.REJECTED
    assert answer.reason.startswith("unplanned_output")
    assert len(story.state.materializations) == 0


def test_a_failure_counts_for_every_asset_that_was_to_be_made() -> None:
    story = several(partition="day:d:2024-01-01")
    story.finish("a", TaskOutcome.FAILED)
    assert [row.consecutive_failures for row in story.state.assets.values()] == [1, 1, 1]
    assert {row.last_attempt_outcome for row in story.state.partitions.values()} == {
        TaskOutcome.FAILED
    }


def test_an_observation_is_recorded_and_makes_nothing() -> None:
    story = Story()
    story.plan({"a": ()}, operation=TaskOperation.OBSERVE)
    story.start("a")
    story.finish("a", output=CommittedOutput(materialization_id="", data_version="v7"))
    row = story.state.assets.rows["ns/a"]
    assert (row.last_data_version, row.last_observed_at) == ("v7", story.state.ts)
    assert row.last_materialization_id is None
    assert len(story.state.materializations) == 0


def test_what_somebody_else_made_becomes_the_latest() -> None:
    story = Story()
    event = AssetReported(
        asset_key="ns/a", materialization_id="r1", partition_key="p", data_version="v1"
    )
    story.tell(event)
    row = story.state.assets.rows["ns/a"]
    assert (row.last_materialization_id, row.last_data_version) == ("r1", "v1")
    assert story.state.partitions.rows["ns/a", "p"].last_materialization_id == "r1"
    again = story.tell(event)
    assert (again.status, again.reason.split(":")[0]) == (Status.CONFLICT, "known_materialization")


def test_a_task_that_skips_itself_says_why() -> None:
    story = Story()
    story.plan({"a": ()})
    story.start("a")
    story.finish("a", TaskOutcome.SKIPPED, error=TaskError(code="Skipped", message="no news"))
    assert (story.task("a").error_code, story.task("a").error_message) == ("Skipped", "no news")
