"""Methods of contexts, definitions and instances that people know from elsewhere, at work."""

from datetime import UTC, datetime
from typing import Any

import pytest

from servo import (
    AssetExecutionContext,
    AssetKey,
    AssetObservation,
    AssetSelection,
    AssetSpec,
    Backoff,
    DailyPartitionsDefinition,
    DataVersion,
    Definitions,
    HookContext,
    InputContext,
    IOManager,
    Jitter,
    ObserveResult,
    OutputContext,
    RetryPolicy,
    RunsFilter,
    ScheduleDefinition,
    ServoInstance,
    StaticPartitionsDefinition,
    TimeWindow,
    asset,
    build_asset_context,
    build_hook_context,
    build_output_context,
    materialize,
    observable_source_asset,
    sensor,
    success_hook,
)
from servo.errors import Invalid, NotFound

LETTERS = StaticPartitionsDefinition(["a", "b"])


@asset(group_name="raw", owners=["team:x"], kinds={"python"}, tags={"t": "v"})
def orders() -> list[int]:
    return [1, 2]


@asset(partitions_def=LETTERS)
def parts(context: AssetExecutionContext) -> str:
    return context.partition_key * 2


# --- loading by key -------------------------------------------------------------------------------


def test_an_asset_loads_another_by_its_key() -> None:
    @asset(deps=[orders])
    def total(context: AssetExecutionContext) -> int:
        assert AssetExecutionContext.get() is context
        return sum(context.load_asset_value(AssetKey("orders")))

    done = materialize([orders, total])
    assert done.asset_value("total") == 3
    with pytest.raises(Invalid, match="no asset is being materialized on this thread"):
        _ = AssetExecutionContext.get()


def test_of_what_it_is_not_made_from_it_loads_the_newest() -> None:
    instance = ServoInstance.ephemeral()
    _ = materialize([orders], instance=instance)
    _ = materialize([parts], partition_key="b", instance=instance)
    said: list[str] = []

    @asset
    def total(context: AssetExecutionContext) -> tuple[list[int], str]:
        for name, partition in {"gone": None, "orders": "a", "parts": None, "later": None}.items():
            with pytest.raises((Invalid, NotFound)) as told:
                _ = context.load_asset_value(name, partition_key=partition)
            said.append(str(told.value))
        with pytest.raises(NotFound, match="partition 'a' of parts was never materialized"):
            _ = context.load_asset_value("parts", partition_key="a")
        parted = context.load_asset_value("parts", partition_key="b", python_type=str)
        return context.load_asset_value(orders), parted

    @asset
    def later() -> int:
        return 1

    every = [orders, parts, later, total]
    done = materialize(every, selection="total", instance=instance)
    assert done.asset_value("total") == ([1, 2], "bb")
    assert [text.split(";")[0] for text in said] == [
        "this project has no asset gone",
        "orders has no partitions",
        "parts has partitions, and total does not depend on it",
        "later was never materialized",
    ]


class Shelf(IOManager):
    def __init__(self) -> None:
        self.kept: dict[Any, Any] = {}

    def handle_output(self, context: OutputContext, obj: Any) -> None:
        self.kept[context.asset_key.parts, tuple(_keys(context))] = obj

    def load_input(self, context: InputContext) -> Any:
        return self.kept[context.asset_key.parts, tuple(_keys(context))]


def _keys(context: Any) -> list[str]:
    return list(context.asset_partition_keys) if context.has_asset_partitions else []


def test_an_io_manager_that_nobody_asked_for_is_opened_for_the_value() -> None:
    @asset(io_manager_key="shelf")
    def kept() -> int:
        return 5

    @asset(io_manager_key="shelf", partitions_def=LETTERS)
    def divided(context: AssetExecutionContext) -> str:
        return context.partition_key

    @asset(deps=[kept])
    def total(context: AssetExecutionContext) -> tuple[int, str]:
        value = context.load_asset_value("kept")
        return value, context.load_asset_value("divided", partition_key="a")

    shelf, instance = {"shelf": Shelf()}, ServoInstance.ephemeral()
    _ = materialize([divided], partition_key="a", resources=shelf, instance=instance)
    done = materialize(
        [kept, divided, total], selection="kept, total", resources=shelf, instance=instance
    )
    assert done.asset_value("total") == (5, "a")


def test_a_context_of_a_test_says_that_it_loads_nothing() -> None:
    with pytest.raises(Invalid, match=r"cannot load assets; use servo\.materialize instead"):
        _ = build_asset_context().load_asset_value("orders")


