"""The origin of a batch: its actor, and its cause."""

from collections.abc import Iterable
from datetime import datetime

from servo.core.actors import Origin
from servo.core.events.envelope import Batch, Event
from servo.core.state.rows.automation import BackfillRow, SensorMessageRow
from servo.core.state.rows.execution import RunRow

CausingRow = RunRow | BackfillRow | SensorMessageRow
"""Rows that say where they were asked for, and so can be named as the cause of something else."""


def origin_of(actor: str, cause: CausingRow | None = None) -> Origin:
    """The origin of a change by an actor, caused by what a row records."""
    if cause is None:
        return Origin(actor=actor)
    return Origin(actor=actor, cause=cause.request_position, correlation=cause.correlation)


def batch_from(
    name: str, events: Iterable[Event], origin: Origin, *, sent_at: datetime | None = None
) -> Batch:
    """A batch of this origin."""
    return Batch(
        id=name,
        events=tuple(events),
        actor=origin.actor,
        correlation=origin.correlation,
        cause=origin.cause,
        sent_at=sent_at,
    )
