"""Warm worker processes on this machine.

The leader grants executions to the pool as a whole; the pool runs each on whichever process is
free, in the order they came. Short tasks would spend their time waiting for the leader's next
commit, so the pool takes a few more than it has processes when they have been short lately: never
so many that one could wait long behind another.

**Who may race.** The leader's thread calls `idle`, `assign` and `look`; the pool's own thread reads
what processes say. Both hold the lock while they look at who does what.

**What dies.** A process that ends takes its execution with it and nothing else: the execution is
reported, and a new process takes its place. An execution that is cancelled, timed out or no longer
ours is interrupted in its process, which gets some time to clean up before it is killed; either way
the process is replaced.
"""

import os
import selectors
import signal
import socket
import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from datetime import timedelta

from servo.controllers.dispatch import IdleWorker
from servo.core.events.envelope import Answer, Batch
from servo.core.events.tasks import TaskError, TaskFinished, TaskOutcome
from servo.core.state.rows.execution import TaskRow
from servo.core.state.state import State
from servo.core.state.states import RUNNING
from servo.errors import Invalid, ServoError, Unavailable
from servo.ports.clock import Clock
from servo.ports.entropy import Entropy
from servo.runtime.requests import Beat
from servo.runtime.service import Service
from servo.runtime.workers import Assignment
from servo.worker.child import Child
from servo.worker.messages import Broken, Done, FromWorker, Input, Ready, Work, frame
from servo.worker.process import Setting
from servo.worker.registry import Registered, forget, is_dead, registry_folder
from servo.worker.reporting import report_of
from servo.worker.requesting import CONFIG_LABEL

RECEIVE_BYTES = 1 << 18
BACKLOG_SECONDS = 0.02
MAX_BACKLOG = 64
BEAT_EVERY = timedelta(seconds=1)
GRACE = timedelta(seconds=10)
LOOK_EVERY = 0.25
MAX_STILLBORN = 3
SMALL = 32 * 1024
REFUSED = "refused-"


