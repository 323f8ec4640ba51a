"""User code in the process and on the thread of the caller.

For `materialize()`: breakpoints work, the caller's objects are available, and nothing is imported a
second time. Everything else is the same: the same leader, the same ledger, the same outputs.
"""

import queue
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

from servo.controllers.dispatch import IdleWorker
from servo.core.actors import ActorKind, actor
from servo.core.definitions import IN_PROCESS
from servo.core.events.envelope import Batch
from servo.errors import ServoError
from servo.execution.attempt import Runner
from servo.leader.assignments import Assignment
from servo.leader.protocols import LeaderForWorkers
from servo.leader.requests import Beat
from servo.ports.entropy import Entropy
from servo.workers.endings import interrupted
from servo.workers.reporting import report_of

NAME = "inline"
ACTOR = actor(ActorKind.WORKER, NAME)
LOOK_EVERY = 0.05
BEAT_EVERY = 1.0


class InlineWorkers:
    """One worker: the thread that calls `work_until`."""

    def __init__(self, leader: LeaderForWorkers, entropy: Entropy) -> None:
        self._leader = leader
        self._entropy = entropy
        self._given: queue.SimpleQueue[Assignment] = queue.SimpleQueue()
        self._busy = False
        self._current: Assignment | None = None

    def idle(self) -> Sequence[IdleWorker]:
        """The caller, if it has nothing to do."""
        if self._busy:
            return ()
        exec_id = f"x{self._entropy.token_bytes(10).hex()}"
        return (IdleWorker(worker_id=NAME, exec_id=exec_id, location=IN_PROCESS),)

    def assign(self, assignments: Sequence[Assignment]) -> None:
        """Queue an execution for the caller."""
        self._busy = True
        for assignment in assignments:
            self._given.put(assignment)

    def work_until(self, over: Callable[[], bool], runner: Runner) -> None:
        """Run assigned executions until the condition holds."""
        done = threading.Event()
        beating = threading.Thread(target=self._beat_until, args=(done,), daemon=True)
        beating.start()
        try:
            while not over():
                with suppress(queue.Empty):
                    assignment = self._given.get(timeout=LOOK_EVERY)
                    self._run(assignment, runner)
        finally:
            done.set()

    def _beat_until(self, done: threading.Event) -> None:
        """Send beats until the execution ends."""
        while not done.wait(BEAT_EVERY):
            current = self._current
            if current is not None:
                with suppress(ServoError):
                    _ = self._leader.beat(
                        Beat(
                            run_id=current.run_id,
                            task_key=current.task_key,
                            attempt_id=current.attempt_id,
                            exec_id=current.exec_id,
                            worker_id=NAME,
                        )
                    )

    def _run(self, assignment: Assignment, runner: Runner) -> None:
        self._current = assignment
        try:
            done = runner.run(assignment)
        except BaseException:  # Ctrl-C: the next leader repeats it at once
            with suppress(ServoError):
                told = Batch(
                    id=f"done-{assignment.exec_id}", events=(interrupted(assignment),), actor=ACTOR
                )
                _ = self._leader.commit(told)
            raise
        self._current = None
        self._busy = False
        _ = self._leader.commit(report_of(assignment, done, actor=ACTOR))
