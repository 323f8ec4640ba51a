"""How many executions a worker process has begun, known even after it died.

A count in memory that the process and its pool share. The process counts before it calls user code,
so an execution that was sent to a process and not counted has certainly not begun, however the
process ended, and can be given to another.
"""

import mmap
import os
import struct
import tempfile
from pathlib import Path

_COUNT = struct.Struct("Q")


class Begun:
    """The shared count."""

    def __init__(self, fd: int) -> None:
        self._memory = mmap.mmap(fd, _COUNT.size)

    @property
    def count(self) -> int:
        """How many executions were begun."""
        return _COUNT.unpack_from(self._memory)[0]

    def one_more(self) -> None:
        """Count one; called by the process, right before user code."""
        _COUNT.pack_into(self._memory, 0, self.count + 1)

    def close(self) -> None:
        """Let go of the memory."""
        self._memory.close()


def new_count() -> int:
    """A file of the count, for a process to inherit."""
    fd, path = tempfile.mkstemp(prefix="servo-")
    Path(path).unlink()
    os.ftruncate(fd, _COUNT.size)
    return fd
