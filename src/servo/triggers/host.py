"""What starts runs without a person, at work beside the leader.

A kind of trigger (schedules, sensors, backfills, conditions) looks at the state, decides by a pure
controller what is due, has user code evaluated by an evaluator process, and commits what came of it
as one batch whose head is conditional on what was seen. So two hosts, or one that was interrupted
between any two steps, never do anything twice: what is not committed is due again.

Looking is quick, and the leader itself calls it, between two entries: nothing is decided from state
that is not durable. Whatever waits for user code is on a thread of its own, so that a sensor that
hangs keeps no schedule waiting.
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
"""Seconds after which something that could not be done is tried again."""

COMMIT_SECONDS = 30
MOST_SAID = 4_000
"""Characters of what user code says that are recorded."""

SayLine = Callable[[str], None]
T = TypeVar("T")


class TriggerKind(Protocol):
    """One kind of trigger."""

    def look(self, state: State, now: datetime) -> bool:
        """Begin whatever is due; whether there was anything. It is quick and waits for nothing."""
        ...

    def next_due(self) -> datetime | None:
        """When to look again at the latest, as far as it is known."""
        ...

    def again(self) -> None:
        """Let what looks at the workspace itself look once more, whatever its interval."""
        ...


class Sent:
    """A batch on its way into the ledger, or what is wrong with it if it cannot go there."""

    def __init__(self, answer: "Future[Answer] | Invalid") -> None:
        self._answer = answer

    @property
    def applied(self) -> bool:
        """Whether it has become true; waits for the answer."""
        answer = self._answer
        return not isinstance(answer, Invalid) and answer.result(COMMIT_SECONDS).applied

    def refusal(self, lost: tuple[str, ...]) -> str:
        """Why it was refused, if that is to be recorded; waits for the answer.

        What begins with one of these needs no record: somebody else was first, or nobody wants to
        know any more.
        """
        if isinstance(self._answer, Invalid):
            return f"refused: {self._answer}"
        answer = self._answer.result(COMMIT_SECONDS)
        if answer.applied or answer.reason.startswith(lost):
            return ""
        return f"refused: {answer.reason}"


class Means:
    """What every kind works with: whom to ask, where to commit, and threads to wait on.

    The evaluators have the code of the locations that `has` says; others are for others to ask.
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
        self._beside: list[Means] = []
        self._closed = False
        self.on_change: Callable[[], None] = lambda: None
        self.say: SayLine = lambda _: None

    def beside(self, evaluators: EvaluatorPool) -> "Means":
        """The same with threads and evaluators of its own, which end and are renewed with these."""
        made = Means(self._leader, evaluators, self._clock, self._entropy, self.has)
        made.on_change = lambda: self.on_change()  # noqa: PLW0108 - whoever is set later
        made.say = lambda words: self.say(words)  # noqa: PLW0108 - whoever is set later
        self._beside.append(made)
        return made

    def read(self, look: Callable[[State], T]) -> T:
        """Return what `look` finds in the leader's state."""
        return self._leader.read(look)

    def now(self) -> datetime:
        """The time. What is due is judged by the time of a look, which may stand still."""
        return self._clock.now()

    def token(self) -> str:
        """Something that nobody has made before."""
        return self._entropy.token_bytes(6).hex()

    def begin(self, name: str, work: Callable[[], None]) -> bool:
        """Do something on a thread, unless something of this name is being done."""
        with self._lock:
            barred = self._barred.get(name, 0.0) > self._clock.monotonic()
            if name in self._busy or barred:
                return False
            self._busy.add(name)
        _ = self._threads.submit(self._guarded, name, work)
        return True

    def is_busy(self, name: str) -> bool:
        """Whether something of this name is being done."""
        with self._lock:
            return name in self._busy

    @property
    def idle(self) -> bool:
        """Whether nothing is being done."""
        with self._lock:
            busy = bool(self._busy)
        return not busy and all(other.idle for other in self._beside)

    def _guarded(self, name: str, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001 - nobody else would hear of it
            # Nothing is lost: what was not committed is due again when the leader is back.
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
        """Send a batch on its way, whatever is wrong with it."""
        try:
            return Sent(self.submit(name, events, origin))
        except Invalid as error:
            return Sent(error)

    def submit(self, name: str, events: Iterable[Event], origin: Origin) -> "Future[Answer]":
        """Send a batch on its way, unless this is being closed.

        What is evaluated then is cut off by us, and says nothing about the user's code.
        """
        if self._closed:
            raise Unavailable("triggers are being stopped", remedy="the next leader evaluates it")
        made = f"{name}-{self.token()}"
        return self._leader.submit(batch_from(made, events, origin))

    def close(self) -> None:
        """Let go of what is being done, and end what evaluates."""
        self._closed = True
        self._threads.shutdown(wait=False, cancel_futures=True)
        self.evaluators.close()
        for other in self._beside:
            other.close()

    def renew(self) -> None:
        """The code has changed."""
        self.evaluators.renew()
        for other in self._beside:
            other.renew()


class Triggers:
    """All kinds of triggers of a workspace, looked after on a thread."""

    def __init__(self, leader: WatchedLeaderForTriggers, clock: Clock) -> None:
        self._leader = leader
        self._clock = clock
        self._means: dict[str, Means] = {}
        self._kinds: dict[TriggerKind, Means] = {}
        self._left_alone: dict[TriggerKind, float] = {}
        self._looking = threading.Lock()
        self._wake = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._main, name="servo-triggers", daemon=True)
        leader.watch(self._changed)

    def add(self, location: str, means: Means, kinds: Sequence[TriggerKind]) -> None:
        """Look after the triggers of a code location too; before they are started."""
        means.on_change = self._wake.set
        self._means[location] = means
        self._kinds |= dict.fromkeys(kinds, means)

    def evaluators(self, location: str) -> EvaluatorPool:
        """Who evaluates the plans of a location."""
        return self._means[location].evaluators

    def tell(self, say: SayLine) -> None:
        """Have somebody told what cannot be done at the moment, and is tried again."""
        for means in self._means.values():
            means.say = say

    def start(self) -> None:
        """Begin to look after them."""
        self._thread.start()

    def stop(self) -> None:
        """Stop looking, and end what evaluates."""
        self._stopping = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()
        for means in self._means.values():
            means.close()

    @contextmanager
    def renewing(self, location: str = "") -> Generator[None]:
        """The code of a location has changed, and what it declares is deployed here.

        Nothing is looked at meanwhile: a process with the code from before would be asked about
        what it does not know. If the deployment fails, the processes from before stay.
        """
        with self._looking:
            yield
            for name, means in self._means.items():
                if location in ("", name):
                    means.renew()
        self._wake.set()

    def look(self, now: datetime | None = None) -> bool:
        """Look once at everything that is due by `now`; whether anything was or is being done."""
        with self._looking:
            by = self._clock.now() if now is None else now
            # First: what ends while we look is seen neither as due nor as being done.
            busy = not self._idle
            try:
                begun = self._leader.read(lambda state: self._look_at_all(state, by))
            except ServoError:
                begun = False  # nobody leads at the moment
            return begun or busy

    @property
    def _idle(self) -> bool:
        return all(means.idle for means in self._means.values())

    def again(self) -> None:
        """Let what looks at the workspace itself look once more if something has happened there."""
        with self._looking:
            for kind in self._kinds:
                kind.again()

    def _look_at_all(self, state: State, now: datetime) -> bool:
        begun = [self._look_at(kind, state, now) for kind in self._kinds]
        return any(begun)

    def _look_at(self, kind: TriggerKind, state: State, now: datetime) -> bool:
        """Let a kind look. A bug in one of them is said, and keeps none of the others waiting."""
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
