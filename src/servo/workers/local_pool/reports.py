"""The reports of a pool to the leader, repeated until the leader answers.

A report that the leader could not take is sent again. Until it is answered, the execution counts as
reported: its absence from the pool does not mean that it was lost.
"""

from collections import deque

from servo.core.events.envelope import Answer, Batch
from servo.core.events.tasks import TaskError, TaskFinished, TaskOutcome
from servo.errors import Invalid, ServoError, Unavailable
from servo.leader.protocols import LeaderForWorkers

REFUSED = "refused-"


class Reports:
    """Reports on their way to the leader."""

    def __init__(self, leader: LeaderForWorkers, actor: str) -> None:
        self._leader = leader
        self._actor = actor
        self._open: dict[str, None] = {}
        self._unsent: deque[Batch] = deque()

    def expect(self, exec_id: str) -> None:
        """Note that an execution is about to be reported."""
        self._open[exec_id] = None

    def drop(self, exec_id: str) -> None:
        """Forget an execution that is not to be reported after all."""
        self._open.pop(exec_id, None)

    def tell(self, report: TaskFinished) -> None:
        """Report how an execution ended."""
        self.send(self.batch_of(report))

    def batch_of(self, report: TaskFinished) -> Batch:
        """The batch that records how an execution ended."""
        return Batch(id=f"done-{report.exec_id}", events=(report,), actor=self._actor)

    def send(self, batch: Batch) -> None:
        """Send a report; retry it if it could not be taken, or report that it never can be."""
        exec_id = _execution(batch)
        self._open[exec_id] = None

        def answered(answer: Answer | ServoError) -> None:
            if isinstance(answer, Unavailable):
                self._unsent.append(batch)
            else:
                self._open.pop(exec_id, None)

        try:
            self._leader.send(batch, answered)
        except Invalid as error:
            if not batch.id.startswith(REFUSED):
                self.send(_refused(batch, error))
        except Unavailable:
            self._unsent.append(batch)
        except ServoError:
            self._open.pop(exec_id, None)  # another leader misses its beats and repeats it

    def again(self) -> None:
        """Send the reports again that could not be taken."""
        # One by one: the leader's thread may be adding to them.
        for _ in range(len(self._unsent)):
            self.send(self._unsent.popleft())

    def about(self, exec_id: str) -> bool:
        """Whether an execution was reported and the leader has not answered yet."""
        return exec_id in self._open


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
