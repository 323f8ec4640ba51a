"""Two machines in one test: `servo` processes that see nothing of each other but the store.

    here, there = Machine(tmp_path / "here", url), Machine(tmp_path / "there", url)
    leader = here.start("materialize")
    with leader:
        assert there.servo("materialize").returncode == 0

What tells two machines apart is the registry: pid files, sockets and the id of the machine lie in
it. Each machine has one of its own, and a project folder of its own.
"""

import json
import os
import signal
import subprocess
import sys
from copy import copy
from pathlib import Path
from typing import Any

from servo.testing.eventually import eventually

LIMIT = 120


class Machine:
    """A project folder and a registry, and the commands that run there."""

    def __init__(self, folder: Path, store: str, code: str, **environ: str) -> None:
        self.folder = folder
        (folder / "run").mkdir(parents=True)
        (folder / "assets.py").write_text(code)
        self._environ = {
            **os.environ,
            **environ,
            "SERVO_STORE": store,
            "XDG_RUNTIME_DIR": str(folder / "run"),
        }

    def with_environment(self, **environ: str) -> "Machine":
        """The same machine, for commands with these variables as well."""
        same = copy(self)
        same._environ = {**self._environ, **environ}  # noqa: SLF001 - it is one of us
        return same

    def in_folder(self, folder: Path, code: str) -> "Machine":
        """The same machine, for commands in another project folder."""
        folder.mkdir(exist_ok=True)
        (folder / "assets.py").write_text(code)
        same = copy(self)
        same.folder = folder
        return same

    @property
    def registry(self) -> Path:
        """The folder in which its processes find each other."""
        (found,) = (self.folder / "run").glob("servo-*")
        return found

    def start(self, *arguments: str) -> "RunningCommand":
        """Start a command, in a process group of its own."""
        return RunningCommand(self.folder, self._environ, arguments)

    def servo(self, *arguments: str) -> "CommandOutput":
        """Run a command to its end."""
        with self.start(*arguments) as started:
            return started.ended()

    def asked(self, *arguments: str) -> Any:
        """What a command prints with `--json`."""
        said = self.servo(*arguments, "--json")
        if not said.out:
            raise AssertionError(said)
        return json.loads(said.out)

    def listed(self, *arguments: str) -> list[Any]:
        """The items of a list that a command prints as JSON."""
        return self.asked(*arguments)["items"]


class CommandOutput:
    """How a command ended, and what it said."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code = code
        self.out = out
        self.err = err

    def __repr__(self) -> str:
        return f"exit code {self.code}\n--- stdout\n{self.out}\n--- stderr\n{self.err}"


class RunningCommand:
    """A command that runs, until it ends or is killed."""

    def __init__(self, folder: Path, environ: dict[str, str], arguments: tuple[str, ...]) -> None:
        name = f"{len(list(folder.glob('*.out')))}-{arguments[0]}"
        self._out, self._err = folder / f"{name}.out", folder / f"{name}.err"
        # Into files: a command must not block because nobody reads its pipe.
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
                [sys.executable, "-m", "servo.cli.main", *arguments],
                cwd=folder,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )

    def __enter__(self) -> "RunningCommand":
        return self

    def __exit__(self, *error: object) -> None:
        """End it, whatever happened meanwhile."""
        self.kill()

    @property
    def runs(self) -> bool:
        """Whether it has not ended."""
        return self.process.poll() is None

    def said(self) -> CommandOutput:
        """What it has said so far."""
        return CommandOutput(self.process.poll() or 0, self._out.read_text(), self._err.read_text())

    def says(self, text: str, seconds: float = LIMIT) -> None:
        """Wait until it has said this."""
        try:
            eventually(lambda: text in self._out.read_text() + self._err.read_text(), seconds)
        except AssertionError:
            raise AssertionError(f"it does not say {text!r}: {self.said()}") from None

    def ended(self, seconds: float = LIMIT) -> CommandOutput:
        """Wait for it to end; how it did."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it has not ended in {seconds:g} s: {self.said()}") from None
        return CommandOutput(code, self._out.read_text(), self._err.read_text())

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the process alone."""
        self.process.send_signal(number)

    def send_to_all(self, number: signal.Signals) -> None:
        """Send a signal to the process and to what it started."""
        os.killpg(self.process.pid, number)

    def kill(self) -> None:
        """End it and what it started, at once."""
        if self.process.poll() is None:
            self.send_to_all(signal.SIGKILL)
            _ = self.process.wait(LIMIT)


class Gates:
    """Assets that wait until they are let through, and how often each was begun."""

    CODE = """
import os
from pathlib import Path
from threading import Event

GATES = Path(os.environ["GATES"])

def pass_gate(name):
    with (GATES / f"{name}.begun").open("a") as file:
        file.write(f"{os.getpid()}\\n")
    while not (GATES / f"{name}.open").exists():
        Event().wait(0.02)
"""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder

    def open(self, *names: str) -> None:
        """Let these through, now and later."""
        for name in names:
            (self.folder / f"{name}.open").touch()

    def begun(self, name: str) -> int:
        """How often an asset was begun."""
        path = self.folder / f"{name}.begun"
        return len(path.read_text().splitlines()) if path.exists() else 0

    def wait_for(self, name: str, times: int = 1) -> None:
        """Wait until an asset was begun so often."""
        eventually(lambda: self.begun(name) >= times, LIMIT)
