"""A leader on a thread: the interface for the rest of the process.

Callers on any thread submit batches and get futures, and read the state between two entries: only
the leader's thread sees state that is folded but not yet durable. The thread leads as long as it
can: if the outcome of a write is unknown, it takes over again from what the store holds; if another
process leads, it stops and reports that. Stopping publishes what is not yet published, so that
readers see the final state.
"""

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from datetime import timedelta
from typing import TypeVar

from msgspec.structs import replace

from servo.config import Settings
from servo.core.events.envelope import Answer, Batch
from servo.core.state.state import State
from servo.errors import Fenced, Internal, ServoError, Unavailable
from servo.leader.background import ThreadBackground
from servo.leader.engine import Engine
from servo.leader.heartbeats import BeatReply
from servo.leader.leases.lease import RightToLead
from servo.leader.memory import look_for_cycles_less_often
from servo.leader.ports import Ports
from servo.leader.requests import Beat, BeatRequest, ReadRequest, Reply, request
from servo.leader.takeover import take_over
from servo.leader.workers import Workers
from servo.ledger.paths import Paths
from servo.ports.world import World

LONGEST_WAIT = timedelta(seconds=1)
RETAKE_AFTER = timedelta(milliseconds=200)

T = TypeVar("T")

_log = logging.getLogger(__name__)


