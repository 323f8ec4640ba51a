"""What a worker process may begin, so that its pool can take back what it has not begun.

Several executions may lie ready in a process, one behind another. Only the process knows when it
begins the next, and the pool may want it back just then, for another process that has nothing to
do. A pipe settles it that both can read: whoever sends an execution puts its number in first, the
process begins an execution whose number it has drawn, and the pool takes back those whose numbers
it draws. The system gives every number to one of them alone, and neither has to wait for the other,
whatever user code is doing.

Executions are numbered as they are sent, from one.
"""

import os
import struct
from collections.abc import Iterable

_NUMBER = struct.Struct("Q")
_MOST = 1 << 16


def new_permits() -> tuple[int, int]:
    """A pipe: the end to draw from, which the process inherits, and the end to put in."""
    draw, put = os.pipe()
    os.set_blocking(draw, False)
    return draw, put


class Drawing:
    """The pipe, as the process has it."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._arrived = self._drawn = 0

    def may_begin(self) -> bool:
        """Whether the execution that arrived next is to be begun; otherwise it was taken back."""
        self._arrived += 1
        if self._drawn < self._arrived:
            # It was put in before the execution was sent: if it is not there, the pool has it.
            try:
                (self._drawn,) = _NUMBER.unpack(os.read(self._fd, _NUMBER.size))
            except BlockingIOError:
                return False
        return self._drawn == self._arrived


class Permits:
    """The pipe, as the pool has it."""

    def __init__(self, draw: int, put: int) -> None:
        self._draw = draw
        self._put = put

    def put(self, numbers: Iterable[int]) -> None:
        """Permit what is about to be sent."""
        os.write(self._put, b"".join(map(_NUMBER.pack, numbers)))

    def take_back(self) -> int:
        """How many of the last that were sent are not begun, and from now on never will be."""
        try:
            return len(os.read(self._draw, _MOST)) // _NUMBER.size
        except BlockingIOError:
            return 0

    def close(self) -> None:
        """Let go of it."""
        os.close(self._draw)
        os.close(self._put)
