"""`servo admin quota`, `pool` and `lane`, from what people type to what holds."""

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from servo.cli.main import run
from servo.cli.options.durations import format_duration, parse_duration
from servo.core.quotas import QUOTAS
from servo.errors import Invalid

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def servo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> Run:
    """Runs a command on a workspace of its own: exit code, output, errors."""
    (tmp_path / "store").mkdir()
    monkeypatch.setenv("SERVO_STORE", str(tmp_path / "store"))

    def call(*arguments: str) -> tuple[int, str, str]:
        code = run([*arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def limits(servo: Run) -> dict[str, int | None]:
    found = json.loads(servo("admin", "quota", "--json")[1])["items"]
    return {limit["name"]: limit["limit"] for limit in found}


OPTIONS = {
    "max_concurrent_tasks": ("--max-parallel", "7", 7),
    "max_concurrent_runs": ("--max-runs", "3", 3),
    "max_queued_tasks": ("--max-queued", "0", 0),
    "max_daily_runs": ("--max-daily-runs", "20", 20),
    "max_run_duration_ms": ("--max-run-duration", "90m", 5_400_000),
    "max_tasks_per_run": ("--max-tasks-per-run", "500", 500),
    "max_backfill_concurrency": ("--max-backfill-runs", "5", 5),
}


def test_every_limit_has_an_option() -> None:
    assert [quota.name for quota in QUOTAS] == list(OPTIONS)


def test_every_limit_is_set_shown_and_lifted(servo: Run) -> None:
    assert servo("admin", "pool", "set", "any", "1")[0] == 0  # the workspace is there now
    defaults = limits(servo)
    given = [part for option, text, _ in OPTIONS.values() for part in (option, text)]
    assert servo("admin", "quota", *given)[0] == 0
    assert limits(servo) == {name: value for name, (_, _, value) in OPTIONS.items()}
    assert "90m" in servo("admin", "quota")[1]
    lifted = [part for option, _, _ in OPTIONS.values() for part in (option, "none")]
    assert servo("admin", "quota", *lifted)[0] == 0
    assert limits(servo) == defaults
    _, out, _ = servo("admin", "quota")
    assert (out.count("no limit"), out.count("default")) == (5, 7)


@pytest.mark.parametrize(
    "arguments",
    [
        ("--max-parallel", "many"),
        ("--max-parallel", "-1"),
        ("--max-parallel", "9" * 30),
        ("--max-run-duration", "long"),
        ("--max-runs", "1", "--as-of", "1"),
    ],
)
def test_what_is_no_limit_is_refused(servo: Run, arguments: tuple[str, ...]) -> None:
    code, _, err = servo("admin", "quota", *arguments)
    assert code == 2
    assert err


def test_the_weight_of_a_lane_is_set_listed_and_reset(servo: Run) -> None:
    assert servo("admin", "lane", "set", "backfills", "500")[0] == 0
    assert servo("admin", "lane", "set", "mine", "5")[0] == 0
    _, out, _ = servo("admin", "lane", "list", "--json")
    assert [(row["lane"], row["weight"]) for row in json.loads(out)["items"]] == [
        ("interactive", 800),
        ("backfills", 500),
        ("schedules", 400),
        ("automation", 200),
        ("mine", 5),
    ]
    assert servo("admin", "lane", "reset", "backfills")[1] == (
        "Set the weight of the lane backfills to 100.\n"
    )
    _, out, _ = servo("admin", "lane", "list")
    assert out.splitlines()[2].split() == ["interactive", "800", "800"]


def test_a_weight_that_cannot_be_is_refused(servo: Run) -> None:
    code, _, err = servo("admin", "lane", "set", "interactive", "0")
    assert code == 2
    assert err == "error: invalid weight: 0; use a whole number from 1 to 1000000\n"


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("30m", 1800), ("24h", 86_400), ("7d", 604_800)]
)
def test_durations_are_read(text: str, seconds: int) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "1", "1.5h", "h", "1w", "-1s"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="not a duration"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        (timedelta(days=2), "2d"),
        (timedelta(hours=5), "5h"),
        (timedelta(minutes=90), "90m"),
        (timedelta(seconds=61), "61s"),
        (timedelta(0), "0s"),
        (timedelta(milliseconds=1500), "1500ms"),
    ],
)
def test_durations_are_told_in_the_largest_unit(duration: timedelta, text: str) -> None:
    assert format_duration(duration) == text


@pytest.mark.parametrize(
    "words",
    [
        ("pool", "set", "any", "1"),
        ("lane", "set", "backfill", "2"),
        ("quota", "--max-runs", "3"),
    ],
)
def test_setting_a_limit_creates_the_workspace(
    servo: Run, words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVO_STORE", str(tmp_path / "new"))
    assert servo("admin", *words)[0] == 0
    assert limits(servo)["max_concurrent_runs"] == (3 if words[0] == "quota" else None)


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        (("quota",), 3, "there is no store in"),
        (("quota", "--max-runs", "many"), 2, "invalid limit: 'many'"),
        (("pool", "remove", "any"), 3, "there is no store in"),
        (("lane", "reset", "backfill"), 3, "there is no store in"),
        (("pool", "list"), 3, "there is no store in"),
    ],
)
def test_reading_or_lifting_a_limit_creates_nothing(
    servo: Run,
    words: tuple[str, ...],
    code: int,
    error: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SERVO_STORE", str(tmp_path / "new"))
    found, _, told = servo("admin", *words)
    assert (found, error in told) == (code, True)
    assert not (tmp_path / "new").exists()
