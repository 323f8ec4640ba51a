"""Runs: asked for, planned, admitted, cancelled, out of time."""

from datetime import timedelta
from typing import ClassVar, Literal

import msgspec

from servo.core.canonical import intern_defaults
from servo.core.events.envelope import Event, EventKind
from servo.core.plan import TaskSpec
from servo.core.wire import Id, Int64, MaybeId

DEFAULT_RUN_TIMEOUT_MS = int(timedelta(hours=24).total_seconds()) * 1000


class Source(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind"):
    """What made a run happen."""


class ManualSource(Source, frozen=True, kw_only=True, tag="manual"):
    user_id: str = ""
    request_id: str = ""


class ScheduleSource(Source, frozen=True, kw_only=True, tag="schedule"):
    schedule_id: str
    tick_id: str


class SensorSource(Source, frozen=True, kw_only=True, tag="sensor"):
    sensor_id: str
    eval_id: str


class BackfillSource(Source, frozen=True, kw_only=True, tag="backfill"):
    backfill_id: str
    chunk_index: Int64


class AutomationSource(Source, frozen=True, kw_only=True, tag="automation"):
    evaluation_id: str
    upstream_materialization_id: str = ""
    sensor_id: str = ""
    tick: Int64 = 0


class RerunSource(Source, frozen=True, kw_only=True, tag="rerun"):
    run_id: str
    user_id: str = ""


SourceRef = (
    ManualSource | ScheduleSource | SensorSource | BackfillSource | AutomationSource | RerunSource
)


class RunRequested(Event, frozen=True, kw_only=True, tag="RunRequested"):
    """A run of these assets was requested.

    The run id is computed once by the requester and stored here; a repetition with the same key
    and fingerprint answers with the existing run, another fingerprint is a recorded conflict.
    `request_text` is the request as the user wrote it, such as a selection.
    `location` names the code location that defines the assets: only its workers get the tasks.
    Empty, as in ledgers from before there were locations, means any worker.
    """

    KIND: ClassVar[EventKind] = EventKind.FACT

    v: Literal[1] = 1
    run_id: Id
    run_key: Id
    request_fingerprint: str
    source: SourceRef = ManualSource()
    asset_selection: tuple[Id, ...] = ()
    partition_selection: tuple[Id, ...] = ()
    labels: dict[str, str] = {}
    lane: MaybeId = ""
    priority: Int64 = 0
    timeout_ms: Int64 = DEFAULT_RUN_TIMEOUT_MS
    parent_run_id: Id | None = None
    request_text: str = ""
    location: MaybeId = ""

    def __post_init__(self) -> None:
        intern_defaults(self)


class PlanSegment(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a large plan, stored under its digest."""

    digest: str
    count: Int64


class PlanCreated(Event, frozen=True, kw_only=True, tag="PlanCreated"):
    """The tasks of a run are known: here, or in segments stored by digest."""

    KIND: ClassVar[EventKind] = EventKind.INTENT

    v: Literal[1] = 1
    run_id: Id
    fingerprint: str
    tasks: tuple[TaskSpec, ...] = ()
    segments: tuple[PlanSegment, ...] = ()


class PlanFailed(Event, frozen=True, kw_only=True, tag="PlanFailed"):
    """No plan can be made for a run; it fails without having run anything."""

    KIND: ClassVar[EventKind] = EventKind.INTENT

    v: Literal[1] = 1
    run_id: Id
    error: str


class PlanSegmentExpanded(Event, frozen=True, kw_only=True, tag="PlanSegmentExpanded"):
    """The next segment of a large plan becomes tasks.

    It names the segment's digest, so that every fold can fetch the segment first.
    """

    KIND: ClassVar[EventKind] = EventKind.INTENT

    v: Literal[1] = 1
    run_id: Id
    index: Int64
    digest: str


class RunAdmitted(Event, frozen=True, kw_only=True, tag="RunAdmitted"):
    """A run slot is free: a waiting run starts."""

    KIND: ClassVar[EventKind] = EventKind.INTENT

    v: Literal[1] = 1
    run_id: Id


class RunCancelRequested(Event, frozen=True, kw_only=True, tag="RunCancelRequested"):
    """Nothing of this run shall start any more, and what runs shall stop.

    With `force` the run ends now: its executions lose their leases and are not waited for.
    """

    KIND: ClassVar[EventKind] = EventKind.FACT

    v: Literal[1] = 1
    run_id: Id
    requested_by: str = ""
    reason: str = ""
    force: bool = False


class RunDeadlineExceeded(Event, frozen=True, kw_only=True, tag="RunDeadlineExceeded"):
    """A run has used up the time it was given."""

    KIND: ClassVar[EventKind] = EventKind.INTENT

    v: Literal[1] = 1
    run_id: Id


class PlanDeadlineExceeded(Event, frozen=True, kw_only=True, tag="PlanDeadlineExceeded"):
    """A run was requested and was not planned in time."""

    KIND: ClassVar[EventKind] = EventKind.INTENT

    v: Literal[1] = 1
    run_id: Id