class Pool:
    """Processes that run user code for the leader of one workspace."""

    def __init__(
        self, service: Service, setting: Setting, clock: Clock, entropy: Entropy, size: int
    ) -> None:
        self._service = service
        self._setting = setting
        self._clock = clock
        self._entropy = entropy
        self._size = size
        self._lock = threading.Lock()
        self._selector = selectors.DefaultSelector()
        self._waker, self._woken = socket.socketpair()
        self._selector.register(self._woken, selectors.EVENT_READ, None)
        self._children: list[Child] = []
        self._queue: deque[Assignment] = deque()
        self._held: dict[str, Assignment] = {}
        self._usual_seconds = 0.1
        self._spare: list[str] = []
        self._next_beat = 0.0
        self._draining = self._stopping = False
        self._stillborn = 0
        self._unsent: deque[Batch] = deque()
        self._up = threading.Event()
        self._broken: str | None = None
        self.name = f"{socket.gethostname()}-{os.getpid()}-{entropy.token_bytes(6).hex()}"
        self._registered = Registered(
            registry_folder(),
            self.name,
            setting.address,
            code=setting.place if setting.stays else "",
        )
        self._thread = threading.Thread(target=self._listen, name="servo-pool", daemon=True)

    def start(self) -> None:
        """Start every process; they import the user's code while the leader takes over."""
        self._fill()
        self._service.watch(self.look)
        self._thread.start()

    def wait(self) -> None:
        """Until a process can run something; `Invalid` if the user's code cannot be imported."""
        self._up.wait()
        self.check()

    def check(self) -> None:
        """`Invalid` if no process can run anything any more."""
        if self._broken is not None:
            raise Invalid(self._broken, remedy="fix the code and start again")

    @property
    def broken(self) -> str | None:
        """Why no new process can run anything, if so."""
        return self._broken

    def renew(self) -> None:
        """Replace every process by one that imports the code as it is now.

        What runs is finished by the process that runs it, and what waits goes to the new ones.
        """
        with self._lock:
            self._broken, self._stillborn = None, 0
            for child in self._children:
                child.retire()
        with suppress(OSError):
            _ = self._waker.send(b"x")

    def drain(self, limit: timedelta = GRACE) -> None:
        """Take nothing more, interrupt what runs and report it, within a limit."""
        with self._lock:
            self._draining = True
            waiting, self._queue = list(self._queue), deque()
            for child in self._children:
                child.interrupt(None, None, self._clock.monotonic())
        for assignment in waiting:
            self._report(assignment, _interrupted(assignment))
        until = self._clock.monotonic() + limit.total_seconds()
        pause = threading.Event()
        while self._held and self._clock.monotonic() < until:
            pause.wait(0.02)

    def stop(self) -> None:
        """End every process and wait for it; what it held is found silent by whoever leads next."""
        with self._lock:
            self._draining = self._stopping = True
        self._waker.close()
        with suppress(RuntimeError):  # never started
            self._thread.join()
        for child in self._children:
            child.close()
        self._selector.close()
        self._woken.close()
        if not self._held:
            self._registered.release()

    # --- for the leader -----------------------------------------------------------------------

    def idle(self) -> Sequence[IdleWorker]:
        """As many places as the pool has free, each with the execution id it would use."""
        with self._lock:
            free = max(self._capacity() - len(self._held), 0)
            while len(self._spare) < free:
                self._spare.append(f"x{self._entropy.token_bytes(10).hex()}")
            places = self._spare[:free]
        return [
            IdleWorker(worker_id=self.name, exec_id=exec_id, one_of_many=True) for exec_id in places
        ]

    def _capacity(self) -> int:
        if self._draining or not any(c.ready and not c.retired for c in self._children):
            return 0
        backlog = int(self._size * BACKLOG_SECONDS / max(self._usual_seconds, 1e-6))
        return self._size + min(backlog, MAX_BACKLOG)

    def assign(self, assignment: Assignment) -> None:
        """Take a granted execution; it runs as soon as a process is free."""
        with self._lock:
            self._spare.remove(assignment.exec_id)
            if self._draining:
                self._submit(self._batch(_interrupted(assignment)))
                return
            self._held[assignment.exec_id] = assignment
            self._queue.append(assignment)
            self._feed()

    def _feed(self) -> None:
        """Give what waits to processes that do not; the next one lies ready while one runs."""
        # A second one only while tasks are short, and if the socket takes it without waiting.
        for depth in (1, 2) if self._usual_seconds < BACKLOG_SECONDS else (1,):
            for child in self._children:
                if not self._queue:
                    return
                data = frame(as_work(self._queue[0])) if child.takes(depth) else b""
                if data and (depth == 1 or len(data) <= SMALL):
                    child.send(data, self._queue.popleft(), self._clock.monotonic())

    def at_work(self) -> list[str]:
        """The assets that are being made."""
        with self._lock:
            running = [a for child in self._children for a in list(child.running.values())[:1]]
        return [assignment.asset_key for assignment in running]

    def recover(self, state: State) -> None:
        """Report what pools of this machine were running when they died, so that it runs again.

        Called before anything is handed out. A pool elsewhere is left to its lease.
        """
        folder = registry_folder()
        rows = [state.tasks.rows[key] for key in list(state.index.running)]
        dead = {name for name in {row.worker_id for row in rows} if name and is_dead(folder, name)}
        for row in rows:
            if row.worker_id in dead:
                _ = self._service.commit(self._batch(_lost_with_its_pool(row)))
        for name in dead:
            forget(folder, name)

    def look(self, state: State) -> None:
        """After an entry: let go of executions that are cancelled, or no longer ours."""
        with self._lock:
            for assignment in list(self._held.values()):
                row = state.tasks.rows.get((assignment.run_id, assignment.task_key))
                if row is None or row.state is not RUNNING or row.exec_id != assignment.exec_id:
                    self._let_go(assignment, None)
                elif state.runs.rows[assignment.run_id].cancel_requested_at is not None:
                    self._let_go(assignment, TaskOutcome.CANCELLED)

    def _let_go(self, assignment: Assignment, outcome: TaskOutcome | None) -> None:
        """Stop an execution; with an outcome it is still reported."""
        if assignment in self._queue:
            self._queue.remove(assignment)
            del self._held[assignment.exec_id]
            if outcome is not None:
                self._report(assignment, _finished(assignment, outcome))
            return
        for child in self._children:
            # One that lies behind another is let go when its turn comes, at a later look.
            if assignment.exec_id == child.current:
                child.interrupt(assignment.exec_id, outcome, self._clock.monotonic())

    # --- from the processes -------------------------------------------------------------------

    def _add_child(self) -> None:
        child = Child(self._setting)
        with self._lock:
            self._children.append(child)
        self._selector.register(child.socket, selectors.EVENT_READ, child)

    def _fill(self) -> None:
        """Start as many processes as are missing, unless none could run anything."""
        while self._broken is None and not self._stopping and not self._draining:
            if sum(not child.retired for child in self._children) >= self._size:
                return
            self._add_child()

    def _listen(self) -> None:
        try:
            while not self._stopping:
                self._turn()
        except Exception as error:  # noqa: BLE001 - whoever waits has to be told
            self._fail(f"the pool of workers failed: {type(error).__name__}: {error}")

    def _turn(self) -> None:
        reports: list[Batch] = []
        for key, _ in self._selector.select(timeout=LOOK_EVERY):
            if key.data is not None:
                self._read(key.data, reports)
            elif not self._stopping:
                self._woken.recv(RECEIVE_BYTES)
        for report in reports:
            self._submit(report)
        self._fill()
        self._keep_going()

    def _fail(self, why: str) -> None:
        self._broken = why
        self._up.set()

    def _read(self, child: Child, reports: list[Batch]) -> None:
        try:
            data = child.socket.recv(RECEIVE_BYTES)
        except OSError:
            data = b""
        if not data:
            self._lost(child, reports)
            return
        for message in child.frames.feed(data):
            self._hear(child, message, reports)

    def _hear(self, child: Child, message: FromWorker, reports: list[Batch]) -> None:
        if isinstance(message, Ready):
            with self._lock:
                child.ready = True
                self._feed()
            self._stillborn = 0
            self._up.set()
            self._service.wake()
        elif isinstance(message, Broken):
            self._fail(message.message)
        else:
            reports.append(self._done(child, message))

    def _done(self, child: Child, done: Done) -> Batch:
        with self._lock:
            assignment, took = child.finished(done.exec_id, self._clock.monotonic())
            self._usual_seconds += 0.2 * (took - self._usual_seconds)
            del self._held[done.exec_id]
            self._feed()
        return report_of(assignment, done, actor=self.name)

    def _lost(self, child: Child, reports: list[Batch]) -> None:
        """A process ended: report what it held, and start another."""
        self._selector.unregister(child.socket)
        with self._lock:
            self._children.remove(child)
            held = list(child.running.values())
            for assignment in held:
                del self._held[assignment.exec_id]
        code = child.ended()
        for position, assignment in enumerate(held):
            if child.interrupted and assignment.exec_id == child.target:
                if child.outcome is not None:
                    reports.append(self._batch(_finished(assignment, child.outcome)))
            elif child.interrupted or position > 0:
                reports.append(self._batch(_interrupted(assignment)))
            else:
                reports.append(self._batch(_died(assignment, code)))
        if not child.ready and not child.interrupted and not child.retired:
            self._stillborn += 1
        if self._stillborn >= MAX_STILLBORN and self._broken is None:
            self._fail(f"worker processes end while they import the code, with {_how(code)}")

    def _keep_going(self) -> None:
        """Beat for what runs, and kill what was asked to stop and does not."""
        now = self._clock.monotonic()
        with self._lock:
            for child in self._children:
                child.kill_if_overdue(now, GRACE)
            if now < self._next_beat:
                return
            unsent, self._unsent = list(self._unsent), deque()
            self._next_beat = now + BEAT_EVERY.total_seconds()
            held = list(self._held.values())
        for batch in unsent:
            self._submit(batch)
        with suppress(ServoError):
            for assignment in held:
                self._service.beat(
                    Beat(
                        run_id=assignment.run_id,
                        task_key=assignment.task_key,
                        attempt_id=assignment.attempt_id,
                        exec_id=assignment.exec_id,
                        worker_id=self.name,
                    )
                )

    def _report(self, assignment: Assignment, report: TaskFinished) -> None:
        self._held.pop(assignment.exec_id, None)
        self._submit(self._batch(report))

    def _batch(self, report: TaskFinished) -> Batch:
        return Batch(id=f"done-{report.exec_id}", events=(report,), actor=self.name)

    def _submit(self, batch: Batch) -> None:
        """Report; what could not be taken now is sent again, what never can be is told as that."""

        def look(future: Future[Answer]) -> None:
            if not future.cancelled() and isinstance(future.exception(), Unavailable):
                self._unsent.append(batch)

        try:
            self._service.submit(batch).add_done_callback(look)
        except Invalid as error:
            if not batch.id.startswith(REFUSED):
                self._submit(_refused(batch, error))
        except Unavailable:
            self._unsent.append(batch)
        except ServoError:
            return  # somebody else leads, finds it silent and has it repeated


