"""An instance: what a workspace answers to tests and to assets."""

import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from servo import (
    AssetEventType,
    AssetExecutionContext,
    DataVersion,
    EventRecordsFilter,
    MaterializeResult,
    RunsFilter,
    RunStatus,
    ServoInstance,
    asset,
    materialize,
)
from servo.core.events.tasks import TaskOutcome
from servo.core.keys import AssetKey
from servo.core.partitions import PartitionKey, shown_partition
from servo.errors import Invalid, NotFound
from servo.leader.service import Service
from servo.ports.world import World
from servo.sdk.assets.results import AssetMaterialization, AssetObservation
from servo.testing.workspaces import StoredStory
from servo.workspace.address import Address
from servo.workspace.composition import open_world
from servo.workspace.leading import try_to_lead
from servo.workspace.system import SystemEntropy


@asset
def orders() -> MaterializeResult:
    return MaterializeResult(metadata={"rows": 3}, data_version=DataVersion("v7"), value=[1])


@asset
def fails() -> int:
    raise ValueError("no")


@pytest.fixture
def instance() -> ServoInstance:
    return ServoInstance.ephemeral()


def test_a_new_instance_knows_nothing(instance: ServoInstance) -> None:
    assert instance.get_latest_materialization_event("orders") is None
    assert instance.get_latest_data_version_record("orders") is None
    assert list(instance.get_runs()) == []
    assert instance.get_run_by_id("run_1") is None
    assert list(instance.get_dynamic_partitions("regions")) == []
    assert instance.get_materialized_partitions("orders") == set()
    assert not instance.has_asset_key("orders")
    assert instance.is_ephemeral


def test_what_was_made_can_be_asked_for(instance: ServoInstance) -> None:
    run = materialize([orders], instance=instance)
    event = instance.get_latest_materialization_event(AssetKey("orders"))
    assert event is not None
    assert event.asset_materialization is not None
    assert event.asset_materialization.metadata["rows"].value == 3
    assert event.asset_observation is None
    assert (event.run_id, event.asset_key) == (run.run_id, AssetKey("orders"))
    assert event.data_version == DataVersion("v7")
    assert event.timestamp == event.at.timestamp()
    assert event.event_log_entry is event
    assert instance.get_latest_data_version_record(orders) == event
    assert instance.get_latest_materialization_events([orders, "fails"]) == {
        AssetKey("orders"): event,
        AssetKey("fails"): None,
    }
    assert list(instance.get_asset_keys()) == [AssetKey("orders")]
    assert list(instance.get_asset_keys(["other"])) == []


def test_events_are_listed_the_newest_first_and_in_parts(instance: ServoInstance) -> None:
    runs = [materialize([orders], instance=instance).run_id for _ in range(3)]
    wanted = EventRecordsFilter(AssetEventType.ASSET_MATERIALIZATION, AssetKey("orders"))
    listed = instance.get_event_records(wanted)
    assert [event.run_id for event in listed] == runs[::-1]
    assert [e.run_id for e in instance.get_event_records(wanted, 1, ascending=True)] == runs[:1]
    first = instance.fetch_materializations(AssetKey("orders"), limit=2)
    assert ([e.run_id for e in first.records], first.has_more) == (runs[:0:-1], True)
    rest = instance.fetch_materializations(wanted, limit=2, cursor=first.cursor)
    assert ([e.run_id for e in rest.records], rest.has_more) == (runs[:1], False)
    middle = listed[1].timestamp
    late = EventRecordsFilter("ASSET_MATERIALIZATION", after_timestamp=middle)
    early = EventRecordsFilter("ASSET_MATERIALIZATION", before_timestamp=middle)
    assert [e.run_id for e in instance.get_event_records(late)] == runs[2:]
    assert [e.run_id for e in instance.get_event_records(early)] == runs[:1]
    assert not instance.get_event_records(
        EventRecordsFilter(AssetEventType.ASSET_MATERIALIZATION, asset_partitions=["x"])
    )


def test_other_events_are_refused(instance: ServoInstance) -> None:
    with pytest.raises(
        Invalid, match=r"'STEP_START' are not recorded; use one of ASSET_MATERIALIZATION"
    ):
        instance.get_event_records(EventRecordsFilter("STEP_START"))


