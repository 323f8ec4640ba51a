"""What an execution leaves behind in its process, put right before the next one begins there.

Executions share a warm process, and none should notice what another did to it: the folder it works
in, its handlers of the signals that Servo needs, and an alarm that would go off in somebody else's
code. What is printed is put right in `servo.execution.capture`. The environment, imported modules
and whatever they hold stay: that is what a process is kept warm for.
"""

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any

Handler = Callable[[int, FrameType | None], Any] | int | None


class Tidying:
    """A process as it is now, to be put right again and again."""

    def __init__(self) -> None:
        self._folder = _present_folder()
        self._handlers: dict[int, Handler] = {
            number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)
        }

    def tidy(self, *, thoroughly: bool) -> None:
        """Put the process right; called between two executions, on the main thread.

        To ask for a handler takes as long as a short execution, so that is done `thoroughly` only.
        """
        if _present_folder() != self._folder:
            with suppress(OSError):  # it is gone: the next one fails where it looks for something
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
