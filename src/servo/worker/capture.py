"""What user code prints and logs, kept per execution.

Standard output and error of a worker process are one file of its own, at the level of the operating
system, so that what C libraries and subprocesses print is there too. What an execution added to it
is stored when the execution ends, without secrets; an execution that prints nothing stores nothing.
"""

import os
import sys
import tempfile
from contextlib import suppress

from servo.errors import ServoError
from servo.ledger.paths import Paths
from servo.ports.object_store import ObjectStore
from servo.sdk.redaction import hidden
from servo.worker.messages import Work

MAX_BYTES = 16 * 1024 * 1024


class Capture:
    """The output of this process, from now on."""

    def __init__(self, store: ObjectStore, paths: Paths) -> None:
        self._store = store
        self._paths = paths
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the process
        self._fd = self._file.fileno()
        for stream, fd in ((sys.stdout, 1), (sys.stderr, 2)):
            stream.flush()
            os.dup2(self._fd, fd)

    def keep(self, work: Work) -> None:
        """Store what was printed since the last time, as the output of an execution."""
        sys.stdout.flush()
        sys.stderr.flush()
        size = os.lseek(self._fd, 0, os.SEEK_END)
        if not size:
            return
        most = MAX_BYTES + hidden().longest_spelling()
        printed = os.pread(self._fd, min(size, most), max(size - most, 0))
        data = hidden().tail(printed, MAX_BYTES)
        os.ftruncate(self._fd, 0)
        os.lseek(self._fd, 0, os.SEEK_SET)
        # What was computed counts; that its output is lost is no reason to compute it again.
        with suppress(ServoError):
            self._store.put(
                self._paths.log(work.run_id, work.task_key, work.attempt, work.exec_id), data
            )
