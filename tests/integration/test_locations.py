"""Several code locations in one workspace: work goes only to who has its code."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from servo.testing.command_line import LIMIT, Dev, asked, listed, servo
from servo.testing.eventually import eventually

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

    def begun() -> bool:
        assert process.poll() is None
        return (folder / "begun").exists()

    _ = eventually(begun, LIMIT)
    os.killpg(process.pid, signal.SIGKILL)
    _ = process.wait(LIMIT)


def runs(folder: Path) -> dict[str, dict[str, Any]]:
    """The newest run of every location."""
    return {row["location"]: row for row in reversed(asked(folder, "run", "list")["items"])}


@pytest.mark.slow
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
    waits = f"{name} is waiting for a worker of location a.py: start one with `servo resume a.py`"
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
    assert {row["state"] for row in asked(tmp_path, "run", "list")["items"]} == {"SUCCEEDED"}


# --- several under one leader ---------------------------------------------------------------------

SCHEDULED = """
from servo import AssetSelection, ScheduleDefinition, asset, define_asset_job
from names import NAME

@asset(name=NAME)
def made():
    return NAME

ticking = ScheduleDefinition(
    name=f"every_second_{NAME}",
    job=define_asset_job(f"job_{NAME}", AssetSelection.assets(NAME)),
    cron_schedule="* * * * * *",
    default_status=DefaultScheduleStatus.RUNNING,
)
"""
HEAD = "from servo import DefaultScheduleStatus\n"


def two_locations(folder: Path) -> None:
    """Two folders with files of the same names, each a location of the project file."""
    for name in ("left", "right"):
        (folder / name).mkdir()
        (folder / name / "names.py").write_text(f'NAME = "{name}"\n')
        (folder / name / "assets.py").write_text(HEAD + SCHEDULED)
    (folder / "servo.toml").write_text(
        "\n".join(
            f'[[locations]]\nname = "{name}"\nfile = "{name}/assets.py"\nfolder = "{name}"\n'
            for name in ("left", "right")
        )
    )


def succeeded(folder: Path) -> set[str]:
    """The locations that have a run which succeeded."""
    if not (folder / ".servo").exists():
        return set()
    rows = listed(folder, "run", "list", "--limit", "100")
    return {row["location"] for row in rows if row["state"] == "SUCCEEDED"}


def states(folder: Path) -> dict[str, list[str]]:
    """The states of the runs of every location, newest first."""
    found: dict[str, list[str]] = {}
    for row in listed(folder, "run", "list", "--limit", "100"):
        found.setdefault(row["location"], []).append(row["state"])
    return found


@pytest.mark.slow
def test_dev_works_for_all_locations_and_reloads_each_by_itself(tmp_path: Path) -> None:
    two_locations(tmp_path)
    with Dev(tmp_path) as dev:
        dev.until(lambda: succeeded(tmp_path) == {"left", "right"})
        assert servo(tmp_path, "materialize", "left").returncode == 0
        assert servo(tmp_path / "right", "materialize", "assets.py").returncode == 0

        # One that breaks stops no other, and is back when it is mended.
        (tmp_path / "left" / "names.py").write_text("NAME = (\n")
        (tmp_path / "right" / "names.py").write_text('NAME = "other"\n')
        dev.until(lambda: asked(tmp_path, "sql", "from assets where asset_key = 'other'"))
        assert servo(tmp_path, "materialize", "right").returncode == 0
        (tmp_path / "left" / "names.py").write_text('NAME = "left"\n')
        assert servo(tmp_path, "materialize", "left").returncode == 0
        dev.stop()
    assert "FAILED" not in {state for found in states(tmp_path).values() for state in found}


@pytest.mark.slow
def test_dev_starts_with_the_locations_that_can_be_imported(tmp_path: Path) -> None:
    two_locations(tmp_path)
    (tmp_path / "left" / "names.py").write_text("NAME = (\n")
    with Dev(tmp_path) as dev:
        dev.until(lambda: succeeded(tmp_path) == {"right"})
        (tmp_path / "left" / "names.py").write_text('NAME = "left"\n')
        dev.until(lambda: succeeded(tmp_path) == {"left", "right"})


@pytest.mark.slow
def test_one_pass_does_what_is_due_in_every_location(tmp_path: Path) -> None:
    two_locations(tmp_path)
    assert servo(tmp_path, "tick").returncode == 0

    def both() -> bool:
        done = servo(tmp_path / "left", "tick", "--json")
        assert done.returncode == 0, done.stderr
        return succeeded(tmp_path) == {"left", "right"}

    eventually(both)  # schedules tick every second, and this may be the same one

    # Of a location that is not named, or cannot be imported, nothing is touched.
    before = states(tmp_path)

    def more() -> bool:
        assert servo(tmp_path, "tick", "left").returncode == 0
        return len(states(tmp_path)["left"]) > len(before["left"])

    eventually(more)
    assert states(tmp_path)["right"] == before["right"]
    (tmp_path / "left" / "names.py").write_text("NAME = (\n")
    broken = servo(tmp_path, "tick")
    assert (broken.returncode, "skipping left:" in broken.stderr) == (1, True), broken
    assert {state for found in states(tmp_path).values() for state in found} == {"SUCCEEDED"}
    assert len(states(tmp_path)["right"]) > len(before["right"])


def test_resume_without_code_finishes_the_runs_of_all_locations(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(SLOW)
    (tmp_path / "b.py").write_text(QUICK)
    (tmp_path / "servo.toml").write_text(
        '[[locations]]\nfile = "b.py"\n[[locations]]\nfile = "a.py"\n'
    )
    kill_midway(tmp_path, "materialize", "a.py")
    (tmp_path / "go").touch()
    done = servo(tmp_path, "resume")
    assert done.returncode == 0, done.stderr
    assert states(tmp_path) == {"a.py": ["SUCCEEDED"]}


def test_an_asset_belongs_to_one_location(tmp_path: Path) -> None:
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text(QUICK)
    wrong = servo(tmp_path, "dev", "a.py", "b.py")
    assert wrong.returncode == 2
    assert "other is defined in both a.py and b.py" in wrong.stderr
