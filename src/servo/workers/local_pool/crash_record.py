"""What a pool can still learn about a worker process after it died.

Both map the same file into memory. It holds

- how many executions the process has begun. It counts before it calls user code, so an execution
  that was sent but not counted has certainly not begun, however the process ended, and can be
  assigned to another process;
- the running check and its deadline: if the code cannot be interrupted within its process, the
  process is killed;
- whether the process knows a secret. Other processes cannot recognise it, so they may not keep its
  output then;
- after these, the traceback that Python writes when the process crashes.
"""

import mmap
import os
import struct
import tempfile
from pathlib import Path

import msgspec

_BEGUN = struct.Struct("Q")
_LIMIT = struct.Struct("d")
_SECRETS = struct.Struct("Q")
_NAME_BYTES = 200
_NAME = struct.Struct(f"{_NAME_BYTES}s")
_AT_LIMIT = _BEGUN.size
_AT_SECRETS = _AT_LIMIT + _LIMIT.size
_AT_NAME = _AT_SECRETS + _SECRETS.size
SIZE = 4096
MAX_CRASH = 16_000


class Limit(msgspec.Struct, frozen=True):
    """A running check and its deadline, by the monotonic clock."""

    until: float
    what: str


class CrashRecord:
    """The shared file, as either side has it."""

    def __init__(self, fd: int) -> None:
        self._memory = mmap.mmap(fd, SIZE)
        self._fd = fd

    # --- for the process ----------------------------------------------------------------------

    def one_more(self) -> None:
        """Count an execution; called right before user code."""
        _BEGUN.pack_into(self._memory, 0, self.begun + 1)

    def limit(self, until: float, what: str) -> None:
        """Record that a check has begun, with its deadline; 0 when it has ended."""
        if until:
            name = what.encode(errors="replace")[:_NAME_BYTES]
            _NAME.pack_into(self._memory, _AT_NAME, name)
        _LIMIT.pack_into(self._memory, _AT_LIMIT, until)

    def has_secrets(self) -> None:
        """Record that the process is about to know a secret."""
        _SECRETS.pack_into(self._memory, _AT_SECRETS, 1)

    # --- for the pool -------------------------------------------------------------------------

    @property
    def begun(self) -> int:
        """How many executions were begun."""
        return _BEGUN.unpack_from(self._memory)[0]

    @property
    def checking(self) -> Limit | None:
        """The running check, if any."""
        (until,) = _LIMIT.unpack_from(self._memory, _AT_LIMIT)
        if not until:
            return None
        (name,) = _NAME.unpack_from(self._memory, _AT_NAME)
        return Limit(until, name.rstrip(b"\0").decode(errors="replace"))

    @property
    def knew_secrets(self) -> bool:
        """Whether the output of the process may hold secrets."""
        return bool(_SECRETS.unpack_from(self._memory, _AT_SECRETS)[0])

    def crash(self) -> str:
        """Where the process was when it crashed; empty if it did not."""
        return os.pread(self._fd, MAX_CRASH, SIZE).decode(errors="replace")

    def close(self) -> None:
        """Close the file."""
        self._memory.close()
        os.close(self._fd)


def new_crash_record() -> int:
    """A file for a process to inherit; what is written to it goes behind what both know."""
    fd, path = tempfile.mkstemp(prefix="servo-")
    Path(path).unlink()
    os.ftruncate(fd, SIZE)
    os.lseek(fd, 0, os.SEEK_END)
    return fd
