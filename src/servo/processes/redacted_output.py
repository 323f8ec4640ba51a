"""What user code prints in a process, without the secrets that the process has read.

Output goes straight to standard error until the process reads its first secret. From then on it
goes through a pipe, at the level of the operating system, so that the output of C libraries and
subprocesses does too. Only whole lines leave the pipe, so that no part of a secret does. If the
process is killed, what is left in the pipe is lost: nobody else can redact it.

**Who may race.** A thread of ours reads the pipe as it fills, and whoever calls `drain` reads what
is there. Both do so under the lock. Any thread may read the first secret.
"""

import fcntl
import io
import os
import select
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from typing import TextIO

from servo.sdk.resources.redaction import Redaction

PIPE_BYTES = 1024 * 1024
"""A C library that prints while it holds the interpreter must not wait for our thread."""

MOST_IN_A_LINE = 64 * 1024
READ_BYTES = 64 * 1024


class RedactedOutput:
    """Redacts the output of this process, from its first secret on."""

    def __init__(self, known: Redaction) -> None:
        self._known = known
        self._lock = threading.Lock()
        self._pipe: int | None = None
        self._real = -1
        self._held = b""
        self._finished = False
        known.before_first(self._begin)

    def drain(self) -> None:
        """Show every whole line that was printed so far."""
        _flush()
        with self._lock:
            _ = self._show()

    def finish(self) -> None:
        """Show everything that was printed, and redirect nothing any more."""
        _flush()
        with self._lock:
            self._finished = True
            _ = self._show()
            held, self._held = self._held, b""
            self._write(self._known.data(held))

    def _begin(self) -> None:
        with self._lock:
            if self._pipe is not None or self._finished:
                return
            _flush()
            try:
                self._real = os.dup(2)
            except OSError:
                return  # user code has closed it: nothing it prints is shown
            self._pipe, into = os.pipe()
            os.set_blocking(self._pipe, False)
            with suppress(OSError, AttributeError):  # as large as the system allows
                _ = fcntl.fcntl(into, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
            for fd in (1, 2):
                _ = os.dup2(into, fd)
            os.close(into)
            threading.Thread(target=self._pump, args=(self._pipe,), daemon=True).start()

    def _pump(self, pipe: int) -> None:
        while True:
            _ = select.select([pipe], [], [])
            with self._lock:
                if not self._show():
                    return

    def _show(self) -> bool:
        """Show the whole lines in the pipe; whether anybody can still write to it."""
        while self._pipe is not None:
            try:
                data = os.read(self._pipe, READ_BYTES)
            except BlockingIOError:
                return True
            self._held += data
            lines, newline, rest = self._held.rpartition(b"\n")
            self._write(self._known.data(lines + newline))
            self._held = rest
            if len(rest) > MOST_IN_A_LINE:
                shown, self._held = self._known.settled(rest)
                self._write(shown)
            if not data:
                return False
        return True

    def _write(self, data: bytes) -> None:
        with suppress(OSError):  # nobody is there to read it
            while data:
                data = data[os.write(self._real, data) :]


def _flush() -> None:
    """Flush Python's streams; user code may have closed or replaced them."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(ValueError, OSError, AttributeError):
            stream.flush()


class _RedactedStream(io.TextIOBase):
    """A stream of Python that redacts what is written to it, a line at a time."""

    def __init__(self, stream: TextIO, known: Redaction) -> None:
        self._stream = stream
        self._known = known
        self._held = ""

    def write(self, text: str, /) -> int:
        lines, newline, self._held = (self._held + text).rpartition("\n")
        if newline:
            _ = self._stream.write(self._known.text(lines + newline))
        return len(text)

    def flush(self) -> None:
        self._stream.flush()

    def isatty(self) -> bool:
        return self._stream.isatty()

    def fileno(self) -> int:
        return self._stream.fileno()

    def end(self) -> None:
        """Write the last line, which has no end."""
        held, self._held = self._held, ""
        _ = self._stream.write(self._known.text(held))


@contextmanager
def redacted_prints(known: Redaction) -> Generator[None]:
    """Redact what Python code prints within a block, in a process that prints other things too.

    Code may keep the streams it finds here, as logging does; they stay usable.
    """
    out, error = _RedactedStream(sys.stdout, known), _RedactedStream(sys.stderr, known)
    with redirect_stdout(out), redirect_stderr(error):
        try:
            yield
        finally:
            out.end()
            error.end()
