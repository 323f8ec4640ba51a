"""What a task is given also counts when its row has left the leader's memory."""

from servo.core.events.assets import (
    AssetDefinition,
    AssetReported,
    AssetWiped,
    DefinitionsDeployed,
)
from servo.core.keys import place_of
from servo.leader.assignments import PinnedInput
from servo.leader.inputs import inputs_of, not_in_memory
from servo.testing.builders import Story

DAY = "day=d:2025-01-15"
PLACE = ("ns/up", DAY)
PINNED = {place_of(*PLACE): PinnedInput("m", "")}


def planned() -> Story:
    """A task of a partition, made from the same one of another asset."""
    story = Story()
    assets = (
        AssetDefinition(asset_key="ns/up", partitions='{"kind":"daily"}'),
        AssetDefinition(asset_key="ns/a", upstream=("ns/up",), partitions='{"kind":"daily"}'),
    )
    story.tell(DefinitionsDeployed(deployment_id="d", assets=assets))
    story.tell(AssetReported(asset_key="ns/up", partition_key=DAY, materialization_id="m"))
    story.plan({"a": ()}, partition=DAY)
    return story


def test_a_partition_in_memory_is_pinned_and_nothing_is_fetched() -> None:
    story = planned()
    task = story.task("a")
    assert inputs_of(story.state, task, {}) == PINNED
    assert not_in_memory(story.state, [task, task]) == []


def test_a_partition_that_has_left_memory_is_fetched_and_pinned() -> None:
    story = planned()
    task, row = story.task("a"), story.state.partitions.rows[PLACE]
    story.state.partitions.evict(PLACE)
    assert not_in_memory(story.state, [task, task]) == [PLACE]
    assert inputs_of(story.state, task, {}) == {}
    assert inputs_of(story.state, task, {PLACE: row}) == PINNED


def test_what_was_wiped_with_its_asset_is_not_pinned() -> None:
    story = planned()
    task, row = story.task("a"), story.state.partitions.rows[PLACE]
    story.state.partitions.evict(PLACE)
    story.tell(AssetWiped(asset_key="ns/up"))
    assert inputs_of(story.state, task, {PLACE: row}) == {}
