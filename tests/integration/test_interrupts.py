"""Ctrl-C at any moment of `servo materialize` ends it within seconds, and says what happened."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from random import Random
from threading import Event
from typing import IO

import pytest

from servo.testing.command_line import asked, servo
from servo.workspace.system import SystemClock

pytestmark = [pytest.mark.slow, pytest.mark.kill]

TIMES = int(os.environ.get("SERVO_INTERRUPTS", "30"))
"""How many random moments are tried: set it to 300 to find what is rare."""

SECONDS = 30.0
INTERRUPTED = 130
CODE = """
from servo import asset

@asset
def first():
    return 1

@asset
def second(first):
    return first + 1
"""
# Before that Python itself starts, and says of Ctrl-C what it always says.
BEGUN = "from servo.cli.main import main\nprint('begun', flush=True)\nmain(['materialize'])"


class Command:
    """A `servo materialize` that has begun to run Servo's own code."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        (folder / "assets.py").write_text(CODE)
        self._said = folder / "said"
        with self._said.open("wb") as said:
            self.process = subprocess.Popen(
                [sys.executable, "-c", BEGUN],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=said,
                start_new_session=True,
            )
        assert self._out.readline() == b"begun\n"

    @property
    def _out(self) -> IO[bytes]:
        assert self.process.stdout is not None
        return self.process.stdout

    def ended(self) -> tuple[int, str]:
        """Its exit code, and all that it said."""
        try:
            code = self.process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            _ = self.process.wait()
            raise AssertionError(f"it hangs: {self._said.read_text()}") from None
        with self._out as out:
            return code, out.read().decode() + self._said.read_text()


def usual_seconds(folder: Path) -> float:
    """How long it takes on this machine if it is left alone."""
    command, clock = Command(folder), SystemClock()
    began = clock.monotonic()
    code, said = command.ended()
    assert code == 0, said
    return clock.monotonic() - began


def test_ctrl_c_at_any_moment_ends_it_and_what_was_begun_can_be_gone_on_with(
    tmp_path: Path, chance_seed: int
) -> None:
    usual = usual_seconds(tmp_path / "alone")
    chance = Random(chance_seed)
    codes: set[int] = set()
    for number in range(TIMES):
        folder = tmp_path / str(number)
        command = Command(folder)
        Event().wait(chance.uniform(0, usual))
        # A terminal sends Ctrl-C to every process; a service manager may send it to one.
        if chance.random() < 0.5:
            os.killpg(command.process.pid, signal.SIGINT)
        else:
            command.process.send_signal(signal.SIGINT)
        code, said = command.ended()
        codes.add(code)
        assert code in (0, INTERRUPTED), f"{number}: {code}\n{said}"
        assert "Traceback" not in said, said
        assert ("interrupted" if code else "SUCCEEDED") in said, said
    assert INTERRUPTED in codes
    for folder in [tmp_path / str(number) for number in range(TIMES)][:3]:
        if (folder / ".servo").is_dir():
            assert servo(folder, "materialize").returncode == 0
            assert asked(folder, "status")["open_runs"] == []
