"""What the fold keeps for conditions: numbers of dynamic partitions, and when data changed."""

from servo.core.events.assets import (
    AssetObserved,
    AssetReported,
    AssetWiped,
    DynamicPartitionsChanged,
)
from servo.testing.builders import Story

RED = "partition=s:red"


def numbers(story: Story) -> dict[str, int]:
    rows = story.state.dynamic_partitions.rows
    return {row.partition_key: row.number for row in rows.values()}


def change(story: Story, *, added: tuple[str, ...] = (), removed: tuple[str, ...] = ()) -> None:
    event = DynamicPartitionsChanged(set_name="customers", added=added, removed=removed)
    assert story.tell(event).applied


def test_the_keys_of_a_set_are_numbered_as_they_come() -> None:
    story = Story()
    change(story, added=("acme", "bolt"))
    change(story, added=("acme", "coil"))
    assert numbers(story) == {"acme": 1, "bolt": 2, "coil": 3}
    assert story.state.partition_sets.rows["customers"].numbered == 3


def test_a_number_is_never_given_again() -> None:
    story = Story()
    change(story, added=("acme", "bolt", "coil"))
    change(story, removed=("bolt", "coil"))
    change(story, added=("bolt",))
    assert numbers(story) == {"acme": 1, "bolt": 4}


def test_a_change_that_adds_nothing_takes_no_number() -> None:
    story = Story()
    change(story, added=("acme",))
    before = story.state.partition_sets.rows["customers"]
    change(story, added=("acme",))
    assert story.state.partition_sets.rows["customers"] is before


def test_each_set_counts_for_itself() -> None:
    story = Story()
    change(story, added=("acme",))
    other = DynamicPartitionsChanged(set_name="regions", added=("eu",))
    assert story.tell(other).applied
    assert story.state.dynamic_partitions.rows["regions", "eu"].number == 1


def report(story: Story, name: str, version: str, partition: str | None = None) -> None:
    event = AssetReported(
        asset_key="a", materialization_id=name, data_version=version, partition_key=partition
    )
    assert story.tell(event).applied


def test_data_of_the_same_version_has_not_changed() -> None:
    story = Story()
    report(story, "m1", "v1", RED)
    first = story.state.seq
    report(story, "m2", "v1", RED)
    asset, partition = story.state.assets.rows["a"], story.state.partitions.rows["a", RED]
    assert (asset.data_changed_seq, partition.data_changed_seq) == (first, first)
    report(story, "m3", "v2", RED)
    asset, partition = story.state.assets.rows["a"], story.state.partitions.rows["a", RED]
    assert (asset.data_changed_seq, partition.data_changed_seq) == (story.state.seq,) * 2


def test_data_without_a_version_has_changed_every_time() -> None:
    story = Story()
    report(story, "m1", "")
    report(story, "m2", "")
    assert story.state.assets.rows["a"].data_changed_seq == story.state.seq


def test_after_a_wipe_the_same_version_is_a_change() -> None:
    story = Story()
    report(story, "m1", "v1")
    assert story.tell(AssetWiped(asset_key="a")).applied
    report(story, "m2", "v1")
    assert story.state.assets.rows["a"].data_changed_seq == story.state.seq


def test_what_was_observed_changes_with_its_version() -> None:
    story = Story()
    seen = AssetObserved(asset_key="a", partition_key=RED, data_version="v1")
    assert story.tell(seen).applied
    first = story.state.seq
    story.wait(minutes=1)
    assert story.tell(seen).applied
    row = story.state.partitions.rows["a", RED]
    assert (row.data_changed_seq, row.last_observed_at) == (first, story.state.ts)
    assert story.state.assets.rows["a"].data_changed_seq == first