# --- what contexts know and say -------------------------------------------------------------------


def test_a_version_of_the_data_can_be_told_to_the_context() -> None:
    @asset
    def made(context: AssetExecutionContext) -> int:
        context.set_data_version(context.asset_key, DataVersion("7"))
        with pytest.raises(Invalid, match="orders is not materialized by this"):
            context.set_data_version("orders", DataVersion("7"))
        with pytest.raises(Invalid, match="a data version is '7'; use DataVersion"):
            context.set_data_version("made", "7")  # pyright: ignore[reportArgumentType] - the mistake
        return 1

    @observable_source_asset
    def seen(context: AssetExecutionContext) -> ObserveResult:
        context.set_data_version("seen", DataVersion("8"))
        return ObserveResult()

    instance = ServoInstance.ephemeral()
    for each in (made, seen):
        _ = materialize([each], instance=instance)
    records = [instance.get_latest_data_version_record(key) for key in ("made", "seen")]
    assert [r and r.data_version for r in records] == [DataVersion("7"), DataVersion("8")]


def test_contexts_and_hooks_tell_the_configuration() -> None:
    told: list[Any] = []

    @success_hook
    def hear(context: HookContext) -> None:
        told.append(context.op_config)

    @asset(config_schema={"limit": int}, hooks={hear})
    def made(context: AssetExecutionContext) -> None:
        told.append(context.run_config["ops"])
        told.append(context.run.run_config["ops"])

    config = {"ops": {"made": {"config": {"limit": 3}}}}
    _ = materialize([made], run_config=config)
    assert told == [config["ops"], config["ops"], {"limit": 3}]
    assert build_asset_context().run_config == {}
    assert build_hook_context(op_config={"limit": 1}).op_config == {"limit": 1}


def test_an_output_context_for_a_test_takes_metadata_by_either_name() -> None:
    built = build_output_context(metadata={"path": "x"}, output_metadata={"rows": 3})
    assert (built.definition_metadata, built.output_metadata) == ({"path": "x"}, {"rows": 3})
    with pytest.raises(Invalid, match="both metadata and definition_metadata"):
        _ = build_output_context(metadata={}, definition_metadata={})


def test_a_policy_tells_how_long_it_waits() -> None:
    even = RetryPolicy(max_retries=3, delay=2, backoff=Backoff.EXPONENTIAL, jitter=Jitter.FULL)
    assert [even.calculate_delay(n) for n in (1, 2, 3)] == [2, 4, 8]
    assert RetryPolicy(delay=2, backoff=Backoff.LINEAR).calculate_delay(3) == 6
    assert RetryPolicy().calculate_delay(1) == 0


def test_a_time_without_a_zone_is_by_the_clocks_of_the_definition() -> None:
    days = DailyPartitionsDefinition("2024-01-01", timezone="Asia/Tokyo")
    assert days.get_partition_keys(datetime(2024, 1, 3)) == ["2024-01-01", "2024-01-02"]  # noqa: DTZ001 - what is tested
    two = datetime(2024, 1, 2, 15, tzinfo=UTC)
    assert days.get_partition_keys(two) == ["2024-01-01", "2024-01-02"]
    window = TimeWindow(datetime(2024, 1, 2), datetime(2024, 1, 3))  # noqa: DTZ001 - what is tested
    assert days.get_partition_keys_in_time_window(window) == ["2024-01-02"]


# --- definitions and selections -------------------------------------------------------------------


@sensor(target="orders")
def watch() -> None: ...


nightly = ScheduleDefinition(name="nightly", target="orders", cron_schedule="0 2 * * *")
DEFS = Definitions(
    [orders, parts, AssetSpec("ext")],
    schedules=[nightly],
    sensors=[watch],
    metadata={"team": "x"},
)


def test_definitions_are_asked_for_what_they_hold() -> None:
    assert DEFS.get_schedule_def("nightly").name == "nightly"
    assert DEFS.resolve_sensor_def("watch") is watch
    with pytest.raises(NotFound, match="there is no schedule 'daily'; available: nightly"):
        _ = DEFS.resolve_schedule_def("daily")
    with pytest.raises(NotFound, match="there is no sensor 'x'; available: none"):
        _ = Definitions().get_sensor_def("x")
    everything = DEFS.get_implicit_global_asset_job_def()
    assert everything.name == "__ASSET_JOB"
    assert everything.keys(DEFS.project()) == [AssetKey("orders"), AssetKey("parts")]


