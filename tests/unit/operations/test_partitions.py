"""Operations on partitions: what is counted and listed, and sets of dynamic partitions."""

import pytest

from servo import DynamicPartitionsDefinition, StaticPartitionsDefinition, asset, materialize
from servo.core.events.assets import DynamicPartitionsChanged
from servo.errors import Invalid, NotFound
from servo.operations.dynamic_partitions import (
    add_partitions,
    delete_partitions,
    keys_of_set,
)
from servo.operations.partitions import (
    PartitionFilter,
    PartitionQuery,
    PartitionRange,
    count_partitions,
    list_partitions,
)
from servo.sdk.partitions.status import DisplayStatus, StaleReason
from servo.testing.operating import workspace_of, workspace_told
from servo.testing.workspaces import StoredStory
from servo.workspace.instance.instance import ServoInstance
from servo.workspace.workspace import Workspace

LETTERS = StaticPartitionsDefinition(list("abcdefgh"))
ALL = PartitionQuery(limit=100)
NEVER = (DisplayStatus.MISSING, StaleReason.NEVER_MATERIALIZED)
DONE = (DisplayStatus.MATERIALIZED, None)


@asset(partitions_def=LETTERS)
def letter() -> None: ...


@asset(partitions_def=LETTERS)
def word(letter: None) -> None: ...


@asset
def whole() -> None: ...


@asset(partitions_def=DynamicPartitionsDefinition(name="customers"))
def customer() -> None: ...


@pytest.fixture
def instance() -> ServoInstance:
    instance = ServoInstance.ephemeral()
    everything = [letter, word]
    assert materialize(everything, partition_keys=["b", "c", "f"], instance=instance).success
    assert materialize([letter, whole], partition_keys=["c"], instance=instance).success
    return instance


@pytest.fixture
def workspace(instance: ServoInstance) -> Workspace:
    return workspace_of(instance)


def standing(found: list[PartitionRange]) -> list[tuple[str, str, int, object, object]]:
    return [(one.first, one.last, one.count, one.status, one.stale) for one in found]


def test_partitions_are_counted_by_status_and_by_why_they_are_stale(workspace: Workspace) -> None:
    found = count_partitions(workspace, "word")
    assert (found.asset_key, found.total, found.materialized, found.missing) == ("word", 8, 3, 5)
    assert (found.stale_never_materialized, found.stale_upstream_changed) == (5, 1)
    assert (found.failed, found.in_progress, found.outside, found.unknown_mappings) == (0, 0, 0, [])
    with pytest.raises(NotFound, match="whole has no partitions"):
        _ = count_partitions(workspace, "whole")


def test_consecutive_partitions_that_stand_alike_are_one_range(workspace: Workspace) -> None:
    found = list_partitions(workspace, "word", ALL)
    assert standing(found.items) == [
        ("a", "a", 1, *NEVER),
        ("b", "b", 1, *DONE),
        ("c", "c", 1, DisplayStatus.MATERIALIZED, StaleReason.UPSTREAM_CHANGED),
        ("d", "e", 2, *NEVER),
        ("f", "f", 1, *DONE),
        ("g", "h", 2, *NEVER),
    ]
    assert (found.next_cursor, found.outside) == (None, [])


@pytest.mark.parametrize("limit", range(1, 8))
def test_pages_of_any_size_put_together_are_the_whole_list(
    workspace: Workspace, limit: int
) -> None:
    whole_list = list_partitions(workspace, "word", ALL).items
    found: list[PartitionRange] = []
    cursor: str | None = None
    for _ in range(len(whole_list)):
        page = list_partitions(workspace, "word", PartitionQuery(limit=limit, after=cursor))
        assert len(page.items) <= limit
        found += page.items
        cursor = page.next_cursor
        if cursor is None:
            break
    assert (found, cursor) == (whole_list, None)
    with pytest.raises(NotFound, match="word has no partition 'x'"):
        _ = list_partitions(workspace, "word", PartitionQuery(limit=1, after="x"))


@pytest.mark.parametrize(
    ("status", "first"),
    [
        (PartitionFilter.MATERIALIZED, ["b", "c", "f"]),
        (PartitionFilter.MISSING, ["a", "d", "g"]),
        (PartitionFilter.STALE, ["a", "c", "d", "g"]),
        (PartitionFilter.FAILED, []),
        (PartitionFilter.IN_PROGRESS, []),
    ],
)
def test_a_filter_lists_only_what_it_names(
    workspace: Workspace, status: PartitionFilter, first: list[str]
) -> None:
    found = list_partitions(workspace, "word", PartitionQuery(status=status, limit=100))
    assert [one.first for one in found.items] == first


def test_partitions_are_counted_as_they_were(instance: ServoInstance, workspace: Workspace) -> None:
    entry = workspace.read(lambda snapshot: snapshot.applied_seq)
    assert materialize([letter, word], partition_key="a", instance=instance).success
    assert count_partitions(workspace, "word").materialized == 4
    assert count_partitions(workspace, "word", as_of=entry).materialized == 3
    then = list_partitions(workspace, "word", ALL, as_of=entry)
    assert then.items[0].status is DisplayStatus.MISSING


# --- dynamic partitions ---------------------------------------------------------------------------


def test_keys_are_added_once_and_in_order(workspace: Workspace) -> None:
    first = add_partitions(workspace, "customers", ["b", "a", "b"])
    assert (first.added, first.receipt is not None) == (["b", "a"], True)
    again = add_partitions(workspace, "customers", ["a", "c"])
    assert again.added == ["c"]
    nothing = add_partitions(workspace, "customers", ["a"])
    assert (nothing.added, nothing.receipt) == ([], None)
    assert sorted(keys_of_set(workspace, "customers")) == ["a", "b", "c"]
    assert keys_of_set(workspace, "customers")[-1] == "c"
    with pytest.raises(Invalid, match="invalid key"):
        _ = add_partitions(workspace, "customers", ["d", "x|y"])
    assert "d" not in keys_of_set(workspace, "customers")


def test_all_keys_are_deleted_or_none(workspace: Workspace) -> None:
    _ = add_partitions(workspace, "customers", ["a", "b", "c"])
    with pytest.raises(NotFound, match=r"customers has no partition 'x'; it has a, b, c"):
        _ = delete_partitions(workspace, "customers", ["a", "x"])
    assert keys_of_set(workspace, "customers") == ["a", "b", "c"]
    gone = delete_partitions(workspace, "customers", ["a", "c", "a"])
    assert (gone.removed, gone.receipt is not None) == (["a", "c"], True)
    assert keys_of_set(workspace, "customers") == ["b"]
    with pytest.raises(NotFound, match="the set is empty"):
        _ = delete_partitions(workspace, "nobodys", ["a"])


def test_what_was_made_of_a_deleted_key_is_told_apart(
    instance: ServoInstance, workspace: Workspace
) -> None:
    _ = add_partitions(workspace, "customers", ["acme", "b"])
    assert materialize([customer], partition_key="acme", instance=instance).success
    _ = delete_partitions(workspace, "customers", ["acme"])
    found = list_partitions(workspace, "customer", ALL)
    assert ([one.first for one in found.items], len(found.outside)) == (["b"], 1)
    assert count_partitions(workspace, "customer").outside == 1


def test_keys_are_seen_before_the_leader_has_published_them() -> None:
    story = StoredStory()
    _ = story.publish()
    assert story.tell(DynamicPartitionsChanged(set_name="customers", added=("a",))).applied
    assert keys_of_set(workspace_told(story), "customers") == ["a"]
