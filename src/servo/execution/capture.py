"""What user code prints and logs, kept per execution.

Standard output and error of a worker process go to one file, at the level of the operating system,
so that the output of C libraries and subprocesses is there too. The output of an execution is
stored without secrets when the execution ends, and about every second while it runs, for readers
that follow it; an execution that prints nothing stores nothing. While it runs, only whole lines are
stored, so that no part of a secret is. The pool has the file too, and stores what is left in it if
the process dies (see `servo.workers.local_pool.crash_output`).

**Who may race.** The thread that runs user code calls `begin` and `keep`; a thread of ours looks
once a second, whatever runs. `begin` only notes the execution, so short tasks pay nothing. Both
store under the lock, so that what is stored last is the whole.
"""

import io
import os
import sys
import threading
from contextlib import suppress
from hashlib import sha256
from typing import cast

from servo.core.events.tasks import StoredLog
from servo.errors import ServoError
from servo.leader.assignments import Assignment
from servo.ledger.paths import Paths
from servo.ports.clock import Clock
from servo.ports.object_store import ObjectStore
from servo.sdk.resources.redaction import hidden

MAX_BYTES = 16 * 1024 * 1024
LOOK_EVERY = 1.0
# A worker spends at most this share of its time storing unfinished output.
SHARE = 0.1


class Capture:
    """The output of this process, from now on."""

    def __init__(
        self,
        store: ObjectStore,
        paths: Paths,
        clock: Clock,
        file: int,
        *,
        look_every: float = LOOK_EVERY,
    ) -> None:
        self._store = store
        self._paths = paths
        self._clock = clock
        self._fd = file
        self._current: Assignment | None = None
        self._stored = 0
        self._lock = threading.Lock()
        _flush()
        found = os.fstat(self._fd)
        self._identity = found.st_dev, found.st_ino
        self._mend()
        _print_at_once()
        looking = threading.Thread(target=self._look_for_ever, args=(look_every,), daemon=True)
        looking.start()

    def begin(self, work: Assignment) -> None:
        """From now on, output belongs to this execution."""
        self._current = work

    def keep(self, work: Assignment) -> StoredLog | None:
        """Store what was printed since the last time, as the output of an execution."""
        self._current = None
        _flush()
        self._mend()
        if not os.fstat(self._fd).st_size:
            return None
        with self._lock:
            stored = self._put(work, whole=True)
            os.ftruncate(self._fd, 0)
            os.lseek(self._fd, 0, os.SEEK_SET)
            self._stored = 0
        return stored

    def _mend(self) -> None:
        """Restore the streams, so that everything is printed to the file again."""
        for fd, name in ((1, "stdout"), (2, "stderr")):
            if not self._is_ours(fd):
                os.dup2(self._fd, fd)
            stream = getattr(sys, name)
            if stream is None or getattr(stream, "closed", False):
                setattr(sys, name, open(fd, "w", encoding="utf-8", closefd=False))  # noqa: SIM115 - as long as the process
                _print_at_once()

    def _is_ours(self, fd: int) -> bool:
        try:
            found = os.fstat(fd)
        except OSError:
            return False  # it was closed
        return (found.st_dev, found.st_ino) == self._identity

    def _look_for_ever(self, every: float) -> None:
        pause = threading.Event()
        wait = every
        while True:
            pause.wait(wait)
            began = self._clock.monotonic()
            self._look()
            wait = max(every, (self._clock.monotonic() - began) / SHARE)

    def _look(self) -> None:
        """Store what an execution has printed so far, if it is more than before."""
        work = self._current
        if work is None:
            return
        _flush()
        with self._lock:
            # It may have ended meanwhile, and another may have begun.
            if self._current is work and os.fstat(self._fd).st_size > self._stored:
                self._put(work, whole=False)

    def _put(self, work: Assignment, *, whole: bool) -> StoredLog | None:
        size = os.fstat(self._fd).st_size
        most = MAX_BYTES + hidden().longest_spelling()
        printed = os.pread(self._fd, min(size, most), max(size - most, 0))
        if not whole:
            printed = printed[: printed.rfind(b"\n") + 1]
        data = hidden().tail(printed, MAX_BYTES)
        self._stored = size
        if not data:
            return None
        key = self._paths.log(work.run_id, work.task_key, work.attempt, work.exec_id)
        # The result counts; lost output is no reason to compute it again.
        with suppress(ServoError):
            _ = self._store.put(key, data)
            return StoredLog(key=key, size=len(data), sha256=sha256(data).hexdigest())
        return None


def _flush() -> None:
    """Flush Python's streams; user code may have closed or replaced them."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(ValueError, OSError, AttributeError):
            stream.flush()


def _print_at_once() -> None:
    """As in a terminal: what is printed is there even if the process dies of the next line."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(ValueError, OSError, AttributeError):
            cast("io.TextIOWrapper", stream).reconfigure(line_buffering=True)
