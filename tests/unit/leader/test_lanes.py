"""An interactive task does not wait behind a backfill, from its request to its process.

The leader is the real one, and so is the order in which the pool begins what it was granted. Time
is counted in lengths of a task: in one, every process ends what it runs and begins the next.
"""

from collections.abc import Sequence

import pytest

from servo.controllers.dispatch import IdleWorker
from servo.core.events.quotas import LaneWeightSet, QuotaSet
from servo.core.events.runs import PlanCreated, RunRequested
from servo.core.events.tasks import TaskFinished, TaskOutcome
from servo.core.lanes import AUTOMATION, BACKFILLS, DEFAULT_WEIGHTS, INTERACTIVE, SCHEDULES
from servo.leader.assignments import Assignment
from servo.storage.memory import MemoryStore
from servo.testing.builders import specs
from servo.testing.clock import ManualClock
from servo.testing.leader import HandLeader
from servo.workers.local_pool.fair_queue import FairQueue

PROCESSES = 2
BOUND = 3
"""One length until a place is free, one more grant to the other lane, one until a process is."""


class CountedPool:
    """A pool with a backlog, whose executions take one length of a task each."""

    def __init__(self, backlog: int) -> None:
        self.places = PROCESSES + backlog
        self.queue = FairQueue()
        self.running: list[Assignment] = []
        self.begun: list[str] = []
        self._number = 0

    def idle(self) -> Sequence[IdleWorker]:
        free = self.places - len(self.running) - len(self.queue)
        return [
            IdleWorker(worker_id="pool", exec_id=f"x{self._number + n}", one_of_many=True)
            for n in range(free)
        ]

    def assign(self, assignments: Sequence[Assignment]) -> None:
        self._number += len(assignments)
        self.queue.extend(assignments)
        self._begin()

    def _begin(self) -> None:
        for assignment in list(self.queue)[: PROCESSES - len(self.running)]:
            self.queue.remove(assignment)
            self.running.append(assignment)
            self.begun.append(assignment.run_id)

    def end(self) -> list[Assignment]:
        ended, self.running = self.running, []
        for assignment in ended:
            self.queue.ended(assignment)
        self._begin()
        return ended


class World:
    def __init__(self, backlog: int) -> None:
        self.pool = CountedPool(backlog)
        store = MemoryStore(ManualClock())
        self.leader = HandLeader(store, workers=self.pool)
        self.leader.tell(QuotaSet(max_queued_tasks=0))  # all workers are local

    def ask(self, lane: str, count: int, run_id: str = "") -> None:
        run = run_id or lane
        request = RunRequested(run_id=run, run_key=run, request_fingerprint="fp", lane=lane)
        tasks = specs({f"{run}{n}": () for n in range(count)})
        self.leader.tell(request, PlanCreated(run_id=run, fingerprint="plan", tasks=tasks))

    def length(self) -> None:
        """One length of a task: everything that runs ends."""
        for ended in self.pool.end():
            report = TaskFinished(
                run_id=ended.run_id,
                task_key=ended.task_key,
                attempt_id=ended.attempt_id,
                exec_id=ended.exec_id,
                outcome=TaskOutcome.SUCCEEDED,
            )
            self.leader.send(self.leader.batch(report))
        self.leader.engine.step()

    def lengths_until(self, run_id: str) -> int:
        passed = 0
        while run_id not in self.pool.begun:
            self.length()
            passed += 1
        return passed


@pytest.mark.parametrize("backlog", [0, 1, 32, 256])
@pytest.mark.parametrize("after", [0, 1, 10])
def test_one_task_starts_within_a_few_task_lengths_of_a_backfill(backlog: int, after: int) -> None:
    world = World(backlog)
    world.ask(BACKFILLS, 200)
    for _ in range(after):
        world.length()
    world.ask(INTERACTIVE, 1)
    assert world.lengths_until(INTERACTIVE) <= BOUND


def test_in_the_same_lane_it_would_wait_for_all_of_it() -> None:
    world = World(32)
    world.ask(BACKFILLS, 200)
    world.ask(BACKFILLS, 1, run_id="last")
    assert world.lengths_until("last") == 100


def test_with_all_lanes_at_work_it_waits_for_one_round_of_the_others() -> None:
    world = World(32)
    for lane in (AUTOMATION, BACKFILLS, SCHEDULES):
        world.ask(lane, 200)
    for _ in range(10):
        world.length()
    world.ask(INTERACTIVE, 1)
    others = sum(DEFAULT_WEIGHTS.values()) - DEFAULT_WEIGHTS[INTERACTIVE]
    assert world.lengths_until(INTERACTIVE) <= others // 100 // PROCESSES + BOUND


def test_a_backfill_goes_on_while_people_ask_for_more_and_more() -> None:
    world = World(8)
    world.ask(INTERACTIVE, 500)
    world.ask(BACKFILLS, 50)
    for _ in range(90):
        world.length()
    assert abs(world.pool.begun.count(BACKFILLS) - 20) <= 3


def test_the_weight_of_a_workspace_counts_down_to_the_pool() -> None:
    world = World(8)
    world.leader.tell(LaneWeightSet(lane=BACKFILLS, weight=800))
    world.ask(INTERACTIVE, 200)
    world.ask(BACKFILLS, 200)
    for _ in range(50):
        world.length()
    assert abs(world.pool.begun.count(BACKFILLS) - world.pool.begun.count(INTERACTIVE)) <= 10
