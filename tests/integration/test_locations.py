"""Several code locations in one workspace: work goes only to who has its code."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from threading import Event
from typing import Any

from servo.testing.command_line import LIMIT, asked, servo
from servo.workspace.system import SystemClock

SLOW = """
from pathlib import Path
from threading import Event
from servo import asset

@asset
def first():
    return 1

@asset
def second(first):
    Path("begun").touch()
    if not Path("go").exists():
        Event().wait(120)
    return first + 1

@asset
def third(second):
    return second + 1
"""
QUICK = """
from servo import asset

@asset
def other():
    return 1
"""


def kill_midway(folder: Path, *arguments: str) -> None:
    """Kill a command and all it started, as soon as `second` runs."""
    process = subprocess.Popen(
        [sys.executable, "-m", "servo.cli.main", *arguments],
        cwd=folder,
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    pause, clock = Event(), SystemClock()
    end = clock.monotonic() + LIMIT
    while not (folder / "begun").exists():
        assert process.poll() is None
        assert clock.monotonic() < end
        _ = pause.wait(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    _ = process.wait(LIMIT)


def runs(folder: Path) -> dict[str, dict[str, Any]]:
    """The newest run of every location."""
    return {row["location"]: row for row in reversed(asked(folder, "run", "list"))}


def test_a_killed_run_waits_for_its_own_code_while_others_work(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(SLOW)
    (tmp_path / "b.py").write_text(QUICK)
    kill_midway(tmp_path, "materialize", "a.py")
    (tmp_path / "go").touch()

    done = servo(tmp_path, "materialize", "b.py")
    assert done.returncode == 0, done.stderr

    left = runs(tmp_path)
    assert {name: row["state"] for name, row in left.items()} == {
        "a.py": "RUNNING",
        "b.py": "SUCCEEDED",
    }
    name = left["a.py"]["run_id"]
    waits = f"{name} waits for a worker of location a.py: `servo resume a.py`"
    for told in (done, servo(tmp_path, "status"), servo(tmp_path, "run", "list")):
        assert waits in " ".join((told.stdout + told.stderr).split()), told.stdout

    resumed = servo(tmp_path, "resume", "a.py")
    assert resumed.returncode == 0, resumed.stderr
    assert (runs(tmp_path)["a.py"]["run_id"], runs(tmp_path)["a.py"]["state"]) == (
        name,
        "SUCCEEDED",
    )


def test_materialize_finishes_what_its_own_code_left(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(SLOW)
    (tmp_path / "b.py").write_text(QUICK)
    kill_midway(tmp_path, "materialize", "a.py")
    (tmp_path / "go").touch()
    _ = servo(tmp_path, "materialize", "b.py")

    again = servo(tmp_path, "materialize", "a.py")

    assert again.returncode == 0, again.stderr
    assert {row["state"] for row in asked(tmp_path, "run", "list")} == {"SUCCEEDED"}