def test_runs_can_be_asked_for(instance: ServoInstance) -> None:
    good = materialize([orders], instance=instance, tags={"team": "a"}, run_config={"ops": {}})
    bad = materialize([fails], instance=instance, tags={"team": "b"}, raise_on_error=False)
    assert [run.run_id for run in instance.get_runs()] == [bad.run_id, good.run_id]
    assert [run.run_id for run in instance.get_runs(limit=1)] == [bad.run_id]
    assert [run.run_id for run in instance.get_runs(cursor=bad.run_id)] == [good.run_id]
    assert list(instance.get_runs(cursor="run_unknown")) == []
    run = instance.get_run_by_id(good.run_id)
    assert run is not None
    assert (run.status, run.is_finished, run.is_success) == (RunStatus.SUCCESS, True, True)
    assert (run.tags, run.is_failure) == ({"team": "a"}, False)
    assert instance.has_run(bad.run_id)
    now = run.created_at
    for wanted, expected in (
        (RunsFilter(statuses=[RunStatus.FAILURE]), 1),
        (RunsFilter(tags={"team": "a"}), 1),
        (RunsFilter(tags={"team": ["a", "b"]}), 2),
        (RunsFilter(job_name="nightly"), 0),
        (RunsFilter(created_after=now), 1),
        (RunsFilter(created_before=now), 0),
        (RunsFilter(created_before=now + timedelta(days=1)), 2),
    ):
        assert instance.get_runs_count(wanted) == expected


def test_an_asset_can_ask_while_its_run_goes_on(instance: ServoInstance) -> None:
    @asset
    def first() -> int:
        return 1

    @asset
    def second(context: AssetExecutionContext, first: int) -> dict[str, Any]:
        event = context.instance.get_latest_materialization_event("first")
        context.instance.add_dynamic_partitions("regions", ["north", str(first)])
        return {
            "run": event.run_id == context.run_id,
            "status": context.instance.get_run_by_id(context.run_id).status.value,
            "regions": list(context.instance.get_dynamic_partitions("regions")),
        }

    expected = {"run": True, "status": "STARTED", "regions": ["1", "north"]}
    assert materialize([first, second], instance=instance).asset_value("second") == expected
    assert materialize([first, second]).asset_value("second") == expected
    assert instance.has_dynamic_partition("regions", "north")


def test_partitions_are_added_and_removed(instance: ServoInstance) -> None:
    instance.add_dynamic_partitions("regions", ["north", "south"])
    instance.add_dynamic_partitions("regions", ["south", "east"])
    instance.add_dynamic_partitions("regions", ["south"])
    instance.add_dynamic_partitions("others", ["west"])
    assert list(instance.get_dynamic_partitions("regions")) == ["north", "south", "east"]
    instance.delete_dynamic_partition("regions", "south")
    instance.delete_dynamic_partition("regions", "south")
    assert list(instance.get_dynamic_partitions("regions")) == ["north", "east"]
    assert not instance.has_dynamic_partition("regions", "west")
    with pytest.raises(Invalid, match=r"the string 'up', not a list; pass \['up'\]"):
        instance.add_dynamic_partitions("regions", "up")


def test_what_is_added_twice_is_written_once(instance: ServoInstance) -> None:
    instance.add_dynamic_partitions("regions", ["north"])
    before = ledger(instance)
    instance.add_dynamic_partitions("regions", ["north"])
    instance.delete_dynamic_partition("regions", "south")
    instance.wipe_assets([])
    assert ledger(instance) == before


def ledger(instance: ServoInstance) -> list[str]:
    found = instance.world.store.list_after(instance.paths.ledger_prefix, limit=100)
    return [meta.key for meta in found]


def test_an_observation_is_recorded_and_is_the_newest_version(instance: ServoInstance) -> None:
    _ = materialize([orders], instance=instance)
    seen = AssetObservation("orders", metadata={"a": 1}, tags={"dagster/data_version": "v8"})
    instance.report_runless_asset_event(seen)
    record = instance.get_latest_data_version_record("orders")
    assert record is not None
    assert record.data_version == DataVersion("v8")
    assert record.asset_observation is not None
    assert record.asset_materialization is None
    made = instance.get_latest_data_version_record("orders", is_source=False)
    assert made is not None
    assert made.data_version == DataVersion("v7")
    source = instance.get_latest_data_version_record("orders", is_source=True)
    assert source == record
    assert instance.get_latest_data_version_record("orders", partition_key="p") is None
    listed = instance.get_event_records(EventRecordsFilter(AssetEventType.ASSET_OBSERVATION))
    assert list(listed) == [record]


def test_what_has_no_version_says_so(instance: ServoInstance) -> None:
    instance.report_runless_asset_event(AssetObservation(["raw", "orders"]))
    record = instance.get_latest_data_version_record("raw/orders")
    assert record is not None
    assert record.data_version is None


def test_what_others_made_is_recorded(instance: ServoInstance) -> None:
    made = AssetMaterialization("raw", metadata={"rows": 2}, tags={"dagster/data_version": "v1"})
    instance.report_runless_asset_event(made)
    event = instance.get_latest_materialization_event("raw")
    assert event is not None
    assert (event.data_version, event.run_id) == (DataVersion("v1"), "")
    assert event.fact.metadata["rows"].value == 2


