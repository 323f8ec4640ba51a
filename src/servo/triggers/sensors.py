"""Sensors: evaluated when they are due, and committed with the runs they request.

An evaluation and its runs are one batch that begins with the evaluation: the cursor has moved, or
the message is answered, if and only if the runs exist. What was not committed is due again, so a
process that is killed between any two steps has done nothing or everything.

A sensor has one evaluation at a time. Sensors have separate evaluators, so that they never delay a
schedule. A sensor that hangs holds an evaluator until its timeout; then it backs off, so it takes
less and less of the time. If more sensors hang than there are evaluators, the others wait for the
timeouts of those before them, and no longer.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial

import msgspec

from servo.code.evaluator.messages import (
    Evaluated,
    EvaluatedMany,
    EvaluateMessages,
    EvaluateSensor,
    Message,
)
from servo.code.evaluator.pool import was_lost
from servo.controllers.sensors import (
    due_messages,
    is_open,
    is_worth_recording,
    next_attempt,
    next_look,
    polls,
)
from servo.core.actors import ActorKind, Origin, actor
from servo.core.declared import KIND_LABEL
from servo.core.events.assets import DynamicPartitionsChanged
from servo.core.events.envelope import Event
from servo.core.events.sensors import (
    PollTrigger,
    PushTrigger,
    SensorEvalStatus,
    SensorEvaluated,
)
from servo.core.fold.limits import MAX_MESSAGE_ATTEMPTS
from servo.core.locations import location_of
from servo.core.state.rows.automation import (
    SensorDefinitionRow,
    SensorMessageRow,
    SensorStateRow,
)
from servo.core.state.state import State
from servo.triggers.host import MOST_SAID, TriggerContext
from servo.workspace.origins import origin_of

SENSORS_AT_ONCE = 4
MESSAGES_AT_ONCE = 250
GIVE_UP_AFTER = 5
"""How many processes one event may end before an asset or run sensor skips it."""

ANSWER_SECONDS = 5.0
"""Time on top of a timeout, in which an evaluator answers about the earlier messages."""

FULL_FOR = timedelta(minutes=1)
"""Time until a message is retried whose runs exceeded a quota."""

_RUNS = "runs"
_WATCHES = frozenset({"assets", _RUNS})
_MILLISECOND = timedelta(milliseconds=1)
_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
_FULL = "refused: quota: no "
_LOST = ("stale_state_version", "state_version_", "poll_passed", "sensor_paused", "unknown_sensor")
"""Refusals that need no record, by their beginning: another host was first, or it is paused."""


class DueSensor(msgspec.Struct, frozen=True, kw_only=True):
    """A sensor, in its state when it was found to be due."""

    definition: SensorDefinitionRow
    row: SensorStateRow
    seq: int
    now: datetime

    @property
    def name(self) -> str:
        """The sensor."""
        return self.definition.sensor_id

    @property
    def actor(self) -> str:
        """The sensor as the actor of what it does."""
        return actor(ActorKind.SENSOR, self.name)

    @property
    def seconds(self) -> float:
        """How long its evaluation may take."""
        return self.definition.timeout_ms / 1000

    def renewed(self, state: State) -> "DueSensor":
        """The sensor in its current state."""
        row = state.sensor_state.rows[self.name]
        return msgspec.structs.replace(self, row=row, seq=state.seq)

    def messages(self, state: State) -> list[SensorMessageRow]:
        """The messages that wait for it."""
        return [row for row in state.sensor_messages.rows.values() if row.sensor_id == self.name]

    def still_open(self, state: State) -> bool:
        """Whether it is neither paused nor removed by now."""
        return is_open(state.sensors.rows[self.name], state.sensor_state.rows[self.name])


class Sensors:
    """The sensors of a workspace."""

    def __init__(self, context: TriggerContext) -> None:
        self._context = context
        self._looked: dict[str, tuple[datetime, int]] = {}
        self._said: dict[str, str] = {}
        self._passed: dict[str, tuple[int, datetime]] = {}
        self._next: datetime | None = None
        self._again: frozenset[str] = frozenset()
        self._failed_with: dict[str, int] = {}

    def look(self, state: State, now: datetime) -> bool:
        """Start the evaluations that are due."""
        begun = False
        for seen in self._due(state, self._context.ledger_time(state, now)):
            evaluate = self._poll if polls(seen.definition) else self._answer
            begun |= self._context.begin(f"sensor {seen.name}", partial(evaluate, seen))
        return begun

    def next_due(self) -> datetime | None:
        """When the first sensor is due."""
        return self._next

    def again(self) -> None:
        """Evaluate asset and run sensors once more, without waiting for their interval."""
        self._again = frozenset(self._looked)

    def _due(self, state: State, now: datetime) -> list[DueSensor]:
        found: list[DueSensor] = []
        later: list[datetime] = []
        for row in list(state.sensor_state.rows.values()):
            definition = state.sensors.rows[row.sensor_id]
            if not self._context.has(location_of(definition.labels)):
                continue
            if self._context.is_busy(f"sensor {row.sensor_id}"):
                continue
            at = self._at(state, definition, row)
            if at is not None and at <= now:
                found.append(DueSensor(definition=definition, row=row, seq=state.seq, now=now))
            elif at is not None:
                later.append(at)
        self._again = frozenset()
        self._next = min(later, default=None)
        return found

    def _at(
        self, state: State, definition: SensorDefinitionRow, row: SensorStateRow
    ) -> datetime | None:
        """When a sensor is due; None if only a change can make it due."""
        looked, seq = self._looked.get(row.sensor_id, (None, -1))
        if polls(definition):
            watches = definition.labels.get(KIND_LABEL) in _WATCHES
            if watches and seq == state.seq and not row.consecutive_failures:
                return None  # nothing has happened that concerns it
            at = next_look(definition, row, looked)
            if row.consecutive_failures:
                # New code may have fixed the failure: it does not wait for the back-off of the old
                # code.
                with_ = self._failed_with.get(row.sensor_id, self._context.evaluators.generation)
                now = with_ != self._context.evaluators.generation
            else:
                now = watches and row.sensor_id in self._again
            return at if at is None or not now else _EPOCH
        if not is_open(definition, row) or not row.messages_waiting:
            return None
        version, retry_at = self._passed.get(row.sensor_id, (-1, _EPOCH))
        return retry_at if version == row.row_version else _EPOCH

    # --- polls, on a thread that may wait -----------------------------------------------------

    def _poll(self, seen: DueSensor) -> None:
        alone = bool(seen.row.consecutive_failures)
        while self._look(seen, alone=alone):
            seen = self._context.read(seen.renewed)

    def _look(self, seen: DueSensor, *, alone: bool) -> bool:
        """Evaluate a sensor once and record it; whether it has more to evaluate."""
        row = seen.row
        epoch = epoch_of(seen)
        question = look_of(seen, f"{seen.name}:{epoch}:{self._context.token()}", alone=alone)
        generation = self._context.evaluators.generation
        answer = self._ask(seen, question)
        said = self._said.get(seen.name)
        said_before = None if said is None else said == answer.skipped
        self._said[seen.name] = answer.skipped
        self._looked[seen.name] = (seen.now, seen.seq)
        self._failed_with[seen.name] = generation
        moved = answer.cursor not in (None, row.cursor)
        asks = answer.runs or answer.dynamic or answer.reported
        if not (asks or moved) and not is_worth_recording(
            row, status_of(answer), seen.now, said_before=said_before
        ):
            return False
        head = PollTrigger(poll_epoch=epoch)
        origin = Origin(actor=seen.actor, cause=answer.cause, correlation=answer.correlation)
        sent = self._context.send("look", evaluated(seen, question.eval_id, head, answer), origin)
        if refused := sent.refusal(_LOST):
            failed = evaluated(seen, question.eval_id, head, Evaluated(error=refused))
            _ = self._context.commit("look-refused", failed, origin)
        return answer.more and sent.applied

    def _ask(self, seen: DueSensor, question: EvaluateSensor) -> Evaluated:
        row = seen.row
        if row.cursor is None and seen.definition.labels.get(KIND_LABEL) == _RUNS:
            # Fix the start before its code can fail: the sensor sees every run from here on, and
            # none before.
            return Evaluated(
                cursor=str(row.row_version), skipped="the sensor starts here", more=True
            )
        return self._context.evaluators.ask(question, seen.seconds)

    # --- messages, on a thread that may wait --------------------------------------------------

    def _answer(self, seen: DueSensor) -> None:
        """Evaluate the messages that are due, oldest first."""
        rows = self._context.read(seen.messages)
        due = due_messages(rows, seen.now)
        if not due:
            # The state at the time of the look: what came since is evaluated next time.
            retry_at = min((next_attempt(row) for row in rows), default=seen.now)
            self._passed[seen.name] = (seen.row.row_version, retry_at)
        while due and self._context.read(seen.still_open):
            due = due[self._answer_some(seen, due[:MESSAGES_AT_ONCE]) :]

    def _answer_some(self, seen: DueSensor, rows: Sequence[SensorMessageRow]) -> int:
        """Evaluate and record the first of these messages; how many were recorded."""
        asked = EvaluateMessages(
            sensor_id=seen.name, messages=tuple(message_of(row) for row in rows)
        )
        found = self._context.evaluators.ask(asked, seen.seconds + ANSWER_SECONDS)
        if isinstance(found, EvaluatedMany):
            self._record(seen, rows, found.answers)
            return len(found.answers)
        if len(rows) > 1:
            # One of them hung or ended the process, and it is unknown which.
            return sum(self._answer_some(seen, (row,)) for row in rows)
        self._record(seen, rows, (found,))
        return 1

    def _record(
        self,
        seen: DueSensor,
        rows: Sequence[SensorMessageRow],
        answers: Sequence[Evaluated],
    ) -> None:
        pairs = list(zip(rows, answers, strict=False))
        sent = [
            (row, self._context.send("message", answered(seen, row, answer), _origin(seen, row)))
            for row, answer in pairs
        ]
        for row, batch in sent:
            if refused := batch.refusal(_LOST):
                self._refused(seen, row, refused)

    def _refused(self, seen: DueSensor, row: SensorMessageRow, why: str) -> None:
        """Record why the runs of a message were refused.

        A quota never makes Servo give up a message: its last attempt waits until the quota allows
        the runs.
        """
        if why.startswith(_FULL) and row.attempts + 1 >= MAX_MESSAGE_ATTEMPTS:
            self._passed[seen.name] = (seen.row.row_version, seen.now + FULL_FOR)
            return
        failed = answered(seen, row, Evaluated(error=why))
        _ = self._context.commit("message-refused", failed, _origin(seen, row))


# --- what is asked, and what is recorded ----------------------------------------------------------


def _origin(seen: DueSensor, row: SensorMessageRow) -> Origin:
    """The sensor as the actor of an evaluation, and the message as its cause."""
    return origin_of(seen.actor, row)


def epoch_of(seen: DueSensor) -> int:
    """The number of a poll: its time, but always more than that of the previous poll."""
    return max((seen.now - _EPOCH) // _MILLISECOND, (seen.row.last_poll_epoch or 0) + 1)


def look_of(seen: DueSensor, eval_id: str, *, alone: bool = False) -> EvaluateSensor:
    """The request to an evaluator."""
    row = seen.row
    return EvaluateSensor(
        sensor_id=seen.name,
        eval_id=eval_id,
        cursor=row.cursor,
        seq=seen.seq,
        since=row.row_version,
        failures=row.consecutive_failures,
        alone=alone,
        pass_over=row.consecutive_failures >= GIVE_UP_AFTER and was_lost(row.last_error),
    )


def message_of(row: SensorMessageRow) -> Message:
    """A message in the form that evaluators receive."""
    return Message(
        message_id=row.message_id,
        eval_id=f"{row.sensor_id}:m{row.arrival}:{row.attempts + 1}",
        received_at=row.received_at,
        payload=row.payload,
        payload_digest=row.payload_digest,
    )


def status_of(answer: Evaluated) -> SensorEvalStatus:
    """The status of an evaluation."""
    if answer.error:
        return SensorEvalStatus.FAILED
    if answer.runs:
        return SensorEvalStatus.TRIGGERED
    return SensorEvalStatus.SKIPPED if answer.skipped else SensorEvalStatus.NO_NEW_DATA


def answered(seen: DueSensor, row: SensorMessageRow, answer: Evaluated) -> list[Event]:
    """The batch of an evaluation of a message."""
    if answer.error and row.attempts + 1 >= MAX_MESSAGE_ATTEMPTS:
        told = f"{answer.error}; given up after {MAX_MESSAGE_ATTEMPTS} attempts"
        answer = msgspec.structs.replace(answer, error=told)
    return evaluated(seen, message_of(row).eval_id, PushTrigger(message_id=row.message_id), answer)


def evaluated(
    seen: DueSensor, eval_id: str, trigger: PollTrigger | PushTrigger, answer: Evaluated
) -> list[Event]:
    """The batch of an evaluation: its result, then its changes and the runs it requests."""
    pushed = isinstance(trigger, PushTrigger)
    words = [_words(change) for change in answer.dynamic]
    words += [f"asset events: {len(answer.reported)}"] if answer.reported else []
    changed = "; ".join(words)
    status = status_of(answer)
    head = SensorEvaluated(
        sensor_id=seen.name,
        eval_id=eval_id,
        trigger=trigger,
        expected_state_version=None if pushed else seen.row.state_version,
        cursor_before=None if pushed else seen.row.cursor,
        cursor_after=None if pushed or answer.error else answer.cursor,
        status=SensorEvalStatus.SKIPPED
        if changed and status is SensorEvalStatus.NO_NEW_DATA
        else status,
        message="; ".join(filter(None, (answer.error or answer.skipped, changed)))[:MOST_SAID],
        run_keys=tuple(run.requested.run_key for run in answer.runs),
    )
    runs = [event for run in answer.runs for event in (run.requested, run.planned)]
    return [head, *answer.dynamic, *answer.reported, *runs]


def _words(change: DynamicPartitionsChanged) -> str:
    added, removed = len(change.added), len(change.removed)
    counts = [f"{added} added"] if added else []
    counts += [f"{removed} removed"] if removed else []
    return f"partitions of {change.set_name}: {', '.join(counts)}"
