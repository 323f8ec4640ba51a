"""User code in the process and on the thread that asked for it.

For `materialize()`: breakpoints work, objects of the caller are at hand, and nothing is imported a
second time. Everything else is the same: the same leader, the same ledger, the same outputs.
"""

import queue
from collections.abc import Callable, Sequence

from servo.controllers.dispatch import IdleWorker
from servo.ports.entropy import Entropy
from servo.runtime.service import Service
from servo.runtime.workers import Assignment
from servo.worker.messages import Work
from servo.worker.pool import as_work
from servo.worker.reporting import report_of
from servo.worker.run_task import Runner

NAME = "inline"
LOOK_EVERY = 0.05


class InlineWorkers:
    """One worker: whoever calls `work_until`."""

    def __init__(self, service: Service, entropy: Entropy) -> None:
        self._service = service
        self._entropy = entropy
        self._given: queue.SimpleQueue[Assignment] = queue.SimpleQueue()
        self._busy = False

    def idle(self) -> Sequence[IdleWorker]:
        """The caller, if it has nothing to do."""
        if self._busy:
            return ()
        exec_id = f"x{self._entropy.token_bytes(10).hex()}"
        return (IdleWorker(worker_id=NAME, exec_id=exec_id),)

    def assign(self, assignment: Assignment) -> None:
        """Leave an execution for the caller."""
        self._busy = True
        self._given.put(assignment)

    def work_until(self, over: Callable[[], bool], runner: Runner) -> None:
        """Run what is given until it is over."""
        while not over():
            try:
                assignment = self._given.get(timeout=LOOK_EVERY)
            except queue.Empty:
                continue
            self._run(assignment, as_work(assignment), runner)

    def _run(self, assignment: Assignment, work: Work, runner: Runner) -> None:
        done = runner.run(work)
        self._busy = False
        _ = self._service.commit(report_of(assignment, done, actor=NAME))
