"""Permits to begin executions, so that a pool can take back what its process has not begun.

Several executions may be queued in a process. Only the process knows when it begins the next one,
and the pool may want it back at that moment, for an idle process. A pipe that both can read
decides: before the pool sends an execution it writes its number into the pipe; the process begins
an execution if it reads its number, and the pool takes back those whose numbers it reads. The
operating system gives every number to only one of them, and neither waits for the other, whatever
user code is doing.

Executions are numbered as they are sent, from one.
"""

import os
import struct
from collections.abc import Iterable

_NUMBER = struct.Struct("Q")
_MOST = 1 << 16


def new_permits() -> tuple[int, int]:
    """A pipe: the read end, which the process inherits, and the write end."""
    draw, put = os.pipe()
    os.set_blocking(draw, False)
    return draw, put


class Drawing:
    """The process's end of the pipe."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._arrived = self._drawn = 0

    def may_begin(self) -> bool:
        """Whether the next execution may begin; if not, the pool took it back."""
        self._arrived += 1
        if self._drawn < self._arrived:
            # Its number was written before it was sent: if it is missing, the pool has read it.
            try:
                (self._drawn,) = _NUMBER.unpack(os.read(self._fd, _NUMBER.size))
            except BlockingIOError:
                return False
        return self._drawn == self._arrived


class Permits:
    """The pool's ends of the pipe."""

    def __init__(self, draw: int, put: int) -> None:
        self._draw = draw
        self._put = put

    def put(self, numbers: Iterable[int]) -> None:
        """Permit the execution that is about to be sent."""
        os.write(self._put, b"".join(map(_NUMBER.pack, numbers)))

    def take_back(self) -> int:
        """Take back the executions that are not begun, the last ones sent; how many."""
        try:
            return len(os.read(self._draw, _MOST)) // _NUMBER.size
        except BlockingIOError:
            return 0

    def close(self) -> None:
        """Close the pipe."""
        os.close(self._draw)
        os.close(self._put)
