"""Waiting in a test for what other threads and processes bring about."""

from collections.abc import Callable
from threading import Event
from typing import TypeVar

from servo.workspace.composition import system_clock

T = TypeVar("T")


def eventually(holds: Callable[[], T], seconds: float = 60, *, every: float = 0.02) -> T:
    """What a question is answered once it holds; a failure of the test if it does not in time.

    `every` is how long to wait before asking again: longer where the question starts a process.
    """
    pause, clock = Event(), system_clock()
    until = clock.monotonic() + seconds
    while clock.monotonic() < until:
        if found := holds():
            return found
        pause.wait(every)
    raise AssertionError("it never came to hold")
