"""Waiting in a test for what other processes bring about."""

from collections.abc import Callable
from threading import Event

from servo.workspace.system import SystemClock


def eventually(holds: Callable[[], object], seconds: float = 60) -> None:
    """Return once something holds; a failure of the test if it does not in time."""
    pause, clock = Event(), SystemClock()
    until = clock.monotonic() + seconds
    while clock.monotonic() < until:
        if holds():
            return
        pause.wait(0.02)
    raise AssertionError("it never came to hold")
