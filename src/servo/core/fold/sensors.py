"""Sensors: their definitions, their cursors, and their evaluations.

A poll is accepted only at the state version it saw. Of two evaluations of the same state the
first wins; the second is recorded as stale and its runs are not created, because the next
evaluation, from the new cursor, finds what the first one did not. A push is recognised
by its message for ever, and leaves cursor and version to the polls. A push that failed is not yet
an answer to its message: the broker sends it again and the next evaluation may succeed.

A received message waits in a separate table until an evaluation has answered it, or the maximum
number of evaluations has failed. So its sender may forget it, and sending it again changes nothing.
After the last failure it is dropped: sent again, it is evaluated again.
"""

from collections.abc import Iterable, Mapping
from datetime import timedelta

from msgspec.structs import replace

from servo.core.events.envelope import Batch, Event, Verdict, code_of
from servo.core.events.runs import RunRequested
from servo.core.events.sensors import (
    PollTrigger,
    PushTrigger,
    SensorCursorReset,
    SensorEvalStatus,
    SensorEvaluated,
    SensorMessageReceived,
    SensorMode,
    SensorPaused,
    SensorRemoved,
    SensorResumed,
    SensorUpserted,
)
from servo.core.fold.bounds import MOST, number
from servo.core.fold.context import (
    Ctx,
    FoldRule,
    FurtherNeedsTable,
    NeedsTable,
    RefusalRule,
    Rejected,
    Repeated,
)
from servo.core.fold.limits import LONGEST, MAX_MESSAGE_ATTEMPTS, MAX_WAITING_MESSAGES
from servo.core.state.rows.automation import (
    SensorDefinitionRow,
    SensorEvalRow,
    SensorMessageRow,
    SensorStateRow,
)
from servo.core.state.state import State
from servo.core.state.states import SensorStatus

MOST_TOLD = 4_000
"""The length of a message in characters beyond which nothing is added to it."""

LONGEST_MS = LONGEST // timedelta(milliseconds=1)
_STALE = "stale_state_version: another evaluation was recorded first"

# --- definitions ----------------------------------------------------------------------------------


def _on_upserted(state: State, event: SensorUpserted, ctx: Ctx) -> None:
    number(event.min_interval_ms, "min_interval_ms", most=LONGEST_MS)
    number(event.timeout_ms, "timeout_ms", least=1, most=LONGEST_MS)
    old = state.sensors.rows.get(event.sensor_id)
    row = _defined(state, event, old)
    if row != old:
        state.sensors.put(event.sensor_id, row)
    if old is None or old.removed_at is not None:
        _begin(state, event)
    ctx.data["sensor_id"] = row.sensor_id
    ctx.data["definition_version"] = row.definition_version


def _defined(
    state: State, event: SensorUpserted, old: SensorDefinitionRow | None
) -> SensorDefinitionRow:
    new = SensorDefinitionRow(
        sensor_id=event.sensor_id,
        mode=event.mode,
        asset_selection=event.asset_selection,
        min_interval_ms=event.min_interval_ms,
        timeout_ms=event.timeout_ms,
        enabled=event.enabled,
        labels=event.labels,
        target=event.target,
        created_at=state.ts,
        row_version=state.seq,
    )
    if old is None:
        return new
    version = old.definition_version
    kept = replace(
        new, definition_version=version, created_at=old.created_at, row_version=old.row_version
    )
    if kept == old:
        return old
    return replace(kept, definition_version=version + 1, row_version=state.seq)


def _begin(state: State, event: SensorUpserted) -> None:
    """Start a sensor. One that was removed goes on from its cursor, at a version of its own."""
    row = state.sensor_state.rows.get(event.sensor_id)
    if row is None:
        row = SensorStateRow(
            sensor_id=event.sensor_id, status=SensorStatus.ACTIVE, row_version=state.seq
        )
    else:
        row = replace(row, state_version=row.state_version + 1)
    status = SensorStatus.ACTIVE if event.enabled else SensorStatus.PAUSED
    row = replace(row, status=status, consecutive_failures=0, last_error="", row_version=state.seq)
    state.sensor_state.put(event.sensor_id, row)


