"""The fold: entries become rows.

`apply_batch` applies a whole batch or nothing of it; the answer says which. No content of a batch
raises: a batch that does not apply is refused with a reason, one that comes too early is parked if
its producer gets no answer, and one on which a rule fails becomes a dead letter, is marked in the
entry, and never blocks later batches.

A command that changes nothing is remembered too: if it is sent again after the state has changed,
it must not do what it did not do when it was answered.

The ledger alone decides the order, and an entry's time is the only time.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec
from msgspec.structs import replace

from servo.core.events.envelope import (
    RULE_FAILED,
    Answer,
    Batch,
    Entry,
    Event,
    EventKind,
    Status,
    UnknownEvent,
    Verdict,
    WaitsUntil,
    code_of,
)
from servo.core.events.request_hash import request_hash
from servo.core.events.tasks import TaskFinished, TaskStarted
from servo.core.fold import (
    assets,
    automation,
    backfills,
    dispatch,
    freshness,
    parking,
    quotas,
    runs,
    schedules,
    sensors,
    tasks,
    timers,
)
from servo.core.fold.context import (
    Ctx,
    FoldRule,
    FurtherNeedsTable,
    NeedsTable,
    RefusalRule,
    Rejected,
    Repeated,
)
from servo.core.fold.letters import bury, find_letter, letter_key
from servo.core.fold.limits import ANSWERS_KEPT_FOR
from servo.core.positions import parse_position
from servo.core.state.rows.system import IdempotencyKeyRow, LedgerIndexRow
from servo.core.state.state import State
from servo.errors import Corrupt

# Each family has its rules, and two tables of the rows that they look up: see `context`.
_FAMILIES = (
    runs,
    tasks,
    dispatch,
    timers,
    quotas,
    schedules,
    sensors,
    automation,
    backfills,
    assets,
    freshness,
    parking,
)
RULES: Mapping[type[Any], FoldRule] = {
    k: r for family in _FAMILIES for k, r in family.RULES.items()
}
NEEDS: NeedsTable = {k: n for family in _FAMILIES for k, n in family.NEEDS.items()}
FURTHER_NEEDS: FurtherNeedsTable = {
    k: n for family in _FAMILIES for k, n in family.FURTHER_NEEDS.items()
}
REFUSED: Mapping[type[Any], RefusalRule] = sensors.REFUSED
_COMMANDS = frozenset(kind for kind in RULES if kind.KIND is EventKind.COMMAND)

_ONE_NAME: Mapping[type[Any], tuple[str]] = {kind: (kind.__name__,) for kind in RULES}
_REPORTS = (TaskStarted, TaskFinished)
_APPLIED = Status.APPLIED
NO_TIME = timedelta(0)
_EXPIRED = f"expired: the batch was sent more than {ANSWERS_KEPT_FOR.days} days ago"

_CONFLICT = "idempotency_conflict: the key was used for a different request; use a new key"

_encode = msgspec.json.Encoder().encode


def open_entry(state: State, *, seq: int, epoch: int, ts: datetime, stall: bool) -> None:
    """Move the state to a new entry; a new leader or a stall renews every lease."""
    taken_over, silence = epoch > state.epoch, ts - state.ts
    state.seq, state.epoch, state.ts = seq, epoch, ts
    if stall or taken_over:
        tasks.refresh_leases(state, silence if stall else NO_TIME)


def apply_entry(state: State, entry: Entry, digest: str) -> list[Answer]:
    """Replay a stored entry. An entry of an older epoch has no effect except its seq."""
    if entry.seq != state.seq + 1:
        raise Corrupt(
            f"ledger entry {entry.seq} follows entry {state.seq}",
            remedy="restore the missing ledger entries from a backup",
        )
    if entry.prev_hash != state.last_hash:
        raise Corrupt(
            f"ledger entry {entry.seq} does not continue the chain of hashes",
            remedy="restore the entries before it from a backup: one was replaced",
        )
    state.last_hash = digest
    state.min_reader = max(state.min_reader, entry.min_reader)
    if entry.epoch < state.epoch:
        state.seq = entry.seq
        return []
    open_entry(state, seq=entry.seq, epoch=entry.epoch, ts=entry.ts, stall=entry.stall)
    answers: list[Answer] = []
    first = 0
    for number, batch in enumerate(entry.batches):
        answers.append(apply_batch(state, batch, number, first))
        first += len(batch.events)
    state.seal()
    return answers


def apply_batch(state: State, batch: Batch, batch_index: int, first_index: int = 0) -> Answer:
    """Apply one batch of the entry that is open, whole or not at all, and what waited for it.

    `batch_index` is its place among the batches of the entry, `first_index` that of its first event
    among the events.
    """
    return judge_batch(state, batch, batch_index, first_index)[0]


def judge_batch(
    state: State, batch: Batch, batch_index: int, first_index: int = 0
) -> tuple[Answer, Batch]:
    """The same, and the batch as it stands in the entry: with its verdict, if it has one."""
    ctx = Ctx(batch, state.seq, first_index, first_index)
    answer = _apply(state, batch, batch_index, ctx)
    if state.parked.rows and answer.applied:
        _release(state, batch)
    if ctx.verdict is None:
        return answer, batch
    return answer, replace(batch, verdict=ctx.verdict)


def _release(state: State, batch: Batch) -> None:
    """Apply the batches that waited for what this one did to runs, and so on to any depth."""
    todo = deque([batch])
    while todo:
        for waiting, written in parking.release(state, todo.popleft()):
            ctx = Ctx(waiting, written.seq, written.index, written.index)
            if _apply(state, waiting, parking.batch_index(state), ctx).applied:
                todo.append(waiting)


def _apply(  # noqa: C901, PLR0911 - one line for each thing that can become of a batch
    state: State, batch: Batch, batch_index: int, ctx: Ctx
) -> Answer:
    if batch.parkable and (letter := find_letter(state, batch)) is not None:
        return Answer(status=letter.status, seq=letter.seq, reason=letter.reason, repeated=True)
    if batch.verdict is not None:
        return _record(state, ctx, batch_index, batch.verdict)
    commands = _commands(batch)
    key, digest = _identity(batch) if commands or batch.request_id else ("", "")
    known = state.answers.rows.get(key) if key else None
    if known is not None and known.request_hash == digest:
        return _answer_again(known)
    mark = len(state.journal)
    try:
        _check_sender(state, batch, known)
        _run_rules(state, batch, ctx, mark)
        while ctx.ended_runs:
            run = state.runs.rows[ctx.ended_runs.pop()]
            backfills.on_run_ended(state, run, ctx)
    except Rejected as refusal:
        state.rollback(mark)
        answer = _record(state, ctx, batch_index, _verdict(state, ctx, refusal))
        return answer if refusal.seq is None else replace(answer, seq=refusal.seq)
    except Exception as error:  # noqa: BLE001 - no rule may stop the ledger
        state.rollback(mark)
        return _record(state, ctx, batch_index, _failure(ctx, error))
    else:
        answer = _answer(state, batch, ctx)
    if len(state.journal) == mark:
        if not commands and not (key and batch.parkable):
            return _at_first(answer, ctx)
        answer = replace(answer, repeated=True)
    if key:
        _remember(state, key, digest, answer)
    _index(state, ctx, batch_index)
    return answer


def _run_rules(state: State, batch: Batch, ctx: Ctx, mark: int) -> None:
    for event in batch.events:
        try:
            RULES.get(type(event), _unknown)(state, event, ctx)
        except Repeated as known:
            ctx.data.update(known.data)
            ctx.repeats(known.at)
            if known.whole:
                _check_nothing_else(state, mark)
                return
        ctx.index += 1


def _unknown(state: State, event: Any, ctx: Ctx) -> None:
    del state, ctx
    name = getattr(event, "type", type(event).__name__)
    raise Rejected(f"unknown_event: this version does not know {name}; upgrade the leader")


def _check_nothing_else(state: State, mark: int) -> None:
    """Refuse a batch of which only a part was applied before: a batch is applied as a whole."""
    if len(state.journal) > mark:
        raise Rejected("repeated_in_part: part of the batch was applied before; send only the rest")


def _answer(state: State, batch: Batch, ctx: Ctx) -> Answer:
    conflict = ctx.conflict and len(batch.events) == 1
    return Answer(
        status=Status.CONFLICT if conflict else _APPLIED,
        seq=state.seq,
        index=ctx.first,
        reason=ctx.conflict,
        data=ctx.data,
    )


def _at_first(answer: Answer, ctx: Ctx) -> Answer:
    """The answer to a repetition: with the position where it was first applied, if known."""
    if not ctx.known:
        return replace(answer, repeated=True, index=None)
    first = parse_position(ctx.known)
    return replace(answer, repeated=True, seq=first.seq, index=first.index)


def _check_sender(state: State, batch: Batch, known: IdempotencyKeyRow | None) -> None:
    """Refuse a batch whose key was used for another request, or that is too old."""
    if known is not None:
        raise Rejected(_CONFLICT, conflict=True, seq=known.row_version)
    if batch.sent_at is not None and state.ts - batch.sent_at > ANSWERS_KEPT_FOR:
        raise Rejected(_EXPIRED)


def _verdict(state: State, ctx: Ctx, refusal: Rejected) -> Verdict:
    """What becomes of a refused batch: it waits if it can, and nobody waits for its answer."""
    status = Status.CONFLICT if refusal.conflict else Status.REJECTED
    reason, waits_for, until = refusal.reason, "", WaitsUntil.REQUESTED
    if ctx.batch.parkable and refusal.waits_for:
        cannot_wait = parking.refusal(state, ctx.batch, refusal.waits_for)
        if cannot_wait:
            reason = f"{cannot_wait}; {reason}"
        else:
            status, waits_for, until = Status.PARKED, refusal.waits_for, refusal.until
    return Verdict(
        status=status,
        code=code_of(reason),
        reason=reason,
        event=ctx.index - ctx.first,
        waits_for=waits_for,
        waits_until=until,
    )


def _failure(ctx: Ctx, error: Exception) -> Verdict:
    return Verdict(
        status=Status.QUARANTINED,
        code=RULE_FAILED,
        reason=f"{type(error).__name__}: {error}",
        event=ctx.index - ctx.first,
    )


def _record(state: State, ctx: Ctx, batch_index: int, verdict: Verdict) -> Answer:
    """Record a batch that is not applied: the same in a replay as when it was decided."""
    batch, mark = ctx.batch, len(state.journal)
    ctx.verdict, ctx.index = verdict, ctx.first + verdict.event
    if verdict.event < len(batch.events):
        refused = batch.events[verdict.event]
        REFUSED.get(type(refused), _nothing)(state, refused, ctx, verdict)
    if verdict.status is Status.PARKED:
        parking.park(state, batch, verdict, ctx.first)
    elif batch.parkable or verdict.status is Status.QUARANTINED:
        bury(state, batch, verdict)
    written = len(state.journal) > mark
    if written:
        _index(state, ctx, batch_index)
    index = ctx.first if written and verdict.status is Status.PARKED else None
    return Answer(status=verdict.status, seq=state.seq, index=index, reason=verdict.reason)


def _nothing(state: State, event: Any, ctx: Ctx, verdict: Verdict) -> None:
    """Most refused events leave nothing but the verdict."""
    del state, event, ctx, verdict


def _identity(batch: Batch) -> tuple[str, str]:
    """The key under which the answer is remembered, and the hash of the request."""
    return batch.request_id or batch.id, request_hash(batch.events)


def _commands(batch: Batch) -> bool:
    """Whether the batch has a command from outside, so that the answer must be remembered."""
    events = batch.events
    if len(events) == 1:
        return type(events[0]) in _COMMANDS
    return any(type(event) in _COMMANDS for event in events)


def _answer_again(known: IdempotencyKeyRow) -> Answer:
    given = msgspec.json.decode(known.answer, type=Answer)
    return replace(given, repeated=True, index=known.first_index)


def _remember(state: State, key: str, digest: str, answer: Answer) -> None:
    row = IdempotencyKeyRow(
        idempotency_key=key,
        request_hash=digest,
        answer=_encode(replace(answer, index=None)).decode(),
        created_at=state.ts,
        first_index=answer.index,
        row_version=state.seq,
    )
    state.answers.put(key, row)


def _index(state: State, ctx: Ctx, batch_index: int) -> None:
    batch, seq = ctx.batch, state.seq
    events = batch.events
    state.ledger_index.put(
        (seq, batch_index),
        LedgerIndexRow(
            seq=seq,
            batch_index=batch_index,
            batch_id=batch.id,
            actor=batch.actor,
            epoch=state.epoch,
            ts=state.ts,
            event_count=len(events),
            event_types=_type_names(events),
            run_id=getattr(events[0], "run_id", None) if events else None,
            first_index=ctx.first if batch_index < parking.RELEASED else None,
            request_id=batch.request_id,
            correlation=batch.correlation,
            cause=batch.cause,
            row_version=seq,
        ),
    )


def _type_names(events: tuple[Event | UnknownEvent, ...]) -> tuple[str, ...]:
    known = _ONE_NAME.get(type(events[0])) if len(events) == 1 else None
    if known is not None:
        return known
    names = [e.type if isinstance(e, UnknownEvent) else type(e).__name__ for e in events]
    return tuple(dict.fromkeys(names))


def needs(batch: Batch) -> list[tuple[str, object]]:
    """The rows a batch looks up by key and that may have left memory, as far as it says itself."""
    wanted: list[tuple[str, object]] = []
    if batch.request_id or _commands(batch):
        wanted.append(("idempotency_keys", batch.request_id or batch.id))
    for event in batch.events:
        asked = NEEDS.get(type(event))
        if asked is not None:
            wanted.extend(asked(event))
    if batch.parkable or batch.verdict is not None:
        wanted.append(("dead_letter", letter_key(batch)))
    return wanted


def needs_now(state: State, batch: Batch) -> list[tuple[str, object]]:
    """What a batch needs, and what follows from the rows that are there.

    Such as the partition of a task: call again when more rows are loaded. Batches that wait for a
    run that this one is about may be applied with it, so their needs count too.
    """
    wanted: list[tuple[str, object]] = []
    for held in _chain(state, batch):
        wanted.extend(needs(held))
        for event in held.events:
            further = FURTHER_NEEDS.get(type(event))
            if further is not None:
                wanted.extend(further(state, event))
    return wanted


def _chain(state: State, batch: Batch) -> Iterable[Batch]:
    """The batch, and what waits for runs that it is about, and so on: however long the chain."""
    if not state.parked.rows:
        return (batch,)
    chain = {batch.id: batch}
    todo = deque([batch])
    while todo:
        for waiting in parking.waiting(state, todo.popleft()):
            if waiting.id not in chain:
                chain[waiting.id] = waiting
                todo.append(waiting)
    return chain.values()


def missing(state: State, batch: Batch) -> list[tuple[str, object]]:
    """Those of them that are not in memory.

    A report is about a task, its run and its partition; where they are, nothing is missing.
    """
    if _about_known_tasks(state, batch):
        return []
    tables = state.tables
    return [(table, key) for table, key in needs_now(state, batch) if tables[table].lacks(key)]


def _about_known_tasks(state: State, batch: Batch) -> bool:
    if batch.request_id or batch.parkable or batch.verdict is not None:
        return False
    tasks, runs = state.tasks.rows, state.runs.rows
    for event in batch.events:
        if not isinstance(event, _REPORTS) or event.run_id not in runs:
            return False
        task = tasks.get((event.run_id, event.task_key))
        if task is None or task.partition_key is not None:
            return False
    return True
