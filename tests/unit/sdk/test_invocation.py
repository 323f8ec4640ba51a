"""Calling assets and checks like the functions they are."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from servo import (
    AssetCheckResult,
    AssetExecutionContext,
    Config,
    ConfigurableResource,
    EnvVar,
    InitResourceContext,
    Output,
    ResourceParam,
    asset,
    asset_check,
    build_asset_check_context,
    build_asset_context,
    build_op_context,
    resource,
)
from servo.core.keys import AssetKey
from servo.errors import Invalid
from servo.sdk.assets.context import Execution
from servo.sdk.resources.resources import Silence


class Warehouse(ConfigurableResource[Any]):
    url: str
    closed: list[str] = []  # noqa: RUF012 - pydantic copies it

    def teardown_after_execution(self, context: InitResourceContext) -> None:
        del context
        CLOSED.append(self.url)


class Limit(Config):
    limit: int = 10


class Needs(Config):
    name: str


CLOSED: list[str] = []


@pytest.fixture(autouse=True)
def nothing_closed() -> None:
    CLOSED.clear()


@asset
def plain(raw: list[int], factor: int = 2) -> list[int]:
    return [number * factor for number in raw]


@asset
def everything(
    context: AssetExecutionContext, config: Limit, raw: list[int], warehouse: Warehouse
) -> tuple[str, int, list[int], str]:
    return str(context.asset_key), config.limit, raw, warehouse.url


def test_values_fill_parameters_in_order_or_by_name() -> None:
    assert plain([1, 2]) == plain(raw=[1, 2]) == [2, 4]
    assert plain([1], 5) == plain([1], factor=5) == [5]


def test_configuration_and_resources_come_from_the_context() -> None:
    context = build_asset_context(
        resources={"warehouse": Warehouse(url="w")}, asset_config={"limit": 3}
    )
    with context:
        assert everything(context, [1]) == ("everything", 3, [1], "w")
        assert CLOSED == []
    assert CLOSED == ["w"]


def test_configuration_and_resources_can_be_passed() -> None:
    context = build_asset_context()
    house = Warehouse(url="w")
    expected = ("everything", 4, [1], "w")
    assert everything(context, [1], warehouse=house, config=Limit(limit=4)) == expected
    assert everything(context, Limit(limit=4), [1], house) == expected
    assert everything(context=context, raw=[1], warehouse=house, config={"limit": 4}) == expected


def test_without_configuration_its_defaults_count() -> None:
    assert everything(build_asset_context(), [1], warehouse=Warehouse(url="w"))[1] == 10


def test_a_resource_that_is_passed_is_closed_after_the_call() -> None:
    _ = everything(build_asset_context(), [1], warehouse=Warehouse(url="w"))
    assert CLOSED == ["w"]


def test_a_resource_that_the_context_opened_stays_open_after_a_failure() -> None:
    @asset
    def fails(warehouse: Warehouse) -> None:
        raise ValueError(warehouse.url)

    with build_asset_context(resources={"warehouse": Warehouse(url="w")}) as context:
        with pytest.raises(ValueError, match="w"):
            fails(context)
        assert CLOSED == []


def test_variables_have_their_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAREHOUSE", "from the environment")

    @asset
    def reads(warehouse: Warehouse) -> str:
        return warehouse.url

    context = build_asset_context(resources={"warehouse": Warehouse(url=EnvVar("WAREHOUSE"))})
    assert reads(context) == "from the environment"


def test_a_context_is_passed_to_functions_that_take_none() -> None:
    @asset
    def takes_none(client: ResourceParam[str]) -> str:
        return client

    assert takes_none(build_asset_context(resources={"client": "c"})) == "c"
    assert takes_none(client="d") == "d"


def test_resources_by_key_are_those_of_the_context() -> None:
    @asset(required_resource_keys={"client"})
    def uses(context: AssetExecutionContext) -> str:
        return context.resources.client

    assert uses(build_op_context(resources={"client": "c"})) == "c"
    with pytest.raises(Invalid, match=r"needs the resource 'client'; build the context with"):
        uses(build_asset_context())


def test_a_function_that_makes_a_resource_is_opened_too() -> None:
    @resource
    def client() -> Iterator[str]:
        yield "c"
        CLOSED.append("c")

    @asset
    def uses(client: ResourceParam[str]) -> str:
        return client

    assert uses(client=client) == "c"
    assert CLOSED == ["c"]


WRONG: list[tuple[Any, tuple[Any, ...], dict[str, Any], str]] = [
    (plain, (), {}, "asset plain needs a value for raw; pass it: plain\\(raw=...\\)"),
    (plain, ([1], 2, 3), {}, "unexpected argument of type int; pass raw, factor"),
    (plain, ([1],), {"raws": 2}, "has no parameter 'raws'; did you mean 'raw'?"),
    (plain, ([1],), {"other": 2}, "has no parameter 'other'; it takes raw, factor"),
    (everything, ([1],), {}, "needs a context, but none was given; call it as everything\\(servo"),
    (everything, (), {"context": 3}, "the context is 3; pass servo.build_asset_context"),
]


@pytest.mark.parametrize(("target", "args", "given", "told"), WRONG)
def test_what_is_wrong_with_a_call_is_told(
    target: Any, args: tuple[Any, ...], given: dict[str, Any], told: str
) -> None:
    with pytest.raises(Invalid, match=told):
        target(*args, **given)


def test_a_missing_resource_and_one_that_is_given_twice_are_told() -> None:
    with pytest.raises(Invalid, match=r"'warehouse'; pass warehouse=\.\.\., or build the context"):
        everything(build_asset_context(), [1])
    house = Warehouse(url="w")
    with (
        build_asset_context(resources={"warehouse": house}) as context,
        pytest.raises(Invalid, match="'warehouse' twice"),
    ):
        everything(context, [1], warehouse=house)


def test_configuration_that_is_missing_or_given_twice_is_told() -> None:
    @asset
    def named(context: AssetExecutionContext, config: Needs) -> str:
        return config.name + str(context.op_config)

    with pytest.raises(Invalid, match="name"):
        named(build_asset_context())
    with pytest.raises(Invalid, match="config twice"):
        named(build_asset_context(asset_config={"name": "a"}), config=Needs(name="b"))


def test_none_stands_for_a_context_that_does_not_matter() -> None:
    @asset
    def logs(context: AssetExecutionContext) -> str:
        context.log.info("unheard")
        return str(context.asset_key)

    assert logs(None) == logs(context=None) == "logs"


def test_the_context_of_another_execution_is_passed_as_it_is() -> None:
    @asset
    def inner(context: AssetExecutionContext) -> str:
        return f"{context.asset_key} {context.run_id}"

    context = AssetExecutionContext(AssetKey("outer"), Silence(), execution=Execution(run_id="r"))
    assert inner(context) == "outer r"


def test_generators_and_coroutines_go_on_with_their_resources_open() -> None:
    @asset
    def yields(warehouse: Warehouse) -> Iterator[Output]:
        assert CLOSED == []
        yield Output(warehouse.url)

    @asset
    async def awaits(warehouse: Warehouse) -> str:
        await asyncio.sleep(0)
        assert CLOSED == []
        return warehouse.url

    @asset
    async def both(warehouse: Warehouse) -> AsyncIterator[str]:
        await asyncio.sleep(0)
        assert CLOSED == []
        yield warehouse.url

    async def all_of(items: AsyncIterator[str]) -> list[str]:
        return [item async for item in items]

    for run in (
        lambda: [output.value for output in yields(warehouse=Warehouse(url="w"))],
        lambda: [asyncio.run(awaits(warehouse=Warehouse(url="w")))],
        lambda: asyncio.run(all_of(both(warehouse=Warehouse(url="w")))),
    ):
        assert run() == ["w"]
        assert CLOSED == ["w"]
        CLOSED.clear()


def test_a_check_is_called_with_a_value() -> None:
    @asset_check(asset=plain)
    def few(context: AssetExecutionContext, plain: list[int], most: ResourceParam[int]) -> Any:
        context.log.info("checking")
        return AssetCheckResult(passed=len(plain) <= most)

    context = build_asset_check_context(resources={"most": 1})
    assert few(context, [1]).passed
    assert not few(context, plain=[1, 2]).passed
    with pytest.raises(Invalid, match="check few needs a value for plain"):
        few(context)


# --- the context itself ---------------------------------------------------------------------------


def test_a_built_context_says_what_it_was_given() -> None:
    context = build_asset_context(
        partition_key="2026-01-01",
        run_tags={"team": "data"},
        run_id="run_1",
        retry_number=2,
        instance="an instance",
        asset_key="raw/orders",
    )
    context.add_output_metadata({"rows": 3})
    assert context.has_partition_key
    assert (context.partition_key, list(context.partition_keys)) == ("2026-01-01", ["2026-01-01"])
    assert context.get_tag("team") == "data"
    assert (context.run_id, context.retry_number, context.instance) == ("run_1", 2, "an instance")
    assert context.asset_key == AssetKey(["raw", "orders"])
    assert context.get_output_metadata() == {"rows": 3}


@pytest.mark.parametrize(
    ("name", "told"),
    [
        (
            "asset_key",
            "not belong to an asset yet; pass it to an asset, or build it with asset_key",
        ),
        ("partition_key", "without partition_key; build it with partition_key=..."),
        ("partition_keys", "without partition_key"),
        ("partition_key_range", "build it with partition_key_range=..."),
        ("partition_time_window", "build it with partition_time_window=..."),
        ("instance", "without an instance; use build_asset_context"),
    ],
)
def test_what_a_built_context_was_not_given_is_told(name: str, told: str) -> None:
    context = build_asset_context()
    assert not hasattr(context, name)
    with pytest.raises(Invalid, match=told):
        getattr(context, name)


def test_a_name_that_no_context_has_is_told_as_python_does() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = build_asset_context().nothing


def test_a_context_belongs_to_the_asset_that_was_called_with_it_last() -> None:
    @asset(key="one/two")
    def named(context: AssetExecutionContext) -> str:
        return str(context.asset_key)

    context = build_asset_context(asset_key="mine")
    assert context.asset_key == AssetKey("mine")
    assert named(context) == "one.two"
    assert context.asset_key == AssetKey(["one", "two"])


def test_the_configuration_has_one_name_at_a_time() -> None:
    assert build_op_context(op_config={"a": 1}).op_config == {"a": 1}
    assert build_op_context(config={"a": 1}).op_config == {"a": 1}
    with pytest.raises(Invalid, match="both op_config and config"):
        build_op_context(op_config={"a": 1}, config={"a": 1})
