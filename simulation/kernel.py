"""Virtual time and the processes that live in it.

A process is a greenlet. It runs until it makes a call into the simulated world; the call says how
long it takes and what it does, and the process continues after that time. Between two calls
nothing else runs, so a world is a sequence of steps chosen by one random source. A process can be
killed at any call (it never returns from it), or paused (it returns late, not knowing).
"""

import hashlib
import heapq
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

from greenlet import GreenletExit, getcurrent, greenlet

START = datetime(2026, 3, 1, tzinfo=UTC)
MOST_AT_ONCE = 2_000
"""Steps without any time between them, after which nothing but more of them is to be expected."""


class Violation(BaseException):
    """A rule of the system was broken.

    It is no `Exception`: the code that broke the rule may catch those. It may even clean up first,
    and go on for a while, so the first one is kept.
    """

    first: ClassVar["Violation | None"] = None

    def __init__(self, what: str) -> None:
        super().__init__(what)
        if Violation.first is None:
            Violation.first = self


class Kernel:
    """The clock, the calendar of what happens next, and the only source of randomness."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.now = 0
        self.faulty = True
        self.steps = 0
        self.faults: dict[str, int] = {}
        self.trace: list[str] | None = None
        self._calendar: list[tuple[int, int, Callable[[], None]]] = []
        self._order = 0
        self._steps_now = 0
        self._digest = hashlib.blake2b(digest_size=16)
        self.loop = getcurrent()

    def at(self, delay_ms: float, action: Callable[[], None]) -> None:
        """Let `action` happen after a delay."""
        due = self.now + max(0, int(delay_ms * 1000))
        self._order += 1
        heapq.heappush(self._calendar, (due, self._order, action))

    def run_until(self, limit_ms: float) -> None:
        """Let time pass."""
        limit = int(limit_ms * 1000)
        while self._calendar and self._calendar[0][0] <= limit:
            before = self.now
            self.now, _, action = heapq.heappop(self._calendar)
            self.steps += 1
            self._steps_now = self._steps_now + 1 if self.now == before else 0
            if self._steps_now > MOST_AT_ONCE:
                raise Violation(f"a process loops for ever at {self.ms} ms")
            action()
        self.now = max(self.now, limit)

    @property
    def ms(self) -> float:
        return self.now / 1000

    def note(self, *words: object) -> None:
        """Add to the trace: equal seeds have equal traces."""
        line = f"{self.now} {' '.join(map(str, words))}"
        self._digest.update(line.encode())
        if self.trace is not None:
            self.trace.append(line)

    def fingerprint(self) -> str:
        return self._digest.hexdigest()

    def chance(self, probability: float) -> bool:
        """Whether a fault with this probability happens now; never once faults are off."""
        return self.faulty and probability > 0 and self.random.random() < probability

    def fault(self, name: str) -> None:
        self.faults[name] = self.faults.get(name, 0) + 1
        self.note("fault", name)


class Process:
    """Something that runs, waits, may die, and may be started again without its memory."""

    def __init__(self, kernel: Kernel, name: str, main: Callable[["Process"], None]) -> None:
        self.kernel = kernel
        self.name = name
        self.alive = False
        self.skew = timedelta(0)
        self.cut_off_until = 0
        self._main = main
        self._paused_since = self._paused_until = 0
        self.on_wake: Callable[[float], None] | None = None
        self._greenlets: list[greenlet] = []
        self._generation = 0
        self.pid = 0
        self.machine: Any = None
        self.at_end: list[Callable[[], None]] = []
        """What the operating system does when the process ends, however it ends."""

    def start(self) -> None:
        self._generation += 1
        self.alive = True
        self._paused_since = self._paused_until = 0
        self.kernel.note("start", self.name, self._generation)
        self.spawn(lambda: self._main(self), main=True)

    def spawn(self, work: Callable[[], None], *, main: bool = False) -> None:
        """Run `work` as a thread of this process: it dies and pauses with it."""

        def body(_: object) -> None:
            try:
                work()
            except GreenletExit:
                return
            if main:
                self.alive = False
                self._clean_up()

        thread = greenlet(body, parent=self.kernel.loop)
        _processes[thread] = self
        self._greenlets.append(thread)
        generation = self._generation
        self.kernel.at(0, lambda: self._resume(thread, generation, None))

    def crash(self) -> None:
        """Kill it at the call it is waiting in."""
        if not self.alive:
            return
        self.alive = False
        self._generation += 1
        self.kernel.note("crash", self.name)
        threads, self._greenlets = self._greenlets, []
        for thread in threads:
            if thread and not thread.dead:
                thread.throw(GreenletExit)
        self._clean_up()

    def _clean_up(self) -> None:
        while self.at_end:
            self.at_end.pop()()

    @property
    def is_paused(self) -> bool:
        return self.kernel.now < self._paused_until

    def pause(self, duration_ms: float) -> None:
        """Suspend it for a while, without its notice."""
        now = self.kernel.now
        if now >= self._paused_until:
            self._paused_since = now
        self._paused_until = max(self._paused_until, now + int(duration_ms * 1000))

    def unpause(self) -> None:
        self._paused_until = 0

    def call(self, delay_ms: float, action: Callable[[], Any]) -> Any:
        """From inside: let `action` happen after a delay and get its result or exception."""
        self.check_alive()
        thread = getcurrent()
        generation = self._generation

        def happen() -> None:
            try:
                outcome = (action(), None)
            except Exception as error:  # noqa: BLE001 - delivered to the caller
                outcome = (None, error)
            self._resume(thread, generation, outcome)

        self.kernel.at(delay_ms, happen)
        return self._wait()

    def sleep(self, delay_ms: float) -> None:
        self.call(delay_ms, lambda: None)

    def wait_for(self, register: Callable[[Callable[[Any], None]], None]) -> Any:
        """From inside: wait until somebody calls the callback that is handed to `register`."""
        self.check_alive()
        thread = getcurrent()
        generation = self._generation
        answered = False

        def callback(value: Any) -> None:
            nonlocal answered
            if not answered:
                answered = True
                self.kernel.at(0, lambda: self._resume(thread, generation, (value, None)))

        register(callback)
        return self._wait()

    def check_alive(self) -> None:
        """From inside: a process that was killed does nothing more, whatever its code cleans up."""
        if not self.alive:
            raise GreenletExit

    def _wait(self) -> Any:
        value, error = self.kernel.loop.switch()
        if error is not None:
            raise error
        return value

    def _resume(self, thread: Any, generation: int, outcome: Any) -> None:
        if not self.alive or generation != self._generation:
            return
        if self.kernel.now < self._paused_until:
            wait = (self._paused_until - self.kernel.now) / 1000
            self.kernel.at(wait, lambda: self._resume(thread, generation, outcome))
            return
        if self._paused_since:
            slept, self._paused_since = self.kernel.now - self._paused_since, 0
            if self.on_wake is not None:
                self.on_wake(slept / 1000)
        thread.switch(outcome)

    # --- the ports of this process -----------------------------------------------------------

    def wall(self) -> datetime:
        return START + timedelta(microseconds=self.kernel.now) + self.skew


_processes: "WeakKeyDictionary[greenlet, Process]" = WeakKeyDictionary()


def current_process() -> Process | None:
    """The process whose code is running; None outside all of them."""
    return _processes.get(getcurrent())


def this_process() -> Process:
    """The process whose code is running."""
    found = current_process()
    if found is None:
        raise RuntimeError("only a simulated process can do this")
    return found


class SimClock:
    """The clock of one process: everybody's time, off by the process's own skew."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def now(self) -> datetime:
        return self._process.wall()

    def monotonic(self) -> float:
        return self._process.kernel.now / 1_000_000


class SimEntropy:
    """Unpredictable to the system, replayed by the seed."""

    def __init__(self, kernel: Kernel) -> None:
        self._random = kernel.random

    def token_bytes(self, count: int) -> bytes:
        return self._random.randbytes(count)


class SimJob:
    """A background job of a simulated process."""

    def __init__(self) -> None:
        self._outcome: tuple[Any, Exception | None] | None = None

    def finish(self, value: Any, error: Exception | None) -> None:
        self._outcome = (value, error)

    def done(self) -> bool:
        return self._outcome is not None

    def result(self) -> Any:
        value, error = self._outcome or (None, None)
        if error is not None:
            raise error
        return value


class SimBackground:
    """Runs jobs as threads of the process that started them."""

    def __init__(self, process: Process, wake: Callable[[], None]) -> None:
        self._process = process
        self._wake = wake

    def start(self, work: Callable[[], Any]) -> SimJob:
        job = SimJob()

        def body() -> None:
            try:
                job.finish(work(), None)
            except Exception as error:  # noqa: BLE001 - the leader asks for it
                job.finish(None, error)
            self._wake()

        self._process.spawn(body)
        return job
