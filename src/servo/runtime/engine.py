"""The leader of one workspace: sequencer, fold, controllers and effects in one loop.

A step takes what callers left, folds it onto the state, lets the controllers add what follows
from it, and writes one ledger entry. Only when that entry is durable are callers answered and
effects performed. So a finished task, the readiness of the next one and its grant to an idle
worker cost one durable write.

**Who may race.** Other processes that believe they lead. The ledger slot decides (see
`servo.ledger.slots`): who loses one is fenced and stops. An answer that needs no write (a refusal,
a repetition) is given only after looking whether somebody else has claimed the workspace, because
a leader that was replaced does not know what its successor knows.

**What a crash leaves** after each line of `_commit`: before the write, nothing, and callers try
again. During the write, an entry or not; the successor reads the slot. After it, an entry that
the successor folds; callers try again and get the same answer, effects are found undone in the
state (an outbox row that is pending, a lease that nobody renews) and done again.

**When the store says no for certain** (a full disk) the fold is taken back, callers are told, and
the loop goes on. When it cannot say, the leader stops: it must not guess.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec
from msgspec.structs import replace

from servo.config import Settings
from servo.controllers import anti_entropy, freshness, planning, timers
from servo.controllers.actions import Propose
from servo.controllers.dispatch import IdleWorker, dispatch, hand_over
from servo.controllers.fairness import Fairness
from servo.core.events.codec import encode_batch
from servo.core.events.dispatch import DispatchRequested, Handover
from servo.core.events.envelope import Answer, Batch, Entry, Event, Status
from servo.core.events.runs import PlanFailed, PlanSegmentExpanded
from servo.core.fold.apply import apply_batch, open_entry
from servo.core.fold.limits import FOLD_VERSION
from servo.core.state.rows.assets import PartitionStatusRow
from servo.core.state.rows.execution import TaskRow
from servo.core.state.state import State
from servo.core.tags import is_isolated
from servo.errors import Corrupt, Invalid, NotFound, ServoError, Unavailable
from servo.ledger.paths import Paths
from servo.ledger.writer import LedgerWriter
from servo.runtime.execute import Executor
from servo.runtime.heartbeats import Heartbeats
from servo.runtime.inbox import InboxFeed
from servo.runtime.inputs import Published, inputs_of, not_in_memory
from servo.runtime.maintenance import Maintenance
from servo.runtime.ownership import Ownership
from servo.runtime.ports import Ports
from servo.runtime.requests import Inbox, Reply, Request
from servo.runtime.takeover import Leadership
from servo.runtime.term import TICK, TermClock
from servo.runtime.workers import Assignment, NoWorkers, Workers

CONTROLLER = "controller"
MAX_ROUNDS = 4


class _Position(msgspec.Struct, frozen=True):
    """Where the state stood before an entry was opened."""

    seq: int
    epoch: int
    ts: datetime


class _Draft:
    """An entry in the making: encoded batches, whom to answer, what to do once it is durable."""

    def __init__(self) -> None:
        self.batches: list[bytes] = []
        self.replies: list[tuple[Reply, Answer]] = []
        self.assignments: list[Assignment] = []
        self.waiting: list[Request] = []
        self.planned = False


class Engine:
    """Leads one workspace from a takeover until it is fenced, stopped or cannot go on."""

    def __init__(
        self,
        ports: Ports,
        paths: Paths,
        settings: Settings,
        leadership: Leadership,
        *,
        workers: Workers | None = None,
    ) -> None:
        self.ports = ports
        self.settings = settings
        self.state: State = leadership.state
        self.inbox = Inbox()
        self.clock = TermClock(
            ports.clock,
            self.state.ts,
            settings.stall_after,
            fenced_at=leadership.confirmed_at,
        )
        self.ownership = Ownership(ports, paths, leadership)
        self.maintenance = Maintenance(ports, paths, settings, leadership)
        self.heartbeats = Heartbeats(self.state)
        self.feed = InboxFeed(ports.store, paths)
        self._epoch = leadership.epoch
        self._owner = leadership.owner
        self._writer = LedgerWriter(ports.store, paths)
        self._hydrator = self.maintenance.hydrator
        self._executor = Executor(ports, paths)
        self._workers = workers if workers is not None else NoWorkers()
        self._fairness = Fairness()
        self._stalled = False
        # Since the fence, which gave every lease its time: we may have been stopped right after it.
        self._last_step = leadership.confirmed_at
        self._next_sweep = self.clock.now()
        self._next_inbox = self._next_sweep
        self._next_show = self._next_sweep
        self._proposed = 0
        self._taken: list[Request] = []

    # --- the loop ---------------------------------------------------------------------------

    def step(self) -> bool:
        """Do what is to be done now; whether anything was. Raises when this leader is over."""
        now = self.clock.now()
        self._notice_stall()
        self._answer_beats(now)
        self._taken = self._take_requests(now)
        committed = self._cycle(self._taken, now)
        self._taken = []
        self._perform_effects()
        self._show_beats(now)
        self.maintenance.step(self.state, self.clock.now())
        self._take_proposals()
        return committed

    def next_due(self) -> datetime | None:
        """When the loop has to run again although nobody asked; None if only a caller can."""
        due = [
            timers.next_due(self.state),
            freshness.next_due(self.state),
            self.maintenance.next_due(self.state),
        ]
        if self.state.index.active or self.state.parked.rows:
            due.append(self._next_sweep)
        if self.state.index.runs_expanding:
            due.append(self.clock.now())
        return min((at for at in due if at is not None), default=None)

    def _notice_stall(self) -> None:
        """Silence of this loop must not look like silence of the workers."""
        current = self.clock.monotonic()
        silence = timedelta(seconds=current - self._last_step)
        self._last_step = current
        if self.state.index.active and silence > self.settings.stall_after:
            self._stalled = True
        if self.clock.jumped:
            self.clock.jumped = False
            self._stalled = True

    def _answer_beats(self, now: datetime) -> None:
        if not self.inbox.beats:
            return
        try:
            self.ownership.confirm_within(self.heartbeats.shortest_lease(self.inbox.beats) / 3)
        except Unavailable as error:
            self._drop_beats(error)
            return
        self.heartbeats.answer(self.inbox.beats, now)

    def _show_beats(self, now: datetime) -> None:
        if now >= self._next_show:
            self._next_show = now + self.settings.show_beats_every
            self.heartbeats.show()

    def _drop_beats(self, error: ServoError) -> None:
        while self.inbox.beats:
            self.inbox.beats.popleft().reply(error)

    def _take_requests(self, now: datetime) -> list[Request]:
        if now >= self._next_inbox:
            self._next_inbox = now + self.settings.inbox_every
            for item in self.feed.collect():
                self.inbox.put(item)
        taken = self.inbox.drain(
            max_batches=self.settings.max_batches_per_entry,
            max_bytes=self.settings.max_entry_bytes,
        )
        if not self.maintenance.behind:
            return taken
        return [item for item in taken if not self._push_back(item)]

    def _push_back(self, item: Request) -> bool:
        """Refuse new work while publishing is behind; never what a worker reports."""
        if not item.trigger or item.batch.parkable:
            return False
        item.reply(
            Unavailable(
                "publishing is behind and new runs have to wait",
                remedy="retry after a second",
                may_have_applied=False,
            )
        )
        return True

    # --- one entry --------------------------------------------------------------------------

    def _cycle(self, requests: Sequence[Request], now: datetime) -> bool:
        before = _Position(self.state.seq, self.state.epoch, self.state.ts)
        draft = _Draft()
        draft.waiting.extend(requests)
        try:
            batches = [item.batch for item in requests]
            wrong = self._hydrator.prepare(self.state, batches, lenient=True)
        except (Unavailable, NotFound) as error:
            self._tell(draft, error)
            return False
        stalled, self._stalled = self._stalled, False
        open_entry(
            self.state,
            seq=before.seq + 1,
            epoch=self._epoch,
            ts=max(now, before.ts + TICK),
            stall=stalled,
        )
        for item in requests:
            answer = self._take(draft, item, wrong.get(item.batch.id))
            draft.replies.append((item.reply, answer))
        self._reconcile(draft)
        if not self.state.journal:
            self._stand_still(before, draft)
            self._stalled = stalled
            return False
        self._commit(before, draft, stalled=stalled)
        self.state.forget_loaded()
        return True

    def _take(self, draft: _Draft, item: Request, wrong: str | None) -> Answer:
        """Fold what came in; what names something that is not stored is refused, or set aside."""
        if wrong is None:
            return self._fold(draft, item.batch, item.raw)
        if not item.batch.parkable:
            return Answer(status=Status.REJECTED, seq=self.state.seq, reason=f"not_stored: {wrong}")
        aside = replace(item.batch, quarantined=wrong)
        return self._fold(draft, aside, encode_batch(aside))

    def _fold(self, draft: _Draft, batch: Batch, raw: bytes) -> Answer:
        """Fold a batch; it becomes part of the entry if it changed anything."""
        mark = len(self.state.journal)
        answer = apply_batch(self.state, batch, len(draft.batches))
        if len(self.state.journal) > mark:
            if answer.status is Status.QUARANTINED and not batch.quarantined:
                raw = encode_batch(replace(batch, quarantined=answer.reason or "unknown"))
            draft.batches.append(raw)
        return answer

    def _stand_still(self, before: _Position, draft: _Draft) -> None:
        """Nothing changed: answer without a write, if we still lead."""
        self._restore(before)
        if not draft.replies:
            return
        try:
            self.ownership.confirm()
        except ServoError as error:
            self._tell(draft, error)
            if not isinstance(error, Unavailable):
                raise
            return
        for reply, answer in draft.replies:
            reply(replace(answer, seq=before.seq) if answer.seq > before.seq else answer)

    def _commit(self, before: _Position, draft: _Draft, *, stalled: bool) -> None:
        state = self.state
        entry = Entry(
            seq=state.seq,
            epoch=self._epoch,
            owner=self._owner,
            nonce=self.ports.nonce(),
            ts=state.ts,
            prev_hash=state.last_hash,
            fold_version=FOLD_VERSION,
            stall=stalled,
        )
        issued = self.clock.monotonic()
        try:
            digest = self._writer.append(entry, draft.batches)
            self.ownership.wrote(issued, self.settings.gc_min_age / 2)
        except Unavailable as error:
            self._tell(draft, error)
            if error.may_have_applied:
                raise
            state.rollback(0)
            self._restore(before)
            self._stalled = stalled
            return
        except ServoError as error:
            self._tell(draft, error)
            raise
        state.seal()
        state.last_hash = digest
        for reply, answer in draft.replies:
            reply(answer)
        for assignment in draft.assignments:
            self._workers.assign(assignment)

    def _restore(self, before: _Position) -> None:
        self.state.seq, self.state.epoch, self.state.ts = before.seq, before.epoch, before.ts

    @staticmethod
    def _tell(draft: _Draft, error: ServoError) -> None:
        for item in draft.waiting:
            item.reply(error)

    # --- controllers ------------------------------------------------------------------------

    def _reconcile(self, draft: _Draft) -> None:
        """Let the controllers add to the entry what follows from what it changed."""
        for _ in range(MAX_ROUNDS):
            mark = len(self.state.journal)
            for control in (self._plan, self._time, self._sweep, self._dispatch):
                control(draft)
            if len(self.state.journal) == mark:
                break

    def _plan(self, draft: _Draft) -> None:
        """Admit runs and expand a segment, once an entry: a segment is as much as one may take."""
        if draft.planned:
            return
        draft.planned = bool(self.state.index.runs_expanding)
        for action in planning.reconcile(self.state):
            for event in action.events:
                if isinstance(event, PlanSegmentExpanded) and not self._load_segment(event, draft):
                    return
            self._propose(draft, action)

    def _load_segment(self, event: PlanSegmentExpanded, draft: _Draft) -> bool:
        """Fetch a stored segment; a run whose plan is gone or damaged ends here."""
        probe = Batch(id="probe", events=(event,))
        try:
            self._hydrator.prepare(self.state, (probe,))
        except Unavailable:
            return False
        except (NotFound, Corrupt, Invalid) as error:
            self._propose(draft, Propose((PlanFailed(run_id=event.run_id, error=str(error)),)))
            return False
        return True

    def _time(self, draft: _Draft) -> None:
        now = self.state.ts
        for action in (*timers.reconcile(self.state, now), *freshness.reconcile(self.state, now)):
            self._propose(draft, action)

    def _sweep(self, draft: _Draft) -> None:
        if self.state.ts < self._next_sweep:
            return
        self._next_sweep = self.state.ts + self.settings.sweep_every
        beats = self.heartbeats.current()
        for action in anti_entropy.reconcile(self.state, self.state.ts, beats):
            self._propose(draft, action)
        for action in timers.expire_parked(self.state, self.state.ts):
            self._propose(draft, action)

    def _dispatch(self, draft: _Draft) -> None:
        if not self.state.index.ready_count:
            return
        idle = self._idle(draft)
        if idle:
            actions, self._fairness = hand_over(self.state, idle, self._fairness)
            self._assign(draft, self._propose_all(draft, actions))
        if self.ports.queue is not None:
            actions, self._fairness = dispatch(self.state, self._fairness)
            _ = self._propose_all(draft, actions)

    def _idle(self, draft: _Draft) -> list[IdleWorker]:
        """Workers that wait, without those that this entry already gives something."""
        busy = {assignment.worker_id for assignment in draft.assignments}
        taken = {assignment.exec_id for assignment in draft.assignments}
        return [
            worker
            for worker in self._workers.idle()
            if (worker.exec_id not in taken if worker.one_of_many else worker.worker_id not in busy)
        ]

    def _propose_all(self, draft: _Draft, actions: Sequence[Propose]) -> list[Event]:
        """Propose what belongs together; one by one if it does not fit. The events that applied."""
        applied: list[Event] = []
        for action in actions:
            if self._propose(draft, action).applied:
                applied += action.events
            elif len(action.events) > 1:
                alone = [Propose((event,)) for event in action.events]
                applied += self._propose_all(draft, alone)
        return applied

    def _assign(self, draft: _Draft, events: Sequence[Event]) -> None:
        """Note granted executions for the workers, who get them once the grants are durable."""
        granted = [
            (self.state.tasks.rows[event.run_id, event.task_key], event.handover)
            for event in events
            if isinstance(event, DispatchRequested) and event.handover is not None
        ]
        published = self._published_inputs([row for row, _ in granted])
        for row, handover in granted:
            self._note(draft, row, handover, published)

    def _published_inputs(self, tasks: Sequence[TaskRow]) -> Published:
        """The partitions that tasks are given and that have left memory."""
        places = not_in_memory(self.state, tasks)
        if not places:
            return {}
        rows = self._hydrator.cold.fetch(self._hydrator.manifest, "partition_status", places)
        found = [row for row in rows if isinstance(row, PartitionStatusRow)]
        return {(row.asset_key, row.partition_key): row for row in found}

    def _note(self, draft: _Draft, row: TaskRow, handover: Handover, published: Published) -> None:
        labels = self.state.runs.rows[row.run_id].labels
        draft.assignments.append(
            Assignment(
                worker_id=handover.worker_id,
                exec_id=handover.exec_id,
                run_id=row.run_id,
                task_key=row.task_key,
                attempt=row.attempt,
                attempt_id=row.attempt_id,
                fencing_token=row.fencing_token,
                asset_key=row.asset_key,
                also_makes=row.also_makes,
                partition_key=row.partition_key,
                also_partitions=row.also_partitions,
                inputs=inputs_of(self.state, row, published),
                labels=labels,
                isolated=is_isolated(row.tags, labels),
                operation=row.operation,
                tags=row.tags,
            )
        )

    def _propose(self, draft: _Draft, action: Propose) -> Answer:
        self._proposed += 1
        name = f"{self._owner[:16]}-{self.state.seq}-{self._proposed}"
        batch = Batch(id=name, events=action.events, actor=CONTROLLER)
        try:
            self._hydrator.prepare(self.state, (batch,))
        except (Unavailable, NotFound) as error:  # it is proposed again as long as it is due
            return Answer(status=Status.REJECTED, seq=self.state.seq, reason=str(error))
        return self._fold(draft, batch, encode_batch(batch))

    # --- effects ----------------------------------------------------------------------------

    def _perform_effects(self) -> None:
        """Send what the outbox holds and note what the queue took for the next entry."""
        for batch in self._executor.flush(self.state):
            self.inbox.put(
                Request(batch=batch, raw=encode_batch(batch), reply=_nobody, trigger=False)
            )
        self.feed.forget()

    def _take_proposals(self) -> None:
        """Bring what the background found into the next entry."""
        while self.maintenance.proposals:
            self._proposed += 1
            name = f"{self._owner[:16]}-{self.state.seq}-{self._proposed}"
            batch = Batch(id=name, events=(self.maintenance.proposals.pop(0),), actor=CONTROLLER)
            self.inbox.put(
                Request(batch=batch, raw=encode_batch(batch), reply=_nobody, trigger=False)
            )

    def finish(self) -> None:
        """Commit what waits and publish what is not yet published, before leaving."""
        while len(self.inbox):
            self.step()
        self.maintenance.flush(self.state)

    def shut_down(self, why: ServoError) -> None:
        """Tell everyone who still waits that this leader is gone."""
        self._drop_beats(why)
        for item in (*self._taken, *self.inbox.close(why)):
            item.reply(why)


def _nobody(answer: Answer | ServoError) -> None:
    del answer