class Service:
    """Leads a workspace on a separate thread until stopped or replaced."""

    def __init__(
        self,
        world: World,
        paths: Paths,
        settings: Settings | None = None,
        *,
        workers: Callable[["Service"], Workers] | None = None,
        right: RightToLead | None = None,
    ) -> None:
        self._settings = settings if settings is not None else Settings()
        self._paths = paths
        self.identity = world.identity
        self._wake = threading.Event()
        self._background = ThreadBackground(self._wake.set)
        self._ports = Ports(
            store=world.store,
            clock=world.clock,
            entropy=world.entropy,
            background=self._background,
            queue=world.queue,
        )
        self._workers = workers(self) if workers is not None else None
        self._right = right
        self._watchers: list[Callable[[State], None]] = []
        self._engine: Engine | None = None
        self._stopping = False
        self._ready = threading.Event()
        self._failure: ServoError | None = None
        self._thread = threading.Thread(target=self._main, name="servo-leader", daemon=True)

    # --- for callers ------------------------------------------------------------------------

    def start(self) -> "Service":
        """Start leading and wait until it does; raises the error if it cannot."""
        self._thread.start()
        self._ready.wait()
        if self._failure is not None and self._engine is None:
            raise self._failure
        return self

    def submit(self, batch: Batch) -> "Future[Answer]":
        """Send a batch to the ledger; raises `Invalid` at once if it is invalid."""
        future: Future[Answer] = Future()

        def reply(value: Answer | ServoError) -> None:
            # The caller may have given up, or have its answer already.
            if future.done() or not future.set_running_or_notify_cancel():
                return
            if isinstance(value, Answer):
                future.set_result(value)
            else:
                future.set_exception(value)

        self.send(batch, reply)
        return future

    def send(self, batch: Batch, reply: Reply) -> None:
        """Send a batch to the ledger; the leader's thread calls `reply` with the answer.

        Raises `Invalid` at once if it is invalid. `reply` must be quick and may not raise. It costs
        a fraction of `submit`. Without an actor, the batch gets the one of this process.
        """
        if not batch.actor:
            batch = replace(batch, actor=self.identity)
        self._current().inbox.put(request(batch, reply))
        self._wake.set()

    def commit(self, batch: Batch, timeout: float | None = 30) -> Answer:
        """Send a batch and wait for its answer."""
        return self.submit(batch).result(timeout)

    def beat(self, beat: Beat) -> "Future[BeatReply]":
        """Report to the leader that an execution is alive."""
        future: Future[BeatReply] = Future()

        def reply(value: str | ServoError) -> None:
            if future.done() or not future.set_running_or_notify_cancel():
                return
            if isinstance(value, ServoError):
                future.set_exception(value)
            else:
                future.set_result(BeatReply(value))

        self._current().inbox.put_beat(BeatRequest(beat=beat, reply=reply))
        self._wake.set()
        return future

    def read(self, look: Callable[[State], T]) -> T:
        """Return what `look` finds in the state, all of which is durable.

        The leader's thread calls `look` between two entries: it must be quick, and may not wait for
        the leader or for a terminal. `Unavailable` while this process does not lead.
        """
        if threading.current_thread() is self._thread:
            return look(self._current().state)  # a watcher or a reply: both come after the write
        future: Future[T] = Future()

        def show(state: State) -> None:
            try:
                future.set_result(look(state))
            except BaseException as error:  # noqa: BLE001 - it belongs to the caller
                future.set_exception(error)

        self._current().inbox.put_read(ReadRequest(look=show, fail=future.set_exception))
        self._wake.set()
        return future.result()

    def stop(self) -> None:
        """Publish what is left and stop leading."""
        self._stopping = True
        self._wake.set()
        with suppress(RuntimeError):  # never started
            self._thread.join()
        self._background.close()
        if self._right is not None:
            self._right.release()

    def watch(self, look: Callable[[State], None]) -> None:
        """Call `look` after every entry and every takeover, on the leader's thread.

        It must be quick.
        """
        self._watchers.append(look)

    def wake(self) -> None:
        """Wake the leader: a worker became idle."""
        self._wake.set()

    @property
    def engine(self) -> Engine:
        """The leader itself, for its own thread; others `read`."""
        return self._current()

    @property
    def workspace_identity(self) -> str:
        """The identity of the workspace, which run ids are derived from."""
        return self._current().maintenance.manifest.identity

    @property
    def batches_waiting(self) -> int:
        """How many batches are waiting for the next entry."""
        return self._current().inbox.batches

    @property
    def leads(self) -> bool:
        """Whether this process leads now: it has taken over and was not replaced."""
        return self._engine is not None

    @property
    def over(self) -> bool:
        """Whether this process will not lead again: it was stopped, or another process leads."""
        return not self._thread.is_alive()

    @property
    def failure(self) -> ServoError | None:
        """Why the service no longer leads."""
        return self._failure

    def __enter__(self) -> "Service":
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _current(self) -> Engine:
        if self._engine is None:
            raise self._failure or Unavailable(
                "this process does not lead the workspace",
                remedy="start the service, or send the request to the leader",
                may_have_applied=False,
            )
        return self._engine

    # --- the thread -------------------------------------------------------------------------

    def _main(self) -> None:
        look_for_cycles_less_often()
        while not self._stopping:
            try:
                self._lead()
            except Unavailable as error:
                self._give_up(error)
                self._wake.wait(RETAKE_AFTER.total_seconds())
            except ServoError as error:
                self._give_up(error)
                break
            except Exception as error:  # noqa: BLE001 - callers are waiting for an answer
                bug = Internal(f"{type(error).__name__}: {error}", remedy="report this as a bug")
                bug.__cause__ = error
                self._give_up(bug)
                break
        self._ready.set()

    def _lead(self) -> None:
        if not self._may_lead():
            self._wake.wait(LONGEST_WAIT.total_seconds())
            return
        leadership = take_over(self._ports, self._paths, may_claim=self._still_may_lead)
        self._engine = Engine(
            self._ports, self._paths, self._settings, leadership, workers=self._workers
        )
        self._failure = None
        # The previous leader may not have known the outcome of its last entry.
        self._show(self._engine)
        self._ready.set()
        while not self._stopping:
            self._step(self._engine)
        engine = self._engine
        if (error := engine.finish()) is not None:
            _log.warning(
                "the tables are behind the ledger: %s; nothing is lost, and the next command that "
                "leads publishes them; %s",
                error.message,
                error.remedy,
            )
        self._engine = None
        engine.shut_down(
            Unavailable(
                "the service has stopped",
                remedy="send the request to the leader",
                may_have_applied=False,
            )
        )

    def _still_may_lead(self) -> bool:
        return self._right is None or self._right.is_current()

    def _may_lead(self) -> bool:
        return self._right is None or self._right.acquire()

    def _step(self, engine: Engine) -> None:
        self._wake.clear()
        if engine.step():
            self._show(engine)
        if self._right is not None and not self._right.renew_if_due():
            raise Fenced(
                "another process holds the lock or the lease", remedy="wait until it stops"
            )
        if not len(engine.inbox):
            self._wake.wait(self._pause(engine))

    def _show(self, engine: Engine) -> None:
        for look in self._watchers:
            look(engine.state)

    def _pause(self, engine: Engine) -> float:
        due = engine.next_due()
        if due is None:
            return LONGEST_WAIT.total_seconds()
        left = (due - engine.clock.now()).total_seconds()
        return min(max(left, 0.0), LONGEST_WAIT.total_seconds())

    def _give_up(self, error: ServoError) -> None:
        self._failure = error
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.shut_down(error)
        self._ready.set()
