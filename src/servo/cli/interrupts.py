"""Ctrl-C and SIGTERM, raised as `KeyboardInterrupt` where it is safe to stop.

Python raises `KeyboardInterrupt` wherever the main thread happens to be. Inside an import this can
leave the lock of a module taken, inside `with condition:` the condition's. The leader's threads
then wait for that lock for ever, and so does the main thread when it joins them.

So a signal that comes at such a moment is kept, and looked at again every few milliseconds until
the main thread is elsewhere: almost always it waits for a run. A second signal is raised at once,
and so is one that has been kept for two seconds: an import may hang, too.

Nothing here takes a lock or starts a thread, as the main thread may hold the locks of either: a
timer of the operating system brings the signal back.
"""

import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType

AGAIN_AFTER = 0.01
MOST_LOOKS = 200

_IMPORTING = ("<frozen importlib._bootstrap>", "<frozen importlib._bootstrap_external>")
_LIBRARY = threading.__file__.removesuffix("threading.py")
_LOCKING = tuple(
    f"{_LIBRARY}{name}" for name in ("threading.py", "queue.py", "concurrent/futures/_base.py")
)
_WAITING = "wait"
"""The function of `threading` that holds no lock while it waits."""


class Interrupts:
    """Handles the signals that ask this process to stop."""

    def __init__(self) -> None:
        self._kept = False
        self._looks = 0
        self._raised = False
        self._ends = False

    def install(self) -> None:
        """Raise Ctrl-C only when it is safe, until this process ends.

        It stays ignored where it already was, as in the background of a shell.
        """
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, self._asked)
            signal.signal(signal.SIGALRM, self._asked)

    @contextmanager
    def raised_when_safe(self) -> Generator[None]:
        """Make Ctrl-C and SIGTERM interrupt this block, once it is safe."""
        self._raised = self._ends = False
        asked = [signal.SIGTERM, signal.SIGALRM]
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            asked.append(signal.SIGINT)
        before = {number: signal.signal(number, self._asked) for number in asked}
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            for number, handler in before.items():
                signal.signal(number, handler)
        if self._kept:
            self._kept = False
            raise KeyboardInterrupt

    def ends(self) -> None:
        """Note that the work is done and the process exits by itself in a moment.

        The first Ctrl-C then has no effect: it would only stop work that others wait for.
        """
        self._ends = not self._raised

    def _asked(self, number: int, frame: FrameType | None) -> None:
        if number != signal.SIGALRM:
            if self._ends:
                self._ends = False
                return
            self._looks = MOST_LOOKS if self._kept else 0
        self._kept = is_unsafe(frame) and self._looks < MOST_LOOKS
        if self._kept:
            self._looks += 1
            # Again and again: another thread may be given the signal, which does not wake this one.
            signal.setitimer(signal.ITIMER_REAL, AGAIN_AFTER, AGAIN_AFTER)
            return
        signal.setitimer(signal.ITIMER_REAL, 0)
        self._raised = True
        raise KeyboardInterrupt


def is_unsafe(frame: FrameType | None) -> bool:
    """Whether an exception here would be lost, or would leave a lock held by the main thread."""
    while frame is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back  # a signal that comes while another is looked at
    if frame is None:
        return True
    if frame.f_code.co_filename in _LOCKING and frame.f_code.co_name != _WAITING:
        return True
    current: FrameType | None = frame
    while current is not None:
        if current.f_code.co_filename in _IMPORTING or current.f_code.co_name == "__del__":
            return True  # Python would print an exception in `__del__` and forget it
        current = current.f_back
    return False


interrupts = Interrupts()
"""The signals of this process."""