def _on_removed(state: State, event: SensorRemoved, ctx: Ctx) -> None:
    del ctx
    row = state.sensors.rows.get(event.sensor_id)
    if row is None:
        raise _unknown(event.sensor_id)
    if row.removed_at is None:
        gone = replace(row, removed_at=state.ts, row_version=state.seq)
        state.sensors.put(event.sensor_id, gone)


def _on_paused(state: State, event: SensorPaused, ctx: Ctx) -> None:
    del ctx
    row = _standing(state, event.sensor_id)
    if row.status is not SensorStatus.PAUSED:
        paused = replace(row, status=SensorStatus.PAUSED, row_version=state.seq)
        state.sensor_state.put(event.sensor_id, paused)


def _on_resumed(state: State, event: SensorResumed, ctx: Ctx) -> None:
    del ctx
    row = _standing(state, event.sensor_id)
    if row.status is not SensorStatus.ACTIVE:
        resumed = _healthy(replace(row, row_version=state.seq))
        state.sensor_state.put(event.sensor_id, resumed)


def _on_cursor_reset(state: State, event: SensorCursorReset, ctx: Ctx) -> None:
    row = _standing(state, event.sensor_id)
    expected = event.expected_state_version
    if expected is not None and expected != row.state_version:
        raise Rejected(
            f"state_version_changed: the state version of the sensor is now {row.state_version}",
            conflict=True,
        )
    row = replace(
        row,
        cursor=event.cursor,
        state_version=row.state_version + 1,
        row_version=state.seq,
    )
    state.sensor_state.put(event.sensor_id, row)
    ctx.data["state_version"] = row.state_version


def _standing(state: State, sensor_id: str) -> SensorStateRow:
    definition = state.sensors.rows.get(sensor_id)
    if definition is None or definition.removed_at is not None:
        raise _unknown(sensor_id)
    return state.sensor_state.rows[sensor_id]


def _unknown(sensor_id: str) -> Rejected:
    return Rejected(f"unknown_sensor: there is no sensor {sensor_id}")


# --- messages -------------------------------------------------------------------------------------


def _on_message(state: State, event: SensorMessageReceived, ctx: Ctx) -> None:
    known = state.sensor_evals.rows.get((event.sensor_id, _answered(event.message_id)))
    if known is not None:
        raise Repeated(eval_id=known.eval_id)
    row = _standing(state, event.sensor_id)
    if state.sensors.rows[event.sensor_id].mode is not SensorMode.PUSH:
        raise Rejected(
            f"not_a_push_sensor: {event.sensor_id} polls; only push sensors take messages"
        )
    key = (event.sensor_id, event.message_id)
    if key in state.sensor_messages:
        raise Repeated()
    if row.messages_waiting >= MAX_WAITING_MESSAGES:
        raise Rejected(
            f"too_many_messages: {MAX_WAITING_MESSAGES} messages are waiting for this sensor; "
            "retry later"
        )
    message = SensorMessageRow(
        sensor_id=event.sensor_id,
        message_id=event.message_id,
        arrival=row.messages_received + 1,
        payload=event.payload,
        payload_digest=event.payload_digest,
        received_at=state.ts,
        request_position=ctx.position,
        correlation=ctx.correlation,
        row_version=state.seq,
    )
    state.sensor_messages.put(key, message)
    row = replace(
        row,
        messages_received=row.messages_received + 1,
        messages_waiting=row.messages_waiting + 1,
        row_version=state.seq,
    )
    state.sensor_state.put(event.sensor_id, row)
    ctx.data["arrival"] = message.arrival


