"""One worker process, as its pool sees it.

The process leads a process group, which holds everything that user code starts. A signal goes
to the whole group, and when the process has ended the rest of its group is killed: nothing that an
execution started outlives the process. It is killed before the process is waited for, while its
number cannot belong to another process yet. What has left the group is found by its mark (see
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
"""The memory that the system needs for an unread message, however small it is."""
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
        with suppress(OSError):  # it has ended already; reading its socket shows that
            # Not in its arguments, which every user of the machine can read.
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
        """The execution it runs; the others are queued after it."""
        return next(iter(self.running), None)

    @property
    def last(self) -> str | None:
        """The last it was given: what it really runs, if all that it has not begun is taken back.

        Of those before it we have not read yet that they ended.
        """
        return next(reversed(self.running), None)

    @property
    def stays(self) -> bool:
        """Whether it continues after its executions."""
        return not (self.leaving or self.interrupted or (self.once and self.sent))

    @property
    def fresh(self) -> bool:
        """Whether it was never given an execution."""
        return not self.sent and self.stays

    def takes(self, depth: int, now: float) -> bool:
        """Whether it can take another execution, up to `depth` of them."""
        room = self.ready and len(self.running) < depth and self.stays
        return room and (not self.running or self.accepts_backlog(now))

    def accepts_backlog(self, now: float) -> bool:
        """Whether more may be queued in it: not if they would wait long, or fill its socket."""
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
        """Send its executions at once. If it has ended, reading its socket shows that."""
        if self._unsent:
            data, self._unsent = b"".join(self._unsent), []
            self._permits.put(range(self._permitted + 1, self.sent + 1))
            self._permitted = self.sent
            with suppress(OSError):
                self.socket.sendall(data)

    def take_back(self) -> list[Assignment]:
        """Take back the executions it has not begun; another process may have them."""
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
        """The running check that is long past its deadline; empty if there is none."""
        found = self._crash_record.checking
        return found.what if found and now > found.until + CHECK_GRACE_SECONDS else ""

    def crash_output(self) -> tuple[bytes | None, str]:
        """The output it did not store, None if that may hold secrets; and where it crashed."""
        size = os.fstat(self._output.fileno()).st_size
        most = min(size, MAX_BYTES)
        printed = os.pread(self._output.fileno(), most, size - most)
        return (
            None if printed and self._crash_record.knew_secrets else printed,
            self._crash_record.crash(),
        )

    def resident_bytes(self) -> int:
        """The memory it uses now; 0 if the system does not say."""
        try:
            return int(Path(f"/proc/{self.process.pid}/statm").read_bytes().split()[1]) * _PAGE
        except (OSError, IndexError, ValueError):
            return 0

    # --- its end ------------------------------------------------------------------------------

    def leave(self) -> None:
        """End it after its executions."""
        self.leaving = True
        if not self.running:
            self._hang_up()

    def interrupt(self, target: str | None, report: TaskFinished | None, kill_at: float) -> None:
        """Ask it to stop its execution, and kill it at an instant if it does not.

        `target` ends as the report says, or unreported without one; its other executions are to
        be repeated.
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
        """End it by closing its socket."""
        with suppress(OSError):
            self.socket.close()
        if self.running or not self.ready:
            self._signal(signal.SIGKILL)
        _ = self._gone()
        self.forget()

    def ended(self) -> int:
        """Its exit code, after it closed its socket. Its files stay readable until `forget`."""
        self.socket.close()
        return self._gone()

    def forget(self) -> None:
        """Close the files it left."""
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
        """Wait for its end, but not for ever: user code may have left threads running."""
        if not self._ends_within(LEAVE_SECONDS):
            self._signal(signal.SIGKILL)
            os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOWAIT)
        self._signal(signal.SIGKILL)
        code = self.process.wait()
        kill_marked(self._mark)
        return code

    def _ends_within(self, seconds: float) -> bool:
        """Whether it ends in time; it is not reaped, so that its number stays its own."""
        pause = threading.Event()
        looked = os.WEXITED | os.WNOWAIT | os.WNOHANG
        for _ in range(round(seconds / LOOK_SECONDS)):
            if os.waitid(os.P_PID, self.process.pid, looked) is not None:
                return True
            pause.wait(LOOK_SECONDS)
        return False
