"""Sockets between processes of one simulated machine, in place of those of `socket`.

As in an operating system: a paused process still has connections taken for it, up to a limit, and a
process that ends hangs up on everybody.
"""

import errno
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import Any, NamedTuple

from simulation.kernel import Process, this_process

_Callback = Callable[[Any], None]
_numbers = count(1)


class SimSocket:
    """One end of a connection, or a listener."""

    def __init__(self, family: int = 0, kind: int = 0) -> None:
        del family, kind
        self._process: Process = this_process()
        self._number = next(_numbers)
        self._timeout: float | None = None
        self._callbacks: list[_Callback] = []
        self._received = bytearray()
        self._peer: SimSocket | None = None
        self._is_over = self._closed = False
        self._path = ""
        self._backlog: deque[SimSocket] = deque()
        self._process.at_end.append(self.close)

    # --- connections ----------------------------------------------------------------------------

    def connect(self, path: str) -> None:
        machine = self._process.machine
        self._process.check_alive()
        listener: SimSocket | None = machine.listeners.get(path)
        if listener is None or listener._closed:  # noqa: SLF001 - of the same class
            raise ConnectionRefusedError(errno.ECONNREFUSED, "refused")
        if len(listener._backlog) >= machine.most_waiting:  # noqa: SLF001 - of the same class
            raise BlockingIOError(errno.EAGAIN, "too many wait")
        theirs = listener._accepted()  # noqa: SLF001 - of the same class
        self.join(theirs)
        listener._backlog.append(theirs)  # noqa: SLF001 - of the same class
        listener.wake()

    def join(self, other: "SimSocket") -> None:
        """Make two ends of a connection of two sockets."""
        self._peer, other._peer = other, self  # noqa: SLF001 - of the same class

    def _accepted(self) -> "SimSocket":
        made = SimSocket.__new__(SimSocket)
        made.__dict__.update(_blank(self._process))
        self._process.at_end.append(made.close)
        return made

    def bind(self, path: str) -> None:
        self._path = path
        machine = self._process.machine
        fd = machine.disk.open(path, _CREATE)
        machine.disk.close(fd)
        machine.listeners[path] = self

    def listen(self, backlog: int) -> None:
        del backlog

    def accept(self) -> "tuple[SimSocket, str]":
        while not self._backlog:
            if self._closed:
                raise OSError(errno.EBADF, "closed")
            self._wait_or_time_out()
        return self._backlog.popleft(), ""

    def settimeout(self, timeout: float | None) -> None:
        self._timeout = timeout

    def gettimeout(self) -> float | None:
        return self._timeout

    # --- bytes ----------------------------------------------------------------------------------

    def sendall(self, data: bytes) -> None:
        self._process.check_alive()
        peer = self._peer
        if peer is None or peer._closed or self._closed:  # noqa: SLF001 - of the same class
            raise BrokenPipeError(errno.EPIPE, "closed")
        peer._received += data  # noqa: SLF001 - of the same class
        peer.wake()

    def send(self, data: bytes, flags: int = 0) -> int:
        del flags
        self.sendall(data)
        return len(data)

    def recv(self, most: int) -> bytes:
        while not self._received:
            if self._is_over or self._closed:
                return b""
            self._wait_or_time_out()
        data = bytes(self._received[:most])
        del self._received[:most]
        return data

    @property
    def is_readable(self) -> bool:
        return bool(self._received or self._is_over or self._closed or self._backlog)

    # --- ends -----------------------------------------------------------------------------------

    def shutdown(self, how: int) -> None:
        del how
        if self._peer is not None:
            self._peer._is_over = True  # noqa: SLF001 - of the same class
            self._peer.wake()

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self.shutdown(0)
        for waiting in self._backlog:
            waiting.close()
        self.wake()

    def __enter__(self) -> "SimSocket":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __hash__(self) -> int:
        return self._number

    def __eq__(self, other: object) -> bool:
        return self is other

    def notify(self, callback: _Callback) -> None:
        self._callbacks.append(callback)

    def wake(self) -> None:
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(None)

    def _wait_or_time_out(self) -> None:
        process, timeout = this_process(), self._timeout

        def register(callback: _Callback) -> None:
            self.notify(lambda _: callback(True))
            if timeout is not None:
                process.kernel.at(timeout * 1000, lambda: callback(False))

        if not process.wait_for(register):
            raise TimeoutError("timed out")


_CREATE = 0o100


def _blank(process: Process) -> dict[str, Any]:
    return {
        "_process": process,
        "_number": next(_numbers),
        "_timeout": None,
        "_callbacks": [],
        "_received": bytearray(),
        "_peer": None,
        "_is_over": False,
        "_closed": False,
        "_path": "",
        "_backlog": deque(),
    }


def connected(one: Process, other: Process) -> tuple[SimSocket, SimSocket]:
    """A connection between two processes."""
    ends: list[SimSocket] = []
    for process in (one, other):
        made = SimSocket.__new__(SimSocket)
        made.__dict__.update(_blank(process))
        process.at_end.append(made.close)
        ends.append(made)
    ends[0].join(ends[1])
    return ends[0], ends[1]


class Sockets:
    """In place of the module `socket`."""

    socket = SimSocket
    AF_UNIX = SOCK_STREAM = SHUT_RDWR = SHUT_WR = MSG_DONTWAIT = 0

    @staticmethod
    def socketpair() -> tuple[SimSocket, SimSocket]:
        return connected(this_process(), this_process())

    @staticmethod
    def gethostname() -> str:
        return this_process().machine.name


class Key(NamedTuple):
    """What was registered."""

    fileobj: SimSocket
    data: Any


class Selector:
    """In place of `selectors.DefaultSelector`."""

    def __init__(self) -> None:
        self._keys: dict[SimSocket, Key] = {}

    def register(self, fileobj: SimSocket, events: int, data: Any = None) -> None:
        del events
        self._keys[fileobj] = Key(fileobj, data)

    def unregister(self, fileobj: SimSocket) -> None:
        del self._keys[fileobj]

    def select(self, timeout: float) -> list[tuple[Key, int]]:
        if not self._ready():
            process = this_process()

            def register(callback: _Callback) -> None:
                for each in self._keys:
                    each.notify(callback)
                process.kernel.at(timeout * 1000, lambda: callback(None))

            process.wait_for(register)
        return self._ready()

    def _ready(self) -> list[tuple[Key, int]]:
        return [(key, 1) for key in self._keys.values() if key.fileobj.is_readable]

    def close(self) -> None:
        self._keys.clear()


class Selectors:
    """In place of the module `selectors`."""

    DefaultSelector = Selector
    EVENT_READ = 1