def _settle_message(state: State, event: SensorEvaluated, row: SensorStateRow) -> SensorStateRow:
    """The row of a sensor after an evaluation of a message, which waits no longer if it is over."""
    trigger = event.trigger
    key = (event.sensor_id, getattr(trigger, "message_id", ""))
    message = state.sensor_messages.rows.get(key)
    if message is None:
        return row
    attempts = message.attempts + 1
    if event.status is SensorEvalStatus.FAILED and attempts < MAX_MESSAGE_ATTEMPTS:
        tried = replace(
            message,
            attempts=attempts,
            last_attempt_at=state.ts,
            last_error=event.message,
            row_version=state.seq,
        )
        state.sensor_messages.put(key, tried)
        return row
    state.sensor_messages.drop(key)
    return replace(row, messages_waiting=row.messages_waiting - 1)


# --- evaluations ----------------------------------------------------------------------------------


def _on_evaluated(state: State, event: SensorEvaluated, ctx: Ctx) -> None:
    for key in _dedup_keys(event):
        known = state.sensor_evals.rows.get((event.sensor_id, key))
        if known is not None and not known.stale:
            raise Repeated(whole=True, at=known.request_position, eval_id=known.eval_id)
    row = _standing(state, event.sensor_id)
    if row.status is SensorStatus.PAUSED:
        raise Rejected(f"sensor_paused: the sensor {event.sensor_id} is paused; resume it first")
    if isinstance(event.trigger, PushTrigger):
        row = _settle_message(state, event, _judged(state, event, row))
        _record(state, event, ctx, stale=False)
    else:
        number(event.trigger.poll_epoch, "poll_epoch", least=-MOST)
        _check_version(event, row)
        row = _polled(state, event, event.trigger, row, ctx)
    state.sensor_state.put(event.sensor_id, row)
    ctx.data["eval_id"] = event.eval_id
    ctx.data["state_version"] = row.state_version


def _dedup_keys(event: SensorEvaluated) -> tuple[str, ...]:
    """The keys under which this evaluation may be on record; the last is its own."""
    trigger = event.trigger
    if isinstance(trigger, PollTrigger):
        return (f"poll:{event.expected_state_version}:{event.eval_id}",)
    answered = _answered(trigger.message_id)
    if event.status is SensorEvalStatus.FAILED:
        return answered, f"failed:{event.eval_id}"
    return (answered,)


def _answered(message_id: str) -> str:
    """The key under which the evaluation that answered a message is on record."""
    return f"msg:{message_id}"


def _check_version(event: SensorEvaluated, row: SensorStateRow) -> None:
    expected = event.expected_state_version
    if expected is None:
        raise Rejected("state_version_missing: a poll must name the state version that it read")
    if not 0 <= expected <= row.state_version:
        raise Rejected(
            f"state_version_unknown: the sensor never had the state version {expected}",
            conflict=True,
        )
    if expected < row.state_version:
        raise Rejected(_STALE, conflict=True)


def _polled(
    state: State, event: SensorEvaluated, trigger: PollTrigger, row: SensorStateRow, ctx: Ctx
) -> SensorStateRow:
    epoch = trigger.poll_epoch
    newest = epoch if row.last_poll_epoch is None else max(epoch, row.last_poll_epoch)
    if event.status is SensorEvalStatus.NO_NEW_DATA and newest == row.last_poll_epoch:
        # A quiet poll leaves no record, so only its epoch shows that it is repeated.
        raise Rejected("poll_passed: a poll of this epoch or a later one is already recorded")
    if _is_quiet(event, row):
        return replace(
            row, last_evaluation_at=state.ts, last_poll_epoch=epoch, row_version=state.seq
        )
    _record(state, event, ctx, stale=False)
    row = _judged(state, event, replace(row, last_poll_epoch=newest))
    if event.status is SensorEvalStatus.FAILED:
        return row
    moved = row.cursor if event.cursor_after is None else event.cursor_after
    return replace(row, cursor=moved, state_version=row.state_version + 1)


