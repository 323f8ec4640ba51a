"""One worker process, as its pool sees it."""

import signal
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from datetime import timedelta

import msgspec

from servo.core.events.tasks import TaskOutcome
from servo.runtime.workers import Assignment
from servo.worker.messages import Frames, from_worker
from servo.worker.process import Setting


@contextmanager
def _without_ctrl_c() -> Generator[None]:
    """What is started meanwhile never sees Ctrl-C: also not before it says that it ignores it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Child:
    """A process, the socket to it, and the executions it was given, the first of which it runs."""

    def __init__(self, setting: Setting) -> None:
        ours, theirs = socket.socketpair()
        self.socket = ours
        self.frames = Frames(from_worker)
        self.ready = False
        self.running: dict[str, Assignment] = {}
        self.interrupted = False
        self.retired = False
        self.target: str | None = None
        self.outcome: TaskOutcome | None = None
        self._since = 0.0
        self._asked_at: float | None = None
        command = [sys.executable, "-m", "servo.worker.process", str(theirs.fileno())]
        with theirs, _without_ctrl_c():
            self.process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
                [*command, msgspec.json.encode(setting).decode()],
                pass_fds=(theirs.fileno(),),
                cwd=setting.folder,
            )

    @property
    def current(self) -> str | None:
        """The execution it runs; others it was given lie behind it."""
        return next(iter(self.running), None)

    def takes(self, depth: int) -> bool:
        """Whether it can be given another execution, up to `depth` of them."""
        free = self.ready and not self.interrupted and not self.retired
        return free and len(self.running) < depth

    def send(self, data: bytes, assignment: Assignment, now: float) -> None:
        """Give it an execution. If it is gone, that is noticed when its socket is read."""
        if not self.running:
            self._since = now
        self.running[assignment.exec_id] = assignment
        with suppress(OSError):
            self.socket.sendall(data)

    def finished(self, exec_id: str, now: float) -> tuple[Assignment, float]:
        """The execution it just ended, and how long that took."""
        took, self._since = now - self._since, now
        return self.running.pop(exec_id), took

    def interrupt(self, target: str | None, outcome: TaskOutcome | None, now: float) -> None:
        """Have it stop what it runs. `target` ends with the outcome, or unreported without one;

        anything else it was given is interrupted, to be done again.
        """
        if self.interrupted:
            return
        self.interrupted, self.target, self.outcome, self._asked_at = True, target, outcome, now
        if self.running:
            self.process.send_signal(signal.SIGTERM)
        else:
            with suppress(OSError):
                self.socket.shutdown(socket.SHUT_WR)

    def retire(self) -> None:
        """Give it nothing more, and let it end once it has done what it was given."""
        self.retired = True
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_WR)

    def kill_if_overdue(self, now: float, grace: timedelta) -> None:
        """Kill it if it was asked to stop and has not."""
        if self._asked_at is not None and now - self._asked_at > grace.total_seconds():
            self.process.kill()

    def close(self) -> None:
        """End it: it sees that its pool is gone."""
        with suppress(OSError):
            self.socket.close()
        if self.running or not self.ready:
            self.process.kill()
        _ = self._gone()

    def ended(self) -> int:
        """After it has hung up: its exit code."""
        self.socket.close()
        return self._gone()

    def _gone(self) -> int:
        """Wait for its end, and not for ever: user code may have left threads behind."""
        try:
            return self.process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()
