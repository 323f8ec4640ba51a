"""Warm worker processes on this machine.

The leader grants executions to the pool as a whole; the pool runs each on whichever process is
free, in the order they came. Short tasks would spend their time waiting for the leader's next
commit, so the pool takes a few more than it has processes when they have been short lately: never
so many that one could wait long behind another.

**Who may race.** The leader's thread calls `idle` and `assign`, the pool's own thread reads what
processes say. Both hold the lock while they look at who is free.

**What dies.** A process that ends takes its execution with it and nothing else: the execution is
reported as interrupted or failed, and a new process takes its place.
"""

import os
import selectors
import socket
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Sequence

import msgspec

from servo.controllers.dispatch import IdleWorker
from servo.core.events.envelope import Batch
from servo.core.events.tasks import TaskError, TaskFinished, TaskOutcome
from servo.errors import Invalid, ServoError
from servo.ports.clock import Clock
from servo.ports.entropy import Entropy
from servo.runtime.service import Service
from servo.runtime.workers import Assignment
from servo.worker.messages import (
    Broken,
    Done,
    Frames,
    FromWorker,
    Input,
    Ready,
    Work,
    frame,
    from_worker,
)
from servo.worker.process import Setting

RECEIVE_BYTES = 1 << 18
BACKLOG_SECONDS = 0.02
MAX_BACKLOG = 64


