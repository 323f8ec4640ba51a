"""Backfills on real processes: the thirty partitions, kill -9, edits, and what people mistype."""

import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from random import Random

import pytest

from servo.cli.main import run
from servo.core.events.backfills import BackfillState
from servo.core.state.state import State
from servo.core.state.states import TaskState
from servo.ledger.paths import Paths
from servo.projection.upkeep.rebuild import rebuild
from servo.storage.local import LocalStore
from servo.testing.command_line import asked, listed, servo
from servo.testing.eventually import eventually

LIMIT = 120
KILLS = int(os.environ.get("SERVO_KILLS", "3"))

THIRTY = """
import time
from pathlib import Path
from servo import asset, DailyPartitionsDefinition

days = DailyPartitionsDefinition(start_date="2024-01-01", end_date="2024-01-31")

@asset(partitions_def=days, code_version="1")
def events(context):
    made = Path("made") / context.partition_key
    with made.open("a") as file:
        file.write("made\\n")
    time.sleep(0.1)
    while context.partition_key > "2024-01-10" and Path("hold").exists():
        time.sleep(0.02)
    if context.partition_key == "2024-01-15" and not Path("mended").exists():
        raise ValueError("not this one")
    return context.partition_key
"""


def folded(folder: Path) -> State:
    store = LocalStore(folder / ".servo")
    return rebuild(store, Paths("default", "default"), from_genesis=True).state


def started(folder: Path) -> dict[str, int]:
    """How often the code of each partition has run."""
    made = (folder / "made").iterdir()
    return {path.name: len(path.read_text().splitlines()) for path in made}


