"""`servo dev`: real processes, real edits, and other terminals that ask."""

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from servo.testing.command_line import asked, listed, queried, servo
from servo.testing.eventually import eventually

LIMIT = 60
CODE = """
import time
from pathlib import Path
from servo import asset
import tools

@asset
def first():
    return tools.VALUE

@asset
def slow(first):
    Path("began").touch()
    while not Path("go").exists():
        time.sleep(0.05)
    return tools.VALUE
"""


class Dev:
    """A `servo dev` that runs, and what it has said."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self.lines: list[str] = []
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        self.lines.extend(iter(self.process.stdout.readline, ""))

    def said(self, words: str, times: int = 1) -> str:
        """Wait until a line with these words was said so often; the last of them."""

        def found() -> str:
            over = self.process.poll() is not None
            lines = [line for line in list(self.lines) if words in line]
            assert len(lines) >= times or not over, (words, self.lines)
            return lines[-1] if len(lines) >= times else ""

        return eventually(found)

    def stop(self, how: signal.Signals = signal.SIGINT) -> int:
        self.process.send_signal(how)
        code = self.process.wait(LIMIT)
        self._reading.join(LIMIT)
        return code


@contextmanager
def dev(folder: Path, *arguments: str) -> Generator[Dev]:
    with subprocess.Popen(
        [sys.executable, "-m", "servo.cli.main", "dev", *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        started = Dev(process)
        try:
            yield started
        finally:
            if process.poll() is None:
                process.kill()
            _ = process.wait(LIMIT)
            started.lines.append("")


def project(folder: Path, value: int = 1) -> Path:
    (folder / "assets.py").write_text(CODE)
    (folder / "tools.py").write_text(f"VALUE = {value}\n")
    return folder


@pytest.mark.slow
def test_edits_are_followed_and_broken_ones_change_nothing(tmp_path: Path) -> None:
    (project(tmp_path) / "go").touch()
    with dev(tmp_path) as running:
        running.said("2 assets")
        assert asked(tmp_path, "materialize")["run"]["state"] == "SUCCEEDED"
        assert queried(tmp_path, "from data.slow") == [{"value": 1}]
        running.said("SUCCEEDED")
        assert asked(tmp_path, "status")["leader"]["pid"] == running.process.pid

        # A module that the project imports; asked for at once, it is what is here that runs.
        (tmp_path / "tools.py").write_text("VALUE = 2\n")
        assert asked(tmp_path, "materialize")["run"]["state"] == "SUCCEEDED"
        assert queried(tmp_path, "from data.slow") == [{"value": 2}]
        running.said("loaded assets.py: 2 assets")

        (tmp_path / "tools.py").write_text("VALUE = (\n")
        assert "tools.py:1" in running.said("not loaded")
        wrong = servo(tmp_path, "materialize")
        assert (wrong.returncode, "tools.py:1" in wrong.stderr) == (2, True), wrong

        (tmp_path / "tools.py").write_text("VALUE = 3\n")
        with (tmp_path / "assets.py").open("a") as code:
            code.write("\n@asset\ndef third(slow):\n    raise ValueError('not yet')\n")
        running.said("new: third")
        failed = servo(tmp_path, "materialize")
        assert (failed.returncode, "third: ValueError: not yet" in failed.stdout) == (1, True)
        running.said("third failed: ValueError: not yet")
        (run,) = [row for row in listed(tmp_path, "run", "list") if row["state"] == "FAILED"]
        again = asked(tmp_path, "run", "retry", run["run_id"])
        assert [task["asset_key"] for task in again["tasks"]] == ["third"]

        (tmp_path / "other.py").write_text("from servo import asset\n@asset\ndef x(): ...\n")
        other = servo(tmp_path, "materialize", "other.py")
        assert other.returncode == 4
        assert "leads this workspace without other.py" in other.stderr
        assert running.stop() == 0
    assert "stopped" in "".join(running.lines)


@pytest.mark.slow
def test_what_runs_is_finished_with_the_code_it_began_with(tmp_path: Path) -> None:
    project(tmp_path)
    with dev(tmp_path) as running:
        running.said("2 assets")
        with subprocess.Popen(
            [sys.executable, "-m", "servo.cli.main", "materialize", "--json"],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            text=True,
        ) as asking:
            eventually((tmp_path / "began").exists)
            (tmp_path / "tools.py").write_text("VALUE = 2\n")
            running.said("loaded")
            assert asked(tmp_path, "materialize", "assets.py", "first")["run"]["tasks_succeeded"]
            assert asking.poll() is None
            (tmp_path / "go").touch()
            out, _ = asking.communicate(timeout=LIMIT)
        assert json.loads(out)["run"]["state"] == "SUCCEEDED"
        assert [task["attempt"] for task in json.loads(out)["tasks"]] == [1, 1]
        assert queried(tmp_path, "from data.slow") == [{"value": 1}]
        assert queried(tmp_path, "from data.first") == [{"value": 2}]
        assert running.stop(signal.SIGTERM) == 0


@contextmanager
def asking(folder: Path) -> Generator["subprocess.Popen[str]"]:
    """A `servo materialize` that waits for a `servo dev` to do the work."""
    with subprocess.Popen(
        [sys.executable, "-m", "servo.cli.main", "materialize"],
        cwd=folder,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            eventually((folder / "began").exists)
            yield process
        finally:
            process.kill()


@pytest.mark.slow
def test_whoever_waits_for_a_run_takes_over_when_its_leader_ends(tmp_path: Path) -> None:
    project(tmp_path)
    with dev(tmp_path) as running:
        running.said("2 assets")
        with asking(tmp_path) as asked_for:
            assert running.stop() == 0
            (tmp_path / "go").touch()
            told, _ = asked_for.communicate(timeout=LIMIT)
            assert (asked_for.returncode, "SUCCEEDED" in told) == (0, True)
    assert "1 run left" in "".join(running.lines)
    (run,) = listed(tmp_path, "run", "list")
    assert (run["state"], run["tasks_succeeded"]) == ("SUCCEEDED", 2)


@pytest.mark.slow
def test_what_was_begun_is_gone_on_with(tmp_path: Path) -> None:
    project(tmp_path)
    with dev(tmp_path) as running:
        running.said("2 assets")
        with asking(tmp_path) as asked_for:
            asked_for.kill()
            asked_for.communicate(timeout=LIMIT)
        assert running.stop() == 0
    assert "1 run left" in "".join(running.lines)
    with dev(tmp_path) as running:
        running.said("resuming run_")
        (tmp_path / "go").touch()
        running.said("SUCCEEDED")
        assert running.stop() == 0


def test_code_that_is_broken_from_the_beginning_is_told_and_nothing_starts(tmp_path: Path) -> None:
    (tmp_path / "assets.py").write_text("from servo import asset\n1 / 0\n")
    done = servo(tmp_path, "dev")
    assert done.returncode == 2
    assert "ZeroDivisionError" in done.stderr
    assert "assets.py:2" in done.stderr
    assert not (tmp_path / ".servo").exists()


TRIGGERS = """
from pathlib import Path
from servo import (
    DefaultSensorStatus, SkipReason, StaticPartitionsDefinition, asset, sensor
)