class _Process:
    """One worker process and what it is doing."""

    def __init__(self, number: int, setting: Setting) -> None:
        ours, theirs = socket.socketpair()
        self.number = number
        self.socket = ours
        self.frames = Frames(from_worker)
        self.ready = False
        self.running: dict[str, Assignment] = {}
        with theirs:
            self.child = subprocess.Popen(  # noqa: S603 - our own interpreter and module
                [
                    sys.executable,
                    "-m",
                    "servo.worker.process",
                    str(theirs.fileno()),
                    msgspec.json.encode(setting).decode(),
                ],
                pass_fds=(theirs.fileno(),),
                cwd=setting.folder,
            )


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
        self._processes: list[_Process] = []
        self._queue: deque[Assignment] = deque()
        self._outstanding = 0
        self._usual_seconds = 1.0
        self._started: dict[str, float] = {}
        self._spare: list[str] = []
        self._stopping = False
        self._up = threading.Event()
        self._broken: str | None = None
        self.name = f"{socket.gethostname()}:{os.getpid()}"
        self._thread = threading.Thread(target=self._listen, name="servo-pool", daemon=True)

    def start(self) -> None:
        """Start every process; they import the user's code while the leader takes over."""
        for number in range(self._size):
            self._add(_Process(number, self._setting))
        self._thread.start()

    def wait(self) -> None:
        """Until a process can run something; `Invalid` if the user's code cannot be imported."""
        self._up.wait()
        if self._broken is not None:
            raise Invalid(self._broken, remedy="fix the code and start again")

    def stop(self) -> None:
        """End every process and wait for it."""
        self._stopping = True
        for process in self._processes:
            process.socket.close()
        for process in self._processes:
            process.child.wait()

    # --- for the leader -----------------------------------------------------------------------

    def idle(self) -> Sequence[IdleWorker]:
        """As many places as the pool has free, each with the execution id it would use."""
        with self._lock:
            free = self._capacity() - self._outstanding
            while len(self._spare) < free:
                self._spare.append(f"x{self._entropy.token_bytes(10).hex()}")
            return [
                IdleWorker(worker_id=self._place(n), exec_id=self._spare[n]) for n in range(free)
            ]

    def _place(self, number: int) -> str:
        return f"{self.name}:{number}"

    def _capacity(self) -> int:
        if not any(process.ready for process in self._processes):
            return 0
        backlog = int(self._size * BACKLOG_SECONDS / max(self._usual_seconds, 1e-6))
        return self._size + min(backlog, MAX_BACKLOG)

    def assign(self, assignment: Assignment) -> None:
        """Take a granted execution; it runs as soon as a process is free."""
        with self._lock:
            self._spare.remove(assignment.exec_id)
            self._outstanding += 1
            self._queue.append(assignment)
            self._feed()

    def _feed(self) -> None:
        """Give what waits to processes that do not; the next one lies ready while one runs."""
        for depth in (1, 2):
            for process in self._processes:
                if not self._queue:
                    return
                if process.ready and len(process.running) < depth:
                    self._send(process, self._queue.popleft())

    def _send(self, process: _Process, assignment: Assignment) -> None:
        process.running[assignment.exec_id] = assignment
        self._started[assignment.exec_id] = self._clock.monotonic()
        inputs = {key: Input(*pinned) for key, pinned in assignment.inputs.items()}
        work = Work(
            exec_id=assignment.exec_id,
            run_id=assignment.run_id,
            task_key=assignment.task_key,
            asset_key=assignment.asset_key,
            attempt=assignment.attempt,
            attempt_id=assignment.attempt_id,
            fencing_token=assignment.fencing_token,
            inputs=inputs,
        )
        try:
            process.socket.sendall(frame(work))
        except OSError:
            return  # it is gone; the listener notices and reports what it held

    # --- from the processes -------------------------------------------------------------------

    def _add(self, process: _Process) -> None:
        self._processes.append(process)
        self._selector.register(process.socket, selectors.EVENT_READ, process)

    def _listen(self) -> None:
        while not self._stopping:
            reports: list[TaskFinished] = []
            for key, _ in self._selector.select(timeout=1):
                self._read(key.data, reports)
            for report in reports:
                self._submit(report)

    def _read(self, process: _Process, reports: list[TaskFinished]) -> None:
        try:
            data = process.socket.recv(RECEIVE_BYTES)
        except OSError:
            data = b""
        if not data:
            self._lost(process, reports)
            return
        for message in process.frames.feed(data):
            self._hear(process, message, reports)

    def _hear(self, process: _Process, message: FromWorker, reports: list[TaskFinished]) -> None:
        if isinstance(message, Ready):
            with self._lock:
                process.ready = True
                self._feed()
            self._up.set()
            self._service.wake()
        elif isinstance(message, Broken):
            self._broken = message.message
            self._up.set()
        else:
            reports.append(self._done(process, message))

    def _done(self, process: _Process, done: Done) -> TaskFinished:
        with self._lock:
            assignment = process.running.pop(done.exec_id)
            took = self._clock.monotonic() - self._started.pop(done.exec_id)
            self._usual_seconds += 0.2 * (took - self._usual_seconds)
            self._outstanding -= 1
            self._feed()
        return TaskFinished(
            run_id=assignment.run_id,
            task_key=assignment.task_key,
            attempt_id=assignment.attempt_id,
            exec_id=assignment.exec_id,
            outcome=done.outcome,
            output=done.output,
            error=done.error,
            cost=done.cost,
            retry_after_ms=done.retry_after_ms,
            code_version=done.code_version,
        )

    def _lost(self, process: _Process, reports: list[TaskFinished]) -> None:
        """A process ended: report what it held, and start another."""
        self._selector.unregister(process.socket)
        process.socket.close()
        code = process.child.wait()
        with self._lock:
            self._processes.remove(process)
            held = list(process.running.values())
            self._outstanding -= len(held)
        for position, assignment in enumerate(held):
            reports.append(_ended(assignment, code, ran=position == 0))
        if self._broken is None and not self._stopping:
            self._add(_Process(process.number, self._setting))

    def _submit(self, report: TaskFinished) -> None:
        batch = Batch(id=f"done-{report.exec_id}", events=(report,), actor=self.name)
        try:
            self._service.submit(batch)
        except ServoError:
            return  # whoever leads now finds the execution silent and has it repeated


def _ended(assignment: Assignment, code: int, *, ran: bool) -> TaskFinished:
    """What to say of an execution whose process ended: one that only waited lost nothing."""
    how = f"signal {-code}" if code < 0 else f"exit code {code}"
    error = TaskError(code="WorkerLost", message=f"the worker process ended with {how}")
    return TaskFinished(
        run_id=assignment.run_id,
        task_key=assignment.task_key,
        attempt_id=assignment.attempt_id,
        exec_id=assignment.exec_id,
        outcome=TaskOutcome.FAILED if ran else TaskOutcome.INTERRUPTED,
        error=error if ran else None,
        retry_after_ms=None if ran else 0,
    )
