"""Waiting until one is needed."""

from collections.abc import Callable
from typing import Any

from simulation.kernel import Process


class Waker:
    """Lets a process wait until it is needed, or for so long."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._callback: Callable[[Any], None] | None = None

    def wait(self, limit_ms: float) -> None:
        def register(callback: Callable[[Any], None]) -> None:
            self._callback = callback
            self._process.kernel.at(limit_ms, lambda: callback(None))

        self._process.wait_for(register)

    def wake(self) -> None:
        if self._callback is not None:
            self._callback(None)