def as_work(assignment: Assignment) -> Work:
    """What a worker is told of a granted execution."""
    return Work(
        exec_id=assignment.exec_id,
        run_id=assignment.run_id,
        task_key=assignment.task_key,
        asset_key=assignment.asset_key,
        attempt=assignment.attempt,
        attempt_id=assignment.attempt_id,
        fencing_token=assignment.fencing_token,
        inputs={key: Input(*pinned) for key, pinned in assignment.inputs.items()},
        tags=assignment.labels,
        run_config=assignment.labels.get(CONFIG_LABEL, ""),
    )


def _finished(
    assignment: Assignment, outcome: TaskOutcome, error: TaskError | None = None
) -> TaskFinished:
    return TaskFinished(
        run_id=assignment.run_id,
        task_key=assignment.task_key,
        attempt_id=assignment.attempt_id,
        exec_id=assignment.exec_id,
        outcome=outcome,
        error=error,
        retry_after_ms=0 if outcome is TaskOutcome.INTERRUPTED else None,
    )


def _interrupted(assignment: Assignment) -> TaskFinished:
    return _finished(assignment, TaskOutcome.INTERRUPTED)


def _lost_with_its_pool(row: TaskRow) -> TaskFinished:
    return TaskFinished(
        run_id=row.run_id,
        task_key=row.task_key,
        attempt_id=row.attempt_id,
        exec_id=row.exec_id,
        outcome=TaskOutcome.INTERRUPTED,
        retry_after_ms=0,
    )


def _died(assignment: Assignment, code: int) -> TaskFinished:
    """What to say of an execution whose process ended by itself."""
    error = TaskError(code="WorkerDied", message=f"the worker process ended with {_how(code)}")
    return _finished(assignment, TaskOutcome.FAILED, error)


def _how(code: int) -> str:
    try:
        return signal.Signals(-code).name if code < 0 else f"exit code {code}"
    except ValueError:
        return f"signal {-code}"


def _refused(batch: Batch, why: Invalid) -> Batch:
    """What to report instead of a report that the ledger cannot take."""
    (*_, finished) = batch.events
    if not isinstance(finished, TaskFinished):
        return batch
    error = TaskError(code="ReportRefused", message=str(why)[:1000], retriable=False)
    failed = TaskFinished(
        run_id=finished.run_id,
        task_key=finished.task_key,
        attempt_id=finished.attempt_id,
        exec_id=finished.exec_id,
        outcome=TaskOutcome.FAILED,
        error=error,
    )
    return Batch(id=f"{REFUSED}{finished.exec_id}", events=(failed,), actor=batch.actor)
