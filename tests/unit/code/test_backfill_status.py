"""How a backfill is shown."""

from datetime import UTC, datetime

import msgspec
import pytest
from click.testing import CliRunner

from servo.cli.commands.backfills import backfill
from servo.cli.options.backfill_options import max_failed
from servo.cli.rendering.backfill_display import tell_list
from servo.code.backfills.requests import Asked, Choice
from servo.code.backfills.view import BackfillStatus, shown, status_of
from servo.core.events.backfills import (
    DEFAULT_CONCURRENT_RUNS,
    BackfillCreated,
    BackfillState,
    ExplicitSelector,
)
from servo.core.state.rows.automation import BackfillRow
from servo.errors import Invalid


def row(state: BackfillState, failed_chunks: int = 0, partitions_failed: int = 0) -> BackfillRow:
    return BackfillRow(
        backfill_id="bf",
        client_request_id="r",
        request_fingerprint="fp",
        asset_selection=("ns/a",),
        selector=ExplicitSelector(count=2),
        state=state,
        total_partitions=2,
        total_chunks=2,
        chunk_size=1,
        max_concurrent_runs=1,
        failed_chunks=failed_chunks,
        partitions_failed=partitions_failed,
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        row_version=1,
    )


@pytest.mark.parametrize("state", list(BackfillState))
def test_the_status_is_the_state_unless_it_is_paused_and_has_failures(state: BackfillState) -> None:
    assert status_of(row(state)).value == state.value
    for failed in (row(state, failed_chunks=1), row(state, partitions_failed=1)):
        paused = state is BackfillState.PAUSED
        expected = "PAUSED_WITH_FAILURES" if paused else state.value
        assert status_of(failed).value == expected


def test_what_is_listed_has_the_row_and_its_status(capsys: pytest.CaptureFixture[str]) -> None:
    failed = row(BackfillState.PAUSED, failed_chunks=1)
    listed = msgspec.to_builtins(shown(failed))
    assert listed.pop("status") == BackfillStatus.PAUSED_WITH_FAILURES
    assert listed == msgspec.to_builtins(failed)
    tell_list([failed])
    assert "PAUSED_WITH_FAILURES" in capsys.readouterr().out


def test_there_is_one_default_of_runs_at_once() -> None:
    fields = {field.name: field for field in msgspec.structs.fields(BackfillCreated)}
    assert fields["max_concurrent_runs"].default == DEFAULT_CONCURRENT_RUNS
    assert Asked(choice=Choice(), request_id="r").concurrency == DEFAULT_CONCURRENT_RUNS
    for verb in ("create", "preview"):
        options = {p.name: p for p in backfill.commands[verb].params}
        assert options["concurrency"].default == DEFAULT_CONCURRENT_RUNS


@pytest.mark.parametrize(
    ("text", "found"),
    [(None, (None, None)), ("0", (0, None)), ("20", (20, None)), ("5%", (None, 5))],
)
def test_failures_are_limited_by_number_or_percent(
    text: str | None, found: tuple[int | None, int | None]
) -> None:
    assert max_failed(text) == found


@pytest.mark.parametrize("text", ["", "%", "-1", "1.5%", "many", "9" * 30])
def test_what_is_no_limit_of_failures_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="--max-failed"):
        max_failed(text)


def test_the_help_says_the_default() -> None:
    told = CliRunner().invoke(backfill, ["create", "--help"]).output
    assert f"[default: {DEFAULT_CONCURRENT_RUNS}]" in told.replace("\n", " ")