def test_definitions_keep_their_metadata_when_they_are_merged() -> None:
    merged = Definitions.merge(DEFS, Definitions(metadata={"team": "x", "n": 1}))
    assert merged.metadata == {"team": "x", "n": 1}
    with pytest.raises(Invalid, match="the merged Definitions differ in the metadata 'team'"):
        _ = Definitions.merge(DEFS, Definitions(metadata={"team": "y"}))


def test_definitions_describe_their_assets_anew() -> None:
    def grouped(spec: AssetSpec) -> AssetSpec:
        return spec.replace_attributes(group_name="all")

    def groups(defs: Definitions) -> dict[str, Any]:
        return {str(spec.key): spec.group_name for spec in defs.get_all_asset_specs()}

    assert set(groups(DEFS.map_asset_specs(func=grouped)).values()) == {"all"}
    some = DEFS.map_resolved_asset_specs(func=grouped, selection="parts")
    assert groups(some) == {"orders": "raw", "parts": "all", "ext": None}
    assert some.get_schedule_def("nightly").name == "nightly"
    assert groups(DEFS)["parts"] is None
    with pytest.raises(Invalid, match="func returned None for orders; return an AssetSpec"):
        _ = DEFS.map_asset_specs(func=lambda _: None)  # pyright: ignore[reportArgumentType] - the mistake


@pytest.mark.parametrize("word", ["owner", "group", "kind", "tag"])
def test_null_selects_what_has_none(word: str) -> None:
    chosen = AssetSelection.from_string(f"{word}:<null>")
    assert chosen.resolve([orders, parts]) == {AssetKey("parts")}
    assert chosen.to_selection_str() == f"{word}:<null>"
    assert AssetSelection.from_string(chosen.to_selection_str()) == chosen
    named = AssetSelection.from_string(f'{word}:"<null>"')
    assert (named == chosen, named.resolve([orders, parts])) == (False, frozenset())


def test_null_goes_with_the_rest_of_the_grammar() -> None:
    chosen = AssetSelection.from_string("owner:<null> and not kind:python or key:orders")
    assert chosen.resolve([orders, parts]) == {AssetKey("parts"), AssetKey("orders")}
    assert AssetSelection.owner(None) == AssetSelection.from_string("owner:<null>")
    assert AssetSelection.kind(None) == AssetSelection.from_string("kind:<null>")
    wrong: Any = [3]
    with pytest.raises(Invalid, match="3 is not an asset"):
        assert not chosen.resolve(wrong)


# --- instances ------------------------------------------------------------------------------------


def test_an_instance_tells_records() -> None:
    instance = ServoInstance.ephemeral()
    first = materialize([orders], instance=instance)
    second = materialize([orders], instance=instance, tags={"team": "x"})
    instance.report_runless_asset_event(AssetObservation("ext"))

    newest, oldest = instance.get_run_records()
    assert (newest.run.run_id, oldest.dagster_run.run_id) == (second.run_id, first.run_id)
    assert newest.start_time is not None
    assert newest.end_time is not None
    assert oldest.create_timestamp.timestamp() <= newest.start_time <= newest.end_time
    assert list(instance.get_run_records(ascending=True)) == [oldest, newest]
    assert list(instance.get_run_records(cursor=second.run_id)) == [oldest]
    assert list(instance.get_run_records(cursor="gone")) == []
    assert list(instance.get_run_records(RunsFilter(tags={"team": "x"}), limit=1)) == [newest]
    assert instance.get_run_record_by_id(first.run_id) == oldest
    assert instance.get_run_record_by_id("gone") is None
    with pytest.raises(Invalid, match="cannot be ordered by 'name'"):
        _ = instance.get_run_records(order_by="name")

    seen = instance.fetch_observations("ext")
    assert [e.asset_key for e in seen.records] == [AssetKey("ext")]
    assert (seen.has_more, instance.fetch_observations("orders").records) == (False, [])

    every = {record.asset_entry.asset_key: record for record in instance.get_asset_records()}
    entry = every[AssetKey("orders")].asset_entry
    assert (entry.last_run_id, entry.last_observation) == (second.run_id, None)
    assert entry.last_materialization == instance.get_latest_materialization_event("orders")
    other = every[AssetKey("ext")].asset_entry
    assert (other.last_materialization, other.last_run_id) == (None, None)
    assert other.last_observation is not None
    assert list(instance.get_asset_records(["ext", "gone"])) == [every[AssetKey("ext")]]
