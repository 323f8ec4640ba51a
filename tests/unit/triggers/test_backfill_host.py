"""The host of backfills, with a real leader and an evaluator that answers as it is told."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import pytest

from servo.code.backfills.chunks import chunk_run
from servo.code.evaluator.messages import Evaluated, EvaluatedMany, PlanChunks, RequestedRun
from servo.code.evaluator.plan_store import PlanStore
from servo.core.events.backfills import (
    BackfillCreated,
    BackfillState,
    BackfillStateChanged,
    ExplicitSelector,
)
from servo.core.events.envelope import Batch, Event
from servo.core.events.quotas import QuotaSet
from servo.core.events.runs import RunCancelRequested
from servo.core.ids import TaskKeyStr
from servo.core.plan import TaskSpec, normalize
from servo.core.state.rows.automation import BackfillRow
from servo.core.state.states import ChunkState, RunState
from servo.leader.service import Service
from servo.ledger.paths import Paths
from servo.ports.world import World
from servo.storage.memory import MemoryStore
from servo.testing.eventually import eventually
from servo.triggers.backfills import Backfills
from servo.triggers.host import TriggerContext, Triggers
from servo.workspace.system import SystemClock, SystemEntropy

PATHS = Paths("t", "w")
KEYS = tuple(f"p=i:{n}" for n in range(12))
LIMIT = 10.0


class Planner:
    """Stands in for the evaluator processes."""

    def __init__(self, records: Callable[[], PlanStore]) -> None:
        self.generation = 0
        self.asked: list[tuple[int, ...]] = []
        self.cannot: set[int] = set()
        self.dies_of: set[int] = set()
        self.why = ""
        self._records = records

    def ask(self, question: PlanChunks, seconds: float) -> Any:
        del seconds
        self.asked.append(question.chunks)
        if self.dies_of & set(question.chunks):
            return Evaluated(error="the evaluator process ended with 3")
        return EvaluatedMany(answers=tuple(self._one(question, n) for n in question.chunks))

    def _one(self, question: PlanChunks, index: int) -> Evaluated:
        if index in self.cannot:
            return Evaluated(error=self.why or f"chunk {index} has no plan")
        row = question.backfill
        start = index * row.chunk_size
        tasks = [
            TaskSpec(task_key=TaskKeyStr(f"a[{key}]:materialize"), asset_key="a", partition=key)
            for key in KEYS[start : start + row.chunk_size]
        ]
        made = chunk_run(self._records(), row, index, normalize(tasks), KEYS)
        return Evaluated(runs=(RequestedRun(requested=made[0], planned=made[1]),))

    def renew(self) -> None:
        self.generation += 1

    def close(self) -> None:
        """Nothing is to be ended."""


class Place:
    """A workspace that is led, without workers, and its host."""

    def __init__(self) -> None:
        clock, entropy = SystemClock(), SystemEntropy()
        self.world = World(MemoryStore(clock), clock, entropy)
        self.service = Service(self.world, PATHS).start()
        self.planner = Planner(self.records)
        context = TriggerContext(self.service, self.planner, clock, entropy)  # pyright: ignore[reportArgumentType] - answers as one does
        self.kind = Backfills(context, self.records)
        self.triggers = Triggers(self.service, clock)
        self.triggers.add("", context, [self.kind])
        self._count = 0

    def records(self) -> PlanStore:
        return PlanStore(store=self.world.store, paths=PATHS, salt=bytes(32))

    def tell(self, *events: Event) -> None:
        self._count += 1
        answer = self.service.commit(Batch(id=f"test-{self._count}", events=events))
        assert answer.applied, answer

    @property
    def row(self) -> BackfillRow:
        return self.service.engine.state.backfills.rows["bf"]

    def until(self, what: Callable[[BackfillRow], bool]) -> BackfillRow:
        _ = eventually(lambda: what(self.row), LIMIT, every=0.01)
        return self.row

    def cancel(self, index: int) -> None:
        """End the run of a chunk."""
        run = self.service.engine.state.chunks.rows["bf", index].run_id
        assert run is not None
        self.tell(RunCancelRequested(run_id=run))


def created(**changes: Any) -> BackfillCreated:
    settings: dict[str, Any] = {"chunk_size": 1, "max_concurrent_runs": 2, **changes}
    return BackfillCreated(
        backfill_id="bf",
        client_request_id="bf",
        request_fingerprint="fp",
        asset_selection=("a",),
        selector=ExplicitSelector(count=len(KEYS)),
        partition_keys=KEYS,
        total_partitions=len(KEYS),
        **settings,
    )


@contextmanager
def led() -> Generator[Place]:
    place = Place()
    place.triggers.start()
    try:
        yield place
    finally:
        place.triggers.stop()
        place.service.stop()


def test_no_more_runs_are_begun_than_may_be_at_once_and_each_end_begins_another() -> None:
    with led() as place:
        place.tell(created())
        assert place.until(lambda row: row.planned_chunks == 2).active_chunks == 2
        place.cancel(0)
        _ = place.until(lambda row: row.planned_chunks == 3)
        place.cancel(1)
        place.cancel(2)
        assert place.until(lambda row: row.planned_chunks == 5).active_chunks == 2
        labels = [run.labels for run in place.service.engine.state.runs.values()]
        assert labels == [{"servo/backfill": "bf"}] * 5


def test_chunks_are_planned_ahead_and_never_twice() -> None:
    with led() as place:
        place.tell(created())
        _ = place.until(lambda row: row.planned_chunks == 2)
        for index in range(10):
            place.cancel(index)
            _ = place.until(lambda row, n=index + 3: row.planned_chunks == n)
        asked = [chunk for chunks in place.planner.asked for chunk in chunks]
        assert sorted(asked) == list(range(12))
        assert len(place.planner.asked) == 2


def test_nothing_begins_while_it_is_paused_and_what_was_planned_is_used_then() -> None:
    with led() as place:
        place.tell(created())
        _ = place.until(lambda row: row.planned_chunks == 2)
        place.tell(BackfillStateChanged(backfill_id="bf", to_state=BackfillState.PAUSED))
        place.cancel(0)
        place.cancel(1)
        _ = place.until(lambda row: row.active_chunks == 0)
        eventually(lambda: place.kind.next_due() is None)  # nobody looks again and again
        assert place.row.planned_chunks == 2
        place.tell(BackfillStateChanged(backfill_id="bf", to_state=BackfillState.RUNNING))
        assert place.until(lambda row: row.planned_chunks == 4).state_version == 3
        assert len([n for chunks in place.planner.asked for n in chunks if n < 4]) == 4


def test_a_chunk_without_a_plan_fails_with_its_reason_and_the_next_is_begun() -> None:
    with led() as place:
        place.planner.cannot = {0, 1, 2}
        place.tell(created())
        row = place.until(lambda row: row.planned_chunks == 5)
        assert (row.failed_chunks, row.active_chunks, row.partitions_failed) == (3, 2, 3)
        state = place.service.engine.state
        chunk = state.chunks.rows["bf", 1]
        assert (chunk.state, chunk.failed_partition_keys) == (ChunkState.FAILED, (KEYS[1],))
        run = state.runs.rows[chunk.run_id or ""]
        assert (run.state, run.error) == (RunState.FAILED, "chunk 1 has no plan")


def test_a_backfill_of_which_nothing_can_be_planned_ends() -> None:
    with led() as place:
        place.planner.cannot = set(range(12))
        place.tell(created())
        row = place.until(lambda row: row.finished_at is not None)
        assert (row.state, row.partitions_failed) == (BackfillState.FAILED, 12)


def test_one_chunk_that_kills_the_evaluator_fails_alone() -> None:
    with led() as place:
        place.planner.dies_of = {1}
        place.tell(created(max_concurrent_runs=4))
        row = place.until(lambda row: row.planned_chunks == 5)
        assert (row.failed_chunks, row.active_chunks) == (1, 4)
        assert place.service.engine.state.chunks.rows["bf", 1].state is ChunkState.FAILED


def test_code_that_never_loads_ends_the_backfill_and_is_not_tried_for_every_chunk() -> None:
    with led() as place:
        place.planner.dies_of = set(range(12))
        place.tell(created(max_concurrent_runs=4))
        row = place.until(lambda row: row.finished_at is not None)
        assert row.partitions_failed == 12
        assert len(place.planner.asked) < 9


def test_new_code_plans_anew_what_has_not_begun() -> None:
    with led() as place:
        place.tell(created())
        _ = place.until(lambda row: row.planned_chunks == 2)
        place.planner.cannot = {2}
        with place.triggers.renewing():
            pass
        place.cancel(0)
        row = place.until(lambda row: row.planned_chunks == 4)
        assert row.failed_chunks == 1


def test_a_plan_that_the_workspace_never_takes_is_a_failed_chunk() -> None:
    with led() as place:
        place.tell(QuotaSet(max_tasks_per_run=2))
        place.tell(created(chunk_size=5))
        row = place.until(lambda row: row.planned_chunks == 3)
        assert (row.failed_chunks, row.active_chunks) == (2, 1)
        errors = [run.error for run in place.service.engine.state.runs.values()]
        assert errors[0].startswith("refused: quota: the plan has 5 tasks")


def test_a_backfill_waits_for_the_day_when_it_may_go_on() -> None:
    with led() as place:
        place.tell(QuotaSet(max_daily_runs=1))
        place.tell(created())
        _ = place.until(lambda row: row.planned_chunks == 1)
        eventually(lambda: place.kind.next_due() is not None)
        assert (place.row.planned_chunks, place.row.failed_chunks) == (1, 0)
        place.tell(QuotaSet(max_daily_runs=5))
        assert place.until(lambda row: row.planned_chunks == 2).active_chunks == 2


def test_backfills_of_a_workspace_share_its_slots() -> None:
    with led() as place:
        place.tell(QuotaSet(max_backfill_concurrency=1))
        place.tell(created())
        assert place.until(lambda row: row.planned_chunks == 1).active_chunks == 1
        place.cancel(0)
        assert place.until(lambda row: row.planned_chunks == 2).active_chunks == 1


@pytest.mark.parametrize("priority", [0, 7])
def test_the_priority_of_a_backfill_is_that_of_its_tasks(priority: int) -> None:
    with led() as place:
        place.tell(created(priority=priority))
        _ = place.until(lambda row: row.planned_chunks == 2)
        rows = place.service.engine.state.tasks.values()
        assert [row.priority for row in rows] == [priority, priority]


def test_a_pass_goes_on_after_a_refusal_though_its_time_stands_still() -> None:
    place = Place()
    try:
        place.tell(QuotaSet(max_tasks_per_run=2))
        place.tell(created(chunk_size=5))
        now = place.world.clock.now()
        eventually(lambda: not place.triggers.look(now))
        assert (place.row.planned_chunks, place.row.failed_chunks) == (3, 2)
    finally:
        place.triggers.stop()
        place.service.stop()


def test_a_pass_does_not_wait_for_the_day_when_a_backfill_may_go_on() -> None:
    place = Place()
    try:
        place.tell(QuotaSet(max_daily_runs=1))
        place.tell(created())
        now = place.world.clock.now()
        eventually(lambda: not place.triggers.look(now))
        assert place.row.planned_chunks == 1
    finally:
        place.triggers.stop()
        place.service.stop()


def test_an_error_of_any_length_ends_a_chunk() -> None:
    with led() as place:
        place.planner.cannot = set(range(12))
        place.planner.why = "x" * 300_000
        place.tell(created())
        row = place.until(lambda row: row.finished_at is not None)
        assert (row.state, row.partitions_failed) == (BackfillState.FAILED, 12)


def test_a_run_of_a_chunk_goes_back_to_the_creation_of_its_backfill() -> None:
    with led() as place:
        place.tell(created())
        row = place.until(lambda row: row.planned_chunks == 2)
        state = place.service.engine.state
        run = state.runs.rows[state.chunks.rows["bf", 0].run_id or ""]
    assert run.requested_by == "backfill:bf"
    assert run.correlation == row.correlation == row.request_position
    assert run.asset_selection == ("a",)
    assert run.request_text == "backfill bf: chunk 1 of 12"
