"""Durable timers: due times are state, firing is an intent, delivery is a hint."""

from enum import StrEnum
from typing import ClassVar, Literal

from servo.core.events.envelope import Event, EventKind, Instant
from servo.core.wire import Id, Int64


class TimerType(StrEnum):
    RETRY = "RETRY"
    HEARTBEAT_CHECK = "HEARTBEAT_CHECK"
    CRON = "CRON"
    SLA_CHECK = "SLA_CHECK"


class TimerRequested(Event, frozen=True, kw_only=True, tag="TimerRequested"):
    """Something wants to be woken at a time."""

    KIND: ClassVar[EventKind] = EventKind.INTENT

    v: Literal[1] = 1
    timer_id: Id
    timer_type: TimerType
    fire_at: Instant
    run_id: Id | None = None
    task_key: Id | None = None
    attempt: Int64 | None = None
    payload: str = ""


class TimerEnqueued(Event, frozen=True, kw_only=True, tag="TimerEnqueued"):
    """An outside queue promised to wake us."""

    KIND: ClassVar[EventKind] = EventKind.INTENT

    v: Literal[1] = 1
    timer_id: Id


class TimerFired(Event, frozen=True, kw_only=True, tag="TimerFired"):
    """A timer is due; the fold accepts it only if it is, and only once.

    The event says all that the timer does: what it is for, for which task, and when it was due. Its
    id means nothing besides.
    """

    KIND: ClassVar[EventKind] = EventKind.INTENT

    v: Literal[1] = 1
    timer_id: Id
    timer_type: TimerType
    fire_at: Instant
    run_id: Id | None = None
    task_key: Id | None = None
    attempt: Int64 | None = None


class TimerCancelled(Event, frozen=True, kw_only=True, tag="TimerCancelled"):
    """A timer is no longer needed."""

    KIND: ClassVar[EventKind] = EventKind.INTENT

    v: Literal[1] = 1
    timer_id: Id
