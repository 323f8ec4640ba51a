"""`kill -9` of the whole tree in the middle of a run: what was finished stays, the rest is done."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from threading import Event

import pytest

from servo.core.state.state import State
from servo.core.state.states import TaskState
from servo.ledger.paths import Paths
from servo.projection.upkeep.rebuild import rebuild
from servo.storage.local import LocalStore
from servo.testing.eventually import eventually
from servo.workspace.system import SystemClock

LIMIT = 240
KILLS = int(os.environ.get("SERVO_KILLS", "4"))
"""How many random moments of the fan are tried: set it to 50 for the whole of the promise."""

MAKE = """
from servo import asset

def make(name, deps):
    def fn():
        return name
    fn.__name__ = name
    globals()[name] = made = asset(deps=deps)(fn)
    return made

"""
SHAPES = {
    "chain": (
        40,
        """
above = []
for n in range(40):
    above = [make(f"c{n:02d}", above)]
""",
    ),
    "fan_out": (
        1_001,
        """
make("last", [make(f"t{n:04d}", []) for n in range(1_000)])
""",
    ),
    "layers": (
        500,
        """
above = []
for layer in range(10):
    above = [
        make(f"l{layer:02d}_{n:02d}", [above[n], above[(n + 1) % 50]] if above else [])
        for n in range(50)
    ]
""",
    ),
}
MOMENTS = [("fan_out", seed) for seed in range(KILLS)] + [
    (name, seed) for name in ("chain", "layers") for seed in range(2)
]


def servo(folder: Path, *arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "servo.cli.main", *arguments],
        cwd=folder,
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def folded(folder: Path) -> State:
    store = LocalStore(folder / ".servo")
    return rebuild(store, Paths("default", "default"), from_genesis=True).state


def wait_for_entries(folder: Path, count: int) -> None:
    ledger = folder / ".servo/default/default/ledger/orchestration"
    _ = eventually(
        lambda: ledger.is_dir() and len(list(ledger.iterdir())) >= count, LIMIT, every=0.01
    )


@pytest.fixture(scope="module")
def usual_seconds(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], float]:
    """How long a run of a shape takes on this machine if it is left alone."""

    @cache
    def measure(shape: str) -> float:
        folder = tmp_path_factory.mktemp(shape)
        (folder / "assets.py").write_text(MAKE + SHAPES[shape][1])
        process = servo(folder, "materialize")
        wait_for_entries(folder, 3)
        began = SystemClock().monotonic()
        told, _ = process.communicate(timeout=LIMIT)
        assert process.returncode == 0, told
        return SystemClock().monotonic() - began

    return measure


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "seed"), MOMENTS)
def test_a_killed_run_is_finished_and_nothing_finished_is_done_again(
    tmp_path: Path,
    usual_seconds: Callable[[str], float],
    shape: str,
    seed: int,
    chance_seed: int,
) -> None:
    tasks, code = SHAPES[shape]
    (tmp_path / "assets.py").write_text(MAKE + code)
    chance = Random(f"{chance_seed}-{seed}")
    moment = chance.uniform(0, usual_seconds(shape))
    process = servo(tmp_path, "materialize")
    wait_for_entries(tmp_path, 3)
    Event().wait(moment)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    before = folded(tmp_path)

    resumed = servo(tmp_path, "resume")
    told, _ = resumed.communicate(timeout=LIMIT)
    assert resumed.returncode == 0, told

    after = folded(tmp_path)
    (run,) = after.runs.values()
    assert (run.state.value, run.tasks_succeeded) == ("SUCCEEDED", tasks), told
    for key, row in before.tasks.rows.items():
        if row.state is TaskState.SUCCEEDED:
            assert after.tasks.rows[key] == row
    made = [row.asset_key for row in after.materializations.values()]
    assert len(made) == len(set(made)) == tasks
