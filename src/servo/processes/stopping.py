"""Stopping an execution from outside, as opposed to exceptions from its code.

User code can raise anything: `sys.exit()`, a cancelled coroutine, its own `BaseException`. All of
that is how the execution ended, and is reported so. Only a request from outside also stops the
process: the pool's request to stop, and Ctrl-C in a terminal.
"""

import os
import signal
import sys
from contextlib import suppress

STOPPED = 128 + signal.SIGTERM
"""The exit code of a worker that stopped on request."""


class Interrupted(BaseException):
    """The pool requested the execution to stop; no `Exception`, so user code does not catch it."""

    def __init__(self) -> None:
        super().__init__("Servo stopped the execution: cancelled, out of time, or shut down")


def is_from_outside(error: BaseException) -> bool:
    """Whether this stops more than the code it was raised in."""
    if isinstance(error, KeyboardInterrupt):
        # Workers ignore Ctrl-C, so there user code has raised it.
        return signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
    return isinstance(error, Interrupted)


def end_if_forked(pid: int) -> None:
    """End this process if user code forked it from the worker with `os.fork`.

    It is a copy of the execution, and would store and report everything a second time.
    """
    if os.getpid() != pid:
        for stream in (sys.stdout, sys.stderr):
            with suppress(ValueError, OSError, AttributeError):
                stream.flush()
        os._exit(0)
