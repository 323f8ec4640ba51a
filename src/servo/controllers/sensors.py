"""Which sensors to evaluate, for which messages, and which results to record.

A polling sensor is evaluated again when its interval has passed. After each further failure the
wait doubles, up to a quarter of an hour or its own interval. A push sensor is evaluated for its
waiting messages, oldest first; a message that failed is retried later and does not delay the
others. Nothing is due for a paused or removed sensor.

Recording every evaluation without a result would make an idle workspace write forever. So an
evaluation that requests nothing and changes nothing is recorded only if its message differs from
the last one, if the sensor had failed before, and otherwise once an hour, so that readers of the
tables can see that the sensor is alive.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

from servo.core.declared import KIND_LABEL
from servo.core.events.sensors import SensorEvalStatus, SensorMode
from servo.core.locations import HasLocation, any_location, location_of
from servo.core.state.rows.automation import (
    SensorDefinitionRow,
    SensorMessageRow,
    SensorStateRow,
)
from servo.core.state.state import State
from servo.core.state.states import SensorStatus

SHORTEST_INTERVAL = timedelta(milliseconds=100)
LONGEST_BACKOFF = timedelta(minutes=15)
MESSAGE_AGAIN_AFTER = timedelta(seconds=10)
MOST_DOUBLINGS = 20
ALIVE_EVERY = timedelta(hours=1)

_SHORTEST = timedelta(seconds=1)


def is_open(definition: SensorDefinitionRow, row: SensorStateRow) -> bool:
    """Whether a sensor is evaluated at all: it is defined, not paused, and of a kind that is."""
    if KIND_LABEL not in definition.labels:
        return False  # one for something else, such as conditions
    return definition.removed_at is None and row.status is not SensorStatus.PAUSED


def polls(definition: SensorDefinitionRow) -> bool:
    """Whether a sensor is evaluated at intervals."""
    return definition.mode is SensorMode.POLL


def next_look(
    definition: SensorDefinitionRow, row: SensorStateRow, looked: datetime | None
) -> datetime | None:
    """When to evaluate a sensor next, or None; `looked` is its last unrecorded evaluation."""
    if not is_open(definition, row) or not polls(definition):
        return None
    last = [at for at in (row.last_evaluation_at, looked) if at is not None]
    if not last:
        return definition.created_at
    interval = max(timedelta(milliseconds=definition.min_interval_ms), SHORTEST_INTERVAL)
    return max(last) + backed_off(interval, row.consecutive_failures)


def backed_off(interval: timedelta, failures: int) -> timedelta:
    """The wait after this number of failures in a row."""
    if not failures:
        return interval
    doubled = max(interval, _SHORTEST) * 2 ** min(failures, MOST_DOUBLINGS)
    return max(min(doubled, LONGEST_BACKOFF), interval)


def next_attempt(message: SensorMessageRow) -> datetime:
    """When to evaluate a message."""
    if message.last_attempt_at is None:
        return message.received_at
    return message.last_attempt_at + backed_off(MESSAGE_AGAIN_AFTER, message.attempts - 1)


def due_messages(messages: Iterable[SensorMessageRow], now: datetime) -> list[SensorMessageRow]:
    """The messages that are due, in order of arrival."""
    due = [message for message in messages if next_attempt(message) <= now]
    return sorted(due, key=lambda message: message.arrival)


def due(state: State, now: datetime, has: HasLocation = any_location) -> list[str]:
    """The sensors to evaluate, on a poll or for a message, according to the rows alone."""
    rows = _at_hand(state, has)
    looking = [row.sensor_id for row in rows if _is_due(state, row, now)]
    told = {row.sensor_id for row in due_messages(state.sensor_messages.rows.values(), now)}
    answering = [row.sensor_id for row in rows if row.sensor_id in told and _answers(state, row)]
    return sorted({*looking, *answering})


def next_due(state: State, has: HasLocation = any_location) -> datetime | None:
    """When the first sensor is due."""
    rows = _at_hand(state, has)
    looks = [next_look(state.sensors.rows[row.sensor_id], row, None) for row in rows]
    open_ = {row.sensor_id for row in rows if _answers(state, row)}
    waiting = [m for m in state.sensor_messages.rows.values() if m.sensor_id in open_]
    instants = [*looks, *(next_attempt(message) for message in waiting)]
    return min((at for at in instants if at is not None), default=None)


def _at_hand(state: State, has: HasLocation) -> list[SensorStateRow]:
    """The sensors whose code is available."""
    rows = list(state.sensor_state.rows.values())
    return [row for row in rows if has(location_of(state.sensors.rows[row.sensor_id].labels))]


def _is_due(state: State, row: SensorStateRow, now: datetime) -> bool:
    at = next_look(state.sensors.rows[row.sensor_id], row, None)
    return at is not None and at <= now


def _answers(state: State, row: SensorStateRow) -> bool:
    definition = state.sensors.rows[row.sensor_id]
    return is_open(definition, row) and not polls(definition)


def is_worth_recording(
    row: SensorStateRow, status: SensorEvalStatus, now: datetime, *, said_before: bool | None
) -> bool:
    """Whether to record a poll that requested nothing and changed nothing.

    `said_before` is whether its message equals the last one; None if that is unknown.
    """
    if status is SensorEvalStatus.FAILED or row.status is not SensorStatus.ACTIVE:
        return True
    if row.last_evaluation_at is None or now - row.last_evaluation_at >= ALIVE_EVERY:
        return True
    return said_before is False
