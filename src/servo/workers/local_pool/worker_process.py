"""One worker process, as its pool sees it.

The process leads a process group of its own, which holds whatever user code starts. A signal goes
to the whole group, and when the process has ended the rest of its group is killed: nothing that an
execution started outlives the process. It is killed before the process is waited for, while its
number cannot belong to anybody else yet. What has left the group is found by its mark (see
`servo.processes.descendants`).
"""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

from servo.code.process_setup import ProcessSetup, framed_setup
from servo.core.events.tasks import TaskFinished
from servo.execution.capture import MAX_BYTES
from servo.execution.messages import from_worker
from servo.leader.assignments import Assignment
from servo.processes.descendants import MARK, kill_marked
from servo.processes.frames import Frames
from servo.processes.lifetime import without_ctrl_c
from servo.workers.local_pool.crash_record import CrashRecord, new_crash_record
from servo.workers.local_pool.permits import Permits, new_permits

LEAVE_SECONDS = 2.0
CHECK_GRACE_SECONDS = 5.0
LOOK_SECONDS = 0.005
BEHIND_SECONDS = 0.05
MOST_UNREAD = 64 * 1024
OVERHEAD_BYTES = 1024
"""What the system keeps with a message that was not read yet, however small that is."""
_PAGE = os.sysconf("SC_PAGE_SIZE")


