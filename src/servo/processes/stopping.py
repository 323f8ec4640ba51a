"""What stops an execution from outside, and is not what its code raised.

User code raises what it likes: `sys.exit()`, a cancelled coroutine, a `BaseException` of its own.
All of that is how the execution ended, and is told as that. Only what comes from whoever started
the process goes on to it: the pool's request to stop, and Ctrl-C where somebody sits before it.
"""

import os
import signal
import sys
from contextlib import suppress

STOPPED = 128 + signal.SIGTERM
"""The exit code of a worker that was asked to stop, by whomever, and did."""


class Interrupted(BaseException):
    """The pool asked for the execution to stop; not for user code to catch as an `Exception`."""

    def __init__(self) -> None:
        super().__init__("Servo stopped the execution: cancelled, out of time, or shut down")


def is_from_outside(error: BaseException) -> bool:
    """Whether this stops more than the code it was raised in."""
    if isinstance(error, KeyboardInterrupt):
        # Workers ignore Ctrl-C, so there user code has raised it.
        return signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
    return isinstance(error, Interrupted)


def end_if_forked(pid: int) -> None:
    """End this process here if user code made it with `os.fork` out of the one that works.

    It has everything that the execution has, and would store and report all of it a second time.
    """
    if os.getpid() != pid:
        for stream in (sys.stdout, sys.stderr):
            with suppress(ValueError, OSError, AttributeError):
                stream.flush()
        os._exit(0)
