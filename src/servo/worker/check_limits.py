"""Stopping a check that takes too long.

On the main thread an alarm of the operating system raises in the code of the check, again every
second in case it is swallowed; resources stay on the thread they were opened on. On any other
thread there is no such alarm, so the check gets a thread of its own, which is told to stop and left
behind. Either way the caller has its answer in time, as long as the code comes back to Python now
and then; for code that does not there is the timeout of the asset, which ends the process. Workers
run user code on the main thread. On another one, which only `materialize()` in a thread of the
caller's is, a query of DuckDB may keep whoever wants to interrupt it waiting for the interpreter.
"""

import ctypes
import signal
import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

AGAIN = 1.0


class TookTooLong(BaseException):
    """A check ran out of time; no `Exception`, so that user code does not catch it by chance."""


def limited(seconds: float, call: Callable[[], T], *, stops_itself: bool = False) -> T:
    """What `call` returns; `TookTooLong` if it has not returned after so many seconds.

    What stops by itself is not stopped from another thread as well: an exception that waits for
    a thread which is busy in DuckDB keeps all others from getting on.
    """
    if threading.current_thread() is threading.main_thread():
        return _with_alarm(seconds, call)
    return call() if stops_itself else _with_thread(seconds, call)


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
        if earlier[0]:  # somebody else's alarm, late by what the check took
            signal.setitimer(signal.ITIMER_REAL, *earlier)


def _with_thread(seconds: float, call: Callable[[], T]) -> T:
    ended: list[Callable[[], T]] = []

    def work() -> None:
        try:
            value = call()
            ended.append(lambda: value)
        except BaseException as error:  # noqa: BLE001 - raised again by who waits
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