class WorkerProcess:
    """A process, the socket to it, and the executions it was given, the first of which it runs."""

    def __init__(self, setup: ProcessSetup, mark: str) -> None:
        ours, theirs = socket.socketpair()
        self.socket = ours
        self.frames = Frames(from_worker)
        self.ready = False
        self.running: dict[str, Assignment] = {}
        self.sent = self.done = self._permitted = 0
        self.once = self.worn = self.leaving = False
        self.interrupted = False
        self.target: str | None = None
        self.report: TaskFinished | None = None
        self.since = 0.0
        self._unsent: list[bytes] = []
        draw, put = new_permits()
        self._permits = Permits(draw, put)
        self._ends: dict[str, int] = {}
        self._sent_bytes = self._read_bytes = 0
        self._kill_at: float | None = None
        self._mark = mark
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the process
        left = new_crash_record()
        self._crash_record = CrashRecord(left)
        try:
            with theirs, without_ctrl_c():
                inherited = (theirs.fileno(), left, self._output.fileno(), draw)
                self.process = self._start(setup, inherited)
        except BaseException:
            ours.close()
            self.forget()
            raise
        with suppress(OSError):  # gone already, which is noticed when its socket is read
            # Not in its arguments, which everybody on the machine can read.
            self.socket.sendall(framed_setup(setup))

    def _start(self, setup: ProcessSetup, passed: tuple[int, ...]) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(  # noqa: S603 - our own interpreter and module
            [sys.executable, "-m", "servo.workers.local_pool.process", *map(str, passed)],
            pass_fds=passed,
            cwd=setup.location.folder,
            env={**os.environ, MARK: self._mark},
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )

    # --- what it is given ---------------------------------------------------------------------

    @property
    def current(self) -> str | None:
        """The execution it runs; others it was given lie behind it."""
        return next(iter(self.running), None)

    @property
    def last(self) -> str | None:
        """The last it was given: what it really runs, if all that it has not begun is taken back.

        Of those before it we have not read yet that they ended.
        """
        return next(reversed(self.running), None)

    @property
    def stays(self) -> bool:
        """Whether it goes on after what it was given."""
        return not (self.leaving or self.interrupted or (self.once and self.sent))

    @property
    def fresh(self) -> bool:
        """Whether it was never given anything."""
        return not self.sent and self.stays

    def takes(self, depth: int, now: float) -> bool:
        """Whether it can be given another execution, up to `depth` of them."""
        room = self.ready and len(self.running) < depth and self.stays
        return room and (not self.running or self.accepts_backlog(now))

    def accepts_backlog(self, now: float) -> bool:
        """Whether others may lie behind what it runs: not for long, nor more than is soon read."""
        unread = self._sent_bytes - self._read_bytes
        return now - self.since < BEHIND_SECONDS and unread < MOST_UNREAD

    def give(self, data: bytes, assignment: Assignment, now: float) -> None:
        """Give it an execution, which it gets with the next `flush`."""
        if not self.running:
            self.since = now
        self.sent += 1
        self.running[assignment.exec_id] = assignment
        self._sent_bytes += len(data) + OVERHEAD_BYTES
        self._ends[assignment.exec_id] = self._sent_bytes
        self._unsent.append(data)

    def flush(self) -> None:
        """Send what it was given, at once. If it is gone, that is noticed by reading its socket."""
        if self._unsent:
            data, self._unsent = b"".join(self._unsent), []
            self._permits.put(range(self._permitted + 1, self.sent + 1))
            self._permitted = self.sent
            with suppress(OSError):
                self.socket.sendall(data)

    def take_back(self) -> list[Assignment]:
        """What it was given and has not begun: it never will, and another may have it."""
        count = self._permits.take_back()
        taken = [self.running.popitem()[1] for _ in range(count)]
        for assignment in taken:
            del self._ends[assignment.exec_id]
        self._hang_up_if_over()
        return taken[::-1]

    def finished(self, exec_id: str, now: float) -> tuple[Assignment, float]:
        """The execution it just ended, and how long that took."""
        took, self.since = now - self.since, now
        self.done += 1
        ended = self.running.pop(exec_id)
        self._read_bytes = self._ends.pop(exec_id)
        self._hang_up_if_over()
        return ended, took

    def began(self) -> int:
        """How many of the executions it still has were begun: one, or none."""
        return self._crash_record.begun - self.done

    def overdue_check(self, now: float) -> str:
        """The check that it runs although its time is long over; empty if there is none."""
        found = self._crash_record.checking
        return found.what if found and now > found.until + CHECK_GRACE_SECONDS else ""

    def crash_output(self) -> tuple[bytes | None, str]:
        """What it printed and did not store, None if that may hold secrets; where it crashed."""
        size = os.fstat(self._output.fileno()).st_size
        most = min(size, MAX_BYTES)
        printed = os.pread(self._output.fileno(), most, size - most)
        return (
            None if printed and self._crash_record.knew_secrets else printed,
            self._crash_record.crash(),
        )

    def resident_bytes(self) -> int:
        """The memory it holds now; 0 where the system does not tell."""
        try:
            return int(Path(f"/proc/{self.process.pid}/statm").read_bytes().split()[1]) * _PAGE
        except (OSError, IndexError, ValueError):
            return 0

    # --- its end ------------------------------------------------------------------------------

    def leave(self) -> None:
        """Have it end after what it was given."""
        self.leaving = True
        if not self.running:
            self._hang_up()

    def interrupt(self, target: str | None, report: TaskFinished | None, kill_at: float) -> None:
        """Have it stop what it runs, or be killed at an instant.

        `target` ends as the report says, or unreported without one; anything else it was given is
        to be done again.
        """
        if self.interrupted:
            self._kill_at = kill_at if self._kill_at is None else min(kill_at, self._kill_at)
            return
        self.interrupted, self.target, self.report, self._kill_at = True, target, report, kill_at
        if self.running:
            self._signal(signal.SIGTERM)
        else:
            self._hang_up()

    def kill_if_overdue(self, now: float) -> None:
        """Kill it if it was asked to stop and has not."""
        if self._kill_at is not None and now >= self._kill_at:
            self._signal(signal.SIGKILL)

    def close(self) -> None:
        """End it: it sees that its pool is gone."""
        with suppress(OSError):
            self.socket.close()
        if self.running or not self.ready:
            self._signal(signal.SIGKILL)
        _ = self._gone()
        self.forget()

    def ended(self) -> int:
        """After it has hung up: its exit code. What it left can be asked for until `forget`."""
        self.socket.close()
        return self._gone()

    def forget(self) -> None:
        """Let go of what it left."""
        self._crash_record.close()
        self._output.close()
        self._permits.close()

    def _hang_up_if_over(self) -> None:
        if not self.running and not self.stays:
            self._hang_up()

    def _hang_up(self) -> None:
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_WR)

    def _signal(self, number: signal.Signals) -> None:
        if self.process.returncode is None:  # not waited for, so the number is still its own
            with suppress(OSError):
                os.killpg(self.process.pid, number)

    def _gone(self) -> int:
        """Wait for its end, and not for ever: user code may have left threads behind."""
        if not self._ends_within(LEAVE_SECONDS):
            self._signal(signal.SIGKILL)
            os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOWAIT)
        self._signal(signal.SIGKILL)
        code = self.process.wait()
        kill_marked(self._mark)
        return code

    def _ends_within(self, seconds: float) -> bool:
        """Whether it ends in time; it is not waited for, so that its number stays its own."""
        pause = threading.Event()
        looked = os.WEXITED | os.WNOWAIT | os.WNOHANG
        for _ in range(round(seconds / LOOK_SECONDS)):
            if os.waitid(os.P_PID, self.process.pid, looked) is not None:
                return True
            pause.wait(LOOK_SECONDS)
        return False
