"""Stopping a check that takes too long.

On the main thread, where workers run user code, an alarm of the operating system raises in the code
of the check, again every second in case it is swallowed; resources stay on the thread they were
opened on. On any other thread, which happens only if the caller runs `materialize()` in a
thread, there is no such alarm: the check gets a separate thread, which is asked to stop and left
behind, and the caller has its answer in time whatever that thread does.

Neither stops code that does not return to Python, such as a query or a computation in C. The
queries of `servo.checks` are therefore interrupted by DuckDB itself, on any thread. For other code,
the pool knows the running check and its deadline, and kills a process that is long past it, and the
attempt with it. In `materialize()` on the main thread, nothing can do that.
"""

import ctypes
import signal
import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

AGAIN = 1.0
MOMENT = 2.0


class TookTooLong(BaseException):
    """A check ran out of time; no `Exception`, so that user code does not catch it by chance."""


def _nobody(seconds: float, what: str) -> None:
    del seconds, what


_tell: Callable[[float, str], None] = _nobody


def tell_limits(tell: Callable[[float, str], None]) -> None:
    """Call `tell` with each running check and its deadline; 0 when it has ended."""
    global _tell  # noqa: PLW0603 - one process, one pool
    _tell = tell


def limited(
    seconds: float, call: Callable[[], T], what: str = "the check", *, stops_itself: bool = False
) -> T:
    """What `call` returns; `TookTooLong` if it has not returned after so many seconds.

    What stops by itself is given a moment to do so before its thread is left behind.
    """
    here = threading.current_thread() is threading.main_thread()
    _tell(seconds, what)
    try:
        if here:
            return _with_alarm(seconds, call)
        return _with_thread(seconds + (MOMENT if stops_itself else 0), call)
    finally:
        _tell(0.0, "")


class _Alarm:
    def __init__(self) -> None:
        self.armed = True
        self.rang = False

    def ring(self, *_: object) -> None:
        if self.armed:
            self.rang = True
            raise TookTooLong


def _with_alarm(seconds: float, call: Callable[[], T]) -> T:
    # It may ring at any instruction while it is armed: also after `call` returned, in the first
    # `finally`, which is why there are two. A second ring is a second away.
    alarm = _Alarm()
    handler = signal.signal(signal.SIGALRM, alarm.ring)
    earlier = signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN)
    try:
        try:
            value = call()
        finally:
            alarm.armed = False
    except Exception:
        if alarm.rang:  # libraries in C make what they like of what is raised within them
            raise TookTooLong from None
        raise
    else:
        if alarm.rang:
            raise TookTooLong
        return value
    finally:
        alarm.armed = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        if earlier[0]:  # the alarm of other code, late by the time of the check
            signal.setitimer(signal.ITIMER_REAL, *earlier)


def _with_thread(seconds: float, call: Callable[[], T]) -> T:
    ended: list[Callable[[], T]] = []

    def work() -> None:
        try:
            value = call()
            ended.append(lambda: value)
        except BaseException as error:  # noqa: BLE001 - raised again by the waiting thread
            ended.append(_raiser(error))

    thread = threading.Thread(target=work, name="servo-check", daemon=True)
    thread.start()
    thread.join(seconds)
    if not ended:
        stop = ctypes.pythonapi.PyThreadState_SetAsyncExc
        stop(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(TookTooLong))
        raise TookTooLong
    return ended[0]()


def _raiser(error: BaseException) -> Callable[[], Any]:
    def again() -> Any:
        raise error

    return again
