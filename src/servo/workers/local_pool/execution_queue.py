"""Executions that a pool was granted and that no process has begun.

Some wait here; while tasks are short, some are already queued in the processes. Those are taken
back when a process becomes idle, when the execution before them takes long, or when another lane's
turn comes before theirs: an interactive task does not wait for the backlog of a
backfill. The caller holds the pool's lock.
"""

from collections.abc import Iterable

from servo.execution.messages import frame
from servo.leader.assignments import Assignment
from servo.ports.clock import Clock
from servo.workers.local_pool.fair_queue import FairQueue
from servo.workers.local_pool.process_table import ProcessTable
from servo.workers.local_pool.slots import LONG_SECONDS, Slots
from servo.workers.local_pool.worker_process import WorkerProcess

SMALL = 32 * 1024


class ExecutionQueue:
    """Those that wait, in the order of their turns."""

    def __init__(self, processes: ProcessTable, places: Slots, clock: Clock) -> None:
        self._processes = processes
        self._places = places
        self._clock = clock
        self.waiting = FairQueue()

    def feed(self) -> bool:
        """Give waiting executions to processes; whether an unused process is needed."""
        now = self._clock.monotonic()
        self._share(now)
        self._let_pass()
        deepest = self._places.depth
        for depth in range(1 + self._processes.fewest(deepest, now), 1 + deepest):
            if not self._give(depth, now):
                break
        for child in self._processes.children:
            child.flush()
        return self._processes.isolating and any(map(self._processes.wants_own, self.waiting))

    def _give(self, depth: int, now: float) -> bool:
        """Give processes up to `depth` each; False if the next one is too large to queue there."""
        while self.waiting and (found := self._processes.match(self.waiting, depth, now)):
            assignment, child = found
            data = frame(assignment)
            if depth > 1 and len(data) > SMALL:
                return False
            self.waiting.remove(assignment)
            child.give(data, assignment, now)
        return True

    def _share(self, now: float) -> None:
        """Take queued executions back while a process is idle."""
        if self._processes.idle(now) and all(map(self._processes.wants_own, self.waiting)):
            self.take_back([max(self._processes.children, key=lambda child: len(child.running))])

    def _let_pass(self) -> None:
        """Take queued executions back if the turn of a waiting one comes before theirs."""
        own = self._processes.wants_own
        first = next((assignment for assignment in self.waiting if not own(assignment)), None)
        if first is not None:
            self.take_back([c for c in self._processes.children if self._is_behind(first, c)])

    def _is_behind(self, first: Assignment, child: WorkerProcess) -> bool:
        lying = child.running.get(child.last or "") if len(child.running) > 1 else None
        return lying is not None and self.waiting.is_before(first, lying)

    def take_back(self, children: Iterable[WorkerProcess]) -> None:
        """Take back what processes have not begun; each waits again at its turn."""
        for child in children:
            if len(child.running) > 1:
                self.waiting.extend(child.take_back())

    def withdraw(self, assignment: Assignment) -> bool:
        """Withdraw an execution; False if a process has begun it.

        Executions queued after it wait here again: they must not end with that process.
        """
        for child in self._processes.children:
            if assignment.exec_id in child.running:
                self.waiting.extend(child.take_back())
        if assignment not in self.waiting:
            return False
        self.waiting.remove(assignment)
        return True

    def who_runs(self, assignment: Assignment) -> WorkerProcess | None:
        """The process that runs what could not be withdrawn; None if it has ended since.

        Then the process has begun another, which is nobody's to stop.
        """
        children = self._processes.children
        return next((child for child in children if child.last == assignment.exec_id), None)

    def shorten(self, held: int, now: float) -> list[Assignment]:
        """Executions to give back to the leader, where their time does not run."""
        self.take_back(
            child for child in self._processes.children if not child.accepts_backlog(now)
        )
        if not self._processes.ready or self._processes.busy_since(now - LONG_SECONDS):
            self._places.take_long()
        count = min(self._places.too_many(held), len(self.waiting))
        return [self.waiting.pop() for _ in range(count)][::-1]

    def clear(self) -> list[Assignment]:
        """Remove and return all waiting executions."""
        gone = list(self.waiting)
        for assignment in gone:
            self.waiting.remove(assignment)
        return gone
