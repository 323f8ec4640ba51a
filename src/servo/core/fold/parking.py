"""Batches that arrived before the run they are about.

Only producers that get no answer have their batches parked: all others get a rejection and retry. A
parked batch waits for its run to be planned, at most a day and at most a thousand for one run; then
it becomes a dead letter.
"""

from collections.abc import Iterable, Mapping

import msgspec
from msgspec.structs import replace

from servo.core.events.codec import decode_batch
from servo.core.events.envelope import Batch, Event, UnknownEvent
from servo.core.events.parking import ParkedBatchExpired
from servo.core.events.runs import PlanCreated
from servo.core.fold.context import Ctx, FoldRule, FurtherNeedsTable, NeedsTable, Rejected
from servo.core.fold.limits import FOLD_VERSION, MAX_PARKED_PER_RUN, PARK_FOR
from servo.core.positions import Position
from servo.core.state.rows.system import DeadLetterRow, ParkedBatchRow
from servo.core.state.state import State

RELEASED = 1_000_000
"""From here on batches are counted that an entry released, and that stand in another."""


def park(state: State, batch: Batch, refusal: Rejected, first_index: int) -> bool:
    """Keep a batch until its run is planned; False if there are too many for that run."""
    if batch.id in state.parked:
        return True
    if len(state.index.parked.get(refusal.waits_for, ())) >= MAX_PARKED_PER_RUN:
        return False
    row = ParkedBatchRow(
        batch_id=batch.id,
        waits_for_run_id=refusal.waits_for,
        reason=refusal.reason,
        batch=to_text(batch),
        parked_at=state.ts,
        expires_at=state.ts + PARK_FOR,
        first_index=first_index,
        row_version=state.seq,
    )
    state.parked.put(batch.id, row)
    return True


def _rows(state: State, planned: Batch) -> list[ParkedBatchRow]:
    runs = dict.fromkeys(e.run_id for e in planned.events if isinstance(e, PlanCreated))
    return [
        state.parked.rows[batch_id]
        for run_id in runs
        for batch_id in state.index.parked.get(run_id, ())
    ]


def _batch(row: ParkedBatchRow) -> Batch:
    return replace(decode_batch(row.batch.encode()), parkable=True)


def waiting(state: State, planned: Batch) -> list[Batch]:
    """What waits for the runs that a batch plans, in the order it came."""
    return [_batch(row) for row in _rows(state, planned)]


def release(state: State, planned: Batch) -> list[tuple[Batch, Position]]:
    """Take out what waited for the runs that a batch planned, in the order it came.

    With the position at which each was written.
    """
    released = _rows(state, planned)
    for row in released:
        state.parked.drop(row.batch_id)
    return [(_batch(row), Position(row.row_version, row.first_index)) for row in released]


def batch_index(state: State) -> int:
    """Where a batch stands in the index that is not in the entry itself, but was released by it."""
    return RELEASED + len(state.journal)


def to_text(batch: Batch) -> str:
    """A batch as JSON text, with events this version does not know as they came."""
    events = [
        msgspec.Raw(event.raw) if isinstance(event, UnknownEvent) else event
        for event in batch.events
    ]
    fields = {"id": batch.id, "key": batch.request_id, "actor": batch.actor}
    origin = {name: getattr(batch, name) for name in ("correlation", "cause")}
    said = {name: text for name, text in origin.items() if text}
    whole = {**fields, "sent_at": batch.sent_at, **said, "events": events}
    return msgspec.json.encode(whole).decode()


def _on_expired(state: State, event: ParkedBatchExpired, ctx: Ctx) -> None:
    del ctx
    row = state.parked.rows.get(event.batch_id)
    if row is None or row.expires_at > state.ts:
        raise Rejected("the batch is not parked, or its time has not expired")
    state.parked.drop(event.batch_id)
    if event.batch_id in state.dead_letter:
        return
    state.dead_letter.put(
        event.batch_id,
        DeadLetterRow(
            batch_id=event.batch_id,
            seq=state.seq,
            reason=f"expired while waiting: {row.reason}",
            error="",
            fold_version=FOLD_VERSION,
            batch=row.batch,
            recorded_at=state.ts,
            row_version=state.seq,
        ),
    )


def _needs_letter(event: ParkedBatchExpired) -> Iterable[tuple[str, object]]:
    return (("dead_letter", event.batch_id),)


RULES: Mapping[type[Event], FoldRule] = {ParkedBatchExpired: _on_expired}
NEEDS: NeedsTable = {ParkedBatchExpired: _needs_letter}
FURTHER_NEEDS: FurtherNeedsTable = {}
