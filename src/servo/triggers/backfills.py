"""Backfills: an evaluator plans their chunks, and each chunk is committed together with its run.

Planning needs user code and happens ahead of time, many chunks at once, so that the end of a run
starts the next one in the same ledger entry. A chunk is committed only when it is the next one, and
only if its backfill has not changed since it was read. Planned chunks that have to wait, because
the backfill is paused, are kept until the code changes.

A chunk that cannot be planned is committed too, with a run that failed for that reason: it ends as
a failed chunk, can be retried, and does not block the other chunks.
"""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future
from datetime import datetime, timedelta

import msgspec

from servo.code.backfills.chunks import chunk_head, chunk_run, frozen_partitions
from servo.code.evaluator.messages import Evaluated, EvaluatedMany, PlanChunks
from servo.code.evaluator.plan_store import PlanStore
from servo.controllers.backfills import NextChunks, ahead, reconcile
from servo.core.actors import ActorKind, Origin, actor
from servo.core.events.envelope import Answer, Event
from servo.core.events.runs import PlanCreated, PlanFailed, RunRequested
from servo.core.plan import Plan
from servo.core.state.rows.automation import BackfillRow
from servo.core.state.state import State
from servo.errors import Invalid, ServoError
from servo.triggers.host import MOST_SAID, TriggerContext
from servo.workspace.origins import origin_of

PLAN_SECONDS = 120.0
MOST_AT_ONCE = 64
PARTITIONS_AT_ONCE = 2_000
STRIKES = 3
"""After this many failures of the evaluator in a row, the chunk itself counts as the cause."""
SOON, LATER = timedelta(milliseconds=100), timedelta(seconds=2)

# A chunk that is refused for one of these reasons is retried after the pause; a chunk that is
# refused for any other reason would never succeed.
_ANOTHER_TIME = {
    "backfill_not_running": SOON,
    "state_version_changed": SOON,
    "not_the_next_chunk": SOON,
    "chunk_already_planned": SOON,
    "too_many": SOON,
    "quota: no free": SOON,
    "quota: no more runs today": LATER,
    "unknown_backfill": LATER,
    "run_key_in_use": LATER,
}


def _origin(row: BackfillRow) -> Origin:
    """The backfill is the actor of its chunks, and its creation is their cause."""
    return origin_of(actor(ActorKind.BACKFILL, row.backfill_id), row)


class PlannedChunk(msgspec.Struct, frozen=True, kw_only=True):
    """A chunk with its plan, or with the reason why it cannot be planned."""

    requested: RunRequested
    planned: PlanCreated | PlanFailed


class BackfillProgress:
    """The chunks of a backfill that this process has planned ahead and sent."""

    def __init__(self, generation: int) -> None:
        self.generation = generation
        self.drafts: dict[int, PlannedChunk] = {}
        self.sent = 0
        self.paused_at: datetime | None = None
        self.pause = SOON
        self.strikes = 0
        self.alone = False

    def waits_until(self, now: datetime) -> datetime | None:
        """When its pause ends; None if it has ended, or the clock was set back since."""
        if self.paused_at is None or not self.paused_at <= now < self.paused_at + self.pause:
            return None
        return self.paused_at + self.pause


