"""The triggers that run beside a leader and start runs automatically.

A kind of trigger (schedules, sensors, backfills, conditions) reads the state, decides with a pure
controller what is due, lets an evaluator process run the user code, and commits the result as one
batch whose first event is conditional on the state that was read. So two hosts, or one that was
interrupted between any two steps, never do anything twice: what is not committed is due again.

Reading is quick, and the leader itself calls it between two entries: no decision is based on state
that is not durable. Everything that waits for user code runs on a separate thread, so a sensor that
hangs does not delay a schedule.
"""

import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, Protocol, TypeVar

from servo.code.evaluator.pool import EvaluatorPool
from servo.core.actors import Origin
from servo.core.events.envelope import Answer, Event
from servo.core.locations import HasLocation, any_location
from servo.core.state.state import State
from servo.errors import Invalid, ServoError, Unavailable
from servo.leader.protocols import LeaderForTriggers, WatchedLeaderForTriggers
from servo.ports.clock import Clock
from servo.ports.entropy import Entropy
from servo.workspace.origins import batch_from

LONGEST_PAUSE = timedelta(seconds=1)
THREADS = 8
AGAIN_AFTER = 5.0
"""Seconds until something that failed is retried."""

COMMIT_SECONDS = 30

MOST_AHEAD = timedelta(minutes=1)
"""How far the time of the ledger may be ahead of a clock that was always right."""

MOST_SAID = 4_000
"""How many characters of a message from user code are recorded."""

SayLine = Callable[[str], None]
T = TypeVar("T")


class TriggerKind(Protocol):
    """One kind of trigger."""

    def look(self, state: State, now: datetime) -> bool:
        """Start whatever is due; whether there was anything. It is quick and never waits."""
        ...

    def next_due(self) -> datetime | None:
        """When to look again at the latest, as far as it is known."""
        ...

    def again(self) -> None:
        """Evaluate triggers that watch the workspace once more, whatever their interval."""
        ...


class Sent:
    """A batch sent to the ledger, or the error if it is invalid."""

    def __init__(self, answer: "Future[Answer] | Invalid") -> None:
        self._answer = answer

    @property
    def applied(self) -> bool:
        """Whether the batch was applied; waits for the answer."""
        answer = self._answer
        return not isinstance(answer, Invalid) and answer.result(COMMIT_SECONDS).applied

    @property
    def repeated(self) -> bool:
        """Whether the same was applied before; waits for the answer."""
        answer = self._answer
        return not isinstance(answer, Invalid) and answer.result(COMMIT_SECONDS).repeated

    def refusal(self, lost: tuple[str, ...]) -> str:
        """Why the batch was refused, if that is to be recorded; waits for the answer.

        A reason that begins with one of `lost` needs no record: another host was first, or the
        trigger is paused or gone.
        """
        if isinstance(self._answer, Invalid):
            return f"refused: {self._answer}"
        answer = self._answer.result(COMMIT_SECONDS)
        if answer.applied or answer.reason.startswith(lost):
            return ""
        return f"refused: {answer.reason}"


