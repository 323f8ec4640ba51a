"""Restoring a process between two executions.

Executions share a warm process, and none should notice what another did to it: the working folder,
the handlers of the signals that Servo needs, and an alarm that would go off in another execution.
`servo.execution.capture` restores the output streams. The environment, imported modules and their
state stay: a process is kept warm for these.
"""

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any

Handler = Callable[[int, FrameType | None], Any] | int | None


class Tidying:
    """The current state of a process, restored after every execution."""

    def __init__(self) -> None:
        self._folder = _present_folder()
        self._handlers: dict[int, Handler] = {
            number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)
        }

    def tidy(self, *, thoroughly: bool) -> None:
        """Restore the process; called between two executions, on the main thread.

        Reading a signal handler takes as long as a short execution: only `thoroughly` does that.
        """
        if _present_folder() != self._folder:
            with suppress(OSError):  # it was removed: the next one fails when it looks for a file
                os.chdir(self._folder)
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in self._handlers.items() if thoroughly else ():
            if signal.getsignal(number) is not handler:
                signal.signal(number, handler)


def _present_folder() -> str:
    try:
        return os.getcwd()  # noqa: PTH109 - as text, which is ten times as fast
    except OSError:
        return ""  # the execution has removed the folder it went to
