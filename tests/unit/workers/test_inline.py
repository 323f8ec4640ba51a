"""User code on the caller's thread, and the beats that another thread sends meanwhile."""

import threading
from concurrent.futures import Future
from typing import cast

from servo.core.events.envelope import Answer, Batch, Status
from servo.core.events.tasks import TaskFinished, TaskOutcome
from servo.execution.attempt import Runner
from servo.leader.assignments import Assignment, TaskResult
from servo.leader.heartbeats import BeatReply
from servo.leader.protocols import LeaderForWorkers
from servo.leader.requests import Beat
from servo.testing.clock import SeededEntropy
from servo.workers.inline import InlineWorkers

ASSIGNMENT = Assignment(
    worker_id="inline", exec_id="x1", run_id="run_1", task_key="a:materialize", attempt=1,
    attempt_id="attempt_1", fencing_token=1, asset_key="a", weight=1,
)  # fmt: skip


class Listening:
    """A leader that notes what it hears."""

    def __init__(self) -> None:
        self.beats: list[Beat] = []
        self.reports: list[Batch] = []
        self.heard = threading.Event()

    def beat(self, beat: Beat) -> "Future[BeatReply]":
        self.beats.append(beat)
        self.heard.set()
        return Future()

    def commit(self, batch: Batch) -> Answer:
        self.reports.append(batch)
        return Answer(status=Status.APPLIED, seq=1)


class UntilHeard(Runner):
    """Runs until the leader has heard that the execution is alive."""

    def __init__(self, leader: Listening) -> None:
        self._leader = leader

    def run(self, work: Assignment) -> TaskResult:
        alive = self._leader.heard.wait(30)
        outcome = TaskOutcome.SUCCEEDED if alive else TaskOutcome.FAILED
        return TaskResult(exec_id=work.exec_id, outcome=outcome)


def test_an_execution_beats_while_it_runs_and_is_reported_when_it_ends() -> None:
    leader = Listening()
    workers = InlineWorkers(cast("LeaderForWorkers", leader), SeededEntropy(0))
    workers.assign([ASSIGNMENT])
    assert workers.idle() == ()
    workers.work_until(lambda: bool(leader.reports), UntilHeard(leader))
    expected = Beat(
        run_id="run_1",
        task_key="a:materialize",
        attempt_id="attempt_1",
        exec_id="x1",
        worker_id="inline",
    )
    assert set(map(str, leader.beats)) == {str(expected)}
    (event,) = leader.reports[0].events
    assert isinstance(event, TaskFinished)
    assert event.outcome is TaskOutcome.SUCCEEDED
    assert [idle.worker_id for idle in workers.idle()] == ["inline"]
