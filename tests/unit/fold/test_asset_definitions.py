"""Rules of assets: what a deployment defines, dynamic partitions, and observations."""

from datetime import datetime, timedelta, timezone

import pytest
from msgspec.structs import replace

from servo.core.events.assets import (
    AssetDefinition,
    AssetObserved,
    DefinitionsDeployed,
    DynamicPartitionsChanged,
)
from servo.core.events.tasks import TaskOutcome
from servo.core.retry import RetryRules
from servo.core.state.rows.assets import (
    AssetRow,
    DynamicPartitionRow,
)
from servo.testing.asset_outputs import (
    DAY,
    asset_row,
    partition_row,
    promoted,
)
from servo.testing.builders import START, Story, content

ONCE = RetryRules(max_attempts=1, max_infra_retries=0)
OK, BAD = TaskOutcome.SUCCEEDED, TaskOutcome.FAILED


# --- definitions ----------------------------------------------------------------------------------


def deploy(*keys: str, **changes: object) -> DefinitionsDeployed:
    event = DefinitionsDeployed(
        deployment_id="d1", assets=tuple(AssetDefinition(asset_key=key) for key in keys)
    )
    return replace(event, **changes)


def test_a_deployment_defines_its_assets() -> None:
    story = Story()
    definition = AssetDefinition(
        asset_key="ns/a",
        group="g",
        upstream=("ns/b",),
        code_version="v1",
        partitions="daily",
        description="text",
        tags={"tier": "1"},
        owners=("ada",),
        kinds=("polars",),
        freshness_policy="f",
        automation_condition="c",
    )
    story.tell(deploy(assets=(definition,), location="here"))
    assert asset_row(story) == AssetRow(
        asset_key="ns/a",
        defined=True,
        location="here",
        deployment_id="d1",
        group="g",
        upstream=("ns/b",),
        code_version="v1",
        code_changed_at=START,
        partitions="daily",
        description="text",
        tags={"tier": "1"},
        owners=("ada",),
        kinds=("polars",),
        freshness_policy="f",
        automation_condition="c",
        row_version=1,
    )


def test_when_the_code_of_an_asset_changed_is_kept_until_it_changes_again() -> None:
    story = Story()

    def changed_at(version: str, group: str = "") -> datetime | None:
        story.wait(hours=1)
        definition = AssetDefinition(asset_key="ns/a", code_version=version, group=group)
        story.tell(deploy(assets=(definition,)))
        return asset_row(story).code_changed_at

    assert changed_at("") is None
    first = changed_at("v1")
    assert first == story.now
    assert changed_at("v1", group="g") == first
    assert changed_at("v2", group="g") == story.now


def test_a_deployment_keeps_what_is_known_of_the_data() -> None:
    story = Story()
    promoted(story, 6, "x")
    story.tell(deploy("ns/a"))
    assert asset_row(story).defined
    assert asset_row(story).last_materialization_id == "x"


def test_a_deployment_that_changes_nothing_changes_no_row() -> None:
    story = Story()
    story.tell(deploy("ns/a", "ns/b"))
    before = content(story.state)
    assert story.tell(deploy("ns/a", "ns/b", deployment_id="d2")).repeated
    assert content(story.state) == before


def test_an_asset_a_location_no_longer_defines_keeps_its_history() -> None:
    story = Story()
    story.tell(deploy("ns/a", "ns/b"))
    story.tell(deploy("ns/c", location="elsewhere"))
    story.tell(deploy("ns/b", deployment_id="d2"))
    assert not asset_row(story, "ns/a").defined
    assert asset_row(story, "ns/b").deployment_id == "d1"
    assert asset_row(story, "ns/c").defined


def test_an_asset_that_moves_stays_defined() -> None:
    story = Story()
    story.tell(deploy("ns/a"))
    story.tell(deploy("ns/a", location="elsewhere"))
    story.tell(deploy())
    assert asset_row(story).defined


@pytest.mark.parametrize("keys", [("",), ("ns/a", "ns/a")])
def test_definitions_that_cannot_be_told_apart_are_refused(keys: tuple[str, ...]) -> None:
    story = Story()
    assert story.tell(deploy(*keys)).reason.startswith("invalid_definitions")
    assert len(story.state.assets) == 0


def test_a_stored_list_defines_what_the_same_list_in_the_event_does() -> None:
    inline, stored = Story(), Story()
    inline.tell(deploy("ns/a", "ns/b"))
    stored.state.definitions["x"] = deploy("ns/a", "ns/b").assets
    assert stored.tell(deploy(definitions_digest="x")).applied
    assert stored.state.assets.rows == inline.state.assets.rows


def test_a_list_is_either_stored_or_in_the_event() -> None:
    story = Story()
    story.state.definitions["x"] = deploy("ns/a").assets
    both = deploy("ns/b", definitions_digest="x")
    assert story.tell(both).reason.startswith("definitions_missing")
    assert len(story.state.assets) == 0


def test_a_stored_list_that_was_not_read_undefines_nothing() -> None:
    story = Story()
    story.tell(deploy("ns/a"))
    assert story.tell(deploy(definitions_digest="sha256:x")).reason.startswith(
        "definitions_missing"
    )
    assert asset_row(story).defined


# --- dynamic partitions and observations ----------------------------------------------------------


def test_dynamic_partitions_come_and_go() -> None:
    story = Story()
    story.tell(DynamicPartitionsChanged(set_name="s", added=("a", "b", "a")))
    assert story.state.dynamic_partitions.rows["s", "a"] == DynamicPartitionRow(
        set_name="s", partition_key="a", added_at=START, number=1, row_version=1
    )
    story.tell(DynamicPartitionsChanged(set_name="s", added=("a",), removed=("b", "x")))
    assert list(story.state.dynamic_partitions.rows) == [("s", "a")]
    assert story.state.dynamic_partitions.rows["s", "a"].row_version == 1


@pytest.mark.parametrize(
    "event",
    [
        DynamicPartitionsChanged(set_name="", added=("a",)),
        DynamicPartitionsChanged(set_name="s", added=("a",), removed=("b", "a")),
    ],
)
def test_a_change_of_partitions_that_is_unclear_is_refused(
    event: DynamicPartitionsChanged,
) -> None:
    story = Story()
    story.tell(DynamicPartitionsChanged(set_name="s", added=("b",)))
    assert story.tell(event).reason.startswith("invalid_partitions")
    assert list(story.state.dynamic_partitions.rows) == [("s", "b")]


def test_an_observation_is_kept_with_its_version() -> None:
    story = Story()
    seen = (START - timedelta(hours=1)).astimezone(timezone(timedelta(hours=9)))
    story.tell(AssetObserved(asset_key="ns/a", data_version="v1", observed_at=seen))
    assert asset_row(story) == AssetRow(
        asset_key="ns/a",
        last_observed_at=START - timedelta(hours=1),
        last_data_version="v1",
        data_changed_seq=1,
        row_version=1,
    )


def test_an_observation_without_a_time_was_made_now() -> None:
    story = Story()
    story.tell(AssetObserved(asset_key="ns/a", partition_key=DAY, data_version="v1"))
    assert asset_row(story).last_observed_at == START
    assert partition_row(story).last_data_version == "v1"


def test_an_observation_of_nothing_or_at_no_instant_is_refused() -> None:
    story = Story()
    assert story.tell(AssetObserved(asset_key="")).reason.startswith("invalid_asset")
    naive = AssetObserved(asset_key="ns/a", observed_at=START.replace(tzinfo=None))
    assert story.tell(naive).reason.startswith("invalid_instant")
    assert len(story.state.assets) == 0
