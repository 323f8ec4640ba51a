"""Options and attributes that people know from elsewhere, each seen to do what it says."""

import enum
from types import ModuleType
from typing import Any, Literal

import pytest
from pydantic import Field

from servo import (
    AssetCheckResult,
    AssetExecutionContext,
    AssetKey,
    AssetOut,
    AssetSpec,
    BackfillPolicy,
    Config,
    DataVersion,
    InputContext,
    IOManager,
    OutputContext,
    PartitionKeyRange,
    ServoInstance,
    SourceAsset,
    StaticPartitionsDefinition,
    asset,
    asset_check,
    build_init_resource_context,
    build_input_context,
    load_assets_from_modules,
    materialize,
    multi_asset,
    multi_asset_check,
    observable_source_asset,
    resource,
)
from servo import dagster as dg
from servo.errors import Invalid
from servo.sdk.resources.resources import ResourceDefinition

LETTERS = StaticPartitionsDefinition(["a", "b", "c"])
TWO = {"users": AssetOut(), "orders": AssetOut()}
SEVEN = ResourceDefinition.hardcoded_resource(7)


# --- of functions that make several ---------------------------------------------------------------


def test_a_function_of_several_brings_its_resources_and_has_a_schema_of_its_config() -> None:
    @multi_asset(
        outs=TWO,
        config_schema={"limit": int},
        resource_defs={"seven": SEVEN},
        required_resource_keys={"seven"},
    )
    def split(context: AssetExecutionContext) -> tuple[int, int]:
        return context.op_config["limit"], context.resources.seven

    done = materialize([split], run_config={"ops": {"split": {"config": {"limit": 3}}}})
    assert (done.asset_value("users"), done.asset_value("orders")) == (3, 7)
    wrong = {"ops": {"split": {"config": {"limit": "many"}}}}
    failed = materialize([split], run_config=wrong, raise_on_error=False)
    assert "limit" in next(iter(failed.failures.values()))


@pytest.mark.parametrize("by_out", [False, True])
def test_a_function_of_several_makes_its_partitions_as_its_policy_says(by_out: bool) -> None:
    calls: list[list[str]] = []
    policy = BackfillPolicy.single_run()
    outs = {"users": AssetOut(backfill_policy=policy if by_out else None), "orders": AssetOut()}

    @multi_asset(outs=outs, partitions_def=LETTERS, backfill_policy=None if by_out else policy)
    def split(context: AssetExecutionContext) -> tuple[None, None]:
        calls.append(list(context.partition_keys))
        return None, None

    _ = materialize([split], partition_keys=["a", "b", "c"])
    assert calls == [["a", "b", "c"]]


def test_a_function_has_one_backfill_policy() -> None:
    outs = {"users": AssetOut(backfill_policy=BackfillPolicy.multi_run(2)), "orders": AssetOut()}
    with pytest.raises(Invalid, match="split has several backfill policies"):

        @multi_asset(outs=outs, backfill_policy=BackfillPolicy.single_run())
        def split() -> None: ...


def test_a_function_of_several_refuses_options_that_there_are_not() -> None:
    with pytest.raises(Invalid, match="there is no option compute_kind, retries"):
        _ = multi_asset(outs=TWO, retries=3, compute_kind="python")


def test_a_compute_kind_is_a_kind_of_each_of_several() -> None:
    @dg.multi_asset(
        outs={"users": AssetOut(kinds={"duckdb"}), "orders": AssetOut()}, compute_kind="python"
    )
    def split() -> None: ...

    assert [spec.kinds for spec in split.specs] == [("duckdb", "python"), ("python",)]


# --- of checks, observations and modules ----------------------------------------------------------


def test_a_check_brings_its_resources_and_has_a_schema_of_its_config() -> None:
    @asset
    def orders() -> int:
        return 5

    @asset_check(
        asset=orders,
        config_schema={"limit": int},
        resource_defs={"seven": SEVEN},
        required_resource_keys={"seven"},
    )
    def small(context: Any, orders: int) -> AssetCheckResult:
        assert context.resources.seven == 7
        return AssetCheckResult(passed=orders < context.op_config["limit"])

    config = {"ops": {"orders_small": {"config": {"limit": 9}}}}
    assert materialize([orders, small], run_config=config).success
    wrong: dict[str, Any] = {"ops": {"orders_small": {"config": {"limit": "many"}}}}
    rows = materialize([orders, small], run_config=wrong).check_results
    assert [row.passed for row in rows] == [False]


def test_several_checks_bring_their_resources() -> None:
    @asset
    def orders() -> int:
        return 5

    @multi_asset_check(
        specs=[dg.AssetCheckSpec("small", asset="orders")],
        resource_defs={"seven": SEVEN},
        required_resource_keys={"seven"},
    )
    def all_of_them(context: Any) -> Any:
        yield AssetCheckResult(check_name="small", passed=context.resources.seven == 7)

    assert [row.passed for row in materialize([orders, all_of_them]).check_results] == [True]