@contextmanager
def running(folder: Path, *arguments: str) -> Generator["subprocess.Popen[str]"]:
    with subprocess.Popen(
        [sys.executable, "-m", "servo.cli.main", *arguments],
        cwd=folder,
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


@pytest.fixture
def thirty(tmp_path: Path) -> Path:
    (tmp_path / "code.py").write_text(THIRTY)
    (tmp_path / "made").mkdir()
    return tmp_path


# --- the thirty partitions ------------------------------------------------------------------------


@pytest.mark.slow
def test_thirty_partitions_with_a_failure_a_pause_and_a_retry(thirty: Path) -> None:
    (thirty / "hold").touch()
    with running(thirty, "dev", "code.py"):
        eventually((thirty / ".servo").is_dir)
        eventually(lambda: servo(thirty, "status").returncode == 0)
        create = "backfill create code.py --all --chunk-size 1 --concurrency 2"
        made = asked(thirty, *create.split(" "))
        name = made["backfill_id"]
        assert made["partitions"] == 30
        eventually(lambda: len(started(thirty)) == 12)  # ten are made, and two begun
        paused = servo(thirty, "backfill", "pause", name)
        assert paused.returncode == 0, paused.stderr
        assert "2 runs still running: up to 2 partitions." in paused.stdout
        (thirty / "hold").unlink()
        show = ("backfill", "show", name)
        eventually(lambda: asked(thirty, *show)["backfill"]["active_chunks"] == 0)
        # Whoever plans backfills has looked at both by the time that another one is done.
        again = asked(
            thirty, *f"{create} --wait".replace("--all", "--partition 2024-01-01").split()
        )
        assert again["backfill"]["state"] == "SUCCEEDED"
        assert len(started(thirty)) == 12

        assert servo(thirty, "backfill", "resume", name).returncode == 0
        waited = servo(thirty, "backfill", "wait", name)
        assert waited.returncode == 1, waited.stdout + waited.stderr
        assert "29 succeeded, 1 failed of 30 partitions" in waited.stdout
        assert "2024-01-15" in waited.stdout
        assert f"servo backfill retry-failed {name}" in waited.stderr
        (thirty / "mended").touch()
        again = asked(thirty, "backfill", "retry-failed", name, "code.py", "--wait")
        assert again["backfill"]["parent_backfill_id"] == name
        assert again["backfill"]["state"] == "SUCCEEDED"
        assert again["backfill"]["total_partitions"] == 1
    times = started(thirty)
    assert len(times) == 30
    assert (times.pop("2024-01-15"), times.pop("2024-01-01")) == (2, 2)
    assert set(times.values()) == {1}


@pytest.mark.slow
def test_this_process_does_the_work_if_nobody_else_does(thirty: Path) -> None:
    (thirty / "mended").touch()
    done = servo(
        thirty,
        *[
            "backfill",
            "create",
            "code.py",
            "--from",
            "2024-01-03",
            "--to",
            "2024-01-08",
            "--chunk-size",
            "2",
            "--wait",
        ],
    )
    assert done.returncode == 0, done.stderr
    assert "SUCCEEDED" in done.stdout
    assert "6 succeeded of 6 partitions" in done.stdout
    assert sorted(started(thirty)) == [f"2024-01-0{n}" for n in range(3, 9)]
    shown = listed(thirty, "backfill", "list")
    assert [row["total_chunks"] for row in shown] == [3]

    rest = asked(thirty, *["backfill", "preview", "code.py", "--missing", "--to", "2024-01-10"])
    assert rest["partitions"] == ["2024-01-01", "2024-01-02", "2024-01-09", "2024-01-10"]
    assert (rest["materialized"], rest["missing"], rest["chunks"]) == (0, 4, 1)
    nothing = servo(thirty, *["backfill", "create", "code.py", "--missing", "--to", "2024-01-08"])
    assert "2 partitions in 1 run" in nothing.stdout, nothing.stderr
    assert "No leader is running." in nothing.stdout
    resumed = servo(thirty, "resume", "code.py")
    assert resumed.returncode == 0, resumed.stderr
    assert len(started(thirty)) == 8
    after = servo(thirty, *["backfill", "create", "code.py", "--missing", "--to", "2024-01-08"])
    assert (after.returncode, after.stdout.strip()) == (
        0,
        "Nothing to do: no partition is missing.",
    )
    later = THIRTY.replace('code_version="1"', 'code_version="2"')
    (thirty / "code.py").write_text(later)
    stale = servo(thirty, "backfill", "create", "code.py", "--stale", "--to", "2024-01-09")
    assert "9 partitions in 1 run" in stale.stdout, stale.stderr


def test_a_backfill_of_what_is_stale_that_is_refused_leaves_nothing_behind(
    thirty: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(thirty)
    assert run(["backfill", "create", "code.py", "--stale", "--from", "2031-01-01"]) != 0
    assert not (thirty / ".servo").exists()


@pytest.mark.slow
def test_the_same_request_makes_one_backfill_and_another_under_its_id_is_told(
    thirty: Path,
) -> None:
    request = ["backfill", "create", "code.py", "--partition", "2024-01-02", "--request-id", "mine"]
    first, second = asked(thirty, *request), asked(thirty, *request)
    assert first["backfill_id"] == second["backfill_id"]
    other = servo(thirty, *request, "--partition", "2024-01-03")
    assert other.returncode == 4
    assert "was used for" in other.stderr
    assert len(folded(thirty).backfills.rows) == 1


@pytest.mark.slow
def test_a_cancelled_backfill_ends_and_starts_nothing_more(thirty: Path) -> None:
    (thirty / "hold").touch()
    made = asked(thirty, *["backfill", "create", "code.py", "--all", "--chunk-size", "1"])
    name = made["backfill_id"]
    with running(thirty, "backfill", "wait", name, "code.py") as waiting:
        eventually(lambda: len(started(thirty)) == 12)  # two wait to be allowed to go on
        # Whoever does not stay takes what is left in the inbox all the same.
        cancelled = servo(thirty, "backfill", "cancel", name)
        assert cancelled.returncode == 0, cancelled.stderr
        told, _ = waiting.communicate(timeout=LIMIT)
        assert waiting.returncode == 1, told
        assert "CANCELLED" in told
    row = folded(thirty).backfills.rows[name]
    assert row.state is BackfillState.CANCELLED
    assert row.active_chunks == 0
    assert len(started(thirty)) == 12
    refused = servo(thirty, "backfill", "pause", name)
    assert refused.returncode == 4
    assert "is CANCELLED" in refused.stderr


@pytest.mark.slow
def test_ctrl_c_says_how_to_go_on(thirty: Path) -> None:
    (thirty / "hold").touch()
    create = ("backfill", "create", "code.py", "--all", "--chunk-size", "1", "--wait")
    with running(thirty, *create) as process:
        eventually(lambda: len(started(thirty)) == 12)  # two wait to be allowed to go on
        process.send_signal(signal.SIGINT)
        told, _ = process.communicate(timeout=LIMIT)
    assert process.returncode == 130, told
    assert "continue with `servo resume`, or `servo backfill wait bf_" in told
    (thirty / "hold").unlink()
    (thirty / "mended").touch()
    resumed = servo(thirty, "resume", "code.py")
    assert resumed.returncode == 0, resumed.stderr
    assert "30 succeeded of 30 partitions" in resumed.stdout


# --- killed ---------------------------------------------------------------------------------------


def _has_begun(folder: Path, process: "subprocess.Popen[str]", enough: int) -> bool:
    """Whether so many partitions were begun, or nobody is left to begin any."""
    return process.poll() is not None or len(started(folder)) >= enough


@pytest.mark.slow
@pytest.mark.kill
@pytest.mark.parametrize("seed", range(KILLS))
def test_a_backfill_that_is_killed_is_finished_and_nothing_finished_is_made_again(
    thirty: Path, seed: int, chance_seed: int
) -> None:
    (thirty / "mended").touch()
    chance = Random(f"{chance_seed}-{seed}")
    size = chance.choice(("1", "4"))
    create = ("backfill", "create", "code.py", "--all", "--chunk-size", size, "--wait")
    finished: dict[tuple[str, str], object] = {}
    for arguments in (create, ("resume", "code.py"), ("resume", "code.py")):
        with running(thirty, *arguments) as process:
            enough = len(started(thirty)) + chance.randint(1, 15)
            eventually(partial(_has_begun, thirty, process, enough), every=0.001)
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
        state = folded(thirty)
        for key, row in finished.items():
            assert state.tasks.rows[key] == row
        done = [row for row in state.tasks.rows.values() if row.state is TaskState.SUCCEEDED]
        finished = {(row.run_id, row.task_key): row for row in done}
    last = servo(thirty, "resume", "code.py")
    assert last.returncode == 0, last.stderr
    state = folded(thirty)
    (row,) = state.backfills.rows.values()
    assert (row.state, row.partitions_succeeded) == (BackfillState.SUCCEEDED, 30)
    made = [row.partition_key for row in state.materializations.values()]
    assert len(made) == len(set(made)) == 30


# --- edited ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_chunks_that_cannot_be_planned_any_more_fail_and_the_others_are_made(thirty: Path) -> None:
    made = asked(thirty, *["backfill", "create", "code.py", "--all", "--chunk-size", "3"])
    name = made["backfill_id"]
    shorter = THIRTY.replace('end_date="2024-01-31"', 'end_date="2024-01-11"')
    (thirty / "code.py").write_text(shorter)
    waited = servo(thirty, "backfill", "wait", name, "code.py")
    assert waited.returncode == 1, waited.stderr
    assert sorted(started(thirty)) == [f"2024-01-{n:02}" for n in range(1, 10)]
    assert "there is no partition '2024-01-1" in waited.stdout
    shown = asked(thirty, "backfill", "show", name)
    assert shown["backfill"]["state"] == "FAILED"
    assert shown["backfill"]["partitions_failed"] == 21
    states = list(shown["partitions"].values())
    assert states == ["succeeded"] * 9 + ["failed"] * 21


@pytest.mark.slow
def test_a_backfill_of_an_asset_that_is_gone_ends_with_the_reason(thirty: Path) -> None:
    made = asked(thirty, *["backfill", "create", "code.py", "--all"])
    (thirty / "code.py").write_text(THIRTY.replace("def events", "def other"))
    waited = servo(thirty, "backfill", "wait", made["backfill_id"], "code.py")
    assert waited.returncode == 1
    assert "events is no longer an asset" in waited.stdout


@pytest.mark.slow
def test_a_mapping_that_ends_the_process_fails_its_chunks_and_not_the_rest(thirty: Path) -> None:
    (thirty / "code.py").write_text(
        THIRTY
        + """
import os
from servo import AssetIn, PartitionMapping

class Odd(PartitionMapping, frozen=True):
    def upstream_keys(self, key, upstream, downstream):
        if key == "2024-01-04" and "servo.code.evaluator.process" in sys.argv[0] + __name__:
            os._exit(3)
        return [key]

    def downstream_keys(self, key, upstream, downstream):
        return [key]

import sys
if "servo.code.evaluator.process" in " ".join(sys.orig_argv):
    Odd.upstream_keys.__globals__["__name__"] = "servo.code.evaluator.process"

@asset(partitions_def=days, ins={"events": AssetIn(partition_mapping=Odd())})
def reports(events):
    return events
"""
    )
    (thirty / "mended").touch()
    done = servo(
        thirty,
        *[
            "backfill",
            "create",
            "code.py",
            "--from",
            "2024-01-01",
            "--to",
            "2024-01-06",
            "--chunk-size",
            "1",
            "--wait",
        ],
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "5 succeeded, 1 failed of 6 partitions" in done.stdout
    assert "ended with 3" in done.stdout


# --- what people mistype --------------------------------------------------------------------------

TWO = (
    THIRTY
    + """
@asset
def whole():
    return 1
"""
)


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        ("--from 2024-01-09 --to 2024-01-03", 2, "'2024-01-09' comes after '2024-01-03'"),
        ("--partition 2023-12-31", 3, "no partition '2023-12-31'"),
        ("--all --concurrency 0", 2, "invalid concurrency: 0"),
        ("--chunk-size 2", 2, "select some with --partition, a range with --from and --to"),
        ("--partition a --all", 2, "--partition cannot be combined with another selection"),
        ("--all --tag odd", 2, "has no value"),
        ('group:"none" --all', 3, "no asset is selected"),
    ],
)
def test_what_cannot_be_meant_is_told(tmp_path: Path, arguments: str, code: int, told: str) -> None:
    (tmp_path / "code.py").write_text(TWO)
    done = servo(tmp_path, "backfill", "preview", "code.py", *arguments.split())
    assert done.returncode == code, done.stdout + done.stderr
    assert told in done.stderr
    assert not (tmp_path / ".servo" / "default").exists()


@pytest.mark.slow
def test_what_is_not_there_is_told(tmp_path: Path) -> None:
    (tmp_path / "code.py").write_text(TWO)
    assert servo(tmp_path, "backfill", "show", "bf_00").returncode == 3
    made = servo(
        tmp_path, *["backfill", "create", "code.py", "events", "--partition", "2024-01-01"]
    )
    assert made.returncode == 0, made.stderr
    for verb in ("show", "pause", "resume", "cancel", "retry-failed", "wait"):
        done = servo(tmp_path, "backfill", verb, "bf_00")
        assert done.returncode == 3, verb
        assert "servo backfill list" in done.stderr
    early = servo(tmp_path, "backfill", "retry-failed", "bf_")
    assert early.returncode == 4
    assert "has not finished" in early.stderr
    shown = listed(tmp_path, "backfill", "list")
    assert [row["state"] for row in shown] == ["RUNNING"]


def test_a_preview_writes_nothing(tmp_path: Path) -> None:
    (tmp_path / "code.py").write_text(TWO)
    done = servo(tmp_path, "backfill", "preview", "code.py", "--all")
    assert (done.returncode, done.stdout != "") == (0, True), done.stderr
    assert not (tmp_path / ".servo").exists()


@pytest.mark.slow
def test_resume_lists_the_backfills_that_it_finished(tmp_path: Path) -> None:
    code = "from servo import *\n@asset(partitions_def=StaticPartitionsDefinition(['a', 'b']))\n"
    (tmp_path / "code.py").write_text(f"{code}def letter(): return 1\n")
    created = asked(tmp_path, "backfill", "create", "code.py", "--all")
    done = asked(tmp_path, "resume", "code.py")
    [found] = done["backfills"]
    assert found["backfill"]["backfill_id"] == created["backfill_id"]
    assert (found["backfill"]["state"], found["failed"]) == ("SUCCEEDED", [])
    assert asked(tmp_path, "resume", "code.py") == {
        "items": [],
        "next_cursor": None,
        "backfills": [],
    }
