"""Checks: what they say, and what becomes of the output."""

from pathlib import Path
from typing import Any

import pytest

from servo import (
    AssetCheckResult,
    AssetCheckSeverity,
    AssetsDefinition,
    ConfigurableResource,
    asset,
    asset_check,
    materialize,
)
from servo.core.state.rows.assets import CheckResultRow
from servo.errors import Invalid
from servo.ledger.paths import Paths
from servo.projection.read.reader import Reader
from servo.sdk.checks.definition import AssetChecksDefinition
from servo.sdk.definitions.project import Project
from servo.storage.from_url import store_from_url
from servo.workspace.system import SystemClock

WARN = AssetCheckSeverity.WARN


def shop(value: Any, *, quarantine: bool = False) -> list[AssetsDefinition]:
    @asset(quarantine=quarantine)
    def orders() -> Any:
        return value

    @asset
    def report(orders: Any) -> Any:
        return f"report of {orders}"

    return [orders, report]


def check(found: Any, *, blocking: bool = False) -> AssetChecksDefinition:
    @asset_check(asset="orders", blocking=blocking)
    def good(orders: Any) -> Any:
        if isinstance(found, Exception):
            raise found
        return found(orders) if callable(found) else found

    return good


def results(folder: Path) -> list[CheckResultRow]:
    store = store_from_url(str(folder), clock=SystemClock())
    rows = Reader(store, Paths("default", "default")).snapshot().rows("check_results")
    return [row for row in rows if isinstance(row, CheckResultRow)]


@pytest.mark.parametrize(
    ("found", "blocking", "state", "mark"),
    [
        (True, True, "SUCCEEDED", "promoted"),
        (AssetCheckResult(passed=True), True, "SUCCEEDED", "promoted"),
        (False, False, "SUCCEEDED", "warned"),
        (AssetCheckResult(passed=False), False, "SUCCEEDED", "warned"),
        (AssetCheckResult(passed=False, severity=WARN), True, "SUCCEEDED", "promoted"),
        (AssetCheckResult(passed=False), True, "FAILED", None),
        (ValueError("odd"), False, "SUCCEEDED", "warned"),
        (ValueError("odd"), True, "FAILED", None),
        ("no result", True, "FAILED", None),
    ],
)
def test_what_becomes_of_an_output_follows_from_its_checks(
    found: Any, blocking: bool, state: str, mark: str | None
) -> None:
    result = materialize([*shop(1), check(found, blocking=blocking)], raise_on_error=False)
    assert result.run.state.value == state
    made = {row.asset_key: row.gating_decision.value for row in result.materializations}
    assert made.get("orders") == mark
    assert result.run.tasks_skipped == (1 if state == "FAILED" else 0)


def test_a_check_sees_the_value_and_what_it_says_is_recorded(tmp_path: Path) -> None:
    def judged(orders: Any) -> AssetCheckResult:
        return AssetCheckResult(passed=orders == [1, 2], description="two", metadata={"n": 2})

    materialize([*shop([1, 2]), check(judged)], store=str(tmp_path))
    (row,) = results(tmp_path)
    assert (row.asset_key, row.check_name, row.passed, row.message) == (
        "orders",
        "good",
        True,
        "two",
    )
    assert '"n"' in row.metadata


def test_what_a_blocking_check_refuses_is_held_back_and_the_last_good_one_is_used(
    tmp_path: Path,
) -> None:
    def positive(orders: Any) -> bool:
        return orders > 0

    folder = str(tmp_path)
    for value in (5, -1):
        definitions = [*shop(value, quarantine=True), check(positive, blocking=True)]
        result = materialize(definitions, store=folder)
        assert result.asset_value("report") == "report of 5"
    held = [row for row in result.materializations if not row.promoted]
    assert [(row.asset_key, row.gating_decision.value) for row in held] == [
        ("orders", "quarantined")
    ]


class Limits(ConfigurableResource):
    most: int


def test_a_check_may_use_resources() -> None:
    @asset_check(asset="orders", blocking=True)
    def below(orders: int, limits: Limits) -> bool:
        return orders <= limits.most

    resources = {"limits": Limits(most=3)}
    assert materialize([*shop(3), below], resources=resources).success
    assert not materialize([*shop(4), below], resources=resources, raise_on_error=False).success


def test_mistakes_are_told() -> None:
    with pytest.raises(Invalid, match="take one parameter"):

        @asset_check(asset="orders")
        def two(orders: int, other: int) -> bool:
            return orders == other

    @asset_check(asset="nothing")
    def lost() -> bool:
        return True

    with pytest.raises(Invalid, match="which is not an asset"):
        Project(shop(1), checks=[lost])
    with pytest.raises(Invalid, match="two checks called good"):
        Project(shop(1), checks=[check(True), check(True)])
