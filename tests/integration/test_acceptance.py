"""What schedules, sensors, backfills and partitions owe their users, one promise a test.

Each is kept by the command line in processes of its own, as somebody in an empty folder would see
it. The invariants below them are in `tests/unit/fold/test_layer2_invariants.py`, one test each.
"""

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from servo.testing.command_line import asked, listed, queried, servo
from servo.testing.eventually import eventually

CODE = """
from pathlib import Path
from servo import (
    AssetSelection, DailyPartitionsDefinition, DefaultScheduleStatus, DefaultSensorStatus,
    RunRequest, ScheduleDefinition, SensorResult, StaticPartitionsDefinition, asset, sensor,
)

LETTERS = StaticPartitionsDefinition(list("abcdef"))

@asset
def orders():
    return 1

@asset(partitions_def=LETTERS)
def letter(context):
    if Path("broken").exists() and context.partition_key in Path("broken").read_text():
        raise ValueError("not today")
    return context.partition_key

@asset(partitions_def=LETTERS)
def word(letter):
    return letter * 2

often = ScheduleDefinition(
    name="often", cron_schedule="* * * * * *", target="orders",
    default_status=DefaultScheduleStatus.RUNNING,
)

@sensor(target="orders", minimum_interval_seconds=1, default_status=DefaultSensorStatus.RUNNING)
def files(context):
    new = sorted(p.name for p in Path("inbox").glob("*") if p.name > (context.cursor or ""))
    return SensorResult(
        run_requests=[RunRequest(run_key=name) for name in new],
        cursor=new[-1] if new else context.cursor,
    )

@sensor(target="orders", minimum_interval_seconds=1, default_status=DefaultSensorStatus.RUNNING)
def changing(context):
    if not Path("inbox").exists():
        return SensorResult(skip_reason="nothing")
    with Path("looked").open("a") as file:
        file.write("x")
    return RunRequest(run_key="one", tags={"n": Path("tag").read_text()})
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "assets.py").write_text(CODE)
    return tmp_path


def done(folder: Path, *arguments: str) -> str:
    """What a command said that must succeed."""
    ended = servo(folder, *arguments)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def passes(folder: Path, *, until: int = 1, of: str = "often") -> list[dict[str, Any]]:
    """Pass after pass until a schedule has ticked so often; its ticks."""

    def fired() -> list[dict[str, Any]]:
        _ = done(folder, "tick")
        ticks = listed(folder, "schedule", "ticks", of, "--limit", "100")
        found = [tick for tick in ticks if tick["status"] == "TRIGGERED"]
        return found if len(found) >= until else []

    return eventually(fired, every=0.2)


def look_again(folder: Path) -> None:
    """Pass after pass until the sensor `changing` has looked once more."""
    looked = folder / "looked"
    before = looked.read_text() if looked.exists() else ""

    def has_looked() -> bool:
        _ = done(folder, "tick")
        return looked.exists() and looked.read_text() != before

    assert eventually(has_looked, every=0.2)


def runs(folder: Path) -> dict[str, dict[str, Any]]:
    return {run["run_id"]: run for run in listed(folder, "run", "list", "--limit", "500")}


@pytest.mark.slow
def test_schedule_fires_and_creates_run_at_expected_time(folder: Path) -> None:
    fired = passes(folder, until=2)
    made = runs(folder)
    for tick in fired:
        run = made[tick["run_id"]]
        assert run["state"] == "SUCCEEDED"
        due, began = (
            datetime.fromisoformat(at) for at in (tick["scheduled_for"], run["created_at"])
        )
        assert due.microsecond == 0, "a whole second, which is what its cron says"
        assert began >= due


@pytest.mark.slow
def test_sensor_with_cursor_evaluates_correctly(folder: Path) -> None:
    _ = done(folder, "tick")
    (folder / "inbox").mkdir()
    (folder / "tag").write_text("1")
    for name in ("a", "b"):
        (folder / "inbox" / name).touch()

    def has_seen_both() -> bool:
        _ = done(folder, "tick")
        return asked(folder, "sensor", "cursor", "files")["cursor"] == "b"

    assert eventually(has_seen_both, every=0.2)
    keys = [run["run_key"] for run in runs(folder).values() if "files" in str(run["run_key"])]
    assert sorted(keys) == ["sensor:files:key:a", "sensor:files:key:b"]
    evaluations = listed(folder, "sensor", "history", "files")
    [moved] = [one for one in evaluations if one["status"] == "TRIGGERED"]
    assert (moved["cursor_before"], moved["cursor_after"]) == (None, "b")


@pytest.mark.slow
def test_backfill_creates_progresses_handles_pause_resume_cancel(folder: Path) -> None:
    named = ("backfill", "create", "letter", "--all", "--chunk-size", "1")
    first = asked(folder, *named, "--request-id", "first")["backfill_id"]
    _ = done(folder, "backfill", "pause", first)
    assert servo(folder, "backfill", "pause", first).returncode == 4, "it is paused already"
    _ = done(folder, "tick")
    shown = asked(folder, "backfill", "show", first)
    assert shown["backfill"]["state"] == "PAUSED"
    assert set(shown["partitions"].values()) == {"waiting"}
    _ = done(folder, "backfill", "resume", first)
    _ = done(folder, "backfill", "wait", first)
    shown = asked(folder, "backfill", "show", first)
    assert shown["backfill"]["state"] == "SUCCEEDED"
    assert set(shown["partitions"].values()) == {"succeeded"}
    second = asked(folder, *named, "--request-id", "second")["backfill_id"]
    _ = done(folder, "backfill", "cancel", second)
    _ = servo(folder, "backfill", "wait", second)
    assert asked(folder, "backfill", "show", second)["backfill"]["state"] == "CANCELLED"


@pytest.mark.slow
def test_retry_failed_creates_new_backfill_with_only_failed_partitions(folder: Path) -> None:
    (folder / "broken").write_text("bd")
    created = servo(folder, "backfill", "create", "letter", "--all", "--wait")
    assert created.returncode == 1
    [parent] = listed(folder, "backfill", "list")
    (folder / "broken").unlink()
    _ = done(folder, "backfill", "retry-failed", parent["backfill_id"], "--wait")
    child, _ = listed(folder, "backfill", "list")
    shown = asked(folder, "backfill", "show", child["backfill_id"])
    assert shown["backfill"]["parent_backfill_id"] == parent["backfill_id"]
    assert shown["partitions"] == {"b": "succeeded", "d": "succeeded"}


@pytest.mark.slow
def test_partition_status_queryable(folder: Path) -> None:
    (folder / "broken").write_text("b")
    _ = servo(folder, "materialize", "letter", "--partition", "a")
    _ = servo(folder, "materialize", "letter", "--partition", "b")
    counted = asked(folder, "partitions", "status", "letter")
    assert (counted["materialized"], counted["failed"], counted["missing"]) == (1, 1, 4)
    found = listed(folder, "partitions", "list", "letter", "--status", "failed")
    assert [one["first"] for one in found] == ["b"]
    query = "select shown_partition(partition_key) as name from partition_status order by 1"
    assert [row["name"] for row in queried(folder, query)] == ["a", "b"]


def test_stale_partitions_identifiable_with_reason(folder: Path) -> None:
    _ = done(folder, "materialize", "letter+", "--partition-range", "a", "c")
    _ = done(folder, "materialize", "letter", "--partition", "b")
    found = listed(folder, "partitions", "list", "word", "--status", "stale")
    reasons = {one["first"]: (one["last"], one["stale"]) for one in found}
    assert reasons["b"] == ("b", "UPSTREAM_CHANGED")
    assert reasons["d"] == ("f", "NEVER_MATERIALIZED")


@pytest.mark.slow
def test_run_key_deduplication_same_key_same_run_id(folder: Path) -> None:
    _ = done(folder, "tick")
    (folder / "inbox").mkdir()
    (folder / "tag").write_text("1")
    look_again(folder)
    [run] = [run for run in runs(folder).values() if run["run_key"] == "sensor:changing:key:one"]
    _ = done(folder, "sensor", "evaluate", "changing", "--commit")
    _ = done(folder, "tick")
    [newest, *_] = listed(folder, "sensor", "history", "changing")
    assert newest["message"] == "already requested: one"
    again = [run for run in runs(folder).values() if run["run_key"] == "sensor:changing:key:one"]
    assert [one["run_id"] for one in again] == [run["run_id"]]


@pytest.mark.slow
def test_run_key_conflicts_detected_and_recorded(folder: Path) -> None:
    _ = done(folder, "tick")
    (folder / "inbox").mkdir()
    for tag in ("1", "2", "2"):
        (folder / "tag").write_text(tag)
        look_again(folder)
    conflicts = queried(folder, "select run_key, existing_run_id from run_key_conflicts")
    [run] = [run for run in runs(folder).values() if run["run_key"] == "sensor:changing:key:one"]
    assert {(row["run_key"], row["existing_run_id"]) for row in conflicts} == {
        ("sensor:changing:key:one", run["run_id"])
    }
    assert run["labels"]["n"] == "1", "the run is that of the first who asked"


HISTORIES = {
    "run list": "run_id",
    "schedule ticks often": "tick_id",
    "sensor history files": "eval_id",
    "asset history orders": "materialization_id",
    "backfill list": "backfill_id",
}


@pytest.mark.slow
def test_all_histories_have_pagination(folder: Path) -> None:
    (folder / "inbox").mkdir()
    (folder / "tag").write_text("1")
    _ = done(folder, "tick")
    for name in "abc":
        (folder / "inbox" / name).touch()
        _ = done(folder, "sensor", "evaluate", "files", "--commit")
        _ = done(folder, "backfill", "create", "letter", "--all", "--request-id", name)
        _ = done(folder, "tick")
    _ = passes(folder, until=3)
    for command, name in HISTORIES.items():
        words = command.split()
        every = [row[name] for row in listed(folder, *words, "--limit", "500")]
        assert len(every) >= 3, command
        assert [row[name] for row in listed(folder, *words, "--limit", "2")] == every[:2]
        older = listed(folder, *words, "--limit", "2", "--before", every[1])
        assert [row[name] for row in older] == every[2:4]
        assert f"--before {every[1]}" in done(folder, *words, "--limit", "2")
    strange = servo(folder, "run", "list", "--before", "nowhere")
    assert strange.returncode == 3
    assert "'nowhere' is not in the list" in strange.stderr


VERBS = """
    schedule: list, show often, ticks often, preview often, trigger often, pause often, resume often
    sensor: list, show files, history files, cursor files, evaluate files, pause files, resume files
    backfill: preview letter --all, create letter --all --request-id x, list
    partitions: status letter, list letter
    automation: list
    why: orders
    why-not: letter:a
"""


@pytest.mark.slow
def test_cli_commands_work_end_to_end(folder: Path) -> None:
    _ = done(folder, "tick")
    for line in VERBS.strip().splitlines():
        group, _, rest = line.strip().partition(": ")
        for verb in rest.split(", "):
            told = done(folder, group, *verb.split())
            assert told.strip(), f"servo {group} {verb} said nothing"
            if verb.startswith(("pause", "resume")):
                _ = done(folder, "tick")
