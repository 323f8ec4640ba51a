"""What `servo demo` runs: a leader whose workers pretend to work.

Workers are threads that wait a moment and report. One asset fails the first time it is tried.
"""

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from servo.config import Settings
from servo.controllers.dispatch import IdleWorker
from servo.core.events.envelope import Batch
from servo.core.events.tasks import Output, TaskError, TaskFinished, TaskOutcome
from servo.errors import ServoError
from servo.ledger.paths import Paths
from servo.runtime.deployment import open_world
from servo.runtime.service import Service
from servo.runtime.system import SystemEntropy
from servo.runtime.workers import Assignment

SLOTS = 4
FLAKY = "demo/orders_clean:materialize"
SETTINGS = Settings(inbox_every=Settings().publish_every)


class PretendWorkers:
    """Threads that take a task from the leader, wait, and report."""

    def __init__(self, service: Service, pace: float) -> None:
        self._service = service
        self._pace = pace
        self._entropy = SystemEntropy()
        self._free = [f"worker-{n}" for n in range(SLOTS)]
        self._pool = ThreadPoolExecutor(SLOTS)
        self._never = threading.Event()

    def idle(self) -> Sequence[IdleWorker]:
        return [IdleWorker(worker_id=name, exec_id=self._name("exec")) for name in self._free]

    def assign(self, assignment: Assignment) -> None:
        self._free.remove(assignment.worker_id)
        self._pool.submit(self._work, assignment)

    def _work(self, assignment: Assignment) -> None:
        self._never.wait(self._pace)
        failed = assignment.task_key == FLAKY and assignment.attempt == 1
        report = TaskFinished(
            run_id=assignment.run_id,
            task_key=assignment.task_key,
            attempt_id=assignment.attempt_id,
            exec_id=assignment.exec_id,
            outcome=TaskOutcome.FAILED if failed else TaskOutcome.SUCCEEDED,
            output=None if failed else Output(materialization_id=assignment.exec_id, row_count=42),
            error=TaskError(code="UserCodeException", message="the source was not ready yet")
            if failed
            else None,
        )
        try:
            self._service.commit(Batch(id=self._name("batch"), events=(report,), actor="worker"))
        except ServoError:
            return
        finally:
            self._free.append(assignment.worker_id)
            self._service.wake()

    def _name(self, kind: str) -> str:
        return f"{kind}-{self._entropy.token_bytes(8).hex()}"


def demo_service(url: str, paths: Paths, pace: float) -> Service:
    """A leader of the demo's workspace with four pretending workers."""
    return Service(
        open_world(url), paths, SETTINGS, workers=lambda service: PretendWorkers(service, pace)
    )


def lead_for_ever(url: str, workspace: str, pace: float, ready: str) -> None:
    """The process that the demo kills: leads until it dies."""
    with demo_service(url, Paths("default", workspace), pace):
        Path(ready).touch()
        threading.Event().wait()