def test_other_events_outside_of_a_run_are_refused(instance: ServoInstance) -> None:
    with pytest.raises(Invalid, match="MaterializeResult cannot be recorded outside of a run"):
        instance.report_runless_asset_event(MaterializeResult(asset_key="orders"))


def test_what_was_wiped_is_gone(instance: ServoInstance) -> None:
    _ = materialize([orders], instance=instance)
    instance.wipe_assets(["orders"])
    assert instance.get_latest_materialization_event("orders") is None
    _ = materialize([orders], instance=instance)
    assert instance.get_latest_materialization_event("orders") is not None


def test_a_change_that_is_refused_is_told(instance: ServoInstance) -> None:
    with pytest.raises(Exception, match="the workspace refused the request: unknown_asset"):
        instance.wipe_assets(["unknown"])


# --- partitions that were made --------------------------------------------------------------------


def test_partitions_are_shown_as_people_write_them() -> None:
    assert shown_partition(None) is None
    assert shown_partition(PartitionKey.single("north").canonical()) == "north"
    assert shown_partition("no typed key") == "no typed key"


def test_partitions_that_were_made_are_listed() -> None:
    story = StoredStory()
    for number, name in enumerate(("north", "south")):
        run = f"run_{number}"
        _ = story.plan({"orders": ()}, run, partition=PartitionKey.single(name).canonical())
        outcome = TaskOutcome.SUCCEEDED if name == "north" else TaskOutcome.FAILED
        _ = story.execute("orders", outcome, run)
    _ = story.publish()
    world = World(story.store, story.clock, SystemEntropy())
    address = Address("memory://", story.paths.tenant, story.paths.workspace)
    instance = ServoInstance(world, address)
    assert instance.get_materialized_partitions("ns/orders") == {"north"}
    event = instance.get_latest_materialization_event("ns/orders")
    assert event is not None
    assert event.partition_key == "north"
    wanted = EventRecordsFilter(AssetEventType.ASSET_MATERIALIZATION, asset_partitions=["north"])
    assert list(instance.get_event_records(wanted)) == [event]


# --- where it is ----------------------------------------------------------------------------------


def test_a_temporary_folder_is_removed_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "registry"))
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    with ServoInstance.local_temp() as instance:
        _ = materialize([orders], instance=instance)
        assert instance.is_ephemeral
        assert list(Path(tempfile.gettempdir()).iterdir())
    assert not list(Path(tempfile.gettempdir()).iterdir())


@pytest.mark.parametrize("make", [ServoInstance.ephemeral, ServoInstance.local_temp])
def test_a_folder_that_is_given_stays_and_can_be_opened_again(make: Any, tmp_path: Path) -> None:
    with make(str(tmp_path)) as instance:
        _ = materialize([orders], instance=instance)
        instance.add_dynamic_partitions("regions", ["north"])
    again = ServoInstance.of_store(str(tmp_path))
    assert again.get_latest_materialization_event("orders") is not None
    assert again.has_dynamic_partition("regions", "north")
    assert not again.is_ephemeral


def test_the_instance_of_this_folder_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SERVO_STORE", raising=False)
    with pytest.raises(NotFound, match=r"no store in .*; materialize an asset to create it"):
        ServoInstance.get()
    _ = materialize([orders], store=".servo")
    assert ServoInstance.get().has_asset_key("orders")
    monkeypatch.setenv("SERVO_STORE", str(tmp_path / ".servo"))
    assert ServoInstance.get().has_asset_key("orders")


def test_a_leader_of_this_machine_takes_what_an_instance_changes(tmp_path: Path) -> None:
    address = Address.of(str(tmp_path))
    led = try_to_lead(address, open_world(address.store))
    assert led is not None
    with led:
        before = led.service.engine.state.seq
        ServoInstance.of_store(str(tmp_path)).add_dynamic_partitions("regions", ["north"])
        assert led.service.engine.state.seq == before + 1
        assert not led.service.over
    assert ServoInstance.of_store(str(tmp_path)).has_dynamic_partition("regions", "north")


def test_a_run_within_a_run_leaves_changes_to_the_outer_leader() -> None:
    instance = ServoInstance.ephemeral()
    with Service(instance.world, instance.paths) as outer, instance.led_by(outer):
        with instance.led_by(outer):
            instance.add_dynamic_partitions("regions", ["north"])
        before = outer.engine.state.seq
        instance.add_dynamic_partitions("regions", ["south"])
        assert outer.engine.state.seq == before + 1
