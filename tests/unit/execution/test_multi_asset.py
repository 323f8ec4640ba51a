"""Functions that make several assets, that yield, that are coroutines, that observe."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import servo
from servo import (
    AssetCheckResult,
    AssetCheckSpec,
    AssetExecutionContext,
    AssetKey,
    AssetMaterialization,
    AssetObservation,
    AssetOut,
    AssetSpec,
    DataVersion,
    MaterializeResult,
    ObserveResult,
    Output,
    Skip,
    asset,
    asset_check,
    multi_asset,
    multi_asset_check,
    observable_source_asset,
)
from servo.core.state.rows.assets import AssetRow
from servo.errors import Invalid
from servo.host.materialize import MaterializationFailed, materialize
from servo.ledger.paths import Paths
from servo.projection.read.reader import Reader
from servo.storage.from_url import store_from_url
from servo.workspace.system import SystemClock

TWO = {"users": AssetOut(), "orders": AssetOut()}


@multi_asset(outs=TWO)
def split() -> tuple[list[str], list[int]]:
    return ["ada"], [1, 2]


@asset
def report(users: list[str], orders: list[int]) -> str:
    return f"{users} {orders}"


def test_values_go_to_the_outputs_in_their_order_and_on_to_what_depends_on_them() -> None:
    done = materialize([split, report])
    assert done.asset_value("users") == ["ada"]
    assert done.asset_value("orders") == [1, 2]
    assert done.asset_value("report") == "['ada'] [1, 2]"
    assert len(done.materializations) == 3
    assert len({row.task_key for row in done.materializations}) == 2


def test_everything_is_stored_and_loaded_again(tmp_path: Path) -> None:
    _ = materialize([split], store=str(tmp_path))
    assert servo.load_asset("orders", store=str(tmp_path)) == [1, 2]
    assert servo.load_asset("users", store=str(tmp_path)) == ["ada"]


def test_outputs_are_told_by_name_with_what_is_to_know_of_them() -> None:
    @multi_asset(outs={"a": AssetOut(key_prefix="raw"), "b": AssetOut(is_required=False)})
    def both(context: AssetExecutionContext) -> Iterator[Output]:
        context.add_output_metadata({"rows": 1}, output_name="a")
        assert context.asset_key_for_output("a") == AssetKey(["raw", "a"])
        assert context.output_for_asset_key(AssetKey("b")) == "b"
        yield Output(7, "a", metadata={"more": 2}, data_version=DataVersion("v1"))

    done = materialize([both])
    (row,) = done.materializations
    assert (row.asset_key, row.data_version) == ("raw/a", "v1")
    assert '"rows"' in row.metadata
    assert '"more"' in row.metadata


def test_assets_told_by_specs_are_made_by_results_or_by_silence() -> None:
    specs = [AssetSpec("a", deps=["up"]), AssetSpec("b")]

    @asset
    def up() -> None: ...

    @multi_asset(specs=specs)
    def told() -> Iterator[MaterializeResult]:
        for spec in specs:
            yield MaterializeResult(asset_key=spec.key, metadata={"k": 1})

    @multi_asset(specs=[AssetSpec("c"), AssetSpec("d")])
    def silent() -> None: ...

    made = {row.asset_key for row in materialize([up, told, silent]).materializations}
    assert made == {"up", "a", "b", "c", "d"}


def test_a_part_can_be_made_alone_only_if_the_function_says_so() -> None:
    seen: list[set[AssetKey]] = []

    @multi_asset(outs=TWO, can_subset=True)
    def some(context: AssetExecutionContext) -> Iterator[Output]:
        seen.append(context.selected_asset_keys)
        assert context.is_subset
        for name in context.selected_output_names:
            yield Output(name, name)

    done = materialize([some], selection="orders")
    assert seen == [{AssetKey("orders")}]
    assert done.asset_value("orders") == "orders"
    with pytest.raises(Invalid, match=r"split .* materializes users together with orders"):
        materialize([split], selection="orders")


def test_a_dependency_inside_a_function_is_none_between_tasks() -> None:
    deps = {"a": set[AssetKey](), "b": {AssetKey("a")}}

    @multi_asset(outs={"a": AssetOut(), "b": AssetOut()}, internal_asset_deps=deps)
    def chain() -> tuple[int, int]:
        return 1, 2

    assert materialize([chain]).asset_value("b") == 2
    with pytest.raises(Invalid, match="internal_asset_deps names x"):
        multi_asset(outs=TWO, internal_asset_deps={"x": set()})(lambda: None)


def wrong_number() -> int:
    return 1


def unnamed() -> MaterializeResult:
    return MaterializeResult()


def stranger() -> MaterializeResult:
    return MaterializeResult(asset_key="elsewhere")


def misnamed() -> Output:
    return Output(1, "elsewhere")


def twice() -> Iterator[Output]:
    yield Output(1, "users")
    yield Output(2, "users")


def half() -> Iterator[Output]:
    yield Output(1, "users")


def bare() -> Iterator[int]:
    yield 1


def nothing() -> None: ...


@pytest.mark.parametrize(
    ("fn", "why"),
    [
        (wrong_number, "returned 1 values for 2 assets"),
        (unnamed, "give each MaterializeResult its asset_key"),
        (stranger, "does not define elsewhere"),
        (misnamed, "has no output 'elsewhere', it has users, orders"),
        (twice, "returned users twice"),
        (half, "returned nothing for orders"),
        (bare, "yielded a int"),
        (nothing, "returned 1 values"),
    ],
)
def test_what_does_not_fit_is_told_and_makes_nothing(fn: Callable[..., Any], why: str) -> None:
    made = multi_asset(outs=TWO)(fn)
    with pytest.raises(MaterializationFailed, match=why):
        materialize([made])
    done = materialize([made], raise_on_error=False)
    assert done.materializations == []
    assert set(done.failures) == {AssetKey("users"), AssetKey("orders")}


def test_definitions_that_make_no_sense_are_refused() -> None:
    wrong: tuple[tuple[dict[str, Any], str], ...] = (
        ({}, "needs either outs or specs"),
        ({"outs": TWO, "specs": [AssetSpec("a")]}, "needs either outs or specs"),
        ({"outs": TWO, "colour": 1}, "no option colour"),
        ({"outs": {"a": AssetOut(key="x"), "b": AssetOut(key="x")}}, "defines x twice"),
        ({"outs": {"a": AssetOut(key="x", key_prefix="y")}}, "has both key and key_prefix"),
    )
    for options, why in wrong:
        with pytest.raises(Invalid, match=why):
            multi_asset(**options)(lambda: None)


def test_an_output_may_come_from_a_spec() -> None:
    spec = AssetSpec("a/b", description="d", owners=["ada@example.com"], skippable=True)
    made = multi_asset(outs={"x": AssetOut.from_spec(spec, io_manager_key="")})(lambda: None)
    assert made.specs == (spec,)


def test_the_context_says_that_there_are_several() -> None:
    @multi_asset(outs=TWO)
    def asks(context: AssetExecutionContext) -> None:
        _ = context.asset_key

    with pytest.raises(MaterializationFailed, match="asks defines several assets"):
        materialize([asks])


# --- one asset ------------------------------------------------------------------------------------


def test_one_asset_may_yield_what_it_made() -> None:
    @asset
    def yields() -> Iterator[Any]:
        yield AssetMaterialization("elsewhere", metadata={"rows": 3})
        yield Output(5)

    done = materialize([yields])
    assert done.asset_value("yields") == 5
    assert {row.asset_key for row in done.materializations} == {"yields", "elsewhere"}


def test_an_asset_that_need_not_be_made_is_skipped_when_it_is_not() -> None:
    @asset(output_required=False)
    def maybe() -> Iterator[Output]:
        yield from ()

    @asset
    def after(maybe: int) -> int:
        return maybe

    done = materialize([maybe, after])
    assert done.success
    assert done.materializations == []


def test_several_outputs_are_skipped_together() -> None:
    @multi_asset(outs=TWO)
    def never() -> Skip:
        return Skip("no news")

    assert materialize([never]).materializations == []


def test_coroutines_are_awaited_also_where_a_loop_runs() -> None:
    @asset
    async def slow() -> int:
        await asyncio.sleep(0)
        return 3

    @multi_asset(outs=TWO)
    async def streamed() -> AsyncIterator[Output]:
        yield Output(1, "users")
        await asyncio.sleep(0)
        yield Output(2, "orders")

    async def inside_a_loop() -> Any:
        return materialize([slow]).asset_value("slow")

    assert materialize([slow]).asset_value("slow") == 3
    assert materialize([streamed]).asset_value("orders") == 2
    assert asyncio.run(inside_a_loop()) == 3


def test_what_a_coroutine_raises_in_a_loop_is_what_fails() -> None:
    @asset
    async def wrong() -> int:
        raise ValueError("no")

    async def inside_a_loop() -> None:
        materialize([wrong])

    with pytest.raises(MaterializationFailed, match="ValueError: no"):
        asyncio.run(inside_a_loop())


def test_a_tuple_of_values_is_one_value_of_one_asset() -> None:
    @asset
    def pair() -> tuple[int, int]:
        return 1, 2

    assert list(materialize([pair]).asset_value("pair")) == [1, 2]


# --- observing ------------------------------------------------------------------------------------


def test_an_observation_records_the_version_and_makes_nothing(tmp_path: Path) -> None:
    @observable_source_asset(name="feed", group_name="outside")
    def look() -> ObserveResult:
        return ObserveResult(data_version=DataVersion("v9"), metadata={"lag": 1})

    done = materialize([look], store=str(tmp_path))
    assert done.success
    assert done.materializations == []
    store = store_from_url(str(tmp_path), clock=SystemClock())
    rows = Reader(store, Paths("default", "default")).snapshot().rows("assets")
    seen = [row for row in rows if isinstance(row, AssetRow)]
    assert [(row.asset_key, row.last_data_version) for row in seen] == [("feed", "v9")]


def test_observing_waits_to_be_asked_for() -> None:
    calls: list[str] = []

    @observable_source_asset
    def feed() -> DataVersion:
        calls.append("feed")
        return DataVersion("1")

    @asset(deps=[feed])
    def made() -> None:
        calls.append("made")

    materialize([feed, made])
    assert calls == ["made"]
    materialize([feed, made], selection="feed")
    assert calls == ["made", "feed"]


def test_an_observation_of_something_else_is_refused() -> None:
    @observable_source_asset
    def feed() -> Any:
        return 3

    with pytest.raises(MaterializationFailed, match="return DataVersion or ObserveResult"):
        materialize([feed])
    with pytest.raises(Invalid, match="loads no assets"):
        observable_source_asset(report.fn)
    with pytest.raises(Invalid, match="no option colour"):
        observable_source_asset(colour=1)(feed.fn)


def test_reports_about_other_assets_are_kept() -> None:
    @asset
    def tells(context: AssetExecutionContext) -> None:
        context.log_event(AssetMaterialization("other", tags={"dagster/data_version": "7"}))
        context.log_event(AssetObservation("seen"))
        with pytest.raises(Invalid, match="log_event got a int"):
            context.log_event(3)

    done = materialize([tells])
    other = next(row for row in done.materializations if row.asset_key == "other")
    assert (other.data_version, other.run_id) == ("7", done.run_id)


# --- checks ---------------------------------------------------------------------------------------


def test_a_blocking_check_of_one_output_keeps_all_of_them_back() -> None:
    @asset_check(asset="orders", blocking=True)
    def few(orders: list[int]) -> bool:
        return len(orders) < 2

    done = materialize([split, few], raise_on_error=False)
    assert not done.success
    assert done.materializations == []


def test_with_quarantine_only_the_output_that_failed_is_held_back() -> None:
    @multi_asset(outs=TWO, quarantine=True)
    def checked() -> tuple[int, int]:
        return 1, 2

    @asset_check(asset="orders", blocking=True)
    def odd(orders: int) -> bool:
        return orders % 2 == 1

    done = materialize([checked, odd])
    assert {row.asset_key: row.promoted for row in done.materializations} == {
        "users": True,
        "orders": False,
    }


def test_declared_checks_of_several_assets_are_told_by_results_or_by_name() -> None:
    specs = [AssetCheckSpec("full", asset="users"), AssetCheckSpec("cheap", asset="orders")]

    @multi_asset(outs=TWO, check_specs=specs)
    def checked() -> Iterator[Any]:
        yield AssetCheckResult(passed=True, check_name="cheap")
        yield Output(1, "users")
        yield Output(2, "orders")
        yield AssetCheckResult(passed=False, check_name="full", asset_key="users")

    done = materialize([checked])
    gates = {row.asset_key: row.gating_decision.value for row in done.materializations}
    assert gates == {"users": "warned", "orders": "promoted"}


def test_a_check_of_several_assets_sees_what_was_made_with_it() -> None:
    seen: list[tuple[int, int]] = []

    @multi_asset(outs=TWO)
    def two() -> tuple[int, int]:
        return 1, 2

    @multi_asset_check(
        specs=[AssetCheckSpec("a", asset="users"), AssetCheckSpec("b", asset="orders")]
    )
    def both(users: int, orders: int) -> Iterator[AssetCheckResult]:
        seen.append((users, orders))
        yield AssetCheckResult(passed=True, check_name="a")
        yield AssetCheckResult(passed=True, check_name="b")

    assert materialize([two, both]).success
    assert seen == [(1, 2)]


def test_an_undeclared_check_of_one_of_several_is_told() -> None:
    @multi_asset(outs=TWO)
    def tells() -> Iterator[Any]:
        yield AssetCheckResult(passed=True, check_name="what")
        yield Output(1, "users")
        yield Output(2, "orders")

    with pytest.raises(MaterializationFailed, match="reported a check, which was not declared"):
        materialize([tells])
