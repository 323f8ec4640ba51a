"""The processes that `servo demo` starts and kills.

`servo materialize` runs as a process of its own, which starts its workers; both are found and
killed from outside, like a crash. Whatever happens to the demo, no process is left behind.
"""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

_SERVO = (sys.executable, "-m", "servo.cli.main")


class DemoProcess:
    """One `servo` command, in a folder."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
            [*_SERVO, *arguments],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    @property
    def ended(self) -> bool:
        """Whether it has exited."""
        return self._process.poll() is not None

    def workers(self) -> list[int]:
        """The processes that run its user code, oldest first."""
        return sorted(pid for pid, parent in _processes() if parent == self._process.pid)

    def kill(self) -> None:
        """Kill it and everything it started; workers also exit when it is gone."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        _ = self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def output(self) -> tuple[int, list[str]]:
        """Wait until it exits: its exit code, and its output."""
        told, _ = self._process.communicate()
        return self._process.returncode, told.splitlines()


def kill(pid: int) -> None:
    """Kill a process, unless it has already exited."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _processes() -> list[tuple[int, int]]:
    """Every process of this machine that can be seen, and its parent."""
    if Path("/proc/self/stat").exists():
        found = [_parent(path) for path in Path("/proc").glob("[0-9]*/stat")]
        return [pair for pair in found if pair is not None]
    listed = subprocess.run(
        ["/bin/ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True
    )
    pairs = [line.split() for line in listed.stdout.splitlines()]
    return [(int(pid), int(parent)) for pid, parent in pairs]


def _parent(stat: Path) -> tuple[int, int] | None:
    try:
        # The name of the program, in brackets, may hold anything.
        after = stat.read_text().rpartition(")")[2].split()
    except OSError:
        return None  # gone meanwhile
    return int(stat.parent.name), int(after[1])
