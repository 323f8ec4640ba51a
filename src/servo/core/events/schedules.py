"""Schedules: defined, paused, resumed, ticked."""

from datetime import datetime
from enum import StrEnum
from typing import ClassVar, Literal

from servo.core.canonical import intern_defaults
from servo.core.events.envelope import Event, EventKind
from servo.core.wire import Id, Int64


class TickStatus(StrEnum):
    TRIGGERED = "TRIGGERED"
    SKIPPED = "SKIPPED"
    FAILED = "FAILED"


class ScheduleUpserted(Event, frozen=True, kw_only=True, tag="ScheduleUpserted"):
    """A schedule was defined or changed. Its ticks start at creation, never before."""

    KIND: ClassVar[EventKind] = EventKind.COMMAND

    v: Literal[1] = 1
    schedule_id: str
    cron_expressions: tuple[str, ...]
    timezone: str = "UTC"
    asset_selection: tuple[Id, ...] = ()
    partition_selection: tuple[Id, ...] = ()
    catchup_window_minutes: Int64 = 1440
    max_catchup_ticks: Int64 = 3
    enabled: bool = True
    labels: dict[str, str] = {}
    target: str = ""

    def __post_init__(self) -> None:
        intern_defaults(self)


class ScheduleRemoved(Event, frozen=True, kw_only=True, tag="ScheduleRemoved"):
    KIND: ClassVar[EventKind] = EventKind.COMMAND

    v: Literal[1] = 1
    schedule_id: str


class SchedulePaused(Event, frozen=True, kw_only=True, tag="SchedulePaused"):
    KIND: ClassVar[EventKind] = EventKind.COMMAND

    v: Literal[1] = 1
    schedule_id: str
    changed_by: str = ""


class ScheduleResumed(Event, frozen=True, kw_only=True, tag="ScheduleResumed"):
    """Ticks missed while paused are not made up unless `catchup` says so."""

    KIND: ClassVar[EventKind] = EventKind.COMMAND

    v: Literal[1] = 1
    schedule_id: str
    catchup: bool = False
    changed_by: str = ""


class ScheduleTicked(Event, frozen=True, kw_only=True, tag="ScheduleTicked"):
    """A schedule was evaluated for one instant; the definition it saw is kept with the tick.

    Heads a batch whose followers are the `RunRequested` events of the tick. `manual` ticks are
    made by a person, carry the request id in their tick id and do not move the schedule on.
    """

    KIND: ClassVar[EventKind] = EventKind.INTENT

    v: Literal[1] = 1
    schedule_id: str
    tick_id: Id
    scheduled_for: datetime
    definition_version: Int64
    asset_selection: tuple[Id, ...] = ()
    partition_selection: tuple[Id, ...] = ()
    status: TickStatus
    message: str = ""
    run_key: Id | None = None
    request_fingerprint: str | None = None
    manual: bool = False


class ScheduleRewound(Event, frozen=True, kw_only=True, tag="ScheduleRewound"):
    """A schedule that a wrong clock had moved into the future continues from `low_water`.

    It applies only if the schedule is still at `expected_low_water`. Ticks that are recorded stay
    recorded and are not made again.
    """

    KIND: ClassVar[EventKind] = EventKind.INTENT

    v: Literal[1] = 1
    schedule_id: str
    expected_low_water: datetime
    low_water: datetime


class TicksSkipped(Event, frozen=True, kw_only=True, tag="TicksSkipped"):
    """A stretch of ticks was passed over: too old, too many, or paused."""

    KIND: ClassVar[EventKind] = EventKind.INTENT

    v: Literal[1] = 1
    schedule_id: str
    first: datetime
    last: datetime
    count: Int64
    reason: str