def _is_quiet(event: SensorEvaluated, row: SensorStateRow) -> bool:
    """Whether a poll changes nothing: no data, same cursor, still healthy."""
    return (
        event.status is SensorEvalStatus.NO_NEW_DATA
        and event.cursor_after in (None, row.cursor)
        and row.status is SensorStatus.ACTIVE
    )


def _judged(state: State, event: SensorEvaluated, row: SensorStateRow) -> SensorStateRow:
    """The row with its health after an evaluation."""
    row = replace(
        row,
        last_evaluation_at=state.ts,
        last_eval_id=event.eval_id,
        row_version=state.seq,
    )
    if event.status is not SensorEvalStatus.FAILED:
        return _healthy(row)
    return replace(
        row,
        status=SensorStatus.ERROR,
        last_error=event.message,
        consecutive_failures=row.consecutive_failures + 1,
    )


def _healthy(row: SensorStateRow) -> SensorStateRow:
    return replace(row, status=SensorStatus.ACTIVE, last_error="", consecutive_failures=0)


def _on_refused(state: State, event: SensorEvaluated, ctx: Ctx, verdict: Verdict) -> None:
    """Record a stale evaluation that found something, once."""
    found_something = event.status is not SensorEvalStatus.NO_NEW_DATA
    if verdict.code != code_of(_STALE) or not found_something:
        return
    if (event.sensor_id, _dedup_keys(event)[-1]) not in state.sensor_evals:
        _record(state, event, ctx, stale=True)


def _record(state: State, event: SensorEvaluated, ctx: Ctx, *, stale: bool) -> None:
    trigger = event.trigger
    push = isinstance(trigger, PushTrigger)
    key = _dedup_keys(event)[-1]
    row = SensorEvalRow(
        sensor_id=event.sensor_id,
        dedup_key=key,
        eval_id=event.eval_id,
        trigger="push" if push else "poll",
        message_id=trigger.message_id if push else None,
        poll_epoch=None if push else trigger.poll_epoch,
        cursor_before=event.cursor_before,
        cursor_after=event.cursor_after,
        expected_state_version=None if push else event.expected_state_version,
        status=event.status,
        stale=stale,
        message=event.message,
        run_keys=event.run_keys,
        evaluated_at=state.ts,
        request_position=ctx.position,
        cause=ctx.cause,
        correlation=ctx.correlation,
        row_version=state.seq,
    )
    state.sensor_evals.put((event.sensor_id, key), row)


def tell_conflict(state: State, event: RunRequested, batch: Batch) -> None:
    """Record in the evaluation that requested a run that its key belongs to another request."""
    head = batch.events[0]
    if not isinstance(head, SensorEvaluated):
        return
    key = (head.sensor_id, _dedup_keys(head)[-1])
    row = state.sensor_evals.rows.get(key)
    if row is not None and len(row.message) < MOST_TOLD:
        told = f"the run key {event.run_key} belongs to another request, and no run was made"
        text = f"{row.message}; {told}" if row.message else told
        state.sensor_evals.put(key, replace(row, message=text))


def _needs_message(event: SensorMessageReceived) -> Iterable[tuple[str, object]]:
    return (("sensor_evals", (event.sensor_id, _answered(event.message_id))),)


def _needs_evals(event: SensorEvaluated) -> Iterable[tuple[str, object]]:
    return [("sensor_evals", (event.sensor_id, key)) for key in _dedup_keys(event)]


RULES: Mapping[type[Event], FoldRule] = {
    SensorUpserted: _on_upserted,
    SensorRemoved: _on_removed,
    SensorPaused: _on_paused,
    SensorResumed: _on_resumed,
    SensorCursorReset: _on_cursor_reset,
    SensorMessageReceived: _on_message,
    SensorEvaluated: _on_evaluated,
}
NEEDS: NeedsTable = {
    SensorMessageReceived: _needs_message,
    SensorEvaluated: _needs_evals,
}
FURTHER_NEEDS: FurtherNeedsTable = {}
REFUSED: Mapping[type[Event], RefusalRule] = {SensorEvaluated: _on_refused}
