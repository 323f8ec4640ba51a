"""From ready to running: attempts made, sent, sent again, and given up.

All of these are intents of the leader's controllers. Each names what it saw (attempt, delivery,
execution) and the fold refuses it if that has changed.
"""

from typing import ClassVar, Literal

import msgspec

from servo.core.events.envelope import Event, EventKind
from servo.core.wire import Id, Int64, MaybeId


class Handover(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A known idle worker takes the attempt at once: the claim rides in the dispatch."""

    exec_id: Id
    worker_id: MaybeId = ""


class DispatchRequested(Event, frozen=True, kw_only=True, tag="DispatchRequested"):
    """A ready task gets its next attempt. This alone creates attempts."""

    KIND: ClassVar[EventKind] = EventKind.INTENT

    v: Literal[1] = 1
    run_id: Id
    task_key: Id
    attempt: Int64
    handover: Handover | None = None


class DispatchEnqueued(Event, frozen=True, kw_only=True, tag="DispatchEnqueued"):
    """The queue took the message of an outbox row."""

    KIND: ClassVar[EventKind] = EventKind.INTENT

    v: Literal[1] = 1
    run_id: Id
    task_key: Id
    attempt_id: Id
    delivery: Int64


class DispatchAckTimedOut(Event, frozen=True, kw_only=True, tag="DispatchAckTimedOut"):
    """No worker claimed a delivery in time: it is sent again under a new name."""

    KIND: ClassVar[EventKind] = EventKind.INTENT

    v: Literal[1] = 1
    run_id: Id
    task_key: Id
    attempt_id: Id
    delivery: Int64


class LeaseExpired(Event, frozen=True, kw_only=True, tag="LeaseExpired"):
    """A running execution fell silent."""

    KIND: ClassVar[EventKind] = EventKind.INTENT

    v: Literal[1] = 1
    run_id: Id
    task_key: Id
    attempt_id: Id
    exec_id: Id


class ExecutionTimedOut(Event, frozen=True, kw_only=True, tag="ExecutionTimedOut"):
    """An execution ran longer than its task allows."""

    KIND: ClassVar[EventKind] = EventKind.INTENT

    v: Literal[1] = 1
    run_id: Id
    task_key: Id
    attempt_id: Id
    exec_id: Id


class CancelGraceExpired(Event, frozen=True, kw_only=True, tag="CancelGraceExpired"):
    """An execution was told to stop and did not say that it has."""

    KIND: ClassVar[EventKind] = EventKind.INTENT

    v: Literal[1] = 1
    run_id: Id
    task_key: Id
    attempt_id: Id
    exec_id: Id
