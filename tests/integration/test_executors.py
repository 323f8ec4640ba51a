"""An executor in `Definitions` limits how many processes `servo materialize` starts."""

import subprocess
import sys
from pathlib import Path

import pytest

CODE = """
import os, time
from pathlib import Path
from servo import *

def make(number):
    @asset(name=f"a{number}")
    def made():
        Path(f"{os.getpid()}.pid").touch()
        time.sleep(0.2)
    return made

defs = Definitions([make(number) for number in range(8)], executor=EXECUTOR)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("executor", "processes"),
    [
        ("in_process_executor", 1),
        ('multiprocess_executor.configured({"max_concurrent": 2})', 2),
        ("multiprocess_executor", 3),
    ],
)
def test_an_executor_limits_the_processes(executor: str, processes: int, tmp_path: Path) -> None:
    (tmp_path / "assets.py").write_text(CODE.replace("EXECUTOR", executor))
    command = [sys.executable, "-m", "servo.cli.main", "materialize", "--workers", "3"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done
    assert len(list(tmp_path.glob("*.pid"))) == processes


def test_an_executor_that_is_unknown_is_told_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "assets.py").write_text(CODE.replace("EXECUTOR", "object()"))
    command = [sys.executable, "-m", "servo.cli.main", "materialize"]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2
    told = " ".join(done.stderr.split())
    assert "Definitions: there is no executor object" in told
    assert "assets.py:13" in told
