"""The controllers of one leader: what follows from the changes of an entry, in the same entry.

The controllers are pure functions of the state. This module decides which of them run, in which
order and how often, and puts their proposals into the same entry. A proposal is a guarded intent:
the fold may refuse it, and it is proposed again as long as it is due.
"""

from collections.abc import Sequence

from servo.config import Settings
from servo.controllers import anti_entropy, freshness, planning, timers
from servo.controllers.actions import Propose
from servo.controllers.dispatch import IdleWorker, dispatch, hand_over
from servo.controllers.fairness import Fairness
from servo.core.actors import ActorKind, actor
from servo.core.events.codec import encode_batch
from servo.core.events.dispatch import DispatchRequested, Handover
from servo.core.events.envelope import Answer, Batch, Event, Status
from servo.core.events.runs import PlanFailed, PlanSegmentExpanded
from servo.core.fold.latest import partitions_of
from servo.core.fold.quotas import lane_weight
from servo.core.plan import chosen_checks, input_partitions
from servo.core.state.rows.assets import PartitionStatusRow
from servo.core.state.rows.execution import TaskRow
from servo.core.tags import is_isolated
from servo.errors import Corrupt, Invalid, NotFound, Unavailable
from servo.leader.assignments import Assignment
from servo.leader.draft import Draft
from servo.leader.heartbeats import Heartbeats
from servo.leader.inputs import Published, inputs_of, not_in_memory
from servo.leader.ports import Ports
from servo.leader.takeover import Leadership
from servo.leader.workers import Workers
from servo.projection.read.hydration import Hydrator

CONTROLLER = actor(ActorKind.LEADER, "controller")
MAX_ROUNDS = 4