class TriggerContext:
    """What every kind of trigger uses: the leader, the evaluators, and threads that may wait.

    `has` says which code locations these evaluators serve; other contexts serve the others.
    """

    def __init__(
        self,
        leader: LeaderForTriggers,
        evaluators: EvaluatorPool,
        clock: Clock,
        entropy: Entropy,
        has: HasLocation = any_location,
    ) -> None:
        self.evaluators = evaluators
        self.has = has
        self._leader = leader
        self._entropy = entropy
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="servo-trigger")
        self._clock = clock
        self._busy: set[str] = set()
        self._barred: dict[str, float] = {}
        self._lock = threading.Lock()
        self._beside: list[TriggerContext] = []
        self._newest = (-1, 0.0)
        self._closed = False
        self.on_change: Callable[[], None] = lambda: None
        self.say: SayLine = lambda _: None

    def beside(self, evaluators: EvaluatorPool) -> "TriggerContext":
        """A context with separate threads and evaluators, closed and renewed with this one."""
        made = TriggerContext(self._leader, evaluators, self._clock, self._entropy, self.has)
        made.on_change = lambda: self.on_change()  # noqa: PLW0108 - it may be set later
        made.say = lambda words: self.say(words)  # noqa: PLW0108 - it may be set later
        self._beside.append(made)
        return made

    def read(self, look: Callable[[State], T]) -> T:
        """Return what `look` finds in the leader's state."""
        return self._leader.read(look)

    def now(self) -> datetime:
        """The current time. What is due is decided by the time of a look, which may be fixed."""
        return self._clock.now()

    def ledger_time(self, state: State, now: datetime) -> datetime:
        """The time to compare with times in the ledger: `now`, unless the ledger is ahead of it.

        It is ahead if a clock was wrong and is right again; its time still passes.
        """
        seq, seen_at = self._newest
        if state.seq != seq:
            seen_at = self._clock.monotonic()
            self._newest = (state.seq, seen_at)
        present = state.ts + timedelta(seconds=self._clock.monotonic() - seen_at)
        return present if present - self._clock.now() > MOST_AHEAD else now

    def token(self) -> str:
        """A token that is never used twice."""
        return self._entropy.token_bytes(6).hex()

    def begin(self, name: str, work: Callable[[], None]) -> bool:
        """Start a job on a thread, unless a job of this name is running."""
        with self._lock:
            barred = self._barred.get(name, 0.0) > self._clock.monotonic()
            if name in self._busy or barred:
                return False
            self._busy.add(name)
        _ = self._threads.submit(self._guarded, name, work)
        return True

    def is_busy(self, name: str) -> bool:
        """Whether a job of this name is running."""
        with self._lock:
            return name in self._busy

    @property
    def idle(self) -> bool:
        """Whether no job is running."""
        with self._lock:
            busy = bool(self._busy)
        return not busy and all(other.idle for other in self._beside)

    def _guarded(self, name: str, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001 - nothing else would report it
            # Nothing is lost: what was not committed is due again once there is a leader.
            self.say(f"{name}: {error}" if str(error) else f"{name}: {type(error).__name__}")
            self._barred[name] = self._clock.monotonic() + AGAIN_AFTER
        finally:
            with self._lock:
                self._busy.discard(name)
            self.on_change()

    def commit(self, name: str, events: Iterable[Event], origin: Origin) -> Answer:
        """Commit a batch and wait for its answer."""
        return self.submit(name, events, origin).result(COMMIT_SECONDS)

    def send(self, name: str, events: Iterable[Event], origin: Origin) -> Sent:
        """Send a batch; if it is invalid, the result holds the error."""
        try:
            return Sent(self.submit(name, events, origin))
        except Invalid as error:
            return Sent(error)

    def submit(self, name: str, events: Iterable[Event], origin: Origin) -> "Future[Answer]":
        """Send a batch; `Unavailable` once this context is being closed.

        Closing cuts evaluations off, so their results say nothing about the user's code.
        """
        if self._closed:
            raise Unavailable("triggers are being stopped", remedy="the next leader evaluates it")
        made = f"{name}-{self.token()}"
        return self._leader.submit(batch_from(made, events, origin))

    def close(self) -> None:
        """Stop the running jobs and the evaluators."""
        self._closed = True
        self._threads.shutdown(wait=False, cancel_futures=True)
        self.evaluators.close()
        for other in self._beside:
            other.close()

    def renew(self) -> None:
        """Restart the evaluators, because the code has changed."""
        self.evaluators.renew()
        for other in self._beside:
            other.renew()


class Triggers:
    """All kinds of triggers of a workspace, hosted on a thread."""

    def __init__(self, leader: WatchedLeaderForTriggers, clock: Clock) -> None:
        self._leader = leader
        self._clock = clock
        self._context: dict[str, TriggerContext] = {}
        self._kinds: dict[TriggerKind, TriggerContext] = {}
        self._left_alone: dict[TriggerKind, float] = {}
        self._looking = threading.Lock()
        self._wake = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._main, name="servo-triggers", daemon=True)
        leader.watch(self._changed)

    def add(self, location: str, context: TriggerContext, kinds: Sequence[TriggerKind]) -> None:
        """Add the triggers of a code location; call it before `start`."""
        context.on_change = self._wake.set
        self._context[location] = context
        self._kinds |= dict.fromkeys(kinds, context)

    def evaluators(self, location: str) -> EvaluatorPool:
        """The evaluators that plan runs for a location."""
        return self._context[location].evaluators

    def tell(self, say: SayLine) -> None:
        """Call `say` with every problem that will be retried."""
        for context in self._context.values():
            context.say = say

    def start(self) -> None:
        """Start hosting the triggers."""
        self._thread.start()

    def stop(self) -> None:
        """Stop hosting the triggers, and stop the evaluators."""
        self._stopping = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()
        for context in self._context.values():
            context.close()

    @contextmanager
    def renewing(self, location: str = "") -> Generator[None]:
        """Deploy the changed code of a location within this context, then restart its evaluators.

        Triggers pause meanwhile: a process with the old code would be asked about definitions
        that it does not know. If the deployment fails, the old processes stay.
        """
        with self._looking:
            yield
            for name, context in self._context.items():
                if location in ("", name):
                    context.renew()
        self._wake.set()

    def look(self, now: datetime | None = None) -> bool:
        """Start everything that is due by `now`; whether anything was started or is running."""
        with self._looking:
            by = self._clock.now() if now is None else now
            # First: a job that ends while we look would be seen neither as due nor as running.
            busy = not self._idle
            try:
                begun = self._leader.read(lambda state: self._look_at_all(state, by))
            except ServoError:
                begun = False  # there is no leader at the moment
            return begun or busy

    @property
    def _idle(self) -> bool:
        return all(context.idle for context in self._context.values())

    def again(self) -> None:
        """Evaluate triggers that watch the workspace once more if it has changed."""
        with self._looking:
            for kind in self._kinds:
                kind.again()

    def _look_at_all(self, state: State, now: datetime) -> bool:
        begun = [self._look_at(kind, state, now) for kind in self._kinds]
        return any(begun)

    def _look_at(self, kind: TriggerKind, state: State, now: datetime) -> bool:
        """Let a kind look. A bug in one kind is reported and does not stop the others."""
        if self._left_alone.get(kind, 0.0) > self._clock.monotonic():
            return False
        try:
            return kind.look(state, now)
        except Exception as error:  # noqa: BLE001 - the thread would end, and all triggers with it
            self._left_alone[kind] = self._clock.monotonic() + AGAIN_AFTER
            self._kinds[kind].say(f"triggers: {error!r}")
            return False

    def _changed(self, state: State) -> None:
        del state
        self._wake.set()

    def _main(self) -> None:
        while not self._stopping:
            self._wake.clear()
            _ = self.look()
            _ = self._wake.wait(self._pause())

    def _pause(self) -> float:
        due: list[Any] = [kind.next_due() for kind in self._kinds]
        now = self._clock.now()
        pauses = [at - now for at in due if at is not None]
        shortest = min([LONGEST_PAUSE, *pauses])
        return max(shortest.total_seconds(), 0.02)