@asset(partitions_def=StaticPartitionsDefinition(["a", "b", "c"]))
def parts(context):
    return context.partition_key

@sensor(target=parts, default_status=DefaultSensorStatus.RUNNING, minimum_interval_seconds=0)
def files(context):
    if Path("down").exists():
        with Path("failed").open("a") as file:
            file.write("x")
        raise OSError("no such share")
    return SkipReason("nothing new")
"""


@pytest.mark.slow
def test_backfills_and_sensors_that_fail_are_told(tmp_path: Path) -> None:
    (tmp_path / "assets.py").write_text(TRIGGERS)
    with dev(tmp_path) as running:
        running.said("1 asset, 1 sensor")
        made = asked(tmp_path, "backfill", "create", "assets.py", "--all", "--chunk-size", "1")
        name = made["backfill_id"]
        running.said(f"backfill {name} started: 3 partitions in 3 runs")
        running.said(f"SUCCEEDED backfill {name}: 3 succeeded of 3 partitions")
        (tmp_path / "down").touch()
        running.said("sensor files failed: OSError: no such share (assets.py:")
        eventually(lambda: len((tmp_path / "failed").read_text()) > 2)  # it fails again and again
        assert running.stop() == 0
    assert "".join(running.lines).count("sensor files failed") == 1


def looked(folder: Path, sensor: str) -> list[dict[str, str]]:
    """What came of a sensor, as soon as it has looked."""

    def found() -> list[dict[str, str]]:
        done = servo(folder, "sensor", "history", sensor, "--json")
        return json.loads(done.stdout)["items"] if done.returncode == 0 else []

    return eventually(found, every=0.2)


@pytest.mark.slow
def test_a_sensor_that_an_edit_brings_is_asked_of_the_new_code(tmp_path: Path) -> None:
    (tmp_path / "assets.py").write_text(TRIGGERS)
    with dev(tmp_path) as running:
        _ = looked(tmp_path, "files")  # so that there is a process with the code from before
        more = TRIGGERS[TRIGGERS.index("@sensor") :].replace("files", "more_files")
        (tmp_path / "assets.py").write_text(TRIGGERS + more)
        running.said("loaded assets.py: 1 asset, 2 sensors")
        assert {row["status"] for row in looked(tmp_path, "more_files")} == {"SKIPPED"}
        assert running.stop() == 0


PLANNED_BY_DEV = """
import os
from pathlib import Path
from servo import DailyPartitionsDefinition, ScheduleDefinition, asset

