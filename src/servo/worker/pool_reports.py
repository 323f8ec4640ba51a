"""What a pool tells the leader of executions, and how it makes sure that it is told.

A report that could not be taken is sent again. Until it is answered the execution counts as
reported: nobody may conclude from its absence in the pool that it was lost.
"""

import signal
from collections import deque
from concurrent.futures import Future

from servo.core.events.envelope import Answer, Batch
from servo.core.events.tasks import TaskError, TaskFinished, TaskOutcome
from servo.core.plan import input_partitions
from servo.core.state.rows.execution import TaskRow
from servo.errors import Invalid, ServoError, Unavailable
from servo.runtime.service import Service
from servo.runtime.workers import Assignment
from servo.sdk.check_planning import chosen_checks
from servo.worker.messages import Input, Work
from servo.worker.requesting import CONFIG_LABEL

REFUSED = "refused-"


class Reports:
    """Reports on their way to the leader."""

    def __init__(self, service: Service, actor: str) -> None:
        self._service = service
        self._actor = actor
        self._open: dict[str, None] = {}
        self._unsent: deque[Batch] = deque()

    def expect(self, exec_id: str) -> None:
        """Know of an execution that it is about to be reported."""
        self._open[exec_id] = None

    def drop(self, exec_id: str) -> None:
        """Nobody wants to know of an execution after all."""
        self._open.pop(exec_id, None)

    def tell(self, report: TaskFinished) -> None:
        """Report how an execution ended."""
        self.send(self.batch_of(report))

    def batch_of(self, report: TaskFinished) -> Batch:
        """The batch that tells the ledger how an execution ended."""
        return Batch(id=f"done-{report.exec_id}", events=(report,), actor=self._actor)

    def send(self, batch: Batch) -> None:
        """Report; what could not be taken now is sent again, what never can be is told as that."""
        exec_id = _execution(batch)
        self._open[exec_id] = None

        def answered(future: Future[Answer]) -> None:
            if not future.cancelled() and isinstance(future.exception(), Unavailable):
                self._unsent.append(batch)
            else:
                self._open.pop(exec_id, None)

        try:
            self._service.submit(batch).add_done_callback(answered)
        except Invalid as error:
            if not batch.id.startswith(REFUSED):
                self.send(_refused(batch, error))
        except Unavailable:
            self._unsent.append(batch)
        except ServoError:
            self._open.pop(exec_id, None)  # somebody else leads, finds it silent and repeats it

    def again(self) -> None:
        """Send what could not be taken."""
        # One by one: the leader's thread may be adding to them.
        for _ in range(len(self._unsent)):
            self.send(self._unsent.popleft())

    def about(self, exec_id: str) -> bool:
        """Whether an execution was reported and nobody has answered yet."""
        return exec_id in self._open

    @property
    def undelivered(self) -> bool:
        """Whether there is a report that the leader never took."""
        return bool(self._unsent)


def made_by(assignment: Assignment) -> tuple[str, ...]:
    """The partitions that an execution makes."""
    first = assignment.partition_key
    return () if first is None else (first, *assignment.also_partitions)


def as_work(assignment: Assignment) -> Work:
    """What a worker is told of a granted execution."""
    return Work(
        exec_id=assignment.exec_id,
        run_id=assignment.run_id,
        task_key=assignment.task_key,
        asset_key=assignment.asset_key,
        also_makes=assignment.also_makes,
        partitions=made_by(assignment),
        input_partitions=input_partitions(assignment.tags),
        attempt=assignment.attempt,
        attempt_id=assignment.attempt_id,
        fencing_token=assignment.fencing_token,
        inputs={key: Input(*pinned) for key, pinned in assignment.inputs.items()},
        tags=assignment.labels,
        run_config=assignment.labels.get(CONFIG_LABEL, ""),
        operation=assignment.operation,
        checks=chosen_checks(assignment.tags),
    )


def finished(
    assignment: Assignment, outcome: TaskOutcome, error: TaskError | None = None
) -> TaskFinished:
    """An execution ended otherwise than by its own report."""
    return TaskFinished(
        run_id=assignment.run_id,
        task_key=assignment.task_key,
        attempt_id=assignment.attempt_id,
        exec_id=assignment.exec_id,
        outcome=outcome,
        error=error,
        retry_after_ms=0 if outcome is TaskOutcome.INTERRUPTED else None,
    )


def interrupted(assignment: Assignment) -> TaskFinished:
    """An execution was stopped, or never began, and is to be done again."""
    return finished(assignment, TaskOutcome.INTERRUPTED)


def lost(row: TaskRow) -> TaskFinished:
    """An execution that was granted and that nobody runs."""
    return TaskFinished(
        run_id=row.run_id,
        task_key=row.task_key,
        attempt_id=row.attempt_id,
        exec_id=row.exec_id,
        outcome=TaskOutcome.INTERRUPTED,
        retry_after_ms=0,
    )


def died(assignment: Assignment, code: int, place: str = "") -> TaskFinished:
    """An execution whose process ended by itself, and where in its code if that is known."""
    where = f" in {place}" if place else ""
    often = "; the system does that when memory runs out" if -code == signal.SIGKILL else ""
    message = f"the worker process ended with {how(code)}{where}{often}"
    return finished(assignment, TaskOutcome.FAILED, TaskError(code="WorkerDied", message=message))


def hung(assignment: Assignment, what: str) -> TaskFinished:
    """An execution that was ended because a check of it could not be stopped otherwise."""
    message = (
        f"{what} took longer than its timeout and could not be interrupted, "
        "so its process was ended"
    )
    error = TaskError(code="CheckHung", message=message, retriable=False)
    return finished(assignment, TaskOutcome.FAILED, error)


def how(code: int) -> str:
    """How a process ended, in words."""
    try:
        return signal.Signals(-code).name if code < 0 else f"exit code {code}"
    except ValueError:
        return f"signal {-code}"


def _execution(batch: Batch) -> str:
    (*_, report) = batch.events
    return report.exec_id if isinstance(report, TaskFinished) else batch.id


def _refused(batch: Batch, why: Invalid) -> Batch:
    """What to report instead of a report that the ledger cannot take."""
    (*_, report) = batch.events
    if not isinstance(report, TaskFinished):
        return batch
    error = TaskError(code="ReportRefused", message=str(why)[:1000], retriable=False)
    failed = TaskFinished(
        run_id=report.run_id,
        task_key=report.task_key,
        attempt_id=report.attempt_id,
        exec_id=report.exec_id,
        outcome=TaskOutcome.FAILED,
        error=error,
    )
    return Batch(id=f"{REFUSED}{report.exec_id}", events=(failed,), actor=batch.actor)
