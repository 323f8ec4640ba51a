"""When checks run, what they are given, and what follows for the task."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import polars as pl
import pytest

from servo import (
    AssetCheckExecutionContext,
    AssetCheckKey,
    AssetCheckResult,
    AssetCheckSeverity,
    AssetCheckSpec,
    AssetExecutionContext,
    AssetIn,
    AssetKey,
    AssetsDefinition,
    AssetSelection,
    AssetSpec,
    Config,
    ConfigurableResource,
    Definitions,
    IOManager,
    MaterializeResult,
    Output,
    RetryPolicy,
    Skip,
    asset,
    asset_check,
    checks,
    load_assets_from_modules,
    materialize,
    multi_asset_check,
)
from servo.core.state.rows.assets import CheckResultRow
from servo.errors import Invalid
from servo.host.materialize import MaterializedRun
from servo.ledger.paths import Paths
from servo.planning.assets import plan_assets
from servo.projection.read.reader import Reader
from servo.sdk.definitions.project import Project
from servo.storage.from_url import store_from_url
from servo.workspace.system import SystemClock

INFO, WARN = AssetCheckSeverity.INFO, AssetCheckSeverity.WARN
CRITICAL = AssetCheckSeverity.CRITICAL


def run(folder: Path, *things: Any, **options: Any) -> MaterializedRun:
    return materialize(list(things), store=str(folder), raise_on_error=False, **options)


def rows(folder: Path) -> list[CheckResultRow]:
    store = store_from_url(str(folder), clock=SystemClock())
    found = Reader(store, Paths("default", "default")).snapshot().rows("check_results")
    kept = [row for row in found if isinstance(row, CheckResultRow)]
    return sorted(kept, key=lambda row: (row.row_version, row.asset_key, row.check_name))


def told(folder: Path) -> list[tuple[str, str, bool, str]]:
    return [(r.asset_key, r.check_name, r.passed, r.severity.value) for r in rows(folder)]


@asset
def raw() -> list[dict[str, Any]]:
    return [{"id": 1}, {"id": 2}]


@asset
def orders(raw: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return raw


@asset
def report(orders: list[dict[str, Any]]) -> int:
    return len(orders)


# --- before -----------------------------------------------------------------------------------


@pytest.mark.parametrize("blocking", [True, False])
def test_a_check_before_sees_the_inputs_and_may_keep_the_function_from_running(
    tmp_path: Path, blocking: bool
) -> None:
    calls: list[int] = []

    @asset(name="orders", retry_policy=RetryPolicy(max_retries=3))
    def made(raw: Any) -> Any:
        calls.append(1)
        return raw

    @asset_check(asset=made, when="before", blocking=blocking)
    def many(raw: Any) -> bool:
        return len(raw) > 2

    result = run(tmp_path, raw, made, report, many)
    assert len(calls) == (0 if blocking else 1)
    assert told(tmp_path) == [("orders", "many", False, "ERROR")]
    assert result.run.tasks_skipped == (1 if blocking else 0)
    if blocking:
        assert result.failures == {AssetKey("orders"): "a blocking check failed: many"}
        assert rows(tmp_path)[0].materialization_id == ""


def test_a_ready_made_check_may_look_at_an_input(tmp_path: Path) -> None:
    few = checks.row_count(orders, min=3, when="before", blocking=True)
    assert not run(tmp_path, raw, orders, few).success
    assert "raw" not in rows(tmp_path)[0].asset_key
    assert rows(tmp_path)[0].message == "2 rows: fewer than 3"


def test_an_input_that_is_too_old_is_refused(tmp_path: Path) -> None:
    fresh = checks.freshness(orders, max_age=timedelta(hours=1), when="before", blocking=True)
    assert run(tmp_path, raw, orders, fresh).success
    stale = checks.freshness(orders, max_age=1e-6, when="before", blocking=True)
    assert not run(tmp_path, raw, orders, stale, selection="orders").success


def test_a_check_before_must_name_an_input() -> None:
    @asset_check(asset=orders, when="before")
    def odd(orders: Any) -> bool:
        return bool(orders)

    with pytest.raises(
        Invalid, match="runs before orders and reads orders, but the inputs of orders are raw"
    ):
        Project([raw, orders], checks=[odd])
    no_input = checks.row_count(raw, min=1, when="before")
    with pytest.raises(Invalid, match="are none; name one parameter"):
        Project([raw], checks=[no_input])


@pytest.mark.parametrize("ending", ["raises", "skips"])
def test_what_was_found_before_is_known_however_the_function_ends(
    tmp_path: Path, ending: str
) -> None:
    @asset(name="orders")
    def made(raw: Any) -> Any:
        if ending == "skips":
            return Skip("nothing new")
        raise ValueError(raw)

    many = checks.row_count(made, min=3, when="before")
    run(tmp_path, raw, made, many)
    assert told(tmp_path) == [("orders", "row_count", False, "ERROR")]


def test_a_check_before_may_look_at_what_the_asset_was(tmp_path: Path) -> None:
    seen: list[Any] = []

    @asset_check(asset=orders, when="before", additional_ins={"last": AssetIn("orders")})
    def grows(raw: Any, last: Any) -> bool:
        seen.append(last)
        return len(raw) >= len(last or ())

    for _ in range(2):
        assert run(tmp_path, raw, orders, grows).success
    assert seen == [None, [{"id": 1}, {"id": 2}]]


# --- severities and policies ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("severity", "policy", "state", "gate"),
    [
        ("INFO", None, "SUCCEEDED", "promoted"),
        ("WARN", "block_on_error", "SUCCEEDED", "promoted"),
        ("ERROR", None, "SUCCEEDED", "warned"),
        ("ERROR", "block_on_error", "FAILED", None),
        ("CRITICAL", None, "FAILED", None),
        ("CRITICAL", "warn_only", "SUCCEEDED", "warned"),
        ("CRITICAL", "quarantine", "SUCCEEDED", "quarantined"),
    ],
)
def test_what_follows_is_what_the_matrix_says(
    severity: str, policy: str | None, state: str, gate: str | None
) -> None:
    @asset(check_policy=policy)
    def orders() -> int:
        return 1

    @asset_check(asset=orders, severity=severity)
    def never() -> bool:
        return False

    result = materialize([orders, never], raise_on_error=False)
    assert result.run.state.value == state
    made = [row.gating_decision.value for row in result.materializations]
    assert made == ([gate] if gate else [])


def test_a_result_may_name_a_severity_of_its_own(tmp_path: Path) -> None:
    @asset_check(asset=raw, severity=WARN)
    def usual() -> AssetCheckResult:
        return AssetCheckResult(passed=False)

    @asset_check(asset=raw, severity=WARN)
    def own() -> AssetCheckResult:
        return AssetCheckResult(passed=False, severity=INFO)

    @asset_check(asset=raw, severity=WARN)
    def broken() -> AssetCheckResult:
        raise ValueError("odd")

    @asset_check(asset=raw, severity=WARN)
    def gone() -> AssetCheckResult:
        raise SystemExit(3)

    assert run(tmp_path, raw, usual, own, broken, gone).success
    assert sorted((name, severity) for _, name, _, severity in told(tmp_path)) == [
        ("broken", "WARN"),
        ("gone", "WARN"),
        ("own", "INFO"),
        ("usual", "WARN"),
    ]


def test_after_a_critical_failure_no_other_check_runs(tmp_path: Path) -> None:
    ran: list[int] = []

    @asset_check(asset=raw, severity=CRITICAL)
    def first() -> bool:
        return False

    @asset_check(asset=raw)
    def second() -> bool:
        ran.append(1)
        return True

    assert not run(tmp_path, raw, first, second).success
    assert (ran, told(tmp_path)) == ([], [("raw", "first", False, "CRITICAL")])


# --- several checks in one function -----------------------------------------------------------


def specs(*names: str, **options: Any) -> list[AssetCheckSpec]:
    made: list[AssetCheckSpec] = []
    for text in names:
        of, _, name = text.partition(".")
        made.append(AssetCheckSpec(name, asset=of, **options))
    return made


def test_one_function_checks_several_assets_with_the_last_of_them(tmp_path: Path) -> None:
    seen: list[Any] = []

    @multi_asset_check(specs=specs("raw.good", "orders.good"))
    def both(
        context: AssetCheckExecutionContext, raw: Any, orders: Any
    ) -> Iterator[AssetCheckResult]:
        seen.append((len(raw), len(orders)))
        seen.append(sorted(key.asset_key.name for key in context.selected_asset_check_keys))
        yield AssetCheckResult(passed=True, asset_key="raw")
        yield AssetCheckResult(passed=False, asset_key="orders", check_name="good")

    assert run(tmp_path, raw, orders, both).success
    assert seen == [(2, 2), ["orders", "raw"]]
    assert told(tmp_path) == [
        ("orders", "good", False, "ERROR"),
        ("raw", "good", True, "ERROR"),
    ]


@pytest.mark.parametrize(
    ("results", "messages"),
    [
        ([AssetCheckResult(passed=True, check_name="a")], {"b": "did not report this check"}),
        (
            [AssetCheckResult(passed=True, check_name="c")],
            {"a": "reported a check c, which was not declared", "b": "not declared"},
        ),
        (
            [AssetCheckResult(passed=True)],
            {"a": "a check without a name, which could be several", "b": "several"},
        ),
        (
            [AssetCheckResult(passed=True, check_name="a")] * 2,
            {"a": "the check a of raw twice", "b": "twice"},
        ),
        ([True, True], {"a": "returned bool instead of AssetCheckResult", "b": "bool"}),
    ],
)
def test_what_a_function_did_not_report_or_declare_is_told(
    tmp_path: Path, results: list[Any], messages: dict[str, str]
) -> None:
    @multi_asset_check(specs=specs("raw.a", "raw.b"))
    def several() -> list[Any]:
        return results

    assert run(tmp_path, raw, several).success
    failed = {row.check_name: row.message for row in rows(tmp_path) if not row.passed}
    assert failed.keys() == messages.keys()
    for name, message in messages.items():
        assert message in failed[name]


# --- checks that the asset's own function makes -----------------------------------------------


def declaring(found: Any, **options: Any) -> Any:
    @asset(check_specs=[AssetCheckSpec("good", asset="own", **options)])
    def own() -> Any:
        return found

    return own


def test_a_function_reports_its_own_checks(tmp_path: Path) -> None:
    result = MaterializeResult(
        value=5, check_results=[AssetCheckResult(passed=False, metadata={"n": 1})]
    )
    made = run(tmp_path, declaring(result))
    assert (made.success, made.asset_value("own")) == (True, 5)
    assert told(tmp_path) == [("own", "good", False, "ERROR")]
    assert not run(tmp_path, declaring(result, blocking=True)).success


def test_a_function_may_yield_what_it_made_and_what_it_found(tmp_path: Path) -> None:
    @asset(check_specs=[AssetCheckSpec("good", asset="own")])
    def own() -> Iterator[Any]:
        yield Output(7)
        yield AssetCheckResult(passed=True, check_name="good")

    result = run(tmp_path, own)
    assert (result.success, result.asset_value("own")) == (True, 7)
    assert told(tmp_path) == [("own", "good", True, "ERROR")]


def test_a_declared_check_that_is_not_reported_fails_the_task(tmp_path: Path) -> None:
    result = run(tmp_path, declaring(1))
    (why,) = result.failures.values()
    assert "declares the check good but did not report it" in why


def test_a_reported_check_that_is_not_declared_fails_the_task(tmp_path: Path) -> None:
    @asset
    def own() -> Any:
        return MaterializeResult(check_results=[AssetCheckResult(passed=True, check_name="good")])

    (why,) = run(tmp_path, own).failures.values()
    assert "reported a check" in why
    assert "which was not declared" in why


def test_a_declared_check_follows_its_asset_under_a_prefix(tmp_path: Path) -> None:
    own = declaring(MaterializeResult(check_results=[AssetCheckResult(passed=True)]))
    module = ModuleType("shop")
    vars(module)["own"] = own
    (moved,) = load_assets_from_modules([module], key_prefix="shop")
    assert run(tmp_path, moved).success
    assert told(tmp_path) == [("shop/own", "good", True, "ERROR")]


def test_a_check_is_declared_where_it_is_made() -> None:
    @asset(check_specs=[AssetCheckSpec("good", asset="raw")])
    def other() -> None: ...

    with pytest.raises(Invalid, match="declares the check good of raw, which it does not define"):
        Project([raw, other])

    @asset_check(asset="own")
    def good() -> bool:
        return True

    with pytest.raises(Invalid, match="two checks called good"):
        Project([declaring(1)], checks=[good])


# --- what a check is given --------------------------------------------------------------------


def test_a_check_may_load_other_assets(tmp_path: Path) -> None:
    @asset
    def limits() -> dict[str, int]:
        return {"most": 1}

    @asset_check(asset=orders, additional_ins={"other": AssetIn("limits")}, blocking=True)
    def few(orders: Any, other: Any) -> AssetCheckResult:
        return AssetCheckResult(passed=len(orders) <= other["most"])

    result = run(tmp_path, raw, orders, limits, few)
    assert result.failures == {AssetKey("orders"): "a blocking check failed: few"}
    alone = run(tmp_path, raw, orders, limits, few, selection="orders")
    assert alone.failures == result.failures


def test_what_a_check_needs_is_made_first_unless_it_is_made_from_it() -> None:
    @asset
    def zebra() -> int:
        return 1

    @asset_check(asset=orders, additional_deps=["zebra", "report"])
    def odd() -> bool:
        return True

    @asset_check(asset="zebra", additional_deps=[orders])
    def circle() -> bool:
        return True

    project = Project([raw, orders, report, zebra], checks=[odd, circle])
    plan = plan_assets(project, project.order)
    above = {task.asset_key: task.upstream for task in plan.tasks}
    assert above["orders"] == ("raw:materialize", "zebra:materialize")
    assert above["zebra"] == ()
    tags = {task.asset_key: task.tags for task in plan.tasks}
    assert tags["orders"] == {"servo/inputs": "zebra,report"}
    assert tags["raw"] == {}


class Limits(ConfigurableResource):
    most: int


class Allowed(Config):
    least: int = 0


def test_a_check_has_resources_configuration_and_a_context(tmp_path: Path) -> None:
    seen: list[Any] = []

    @asset_check(asset=raw, required_resource_keys={"limits"})
    def within(
        context: AssetCheckExecutionContext, config: Allowed, raw: Any, other: Limits
    ) -> bool:
        seen.append((context.asset_key.name, context.resources.limits.most, other.most))
        seen.append([key.name for key in context.selected_asset_check_keys])
        return len(raw) >= config.least

    resources = {"limits": Limits(most=3), "other": Limits(most=4)}
    config = {"ops": {"raw_within": {"config": {"least": 3}}}}
    assert run(tmp_path, raw, within, resources=resources, run_config=config).success
    assert seen == [("raw", 3, 4), ["within"]]
    assert not rows(tmp_path)[0].passed


def test_a_table_comes_as_the_check_asks_for_it(tmp_path: Path) -> None:
    @asset
    def frame() -> Any:
        return pl.DataFrame({"id": [1]}).to_pandas()

    @asset_check(asset=frame, blocking=True)
    def is_polars(frame: pl.DataFrame) -> Any:
        return AssetCheckResult(passed=type(frame) is pl.DataFrame)

    assert run(tmp_path, frame, is_polars).success


def test_numpy_says_yes_and_no_too(tmp_path: Path) -> None:
    @asset
    def frame() -> Any:
        return pl.DataFrame({"id": [1]}).to_pandas()

    @asset_check(asset=frame, blocking=True)
    def positive(frame: Any) -> Any:
        return (frame["id"] > 0).all()

    @asset_check(asset=frame, blocking=True)
    def wrapped(frame: Any) -> Any:
        return AssetCheckResult(passed=(frame["id"] > 0).all())

    assert run(tmp_path, frame, positive, wrapped).success
    assert all(row.passed for row in rows(tmp_path))


def test_a_query_sees_what_the_asset_is_made_from(tmp_path: Path) -> None:
    same = "select (select count(*) from raw) = (select count(*) from orders)"
    assert run(tmp_path, raw, orders, checks.sql(orders, same, blocking=True)).success
    less = "select count(*) < (select count(*) from report) from orders"
    failed = checks.sql(orders, less, ins={"report": "raw"}, name="less", blocking=True)
    assert not run(tmp_path, raw, orders, failed).success


def test_rows_are_compared_with_the_last_output(tmp_path: Path) -> None:
    def counting(count: int) -> AssetsDefinition:
        @asset
        def many() -> list[int]:
            return list(range(count))

        return many

    half = checks.row_count("many", min_ratio=0.5, blocking=True)
    states = [run(tmp_path, counting(count), half).success for count in (10, 6, 2, 3)]
    assert states == [True, True, False, True]
    assert '"previous_row_count":{"type":"int","value":6}' in rows(tmp_path)[-1].metadata


def test_what_a_check_says_is_bounded(tmp_path: Path) -> None:
    @asset_check(asset=raw)
    def wordy() -> AssetCheckResult:
        metadata = {"small": 1, "huge": "x" * 300_000, "next": 2}
        return AssetCheckResult(passed=True, description="y" * 300_000, metadata=metadata)

    assert run(tmp_path, raw, wordy).success
    (row,) = rows(tmp_path)
    assert len(row.message) == 8_000
    assert '"small"' in row.metadata
    assert '"next"' in row.metadata
    assert "too large: huge" in row.metadata


def test_a_value_of_the_wrong_kind_fails_the_check_and_not_the_worker(tmp_path: Path) -> None:
    @asset
    def number() -> int:
        return 7

    every = [
        checks.row_count(number, min=1),
        checks.not_null(number, "id"),
        checks.unique(number, "id"),
        checks.freshness(number, max_age=1, column="at"),
        checks.schema(number, {"id": int}),
        checks.sql(number, "select true from asset"),
        checks.sql(number, "selec", name="typo"),
    ]
    assert run(tmp_path, number, *every).success
    assert [row.passed for row in rows(tmp_path)] == [False] * len(every)
    assert "number is a int, which is not a table" in rows(tmp_path)[0].message


# --- io managers ------------------------------------------------------------------------------


class Shelf(IOManager):
    def __init__(self) -> None:
        self.held: dict[str, Any] = {}

    def handle_output(self, context: Any, obj: Any) -> None:
        self.held[context.asset_key.name] = obj

    def load_input(self, context: Any) -> Any:
        return self.held[context.asset_key.name]


def test_rows_are_compared_with_what_an_io_manager_has(tmp_path: Path) -> None:
    shelf = Shelf()

    @asset
    def many(context: AssetExecutionContext) -> list[int]:
        return list(range(int(context.get_tag("count") or 0)))

    half = checks.row_count(many, min_ratio=0.5, blocking=True)
    states = [
        run(tmp_path, many, half, resources={"io_manager": shelf}, tags={"count": count}).success
        for count in ("10", "4", "6")
    ]
    assert (states, len(shelf.held["many"])) == ([True, False, True], 6)


def test_a_query_reads_what_an_io_manager_has_of_another_asset(tmp_path: Path) -> None:
    @asset(io_manager_key="shelf")
    def customers() -> list[dict[str, int]]:
        return [{"id": 1}]

    @asset(deps=[customers])
    def purchases() -> list[dict[str, int]]:
        return [{"customer": 1}]

    known = checks.sql(
        purchases, "select count(*) = 0 from purchases where customer not in (from customers)"
    )
    result = run(tmp_path, customers, purchases, known, resources={"shelf": Shelf()})
    assert (result.success, [row.message for row in rows(tmp_path)]) == (
        True,
        ["the query returned yes"],
    )


@pytest.mark.parametrize("policy", ["as_declared", "quarantine"])
def test_what_a_check_refuses_is_not_handed_to_an_io_manager(policy: str) -> None:
    shelf = Shelf()

    @asset(check_policy=policy)
    def number() -> int:
        return 7

    bad = checks.schema(number, {"id": int}, blocking=True)
    result = materialize([number, bad], resources={"io_manager": shelf}, raise_on_error=False)
    assert (result.success, shelf.held) == (False, {})
    assert materialize([number], resources={"io_manager": shelf}).success
    assert shelf.held == {"number": 7}


# --- checks alone -----------------------------------------------------------------------------


def test_checks_run_alone_on_the_latest_output(tmp_path: Path) -> None:
    rowful = checks.row_count(orders, min=1)
    unique = checks.unique(orders, "id", blocking=True)
    everything = (raw, orders, report, rowful, unique)
    assert run(tmp_path, *everything).success
    before = rows(tmp_path)
    made = before[0].materialization_id
    result = run(tmp_path, *everything, selection=AssetSelection.checks_for_assets(orders))
    assert (result.success, result.run.task_count, result.materializations) == (True, 1, [])
    new = [row for row in rows(tmp_path) if row.run_id == result.run_id]
    assert [(row.check_name, row.task_key) for row in new] == [
        ("row_count", "orders:check"),
        ("unique_id", "orders:check"),
    ]
    assert {row.materialization_id for row in new} == {made}
    one = run(tmp_path, *everything, selection=AssetSelection.checks(unique))
    assert [r.check_name for r in rows(tmp_path) if r.run_id == one.run_id] == ["unique_id"]
    by_key = AssetSelection.checks(AssetCheckKey(AssetKey("orders"), "row_count"))
    two = run(tmp_path, *everything, selection=by_key)
    assert [r.check_name for r in rows(tmp_path) if r.run_id == two.run_id] == ["row_count"]


def test_a_check_alone_that_blocks_fails_its_task_and_leaves_the_output(tmp_path: Path) -> None:
    assert run(tmp_path, raw, orders).success
    bad = checks.row_count(orders, min=3, blocking=True)
    result = run(tmp_path, raw, orders, bad, selection=AssetSelection.all_asset_checks())
    assert result.failures == {
        AssetKey("orders"): "a blocking check failed: row_count (2 rows: fewer than 3)"
    }
    assert run(tmp_path, raw, orders, report, selection="report").asset_value("report") == 2


def test_a_check_alone_of_what_was_never_made_has_failed(tmp_path: Path) -> None:
    check = checks.row_count(orders, min=1)
    result = run(tmp_path, raw, orders, check, selection=AssetSelection.all_asset_checks())
    assert result.success
    assert "orders was never materialized" in rows(tmp_path)[0].message


def test_checks_of_one_asset_and_another_asset_are_one_run(tmp_path: Path) -> None:
    bad = checks.row_count(orders, min=3)
    assert run(tmp_path, raw, orders, bad).success
    selection = AssetSelection.assets(raw) | AssetSelection.checks_for_assets(orders)
    result = run(tmp_path, raw, orders, bad, selection=selection)
    assert result.run.task_count == 2
    assert [row.asset_key for row in result.materializations] == ["raw"]


def test_assets_may_be_made_without_their_checks(tmp_path: Path) -> None:
    bad = checks.row_count(orders, min=3, blocking=True)
    selection = AssetSelection.assets(raw, orders).without_checks()
    assert run(tmp_path, raw, orders, bad, selection=selection).success
    assert rows(tmp_path) == []


def test_an_asset_without_code_can_be_checked(tmp_path: Path) -> None:
    source = AssetSpec("source")

    @asset_check(asset=source)
    def there() -> bool:
        return True

    selection = AssetSelection.checks_for_assets(source)
    assert run(tmp_path, source, there, selection=selection).success
    assert told(tmp_path) == [("source", "there", True, "ERROR")]


def test_a_check_that_does_not_exist_is_told(tmp_path: Path) -> None:
    selection = AssetSelection.checks(AssetCheckKey(AssetKey("raw"), "odd"))
    with pytest.raises(Invalid, match="there is no check odd of raw"):
        run(tmp_path, raw, selection=selection)


def test_checks_stand_in_definitions() -> None:
    project = Definitions([raw], asset_checks=[checks.row_count(raw, min=1)]).project()
    assert [bound.definition.name for bound in project.checks[AssetKey("raw")]] == ["row_count"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: multi_asset_check(specs=[]), "needs specs"),
        (
            lambda: asset_check(asset="a", name="c", additional_ins={"b": AssetIn("b")})(abs),
            "ins names b, but the function has no such parameter",
        ),
        (lambda: AssetCheckSpec("c", asset="a", additional_deps=["a"]), "the asset that it checks"),
    ],
)
def test_mistakes_are_told(make: Any, message: str) -> None:
    with pytest.raises(Invalid, match=message):
        make()
