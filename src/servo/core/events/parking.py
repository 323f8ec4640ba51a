"""Batches that came too early, and the end of their waiting."""

from typing import ClassVar, Literal

from servo.core.events.envelope import Event, EventKind
from servo.core.wire import Id


class ParkedBatchExpired(Event, frozen=True, kw_only=True, tag="ParkedBatchExpired"):
    """What a parked batch waited for did not come; it becomes a dead letter."""

    KIND: ClassVar[EventKind] = EventKind.INTENT

    v: Literal[1] = 1
    batch_id: Id
