"""Warm worker processes on this machine.

The leader grants executions to the pool as a whole; the pool runs each on whichever process is
free: lanes share the processes by their weights, and within a lane executions go in the order they
came.

**Who may race.** The leader's thread calls `idle`, `assign` and `look`; the pool's own thread reads
what processes say, and alone starts new ones. Both hold the lock while they look at who does what.

**Who waits.** While tasks are short, some lie ready in the processes, and are taken back when
others have nothing to do or what they lie behind takes long (see
`servo.workers.local_pool.execution_queue`). What would have to wait for long is given back to the
leader: the time that it may take runs since its grant.

**What dies.** A process that ends takes the execution it has begun with it and nothing else: that
one is reported, what lay behind it goes to another process, and a new one takes its place. An
execution that is cancelled, timed out or no longer ours is interrupted in its process, which gets
some time to clean up before it is killed; either way the process is replaced, and whatever user
code started is killed with it.

**What a leader leaves that could not be sure of its last entry.** A grant that is durable and was
never handed over. The next leader's state shows it: it names this pool, which neither has it nor
has reported it. It is given back at once, and no execution id that was offered before is offered
again: it may be that of the grant.
"""

import os
import selectors
import socket
import threading
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from itertools import count

from servo.code.process_setup import ProcessSetup
from servo.config import WorkerSettings
from servo.controllers.dispatch import IdleWorker
from servo.core.actors import ActorKind, actor
from servo.core.events.envelope import Batch
from servo.core.events.tasks import TaskFinished, TaskOutcome
from servo.core.state.state import State
from servo.core.state.states import RUNNING
from servo.errors import Invalid, ServoError
from servo.execution.messages import Broken, FromWorker, Ready
from servo.leader.assignments import Assignment, TaskResult
from servo.leader.protocols import LeaderForWorkers
from servo.leader.requests import Beat
from servo.ports.world import World
from servo.processes.exits import exit_in_words
from servo.workers.endings import (
    died,
    ended_with_process,
    finished,
    given_back,
    hung,
    stopped,
)
from servo.workers.local_pool.execution_queue import ExecutionQueue
from servo.workers.local_pool.process_table import ProcessTable
from servo.workers.local_pool.reports import Reports
from servo.workers.local_pool.slots import Slots
from servo.workers.local_pool.worker_process import WorkerProcess
from servo.workers.reporting import report_of

RECEIVE_BYTES = 1 << 18
BEAT_EVERY = timedelta(seconds=1)
GRACE = timedelta(seconds=10)
RESERVE = timedelta(seconds=2)
LOOK_EVERY = 0.25
LOOK_SOON = 0.05
MAX_STILLBORN = 3
MAX_PASSED_ON = 3


