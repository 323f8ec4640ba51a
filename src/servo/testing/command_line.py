"""The command line as a process of its own, as people use it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

from servo.workspace.composition import system_clock

LIMIT = 60
LOOK_EVERY = 0.2


def servo(
    folder: Path, *arguments: str, said: str = "", **environ: str
) -> "subprocess.CompletedProcess[str]":
    """Run a command in a folder; `said` is typed to it."""
    return subprocess.run(  # noqa: S603 - our own interpreter and module
        [sys.executable, "-m", "servo.cli.main", *arguments],
        cwd=folder,
        input=said,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
        env={**os.environ, **environ},
    )


def asked(folder: Path, *arguments: str) -> Any:
    """What a command prints with `--json`."""
    done = servo(folder, *arguments, "--json")
    if not done.stdout:
        raise AssertionError(done.stderr)
    return json.loads(done.stdout)


def listed(folder: Path, *arguments: str) -> list[Any]:
    """The items of a list that a command prints as JSON."""
    return asked(folder, *arguments)["items"]


def queried(folder: Path, statement: str, *arguments: str) -> list[dict[str, Any]]:
    """The rows that a statement of `servo sql` finds, each by its columns."""
    done = servo(folder, "sql", statement, *arguments, "--format", "json")
    if not done.stdout:
        raise AssertionError(done.stderr)
    return json.loads(done.stdout)


class Dev:
    """A `servo dev` in a folder, until it is stopped or killed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.process = subprocess.Popen(
            [sys.executable, "-m", "servo.cli.main", "dev"],
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def __enter__(self) -> "Dev":
        return self

    def __exit__(self, *error: object) -> None:
        """End it, whatever happened meanwhile."""
        if self.process.poll() is None:
            self.kill()

    def until(self, met: Callable[[], object]) -> None:
        """Wait until something is so."""
        pause, clock = Event(), system_clock()
        end = clock.monotonic() + LIMIT
        while not met():
            if clock.monotonic() > end:
                raise AssertionError("it did not happen")
            if self.process.poll() is not None:
                raise AssertionError("servo dev has ended")
            _ = pause.wait(LOOK_EVERY)

    def stop(self) -> None:
        """End it as Ctrl-C does."""
        self.process.send_signal(signal.SIGINT)
        _ = self.process.wait(LIMIT)

    def kill(self) -> None:
        """End it and what it started, at once."""
        os.killpg(self.process.pid, signal.SIGKILL)
        _ = self.process.wait(LIMIT)