def test_an_observation_brings_its_resources_and_has_a_schema_of_its_config() -> None:
    @observable_source_asset(
        config_schema={"limit": int},
        resource_defs={"seven": SEVEN},
        required_resource_keys={"seven"},
    )
    def seen(context: AssetExecutionContext) -> DataVersion:
        return DataVersion(f"{context.op_config['limit']} {context.resources.seven}")

    instance = ServoInstance.ephemeral()
    config = {"ops": {"seen": {"config": {"limit": 3}}}}
    assert materialize([seen], run_config=config, instance=instance).success
    record = instance.get_latest_data_version_record(AssetKey("seen"))
    assert record is not None
    assert record.data_version == DataVersion("3 7")


def test_assets_that_are_loaded_have_the_policy_unless_they_have_their_own() -> None:
    @asset(partitions_def=LETTERS)
    def plain() -> None: ...

    @asset(partitions_def=LETTERS, backfill_policy=BackfillPolicy.multi_run(2))
    def own() -> None: ...

    module = ModuleType("assets")
    vars(module).update(plain=plain, own=own)
    made: Any = load_assets_from_modules([module], backfill_policy=BackfillPolicy.single_run())
    assert [one.backfill_policy for one in made] == [
        BackfillPolicy.single_run(),
        BackfillPolicy.multi_run(2),
    ]
    assert plain.backfill_policy is None


def test_a_source_asset_says_where_what_it_does_not_take_belongs() -> None:
    with pytest.raises(Invalid, match=r"no option resource_defs; pass resources and IO managers"):
        _ = SourceAsset("orders", resource_defs={})


# --- what definitions and contexts tell -----------------------------------------------------------


@multi_asset(
    specs=[
        AssetSpec("a", deps=["raw"], group_name="g", tags={"t": "v"}, owners=["team:x"]),
        AssetSpec("b", deps=["a"], description="the second", code_version="2", metadata={"n": 1}),
    ]
)
def several(context: AssetExecutionContext, seven: dg.ResourceParam[int]) -> None: ...


def test_a_definition_tells_of_its_assets_by_key() -> None:
    a, b, raw = AssetKey("a"), AssetKey("b"), AssetKey("raw")
    assert several.specs_by_key == {a: several.specs[0], b: several.specs[1]}
    assert several.get_asset_spec(b) is several.specs[1]
    assert several.asset_deps == {a: {raw}, b: {a}}
    assert several.dependency_keys == {raw}
    assert several.group_names_by_key == {a: "g"}
    assert several.descriptions_by_key == {b: "the second"}
    assert several.metadata_by_key == {a: {}, b: {"n": 1}}
    assert several.tags_by_key == {a: {"t": "v"}, b: {}}
    assert several.owners_by_key == {a: ("team:x",), b: ()}
    assert several.code_versions_by_key == {a: None, b: "2"}
    assert several.required_resource_keys == {"seven"}
    assert (several.is_executable, several.is_materializable) == (True, True)
    assert several.check_specs == ()
    with pytest.raises(Invalid, match="several does not define raw; use one of a, b"):
        _ = several.get_asset_spec(raw)


def test_a_definition_of_one_tells_of_it_without_a_key() -> None:
    @asset
    def total(orders: int) -> int:
        return orders

    assert total.get_asset_spec() is total.specs[0]
    assert total.keys_by_input_name == {"orders": AssetKey("orders")}


def test_a_context_tells_its_run_and_the_asset_behind_a_parameter() -> None:
    told: list[Any] = []

    @asset
    def orders() -> int:
        return 1

    @asset
    def total(context: AssetExecutionContext, orders: int) -> None:
        del orders
        told.extend([context.run.run_id == context.run_id, context.run.tags["team"]])
        told.extend([context.op_execution_context is context, context.job_name])
        told.append(context.asset_key_for_input("orders"))
        with pytest.raises(Invalid, match="no input 'order'; available: orders"):
            _ = context.asset_key_for_input("order")

    _ = materialize([orders, total], tags={"team": "x", "servo/job": "nightly"})
    assert told == [True, "x", True, "nightly", AssetKey("orders")]


def test_a_result_tells_of_nodes_and_checks() -> None:
    @asset(partitions_def=LETTERS)
    def orders(context: AssetExecutionContext) -> int:
        context.add_output_metadata({"rows": 3})
        return 1

    @asset_check(asset=orders, name="small")
    def check() -> AssetCheckResult:
        return AssetCheckResult(passed=False, description="no", metadata={"n": 2})

    @asset(deps=[orders], partitions_def=LETTERS)
    def total() -> None:
        raise ValueError("no")

    @asset(deps=[total], partitions_def=LETTERS)
    def mail() -> None: ...

    done = materialize([orders, check, total, mail], partition_key="a", raise_on_error=False)
    (made,) = done.asset_materializations_for_node("orders")
    assert (made.asset_key, made.partition) == (AssetKey("orders"), "a")
    assert made.metadata is not None
    assert made.metadata["rows"].value == 3
    (found,) = done.get_asset_check_evaluations()
    assert (found.asset_key, found.check_name, found.passed) == (AssetKey("orders"), "small", False)
    assert (found.description, found.metadata["n"].value) == ("no", 2)
    states = [
        [done.is_node_success(n), done.is_node_failed(n), done.is_node_skipped(n)]
        for n in ("orders", "total", "mail")
    ]
    assert states == [[True, False, False], [False, True, False], [False, False, True]]