class Controllers:
    """The controllers of one term."""

    def __init__(
        self,
        ports: Ports,
        settings: Settings,
        leadership: Leadership,
        hydrator: Hydrator,
        heartbeats: Heartbeats,
        workers: Workers,
    ) -> None:
        self._ports = ports
        self._settings = settings
        self._state = leadership.state
        self._owner = leadership.owner
        self._hydrator = hydrator
        self._heartbeats = heartbeats
        self._workers = workers
        self._fairness = Fairness()
        self._proposed = 0
        self.next_sweep = self._state.ts

    def reconcile(self, draft: Draft) -> None:
        """Let the controllers add to the entry what follows from what it changed."""
        for _ in range(MAX_ROUNDS):
            mark = len(self._state.journal)
            for control in (self._plan, self._time, self._sweep, self._dispatch):
                control(draft)
            if len(self._state.journal) == mark:
                break

    def _plan(self, draft: Draft) -> None:
        """Admit runs and expand one segment; an entry holds at most one segment."""
        if draft.planned:
            return
        draft.planned = bool(self._state.index.runs_expanding)
        for action in planning.reconcile(self._state):
            for event in action.events:
                if isinstance(event, PlanSegmentExpanded) and not self._load_segment(event, draft):
                    return
            self._propose(draft, action)

    def _load_segment(self, event: PlanSegmentExpanded, draft: Draft) -> bool:
        """Fetch a stored segment; fail the run if its plan is missing or damaged."""
        probe = Batch(id="probe", events=(event,))
        try:
            self._hydrator.prepare(self._state, (probe,))
        except Unavailable:
            return False
        except (NotFound, Corrupt, Invalid) as error:
            self._propose(draft, Propose((PlanFailed(run_id=event.run_id, error=str(error)),)))
            return False
        return True

    def _time(self, draft: Draft) -> None:
        now = self._state.ts
        for action in (*timers.reconcile(self._state, now), *freshness.reconcile(self._state, now)):
            self._propose(draft, action)

    def _sweep(self, draft: Draft) -> None:
        if self._state.ts < self.next_sweep:
            return
        self.next_sweep = self._state.ts + self._settings.sweep_every
        beats = self._heartbeats.current()
        for action in anti_entropy.reconcile(self._state, self._state.ts, beats):
            self._propose(draft, action)
        for action in timers.expire_parked(self._state, self._state.ts):
            self._propose(draft, action)

    def _dispatch(self, draft: Draft) -> None:
        if not self._state.index.ready_count:
            return
        idle = self._idle(draft)
        if idle:
            self._hand_over(draft, idle)
        if self._ports.queue is not None:
            actions, self._fairness = dispatch(self._state, self._fairness)
            _ = self._propose_all(draft, actions)

    def _hand_over(self, draft: Draft, idle: Sequence[IdleWorker]) -> None:
        """Grant tasks to workers; later, if their inputs cannot be read now."""
        actions, fairness = hand_over(self._state, idle, self._fairness)
        events = [event for action in actions for event in action.events]
        try:
            published = self._published_inputs([row for row, _ in self._granted(events)])
        except (Unavailable, NotFound):
            return
        self._fairness = fairness
        for row, handover in self._granted(self._propose_all(draft, actions)):
            self._note(draft, row, handover, published)

    def _granted(self, events: Sequence[Event]) -> list[tuple[TaskRow, Handover]]:
        """The tasks granted to workers; they are assigned once the grants are durable."""
        return [
            (self._state.tasks.rows[event.run_id, event.task_key], event.handover)
            for event in events
            if isinstance(event, DispatchRequested) and event.handover is not None
        ]

    def _idle(self, draft: Draft) -> list[IdleWorker]:
        """Idle workers, without those that already get a task by this entry."""
        busy = {assignment.worker_id for assignment in draft.assignments}
        taken = {assignment.exec_id for assignment in draft.assignments}
        return [
            worker
            for worker in self._workers.idle()
            if (worker.exec_id not in taken if worker.one_of_many else worker.worker_id not in busy)
        ]

    def _propose_all(self, draft: Draft, actions: Sequence[Propose]) -> list[Event]:
        """Propose events together, or one by one if they do not apply; the events that applied."""
        applied: list[Event] = []
        for action in actions:
            if self._propose(draft, action).applied:
                applied += action.events
            elif len(action.events) > 1:
                alone = [Propose((event,)) for event in action.events]
                applied += self._propose_all(draft, alone)
        return applied

    def _published_inputs(self, tasks: Sequence[TaskRow]) -> Published:
        """The input partitions of tasks that have left memory."""
        places = not_in_memory(self._state, tasks)
        if not places:
            return {}
        rows = self._hydrator.cold.fetch(self._hydrator.manifest, "partition_status", places)
        found = [row for row in rows if isinstance(row, PartitionStatusRow)]
        return {(row.asset_key, row.partition_key): row for row in found}

    def _note(self, draft: Draft, row: TaskRow, handover: Handover, published: Published) -> None:
        labels = self._state.runs.rows[row.run_id].labels
        draft.assignments.append(
            Assignment(
                worker_id=handover.worker_id,
                exec_id=handover.exec_id,
                run_id=row.run_id,
                task_key=row.task_key,
                attempt=row.attempt,
                attempt_id=row.attempt_id,
                fencing_token=row.fencing_token,
                failures=row.user_failures,
                asset_key=row.asset_key,
                also_makes=row.also_makes,
                partitions=partitions_of(row),
                input_partitions=input_partitions(row.tags) if row.tags else {},
                inputs=inputs_of(self._state, row, published),
                run_tags=labels,
                isolated=is_isolated(row.tags, labels),
                operation=row.operation,
                checks=chosen_checks(row.tags) if row.tags else None,
                lane=row.lane,
                weight=lane_weight(self._state, row.lane),
            )
        )

    def _propose(self, draft: Draft, action: Propose) -> Answer:
        batch = self.batch_of(action)
        try:
            self._hydrator.prepare(self._state, (batch,))
        except (Unavailable, NotFound) as error:  # it is proposed again as long as it is due
            return Answer(status=Status.REJECTED, seq=self._state.seq, reason=str(error))
        return draft.fold(batch, encode_batch(batch))

    def batch_of(self, action: Propose) -> Batch:
        """The proposal of a controller as a batch with a new id."""
        self._proposed += 1
        name = f"{self._owner[:16]}-{self._state.seq}-{self._proposed}"
        return Batch(id=name, events=action.events, actor=CONTROLLER)
