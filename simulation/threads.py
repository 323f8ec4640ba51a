"""Threads, locks and futures of simulated processes, in place of those of `threading`.

A thread is one more greenlet of the process that starts it. Threads change only where one waits, so
a lock is contended only if its holder waits for something else meanwhile.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from greenlet import getcurrent, greenlet

from simulation.kernel import SimBackground, current_process, this_process

T = TypeVar("T")
_Callback = Callable[[Any], None]
INSTANT_S = 2e-6
"""What is shorter than the smallest step of virtual time is over."""


class _Waiters:
    """Those that wait for something, each woken once."""

    def __init__(self) -> None:
        self._callbacks: list[_Callback] = []

    def wait(self, timeout: float | None) -> None:
        """Wait until `wake`, at most `timeout` s."""
        process = this_process()

        def register(callback: _Callback) -> None:
            self._callbacks.append(callback)
            if timeout is not None:
                process.kernel.at(timeout * 1000, lambda: callback(None))

        process.wait_for(register)

    def wake(self) -> None:
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(None)


class Event:
    """In place of `threading.Event`."""

    def __init__(self) -> None:
        self._is_set = False
        self._waiters = _Waiters()

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True
        self._waiters.wake()

    def clear(self) -> None:
        self._is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        if not self._is_set:
            self._waiters.wait(timeout)
        return self._is_set


class RLock:
    """In place of `threading.RLock`, and of `threading.Lock`."""

    def __init__(self) -> None:
        self._owner: Any = None
        self._depth = 0
        self._waiters = _Waiters()

    def acquire(self) -> bool:
        me = getcurrent()
        while self._owner is not None and self._owner is not me:
            self._waiters.wait(None)
        self._owner = me
        self._depth += 1
        return True

    def release(self) -> None:
        self._depth -= 1
        if not self._depth:
            self._owner = None
            self._waiters.wake()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class Condition:
    """In place of `threading.Condition`, with a lock of its own."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._waiters = _Waiters()

    def __enter__(self) -> bool:
        return self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def wait_for(self, predicate: Callable[[], T], timeout: float | None = None) -> T:
        kernel = this_process().kernel
        until = None if timeout is None else kernel.ms / 1000 + timeout
        while not (found := predicate()):
            left = None if until is None else until - kernel.ms / 1000
            if left is not None and left < INSTANT_S:
                break
            self._lock.release()
            self._waiters.wait(left)
            self._lock.acquire()
        return found

    def notify_all(self) -> None:
        self._waiters.wake()


class Thread:
    """In place of `threading.Thread`."""

    def __init__(
        self,
        target: Callable[..., object],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        name: str = "",
        *,
        daemon: bool = False,
    ) -> None:
        del daemon
        self.name = name
        self._target, self._args, self._kwargs = target, args, kwargs or {}
        self._started = False
        self._ended = Event()

    def start(self) -> None:
        self._started = True
        this_process().spawn(self._run)

    def _run(self) -> None:
        _threads[getcurrent()] = self
        try:
            self._target(*self._args, **self._kwargs)
        finally:
            self._ended.set()

    def is_alive(self) -> bool:
        return self._started and not self._ended.is_set()

    def join(self, timeout: float | None = None) -> None:
        if not self._started:
            raise RuntimeError("cannot join thread before it is started")
        self._ended.wait(timeout)


_threads: "WeakKeyDictionary[greenlet, Thread]" = WeakKeyDictionary()


def current_thread() -> Thread | None:
    """The running thread; None for the main one of a process."""
    return _threads.get(getcurrent())


class SimFuture(Future[T]):
    """A future that is waited for in virtual time."""

    def result(self, timeout: float | None = None) -> T:
        self._wait(timeout)
        return super().result(0)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        self._wait(timeout)
        return super().exception(0)

    def _wait(self, timeout: float | None) -> None:
        process = current_process()
        if self.done() or process is None:
            return

        def register(callback: _Callback) -> None:
            self.add_done_callback(callback)
            if timeout is not None:
                process.kernel.at(timeout * 1000, lambda: callback(None))

        process.wait_for(register)


class Background(SimBackground):
    """The background of a leader, in whichever process opens it."""

    def __init__(self, wake: Callable[[], None]) -> None:
        super().__init__(this_process(), wake)

    def close(self) -> None:
        return


class Threading:
    """In place of the module `threading`."""

    Event = Event
    Lock = RLock
    RLock = RLock
    Condition = Condition
    Thread = Thread
    current_thread = staticmethod(current_thread)