Path(f"imported-{os.getpid()}").touch()

@asset
def orders():
    return 1

@asset(deps=[orders])
def broken():
    if not Path("mended").exists():
        raise ValueError("not yet")

@asset(partitions_def=DailyPartitionsDefinition("2026-01-01", end_date="2026-01-04"))
def daily():
    return 1

hourly = ScheduleDefinition(name="hourly", target=[orders], cron_schedule="0 * * * *")
"""


def elsewhere(folder: Path, store: Path, *arguments: str) -> tuple[int, int, str, str]:
    """Run a command in a folder without code; its pid, exit code and output."""
    process = subprocess.Popen(
        [sys.executable, "-m", "servo.cli.main", *arguments, "--store", str(store)],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    out, err = process.communicate(timeout=LIMIT)
    return process.pid, process.returncode, out, err


@pytest.mark.slow
def test_a_caller_beside_dev_needs_none_of_the_code(tmp_path: Path) -> None:
    code, empty = tmp_path / "code", tmp_path / "empty"
    code.mkdir()
    empty.mkdir()
    (code / "assets.py").write_text(PLANNED_BY_DEV)
    with dev(code) as running:
        running.said("3 assets")
        store = code / ".servo"
        calls = [
            (("materialize", "orders"), 0, "SUCCEEDED"),
            (("materialize", "assets.py", "orders"), 0, "SUCCEEDED"),
            (("materialize", "orders", "--dry-run"), 0, "1 task"),
            (("materialize", "broken"), 1, "ValueError: not yet"),
            (("schedule", "trigger", "hourly", "--at", "2026-01-01T06:00"), 0, "SUCCEEDED"),
            (("backfill", "preview", "daily", "--all"), 0, "3 missing"),
            (("backfill", "create", "daily", "--all", "--wait"), 0, "SUCCEEDED"),
            (("materialize", "ordres"), 2, "orders"),
        ]
        pids: list[int] = []
        for arguments, returned, words in calls:
            pid, code_, out, err = elsewhere(empty, store, *arguments)
            pids.append(pid)
            assert (code_, words in out + err) == (returned, True), (arguments, out, err)
        (code / "mended").touch()
        (failed,) = [row for row in listed(code, "run", "list") if row["state"] == "FAILED"]
        pid, code_, out, err = elsewhere(empty, store, "run", "retry", failed["run_id"])
        assert code_ == 0, (out, err)
        assert not [pid for pid in (*pids, pid) if (code / f"imported-{pid}").exists()]
        assert list(empty.iterdir()) == []
        assert running.stop() == 0


AT_ONCE = """
import os, time
from pathlib import Path
from servo import *

def make(number):
    @asset(name=f"NAME{number}")
    def made():
        Path(f"NAME-{os.getpid()}.pid").touch()
        time.sleep(0.2)
    return made

defs = Definitions([make(number) for number in range(6)], executor=EXECUTOR)
"""


@pytest.mark.slow
def test_the_executor_of_each_location_limits_its_workers(tmp_path: Path) -> None:
    def write(name: str, executor: str) -> None:
        code = AT_ONCE.replace("NAME", name).replace("EXECUTOR", executor)
        (tmp_path / f"{name}.py").write_text(code)

    def processes(name: str) -> int:
        found = list(tmp_path.glob(f"{name}-*.pid"))
        for one in found:
            one.unlink()
        return len(found)

    write("narrow", "in_process_executor")
    write("wide", "multiprocess_executor")
    with dev(tmp_path, "narrow.py", "wide.py", "--workers", "3") as running:
        assert "6 assets, 1 worker" in running.said("narrow.py: ")
        assert "6 assets, 3 workers" in running.said("wide.py: ")
        for name, most in (("narrow", 1), ("wide", 3)):
            assert asked(tmp_path, "materialize", f"{name}.py")["run"]["state"] == "SUCCEEDED"
            assert processes(name) == most

        write("narrow", 'multiprocess_executor.configured({"max_concurrent": 2})')
        running.said("loaded narrow.py: 6 assets")
        assert asked(tmp_path, "materialize", "narrow.py")["run"]["state"] == "SUCCEEDED"
        assert processes("narrow") == 2
