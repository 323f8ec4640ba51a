"""What an execution used: time, the processor, memory, and what it read and wrote.

The processor time is that of this process and of those it has started and waited for. The memory is
the peak of the process if this execution caused it, and otherwise its memory at the end: a warm
process has run other executions, and the system remembers only one peak.

Bytes are those that the process read and wrote by system calls: files, pipes and the network, not
files that it maps into memory. Where the system does not count them they are None, and never 0.
"""

import os
import resource
import sys
from contextlib import suppress
from functools import cache

from servo.core.events.tasks import TaskCost
from servo.ports.clock import Clock

_PEAK_UNIT = 1 if sys.platform == "darwin" else 1024
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Meter:
    """Measures from when it is made."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began = clock.monotonic()
        self._used = _processor()
        self._moved = _moved()

    def cost(self) -> TaskCost | None:
        """What was used since; None for what took less than can be measured."""
        wall = round((self._clock.monotonic() - self._began) * 1000)
        cpu = round((_processor() - self._used) * 1000)
        if not wall and not cpu:
            return None
        read, written = _since(self._moved, _moved())
        return TaskCost(
            wall_ms=wall,
            cpu_ms=cpu,
            peak_memory_bytes=_held(),
            bytes_read=read,
            bytes_written=written,
        )


def _held() -> int:
    """The memory to report for an execution that has just ended."""
    peak, before = _peak(), _seen.get("peak", 0)
    _seen["peak"] = max(peak, before)
    return peak if peak > before else _resident() or peak


_seen: dict[str, int] = {}
"""The peak as it was after the last execution that was measured."""


def _processor() -> float:
    own = resource.getrusage(resource.RUSAGE_SELF)
    others = resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + others.ru_utime + others.ru_stime


def _peak() -> int:
    """The most this process ever held.

    Not by `getrusage` where it can be had otherwise: what that says begins with the peak of the
    process that started this one.
    """
    with suppress(OSError, IndexError, ValueError):
        told = os.pread(_own_status(), 4096, 0)
        return int(told.split(b"VmHWM:", 1)[1].split(None, 1)[0]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _PEAK_UNIT


def _resident() -> int:
    """The memory this process holds; 0 if the system does not say."""
    with suppress(OSError, IndexError, ValueError):
        return int(os.pread(_own_memory(), 64, 0).split()[1]) * _PAGE
    return 0


Moved = tuple[int, int] | None
"""How many bytes were read and written; None if the system does not say."""


def _moved() -> Moved:
    with suppress(OSError, IndexError, ValueError):
        told = os.pread(_own_io(), 256, 0).split()
        return int(told[1]), int(told[3])
    return None


def _since(before: Moved, now: Moved) -> tuple[int | None, int | None]:
    if before is None or now is None:
        return None, None
    return now[0] - before[0], now[1] - before[1]


@cache
def _own_io() -> int:
    """Opened once, for its speed."""
    return os.open("/proc/self/io", os.O_RDONLY)


@cache
def _own_memory() -> int:
    """Opened once, for its speed."""
    return os.open("/proc/self/statm", os.O_RDONLY)


@cache
def _own_status() -> int:
    """Opened once, for its speed."""
    return os.open("/proc/self/status", os.O_RDONLY)
