"""A table: what is changed is journalled, watched, and taken back."""

import pytest

from servo.core.state.rows.assets import AssetRow, DynamicPartitionRow
from servo.core.state.state import State
from servo.testing.builders import START, Story, task_key


def row(version: int) -> AssetRow:
    return AssetRow(asset_key="ns/a", row_version=version)


@pytest.mark.parametrize("how", ["put", "swap"])
def test_a_row_in_the_place_of_another_is_taken_back_with_its_batch(how: str) -> None:
    state = State("acme", "prod")
    state.assets.put("ns/a", row(1))
    state.seal()
    if how == "put":
        state.assets.put("ns/a", row(2))
    else:
        state.assets.swap("ns/a", row(1), row(2))
    assert state.assets.get("ns/a") == row(2)
    state.rollback(0)
    assert state.assets.get("ns/a") == row(1)
    assert state.assets.dirty == {"ns/a": row(1)}


def test_who_watches_a_table_sees_what_is_swapped() -> None:
    story = Story()
    story.plan({"a": ()})
    key = ("run_1", task_key("a"))
    assert story.state.index.ready_count == 1
    story.dispatch("a")
    assert story.state.index.ready_count == 0
    assert list(story.state.index.dispatched) == [key]


def test_a_row_is_lacking_only_if_nothing_is_known_of_its_key() -> None:
    state = State("acme", "prod")
    table = state.dynamic_partitions
    here = DynamicPartitionRow(set_name="s", partition_key="x", added_at=START, row_version=1)
    assert table.lacks(("s", "x"))
    table.load(("s", "x"), here)
    assert not table.lacks(("s", "x"))
    table.drop(("s", "x"))
    state.seal()
    assert not table.lacks(("s", "x"))


def test_a_row_that_nobody_watches_is_swapped_and_taken_back() -> None:
    state = State("acme", "prod")
    old, new = (
        DynamicPartitionRow(set_name="s", partition_key="k", added_at=START, row_version=version)
        for version in (1, 2)
    )
    table = state.dynamic_partitions
    table.put(("s", "k"), old)
    mark = len(state.journal)
    table.swap(("s", "k"), old, new)
    assert table.rows["s", "k"] is new
    state.rollback(mark)
    assert table.rows["s", "k"] is old