class Backfills:
    """The backfills of a workspace."""

    def __init__(self, context: TriggerContext, records: Callable[[], PlanStore]) -> None:
        self._context = context
        self._records = records
        self._works: dict[str, BackfillProgress] = {}
        self._lock = threading.Lock()

    def look(self, state: State, now: datetime) -> bool:
        """Commit the chunks that are next, and plan more ahead."""
        del now  # a backfill is never due at a certain time
        self._tidy(state)
        with self._lock:
            sent = {name: work.sent for name, work in self._works.items()}
        begun = False
        for found in reconcile(state, sent, self._context.has):
            begun |= self._commit(found)
        for name in list(state.index.backfills_open):
            begun |= self._plan_ahead(state.backfills.rows.get(name), sent)
        return begun or self._in_flight(state) or self._goes_on_soon()

    def next_due(self) -> datetime | None:
        """When to retry what was refused; every other change is announced by the leader."""
        now = self._context.now()
        with self._lock:
            waits = [work.waits_until(now) for work in self._works.values()]
        return min((at for at in waits if at is not None), default=None)

    def again(self) -> None:
        """Do nothing: a backfill has no interval, and every change makes it look."""

    def _goes_on_soon(self) -> bool:
        """Whether something was refused that will be retried soon."""
        now = self._context.now()
        with self._lock:
            works = list(self._works.values())
        return any(work.pause is SOON and work.waits_until(now) for work in works)

    def _in_flight(self, state: State) -> bool:
        rows = state.backfills.rows
        with self._lock:
            return any(
                name in rows and work.sent > rows[name].planned_chunks
                for name, work in self._works.items()
            )

    def _tidy(self, state: State) -> None:
        """Forget backfills that have ended, and plans made by code that has changed."""
        generation = self._context.evaluators.generation
        with self._lock:
            for name in [name for name in self._works if name not in state.index.backfills_open]:
                del self._works[name]
            for name, work in self._works.items():
                row = state.backfills.rows[name]
                if work.generation != generation:
                    work.generation, work.strikes, work.alone = generation, 0, False
                    work.drafts.clear()
                for index in [n for n in work.drafts if n < row.planned_chunks]:
                    del work.drafts[index]

    def _work(self, row: BackfillRow) -> BackfillProgress:
        return self._works.setdefault(
            row.backfill_id, BackfillProgress(self._context.evaluators.generation)
        )

    # --- committing ---------------------------------------------------------------------------

    def _commit(self, found: NextChunks) -> bool:
        """Send the next chunks in order, as far as they are planned."""
        row, now = found.backfill, self._context.now()
        with self._lock:
            work = self._work(row)
            if work.waits_until(now) is not None:
                return False
            work.paused_at = None
            ready: list[tuple[int, PlannedChunk]] = []
            for index in range(found.first, found.stop):
                if index not in work.drafts:
                    break
                ready.append((index, work.drafts[index]))
            work.sent = max(work.sent, found.first + len(ready))
        for index, draft in ready:
            self._send(row, index, draft)
        return bool(ready)

    def _send(self, row: BackfillRow, index: int, draft: PlannedChunk) -> None:
        events: Sequence[Event] = (
            chunk_head(row, index, draft.requested),
            draft.requested,
            draft.planned,
        )
        try:
            future = self._context.submit("chunk", events, _origin(row))
        except Invalid as error:
            self._refused(row, index, draft, str(error))
            return
        except ServoError as error:
            self._wait(row, LATER, str(error))
            return
        future.add_done_callback(lambda done: self._answered(row, index, draft, done))

    def _answered(
        self, row: BackfillRow, index: int, draft: PlannedChunk, done: "Future[Answer]"
    ) -> None:
        """Handle the answer to a chunk that was sent; runs on the leader's thread."""
        try:
            answer = done.result()
        except (ServoError, CancelledError) as error:
            self._wait(row, LATER, str(error))
            return
        if not answer.applied:
            self._refused(row, index, draft, answer.reason)

    def _refused(self, row: BackfillRow, index: int, draft: PlannedChunk, reason: str) -> None:
        """Retry later if that can help; otherwise record a failed chunk."""
        for known, pause in _ANOTHER_TIME.items():
            if reason.startswith(known):
                self._wait(row, pause, reason if pause is LATER else "")
                return
        if isinstance(draft.planned, PlanFailed):
            self._wait(row, LATER, reason)
            return
        failed = PlanFailed(run_id=draft.requested.run_id, error=f"refused: {reason}"[:MOST_SAID])
        with self._lock:
            self._work(row).drafts[index] = msgspec.structs.replace(draft, planned=failed)
        self._wait(row, SOON, "")

    def _wait(self, row: BackfillRow, pause: timedelta, why: str) -> None:
        """Pause work on a backfill for a while, then continue from its current state."""
        if why:
            self._context.say(f"backfill {row.backfill_id}: {why}")
        with self._lock:
            work = self._work(row)
            work.sent = 0
            work.paused_at, work.pause = self._context.now(), pause
        self._context.on_change()

    # --- planning -----------------------------------------------------------------------------

    def _plan_ahead(self, row: BackfillRow | None, sent: dict[str, int]) -> bool:
        """Plan more chunks if few planned ones are left."""
        if row is None or not self._context.has(row.location):
            return False
        most = max(1, min(MOST_AT_ONCE, PARTITIONS_AT_ONCE // row.chunk_size))
        with self._lock:
            work = self._work(row)
            first = max(row.planned_chunks, sent.get(row.backfill_id, 0))
            planned = [n for n in ahead(row, first, 2 * most) if n in work.drafts]
            missing = [n for n in ahead(row, first, 2 * most) if n not in work.drafts]
            if not missing or len(planned) > most // 2 + row.max_concurrent_runs:
                return False
            # Plan the first ones alone, so that something runs while the others are planned.
            count = min(most, row.max_concurrent_runs) if not planned else most
            asked = tuple(missing[: 1 if work.alone else count])
        name = f"backfill {row.backfill_id}"
        return self._context.begin(name, lambda: self._plan(row, work, asked))

    def _plan(self, row: BackfillRow, work: BackfillProgress, chunks: tuple[int, ...]) -> None:
        """Ask an evaluator for the plans of some chunks; runs on a thread that may wait."""
        generation = self._context.evaluators.generation
        answer = self._context.evaluators.ask(PlanChunks(backfill=row, chunks=chunks), PLAN_SECONDS)
        if isinstance(answer, EvaluatedMany):
            answers: Sequence[Evaluated] = answer.answers
            work.strikes, work.alone = 0, False
        else:
            work.strikes += 1
            if len(chunks) > 1 and work.strikes <= STRIKES:
                work.alone = True  # find out which chunk is at fault
                return
            work.alone = work.strikes < STRIKES
            answers = [Evaluated(error=answer.error)] * len(chunks)
        drafts = [self._draft(row, n, one) for n, one in zip(chunks, answers, strict=True)]
        with self._lock:
            if generation == self._context.evaluators.generation:
                work.drafts.update(zip(chunks, drafts, strict=True))

    def _draft(self, row: BackfillRow, index: int, answer: Evaluated) -> PlannedChunk:
        if answer.runs:
            found = answer.runs[0]
            return PlannedChunk(requested=found.requested, planned=found.planned)
        records = self._records()
        keys = frozen_partitions(records.store, records.paths, row)
        requested, _ = chunk_run(records, row, index, Plan(), keys)
        return PlannedChunk(
            requested=requested,
            planned=PlanFailed(run_id=requested.run_id, error=answer.error[:MOST_SAID]),
        )