class Pool:
    """Processes that run user code for the leader of one workspace."""

    def __init__(
        self,
        leader: LeaderForWorkers,
        setup: ProcessSetup,
        world: World,
        size: int,
        limits: WorkerSettings | None = None,
    ) -> None:
        self._leader = leader
        self._setup = setup
        self._store = world.store
        self._clock = clock = world.clock
        self._lock = threading.RLock()
        self._selector = selectors.DefaultSelector()
        self._waker, self._woken = socket.socketpair()
        self._selector.register(self._woken, selectors.EVENT_READ, None)
        self._processes = ProcessTable(size, limits or WorkerSettings())
        self._numbers = count(1)
        self._rebalance = False
        self._held: dict[str, Assignment] = {}
        self._passed_on: Counter[str] = Counter()
        self._places = Slots(size, world.entropy)
        self._queue = ExecutionQueue(self._processes, self._places, clock)
        self._state: State | None = None
        self._next_beat = 0.0
        self._draining = self._stopping = False
        self._stillborn = 0
        self._up = threading.Event()
        self._broken: str | None = None
        self.name = f"{socket.gethostname()}-{os.getpid()}-{world.entropy.token_bytes(6).hex()}"
        self.actor = actor(ActorKind.WORKER, self.name)
        self._reports = Reports(leader, self.actor)
        self._thread = threading.Thread(target=self._listen, name="servo-pool", daemon=True)

    def start(self) -> None:
        """Start every process; they import the user's code while the leader takes over."""
        for _ in range(self._processes.size):
            self._add_child()
        self._leader.watch(self.look)
        self._thread.start()

    def wait_until_up(self) -> None:
        """Until a process can run something, or none ever will: see `broken`."""
        self._up.wait()

    def check(self) -> None:
        """`Invalid` if no process can run anything any more."""
        if self._broken is not None:
            raise Invalid(self._broken, remedy="fix the code and start again")

    @property
    def broken(self) -> str | None:
        """Why no new process can run anything, if so."""
        return self._broken

    @property
    def size(self) -> int:
        """How many executions run at once."""
        return self._processes.size

    def renew(self, size: int | None = None) -> None:
        """Replace every process by one that imports the code as it is now, perhaps `size` of them.

        What runs is finished by the process that runs it, and what waits goes to the new ones.
        """
        with self._lock:
            if size is not None:
                self._processes.size = self._places.size = size
            self._broken, self._stillborn = None, 0
            self._queue.take_back(self._processes.children)
            for child in self._processes.children:
                child.leave()
        self._wake_to_rebalance()

    def drain(self, limit: timedelta = GRACE) -> None:
        """Take nothing more, interrupt what runs and report it, within a limit.

        What has not stopped shortly before the limit is killed, so that it is reported as well.
        """
        now = self._clock.monotonic()
        until = now + limit.total_seconds()
        kill_at = until - min(RESERVE, limit / 4).total_seconds()
        self.take_no_more()
        with self._lock:
            for child in self._processes.children:
                child.interrupt(None, None, kill_at)
        pause = threading.Event()
        while self._held and (now := self._clock.monotonic()) < until:
            with self._lock:
                self._kill_overdue(now)
            pause.wait(0.02)

    def take_no_more(self) -> None:
        """Accept no more tasks and return those not started; started ones continue: see `busy`."""
        with self._lock:
            self._draining = True
            self._queue.take_back(self._processes.children)
            waiting = self._queue.clear()
        for assignment in waiting:
            self._report(assignment, given_back(assignment))

    @property
    def busy(self) -> bool:
        """Whether something has begun and can still be reported."""
        return bool(self._held) and self._broken is None

    def stop(self) -> None:
        """End every process and wait for it."""
        with self._lock:
            self._draining = self._stopping = True
        self._waker.close()
        with suppress(RuntimeError):  # never started
            self._thread.join()
        with self._lock:  # the leader goes on for a while, and looks at what is there
            children, self._processes.children = self._processes.children, []
        for child in children:
            child.close()
        self._selector.close()
        self._woken.close()

    # --- for the leader -----------------------------------------------------------------------

    def idle(self) -> Sequence[IdleWorker]:
        """As many places as the pool has free, each with the execution id it would use."""
        with self._lock:
            waits = not self._draining and self._processes.ready
            places = self._places.free(len(self._held)) if waits else []
        return [
            IdleWorker(
                worker_id=self.name,
                exec_id=exec_id,
                one_of_many=True,
                location=self._setup.location.name,
            )
            for exec_id in places
        ]

    def assign(self, assignments: Sequence[Assignment]) -> None:
        """Take granted executions; each runs as soon as a process is free."""
        with self._lock:
            self._places.take(assignment.exec_id for assignment in assignments)
            if self._draining:
                for assignment in assignments:
                    self._reports.tell(given_back(assignment))
                return
            self._held.update({assignment.exec_id: assignment for assignment in assignments})
            self._queue.waiting.extend(assignments)
            self._feed()

    def _feed(self) -> None:
        if self._queue.feed():
            self._wake_to_rebalance()

    def at_work(self) -> list[str]:
        """The assets that are being made."""
        with self._lock:
            children = self._processes.children
            running = [a for child in children for a in list(child.running.values())[:1]]
        return [assignment.asset_key for assignment in running]

    def look(self, state: State) -> None:
        """After an entry: let go of executions that are cancelled, or no longer ours."""
        with self._lock:
            if state is not self._state:
                self._meet(state)
            let_go = False
            for assignment in list(self._held.values()):
                row = state.tasks.rows.get((assignment.run_id, assignment.task_key))
                if row is None or row.state is not RUNNING or row.exec_id != assignment.exec_id:
                    run = state.runs.rows.get(assignment.run_id)
                    forced = run is not None and run.cancel_forced
                    self._let_go(assignment, None, timedelta(0) if forced else GRACE)
                elif state.runs.rows[assignment.run_id].cancel_requested_at is not None:
                    self._let_go(assignment, TaskOutcome.CANCELLED)
                else:
                    continue
                let_go = True
            if let_go and not self._draining:  # what lay behind it was taken back
                self._feed()

    def _meet(self, state: State) -> None:
        """A new leader: give back what the last one granted and could not hand over."""
        self._state = state
        self._places.forget()
        for key in list(state.index.running):
            row = state.tasks.rows[key]
            known = row.exec_id in self._held or self._reports.about(row.exec_id)
            if row.worker_id == self.name and not known:
                self._reports.tell(given_back(row))

    def _let_go(
        self, assignment: Assignment, outcome: TaskOutcome | None, grace: timedelta = GRACE
    ) -> None:
        """Stop an execution; with an outcome it is still reported."""
        told = None if outcome is None else finished(assignment, outcome)
        if self._queue.withdraw(assignment):
            if told is not None:
                self._report(assignment, told)
            self._forget(assignment)
            return
        if (child := self._queue.who_runs(assignment)) is not None:
            now = self._clock.monotonic()
            child.interrupt(assignment.exec_id, told, now + grace.total_seconds())
            child.kill_if_overdue(now)
            self._wake_to_rebalance()

    # --- from the processes -------------------------------------------------------------------

    def _add_child(self) -> None:
        child = WorkerProcess(self._setup, f"{self.name}-{next(self._numbers)}")
        with self._lock:
            self._processes.children.append(child)
        self._selector.register(child.socket, selectors.EVENT_READ, child)

    def _wake_to_rebalance(self) -> None:
        """Have the pool's own thread see whether processes are to be started or let go."""
        self._rebalance = True
        with suppress(OSError):
            self._waker.send(b"!", socket.MSG_DONTWAIT)

    def _listen(self) -> None:
        try:
            while not self._stopping:
                self._turn()
        except Exception as error:  # noqa: BLE001 - whoever waits has to be told
            self._fail(f"the pool of workers failed: {type(error).__name__}: {error}")

    def _turn(self) -> None:
        reports: list[Batch] = []
        wait = LOOK_SOON if len(self._held) > self._processes.size else LOOK_EVERY
        for key, _ in self._selector.select(timeout=wait):
            if key.data is not None:
                self._read(key.data, reports)
            else:
                _ = self._woken.recv(RECEIVE_BYTES)
        for report in reports:
            self._reports.send(report)
        if self._rebalance:
            self._rearrange()
        self._keep_going()

    def _rearrange(self) -> None:
        with self._lock:
            self._rebalance = False
            if self._broken is not None or self._stopping or self._draining:
                return
            missing = self._processes.rearrange(self._queue.waiting)
        for _ in range(missing):
            self._add_child()

    def _fail(self, why: str) -> None:
        self._broken = why
        self._up.set()

    def _read(self, child: WorkerProcess, reports: list[Batch]) -> None:
        try:
            data = child.socket.recv(RECEIVE_BYTES)
        except OSError:
            data = b""
        if not data:
            self._lost(child)
            return
        for message in child.frames.feed(data):
            self._hear(child, message, reports)
        with self._lock:
            self._feed()

    def _hear(self, child: WorkerProcess, message: FromWorker, reports: list[Batch]) -> None:
        if isinstance(message, Ready):
            child.ready = True
            self._rebalance = True
            self._stillborn = 0
            self._up.set()
            self._leader.wake()
        elif isinstance(message, Broken):
            self._fail(message.message)
        else:
            reports += self._done(child, message)

    def _done(self, child: WorkerProcess, done: TaskResult) -> list[Batch]:
        """An execution ended by itself; what is to be reported of it."""
        with self._lock:
            assignment, took = child.finished(done.exec_id, self._clock.monotonic())
            self._places.took(took)
            self._reports.expect(done.exec_id)  # first: neither held nor reported counts as lost
            self._queue.waiting.ended(assignment)
            self._forget(assignment)
            if self._processes.used(child):
                self._rebalance = True
        if child.interrupted and done.outcome is TaskOutcome.FAILED:
            # It made something else of the request to stop, or a library did.
            told = stopped(child, assignment)
            if told is not None:
                return [self._reports.batch_of(told)]
            self._reports.drop(done.exec_id)
            return []
        return [report_of(assignment, done, actor=self.actor)]

    def _lost(self, child: WorkerProcess) -> None:
        """A process ended: report what it had begun, pass on the rest, and start another."""
        self._selector.unregister(child.socket)
        began = child.began()
        with self._lock:
            self._processes.children.remove(child)
            held = list(child.running.values())
        code = child.ended()
        for assignment in reversed(held[began:]):
            self._never_began(child, assignment, code)
        for assignment in held[:began]:
            self._ended_with_process(child, assignment, code)
        child.forget()
        if not child.ready and child.stays:
            self._stillborn += 1
        if self._stillborn >= MAX_STILLBORN and self._broken is None:
            self._fail(
                f"worker processes end while they import the code, with {exit_in_words(code)}"
            )
        with self._lock:
            self._rebalance = True
            self._feed()

    def _never_began(self, child: WorkerProcess, assignment: Assignment, code: int) -> None:
        """A process ended before it began this: another does it, unless nobody wants it."""
        if child.interrupted and assignment.exec_id == child.target:
            self._ended_with_process(child, assignment, code)
            return
        with self._lock:
            self._passed_on[assignment.exec_id] += 1
            goes_on = not self._draining and self._passed_on[assignment.exec_id] <= MAX_PASSED_ON
            if goes_on:
                self._queue.waiting.extend([assignment])
        if not goes_on:
            how_told = given_back(assignment) if self._draining else died(assignment, code)
            self._report(assignment, how_told)

    def _ended_with_process(self, child: WorkerProcess, assignment: Assignment, code: int) -> None:
        """A process ended while it ran this."""
        told = ended_with_process(child, assignment, code, setup=self._setup, store=self._store)
        if told is None:
            self._forget(assignment)
        else:
            self._report(assignment, told)

    def _kill_overdue(self, now: float) -> None:
        for child in self._processes.children:
            if (what := child.overdue_check(now)) and (current := child.current):
                child.interrupt(current, hung(child.running[current], what), now)
            child.kill_if_overdue(now)

    def _keep_going(self) -> None:
        """Beat for what runs, and kill what was asked to stop and does not."""
        now = self._clock.monotonic()
        with self._lock:
            self._kill_overdue(now)
            if len(self._held) > self._processes.size:
                for assignment in self._queue.shorten(len(self._held), now):
                    self._report(assignment, given_back(assignment))
                self._feed()
            if now < self._next_beat:
                return
            self._next_beat = now + BEAT_EVERY.total_seconds()
            held = list(self._held.values())
        self._reports.again()
        with suppress(ServoError):
            for assignment in held:
                self._leader.beat(
                    Beat(
                        run_id=assignment.run_id,
                        task_key=assignment.task_key,
                        attempt_id=assignment.attempt_id,
                        exec_id=assignment.exec_id,
                        worker_id=self.name,
                    )
                )

    def _report(self, assignment: Assignment, report: TaskFinished) -> None:
        # In this order: what is neither held nor reported counts as lost.
        self._reports.tell(report)
        self._forget(assignment)

    def _forget(self, assignment: Assignment) -> None:
        with self._lock:
            self._held.pop(assignment.exec_id, None)
            self._passed_on.pop(assignment.exec_id, None)
            self._queue.waiting.gone(assignment)
