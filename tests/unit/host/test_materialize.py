"""`materialize()`: the whole engine, in this process."""

from pathlib import Path
from typing import Any

import pytest

from servo import (
    AssetExecutionContext,
    AssetsDefinition,
    Failure,
    MaterializeResult,
    Output,
    RetryPolicy,
    RetryRequested,
    Skip,
    asset,
    materialize,
)
from servo.core.keys import AssetKey
from servo.core.state.rows.execution import TaskRow
from servo.core.state.states import TaskState
from servo.errors import NotFound
from servo.host.materialize import MaterializationFailed
from servo.ledger.paths import Paths
from servo.projection.read.reader import Reader
from servo.storage.from_url import store_from_url
from servo.workspace.system import SystemClock


def test_values_go_from_asset_to_asset_and_can_be_asked_for() -> None:
    @asset
    def numbers() -> list[int]:
        return [1, 2, 3]

    @asset
    def total(numbers: list[int]) -> int:
        return sum(numbers)

    result = materialize([total, numbers])
    assert result.success
    assert result.asset_value(total) == result.output_for_node("total") == 6
    assert result.asset_value("numbers") == [1, 2, 3]


PLAIN = (None, 0, True, 1.5, "text", "grün", b"bytes", [1, [2]], {"a": None}, "x" * 200_000)
ODD = ((1, 2), {1: 2}, {1, 2}, float("inf"), "\ud800", AssetKey("k"))


@pytest.mark.parametrize("value", [*PLAIN, *ODD])
def test_any_value_comes_back_as_it_was(value: Any) -> None:
    @asset
    def given() -> Any:
        return value

    @asset
    def taken(given: Any) -> bool:
        return bool(given == value) and type(given) is type(value)

    assert materialize([given, taken]).asset_value("taken")


def test_what_cannot_be_stored_is_told() -> None:
    @asset
    def odd() -> Any:
        return lambda: None

    result = materialize([odd], raise_on_error=False)
    assert "cannot be stored" in result.failures[odd.key]


def test_results_carry_a_value_and_what_to_know_about_it() -> None:
    @asset
    def one() -> Output:
        return Output(1, metadata={"rows": 3})

    @asset
    def two() -> MaterializeResult:
        return MaterializeResult(metadata={"rows": 3})

    @asset
    def three(one: int, two: None) -> MaterializeResult:
        return MaterializeResult(value=(one, two))

    assert materialize([one, two, three]).asset_value("three") == (1, None)


def test_a_failure_is_raised_with_what_caused_it() -> None:
    @asset
    def fails() -> None:
        raise ValueError("no good")

    with pytest.raises(MaterializationFailed, match="fails: ValueError: no good") as told:
        materialize([fails])
    assert isinstance(told.value.__cause__, ValueError)
    result = materialize([fails], raise_on_error=False)
    assert not result.success
    with pytest.raises(NotFound):
        result.asset_value(fails)


def tried(failures: int, error: Exception, **options: Any) -> tuple[int, bool]:
    """How often an asset is tried that fails so often, and whether it succeeds."""
    calls: list[int] = []

    @asset(**options)
    def flaky(context: AssetExecutionContext) -> None:
        calls.append(context.retry_number)
        if len(calls) <= failures:
            raise error

    result = materialize([flaky], raise_on_error=False)
    assert calls == list(range(len(calls)))
    return len(calls), result.success


@pytest.mark.parametrize(
    ("failures", "error", "policy", "expected"),
    [
        (1, ValueError(), None, (1, False)),
        (1, ValueError(), RetryPolicy(max_retries=1), (2, True)),
        (5, ValueError(), RetryPolicy(max_retries=2), (3, False)),
        (1, KeyError(), RetryPolicy(max_retries=2, retry_on=[ValueError]), (1, False)),
        (1, KeyError(), RetryPolicy(max_retries=2, retry_on=[LookupError]), (2, True)),
        (1, KeyError(), RetryPolicy(max_retries=2, no_retry_on=["KeyError"]), (1, False)),
        (1, Failure("stop", allow_retries=False), RetryPolicy(max_retries=2), (1, False)),
        (2, RetryRequested(max_retries=2), None, (3, True)),
        (3, RetryRequested(max_retries=2), None, (3, False)),
    ],
)
def test_attempts_are_repeated_as_the_policy_and_the_error_say(
    failures: int, error: Exception, policy: RetryPolicy | None, expected: tuple[int, bool]
) -> None:
    assert tried(failures, error, retry_policy=policy) == expected


def test_an_asset_that_skips_takes_what_depends_on_it_along() -> None:
    @asset
    def quiet() -> Skip:
        return Skip("nothing new")

    @asset
    def below(quiet: Any) -> None:
        raise AssertionError(quiet)

    result = materialize([quiet, below], raise_on_error=False)
    assert (result.run.tasks_skipped, result.run.tasks_failed) == (2, 0)


def test_a_folder_keeps_what_was_made_for_the_next_run(tmp_path: Path) -> None:
    def project(value: int) -> list[AssetsDefinition]:
        @asset
        def source() -> int:
            return value

        @asset
        def doubled(source: int) -> int:
            return 2 * source

        return [source, doubled]

    folder = str(tmp_path / "store")
    assert materialize(project(3), store=folder).asset_value("doubled") == 6
    again = materialize(project(5), store=folder, selection=["doubled"])
    assert again.asset_value("doubled") == 6


def test_ctrl_c_leaves_a_run_that_whoever_leads_next_goes_on_with_at_once(tmp_path: Path) -> None:
    @asset
    def stopped() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        materialize([stopped], store=str(tmp_path))
    reader = Reader(store_from_url(str(tmp_path), clock=SystemClock()), Paths("default", "default"))
    (row,) = reader.snapshot().rows("tasks")
    assert isinstance(row, TaskRow)
    assert (row.state, row.infra_losses, row.user_failures) == (TaskState.READY, 1, 0)
