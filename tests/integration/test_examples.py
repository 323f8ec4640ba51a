"""The examples run, each in a copy of its folder."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def materialized(name: str, folder: Path) -> Any:
    shutil.copytree(EXAMPLES / name, folder, dirs_exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-m", "servo.cli.main", "materialize", "--json"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["quickstart", "shop"])
def test_an_example_runs(name: str, tmp_path: Path) -> None:
    run = materialized(name, tmp_path)["run"]
    assert (run["state"], run["tasks_succeeded"]) == ("SUCCEEDED", run["task_count"])


def test_the_example_of_retries_ends_as_it_says(tmp_path: Path) -> None:
    made = materialized("retries", tmp_path)
    states = {task["asset_key"]: (task["state"], task["attempt"]) for task in made["tasks"]}
    assert states == {
        "flaky": ("SUCCEEDED", 3),
        "after_flaky": ("SUCCEEDED", 1),
        "hopeless": ("FAILED", 1),
        "after_hopeless": ("SKIPPED", 0),
    }


def test_every_example_is_tested() -> None:
    assert {path.name for path in EXAMPLES.iterdir()} == {"quickstart", "shop", "retries"}


def test_the_quickstart_has_eight_lines_of_code() -> None:
    lines = (EXAMPLES / "quickstart/assets.py").read_text().splitlines()
    assert len([line for line in lines if line.strip()]) <= 8
