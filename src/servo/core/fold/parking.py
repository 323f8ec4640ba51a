"""Batches that arrived before the run they are about.

Only producers that get no answer have their batches parked: all others get a rejection and retry. A
parked batch waits until its run is requested, planned or active, whichever it needs: at most a day,
and at most a thousand for one run. Then it becomes a dead letter.
"""

from collections.abc import Iterable, Mapping
from typing import assert_never

from msgspec.structs import replace

from servo.core.events.codec import decode_batch
from servo.core.events.envelope import Batch, Event, Status, Verdict, WaitsUntil
from servo.core.events.parking import ParkedBatchExpired
from servo.core.events.runs import (
    PlanCreated,
    PlanSegmentExpanded,
    RunAdmitted,
    RunRequested,
)
from servo.core.fold.context import Ctx, FoldRule, FurtherNeedsTable, NeedsTable, Rejected
from servo.core.fold.letters import bury, letter_key, to_text
from servo.core.fold.limits import MAX_PARKED_PER_RUN, PARK_FOR
from servo.core.positions import Position
from servo.core.state.rows.system import ParkedBatchRow
from servo.core.state.state import State
from servo.core.state.states import TERMINAL_RUN_STATES

WAITED_IN_VAIN = "expired_while_waiting"
RELEASED = 1_000_000
"""From here on batches are counted that an entry released, and that stand in another."""


def refusal(state: State, batch: Batch, waits_for: str) -> str:
    """Why a batch cannot wait for a run; empty if it can, or does already."""
    known = state.parked.rows.get(batch.id)
    if known is not None:
        same = _batch(known).events == batch.events
        return "" if same else "batch_id_in_use: another batch with this id waits; use a new id"
    if len(state.index.parked.get(waits_for, ())) >= MAX_PARKED_PER_RUN:
        return f"too_many_parked: {MAX_PARKED_PER_RUN} batches already wait for the run"
    return ""


def park(state: State, batch: Batch, verdict: Verdict, first_index: int) -> None:
    """Keep a batch until its run is there for it."""
    if batch.id in state.parked:
        return
    row = ParkedBatchRow(
        batch_id=batch.id,
        waits_for_run_id=verdict.waits_for,
        waits_until=verdict.waits_until,
        reason=verdict.reason,
        batch=to_text(batch),
        parked_at=state.ts,
        expires_at=state.ts + PARK_FOR,
        first_index=first_index,
        row_version=state.seq,
    )
    state.parked.put(batch.id, row)


def has_come(state: State, run_id: str, until: WaitsUntil) -> bool:
    """Whether a run has become what a batch waits for, or has ended without."""
    run = state.runs.rows.get(run_id)
    if run is None:
        return False
    match until:
        case WaitsUntil.REQUESTED:
            return True
        case WaitsUntil.PLANNED:  # all of its tasks are there
            expanded = run.segments_expanded >= len(run.plan_segments)
            come = bool(run.plan_fingerprint) and expanded
        case WaitsUntil.ACTIVE:
            come = run_id in state.index.runs_active
        case _:
            assert_never(until)
    return come or run.state in TERMINAL_RUN_STATES


def unknown_task(state: State, run_id: str) -> Rejected:
    """The refusal of a fact about a task that is not there: not yet, or not at all."""
    waits_for = "" if has_come(state, run_id, WaitsUntil.PLANNED) else run_id
    return Rejected("unknown_task", waits_for=waits_for, until=WaitsUntil.PLANNED)


_RELEASING = (RunRequested, PlanCreated, PlanSegmentExpanded, RunAdmitted)
"""The events by which a run becomes what a batch can wait for."""


def _rows(state: State, batch: Batch) -> list[ParkedBatchRow]:
    runs = dict.fromkeys(e.run_id for e in batch.events if isinstance(e, _RELEASING))
    return [
        state.parked.rows[batch_id]
        for run_id in runs
        for batch_id in state.index.parked.get(run_id, ())
    ]


def _batch(row: ParkedBatchRow) -> Batch:
    return replace(decode_batch(row.batch.encode()), parkable=True)


def waiting(state: State, batch: Batch) -> list[Batch]:
    """What a batch may release, in the order it came."""
    return [_batch(row) for row in _rows(state, batch)]


def release(state: State, batch: Batch) -> list[tuple[Batch, Position]]:
    """Take out what waited for what a batch did to its runs, in the order it came.

    With the position at which each was written.
    """
    released = [
        row for row in _rows(state, batch) if has_come(state, row.waits_for_run_id, row.waits_until)
    ]
    for row in released:
        state.parked.drop(row.batch_id)
    return [(_batch(row), Position(row.row_version, row.first_index)) for row in released]


def batch_index(state: State) -> int:
    """Where a batch stands in the index that is not in the entry itself, but was released by it."""
    return RELEASED + len(state.journal)


def _on_expired(state: State, event: ParkedBatchExpired, ctx: Ctx) -> None:
    del ctx
    row = state.parked.rows.get(event.batch_id)
    if row is None or row.expires_at > state.ts:
        raise Rejected("the batch is not parked, or its time has not expired")
    state.parked.drop(event.batch_id)
    reason = f"{WAITED_IN_VAIN}: {row.reason}"
    verdict = Verdict(status=Status.REJECTED, code=WAITED_IN_VAIN, reason=reason)
    bury(state, _batch(row), verdict)


def _needs_letter(state: State, event: ParkedBatchExpired) -> Iterable[tuple[str, object]]:
    row = state.parked.rows.get(event.batch_id)
    return () if row is None else (("dead_letter", letter_key(_batch(row))),)


RULES: Mapping[type[Event], FoldRule] = {ParkedBatchExpired: _on_expired}
NEEDS: NeedsTable = {}
FURTHER_NEEDS: FurtherNeedsTable = {ParkedBatchExpired: _needs_letter}