# --- resources and IO managers --------------------------------------------------------------------


def test_a_resource_can_ask_the_workspace() -> None:
    asked: list[Any] = []

    @resource(version="1")
    def history(context: dg.InitResourceContext) -> int:
        asked.append(context.instance)
        return 1

    @asset(required_resource_keys={"history"})
    def orders(context: AssetExecutionContext) -> None:
        assert context.resources._asdict() == {"history": 1}

    _ = materialize([orders], resources={"history": history})
    assert [hasattr(one, "get_latest_materialization_event") for one in asked] == [True]
    instance = ServoInstance.ephemeral()
    assert build_init_resource_context(instance=instance).replace_config(1).instance is instance


def test_a_mock_takes_every_call() -> None:
    @asset(required_resource_keys={"api"})
    def orders(context: AssetExecutionContext) -> None:
        context.resources.api.connect("x").get(3)

    mock = ResourceDefinition.mock_resource()
    assert materialize([orders], resources={"api": mock}).success


class Heard:
    """A log that keeps what it is told."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def info(self, msg: object, *args: object) -> None:
        self.lines.append(str(msg) % args)

    debug = warning = error = info


def test_what_is_said_of_an_input_is_told_in_the_log() -> None:
    heard = Heard()
    context = build_input_context(name="orders", log=heard)
    context.add_input_metadata({"rows": 3})
    context.add_input_metadata({"rows": 3, "bytes": 9}, description="read")
    assert heard.lines == ["loaded orders: rows: 3", "read orders: rows: 3, bytes: 9"]


class Shelf(IOManager):
    def __init__(self) -> None:
        self.said: list[Any] = []

    def handle_output(self, context: OutputContext, obj: Any) -> None: ...

    def load_input(self, context: InputContext) -> Any:
        context.add_input_metadata({"rows": 3})
        self.said.append(context.has_input_name)
        return 9


def test_a_spec_names_the_io_manager_that_loads_it() -> None:
    @asset
    def total(ext: int) -> int:
        return ext + 1

    shelf = Shelf()
    ext = AssetSpec("ext", metadata={"n": 1}).with_io_manager_key("shelf")
    assert ext.metadata["n"] == 1
    done = materialize([ext, total], resources={"shelf": shelf})
    assert (done.asset_value("total"), shelf.said) == (10, [True])


def test_an_input_context_for_a_test_can_be_of_a_range() -> None:
    some = PartitionKeyRange("a", "b")
    built = build_input_context(asset_partition_key_range=some, asset_partitions_def=LETTERS)
    assert list(built.asset_partition_keys) == ["a", "b"]
    assert built.asset_partitions_def is LETTERS
    with pytest.raises(Invalid, match="without asset_partitions_def"):
        _ = build_input_context(asset_partition_key_range=some)


# --- configuration --------------------------------------------------------------------------------


class Size(enum.Enum):
    SMALL = "s"
    LARGE = "l"


class Cat(Config):
    kind: Literal["cat"] = "cat"
    name: str


class Dog(Config):
    kind: Literal["dog"] = "dog"
    size: Size = Size.SMALL


class Home(Config):
    animal: Cat | Dog = Field(discriminator="kind")
    rooms: dict[str, Size] = Field(default_factory=dict)


@pytest.mark.parametrize(
    "given", [{"kind": "dog", "size": "l"}, {"dog": {"size": "LARGE"}}, Dog(size=Size.LARGE)]
)
def test_a_union_is_told_apart_by_a_field_or_by_a_name(given: Any) -> None:
    assert Home(animal=given).animal == Dog(size=Size.LARGE)


def test_a_union_takes_none_but_its_members() -> None:
    with pytest.raises(ValueError, match="animal"):
        _ = Home.model_validate({"animal": {"fish": {"name": "x"}}})
    with pytest.raises(ValueError, match="animal"):
        _ = Home.model_validate({"animal": {"dog": "big"}})
    assert Home(animal=Cat(name=dg.EnvVar("NAME"))).animal.kind == "cat"


def test_an_enum_is_written_by_name_or_by_value() -> None:
    home = Home.model_validate(
        {"animal": {"cat": {"name": "x"}}, "rooms": {"a": "LARGE", "b": "s"}}
    )
    assert home.rooms == {"a": Size.LARGE, "b": Size.SMALL}
    with pytest.raises(ValueError, match="'s' or 'l'"):
        _ = Home.model_validate({"animal": {"cat": {"name": "x"}}, "rooms": {"a": "HUGE"}})
