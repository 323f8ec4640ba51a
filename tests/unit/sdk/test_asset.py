"""`@asset`: what a function says by its name, its parameters and its options."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from servo.core.keys import AssetKey
from servo.errors import Invalid
from servo.sdk.assets.asset import asset
from servo.sdk.assets.context import AssetExecutionContext
from servo.sdk.assets.retries import RetryPolicy
from servo.sdk.assets.specs import AssetDep, AssetIn, AssetSpec
from servo.sdk.definitions.definitions import Definitions


def test_a_function_is_an_asset_of_its_name() -> None:
    @asset
    def orders() -> int:
        """All orders."""
        return 1

    assert orders.key == AssetKey("orders")
    assert orders.specs[0].description == "All orders."
    assert orders() == 1


def test_parameters_are_upstream_assets_except_the_context() -> None:
    @asset
    def report(context: AssetExecutionContext, orders: int, users: int) -> int:
        del context
        return orders + users

    assert report.signature.context == "context"
    assert report.input_keys == {"orders": AssetKey("orders"), "users": AssetKey("users")}
    assert [dep.asset_key for dep in report.specs[0].deps] == [
        AssetKey("orders"),
        AssetKey("users"),
    ]


def test_a_key_comes_from_a_prefix_and_a_name_or_whole() -> None:
    assert (
        asset(key_prefix=["raw", "shop"])(
            lambda: None,
        ).keys
        != set()
    )

    @asset(key_prefix=["raw", "shop"], name="orders")
    def one() -> None: ...

    @asset(key="raw/shop/orders")
    def other() -> None: ...

    assert one.key == other.key == AssetKey(["raw", "shop", "orders"])


def test_ins_say_which_asset_fills_a_parameter() -> None:
    @asset(ins={"o": AssetIn(key="raw/orders"), "u": AssetIn(key_prefix="raw")})
    def report(o: int, u: int) -> None:
        del o, u

    assert report.input_keys == {"o": AssetKey(["raw", "orders"]), "u": AssetKey(["raw", "u"])}


def test_deps_are_named_in_any_way_and_once() -> None:
    @asset
    def orders() -> None: ...

    @asset(
        deps=[orders, "orders", AssetKey("users"), AssetDep("users"), ["raw", "x"], AssetSpec("y")]
    )
    def report() -> None: ...

    keys = [dep.asset_key for dep in report.specs[0].deps]
    assert keys == [AssetKey("orders"), AssetKey("users"), AssetKey(["raw", "x"]), AssetKey("y")]


def test_what_is_said_about_an_asset_is_kept() -> None:
    @asset(
        description="d",
        metadata={"n": 1},
        tags={"team": "x"},
        owners=["team:x"],
        kinds={"python", "duckdb"},
        group_name="g",
        code_version="3",
        pool="db",
        timeout=90,
    )
    def a() -> None: ...

    spec = a.specs[0]
    assert (spec.description, spec.metadata, spec.tags) == ("d", {"n": 1}, {"team": "x"})
    assert (spec.owners, spec.kinds, spec.group_name) == (("team:x",), ("duckdb", "python"), "g")
    assert (spec.code_version, a.behaviour.pool) == ("3", "db")
    assert a.behaviour.timeout == timedelta(seconds=90)


def no_parameters() -> None: ...


def variadic(*args: int) -> None:
    del args


@pytest.mark.parametrize(
    ("fn", "options", "why"),
    [
        (no_parameters, {"key": "a", "name": "b"}, "key cannot be combined with name"),
        (no_parameters, {"ins": {"x": AssetIn()}}, "x, but the function has no such parameter"),
        (no_parameters, {"deps": "orders"}, "deps is a single string"),
        (no_parameters, {"deps": [3]}, "does not name an asset"),
        (no_parameters, {"tags": {"a": 1}}, "the tag 'a' is 1"),
        (no_parameters, {"timeout": 0}, "timeout is 0"),
        (no_parameters, {"colour": "red"}, "no option colour"),
        (no_parameters, {"name": "a/b"}, "contains '/'"),
        (variadic, {}, "takes *args"),
    ],
)
def test_a_mistake_is_told_with_its_remedy(
    fn: Callable[..., Any], options: dict[str, Any], why: str
) -> None:
    with pytest.raises(Invalid) as told:
        asset(**options)(fn)
    assert why in str(told.value)
    assert told.value.remedy


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"owners": "a@b.c"}, r"owners is a single string; write \['a@b.c'\]"),
        ({"kinds": "python"}, "kinds is a single string"),
        ({"required_resource_keys": "db"}, "required_resource_keys is a single string"),
        ({"group_name": 3}, "group_name is 3; use a string"),
        ({"code_version": 1}, "code_version is 1; use a string"),
        ({"metadata": [1]}, "metadata is .1.; use"),
        ({"retry_policy": 3}, "retry_policy is 3; use RetryPolicy"),
        ({"backfill_policy": "one"}, "backfill_policy is 'one'; use BackfillPolicy"),
        ({"pool": 3}, "pool is 3"),
        ({"io_manager_key": 3}, "io_manager_key is 3"),
        ({"timeout": "soon"}, "timeout is 'soon'; use seconds"),
        ({"check_specs": ["x"]}, "a check is 'x'; use AssetCheckSpec"),
    ],
)
def test_an_option_of_another_kind_is_refused_where_it_is_written(
    options: dict[str, Any], words: str
) -> None:
    with pytest.raises(Invalid, match=words):

        @asset(**options)
        def orders() -> None: ...


def test_definitions_refuse_what_is_no_job_and_no_check() -> None:
    with pytest.raises(Invalid, match="3 is not a job; use define_asset_job"):
        _ = Definitions(jobs=[3])
    with pytest.raises(Invalid, match="3 is not a check; decorate"):
        _ = Definitions(asset_checks=[3])


def test_a_retry_policy_refuses_what_is_no_backoff_and_no_jitter() -> None:
    wrong: Any = "exponential"
    with pytest.raises(Invalid, match="backoff is 'exponential'; use Backoff"):
        _ = RetryPolicy(backoff=wrong)
    with pytest.raises(Invalid, match="jitter is 'exponential'; use Jitter"):
        _ = RetryPolicy(jitter=wrong)
