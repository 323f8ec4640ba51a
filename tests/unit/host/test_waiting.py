"""Whoever resumes runs hears how they ended, also of those that end before anybody asks."""

from collections.abc import Sequence

from servo.controllers.dispatch import IdleWorker
from servo.core.events.envelope import Batch
from servo.core.events.runs import PlanCreated, RunRequested
from servo.core.events.tasks import TaskFinished, TaskOutcome
from servo.core.ids import TaskKeyStr
from servo.core.plan import TaskSpec
from servo.core.state.states import TERMINAL_RUN_STATES, RunState
from servo.host.waiting import Waiting
from servo.leader.assignments import Assignment
from servo.leader.service import Service
from servo.ledger.paths import Paths
from servo.ports.world import World
from servo.storage.memory import MemoryStore
from servo.testing.eventually import eventually
from servo.workspace.system import SystemClock, SystemEntropy

PATHS = Paths("acme", "prod")


class Quick:
    """Does whatever it is given before anybody can look."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._number = 0

    def idle(self) -> Sequence[IdleWorker]:
        self._number += 1
        return (IdleWorker(worker_id="quick", exec_id=f"x{self._number}"),)

    def assign(self, assignments: Sequence[Assignment]) -> None:
        for assignment in assignments:
            done = TaskFinished(
                run_id=assignment.run_id,
                task_key=assignment.task_key,
                attempt_id=assignment.attempt_id,
                exec_id=assignment.exec_id,
                outcome=TaskOutcome.SUCCEEDED,
            )
            _ = self._service.submit(Batch(id=f"done-{assignment.exec_id}", events=(done,)))


def a_world() -> World:
    clock = SystemClock()
    return World(MemoryStore(clock), clock, SystemEntropy())


def ask(service: Service, run: str) -> None:
    events = (
        RunRequested(run_id=run, run_key=run, request_fingerprint="fp"),
        PlanCreated(
            run_id=run,
            fingerprint="plan",
            tasks=(TaskSpec(task_key=TaskKeyStr("a:materialize"), asset_key="a"),),
        ),
    )
    assert service.commit(Batch(id=f"ask-{run}", events=events)).applied


def test_runs_that_end_before_anybody_asks_were_begun_and_are_told() -> None:
    world = a_world()
    with Service(world, PATHS) as left:
        ask(left, "first")
        ask(left, "second")
    resumed = Service(world, PATHS, workers=Quick)
    waiting = Waiting(resumed)
    with resumed:
        rows = resumed.engine.state.runs.rows
        eventually(lambda: all(row.state in TERMINAL_RUN_STATES for row in rows.values()))
        assert waiting.begun == ["first", "second"]
        ended = [waiting.wait(run, 5) for run in waiting.begun]
    assert [row and row.state for row in ended] == [RunState.SUCCEEDED, RunState.SUCCEEDED]


def test_what_is_asked_for_later_was_not_begun() -> None:
    service = Service(a_world(), PATHS, workers=Quick)
    waiting = Waiting(service)
    assert waiting.begun == []
    with service:
        waiting.add("later")
        ask(service, "later")
        ended = waiting.wait("later", 5)
        assert ended is not None
        assert ended.state is RunState.SUCCEEDED
        assert waiting.begun == []
        assert waiting.wait("never", 0) is None


def test_what_had_ended_before_was_not_begun() -> None:
    world = a_world()
    with Service(world, PATHS, workers=Quick) as first:
        ask(first, "over")
        rows = first.engine.state.runs.rows
        eventually(lambda: rows["over"].state is RunState.SUCCEEDED)
    second = Service(world, PATHS, workers=Quick)
    waiting = Waiting(second)
    with second:
        assert waiting.begun == []
