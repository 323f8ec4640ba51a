"""Sensors: defined, paused, resumed, told of messages, evaluated."""

from enum import StrEnum
from typing import ClassVar, Literal

import msgspec

from servo.core.canonical import intern_defaults
from servo.core.events.envelope import Event, EventKind
from servo.core.wire import Id, Int64


class SensorMode(StrEnum):
    POLL = "POLL"
    PUSH = "PUSH"


class SensorEvalStatus(StrEnum):
    TRIGGERED = "TRIGGERED"
    NO_NEW_DATA = "NO_NEW_DATA"
    SKIPPED = "SKIPPED"
    FAILED = "FAILED"


class SensorUpserted(Event, frozen=True, kw_only=True, tag="SensorUpserted"):
    KIND: ClassVar[EventKind] = EventKind.COMMAND

    v: Literal[1] = 1
    sensor_id: str
    mode: SensorMode = SensorMode.POLL
    asset_selection: tuple[Id, ...] = ()
    min_interval_ms: Int64 = 30_000
    timeout_ms: Int64 = 60_000
    enabled: bool = True
    labels: dict[str, str] = {}
    target: str = ""

    def __post_init__(self) -> None:
        intern_defaults(self)


class SensorRemoved(Event, frozen=True, kw_only=True, tag="SensorRemoved"):
    KIND: ClassVar[EventKind] = EventKind.COMMAND

    v: Literal[1] = 1
    sensor_id: str


class SensorPaused(Event, frozen=True, kw_only=True, tag="SensorPaused"):
    KIND: ClassVar[EventKind] = EventKind.COMMAND

    v: Literal[1] = 1
    sensor_id: str
    changed_by: str = ""


class SensorResumed(Event, frozen=True, kw_only=True, tag="SensorResumed"):
    KIND: ClassVar[EventKind] = EventKind.COMMAND

    v: Literal[1] = 1
    sensor_id: str
    changed_by: str = ""


class SensorCursorReset(Event, frozen=True, kw_only=True, tag="SensorCursorReset"):
    KIND: ClassVar[EventKind] = EventKind.COMMAND

    v: Literal[1] = 1
    sensor_id: str
    cursor: str | None = None
    expected_state_version: Int64 | None = None
    changed_by: str = ""


class SensorMessageReceived(Event, frozen=True, kw_only=True, tag="SensorMessageReceived"):
    """A message for a push sensor came in, and waits to be evaluated.

    Sent again, while it waits or after its evaluation, it changes nothing. A large payload is
    stored under its digest.
    """

    KIND: ClassVar[EventKind] = EventKind.COMMAND

    v: Literal[1] = 1
    sensor_id: str
    message_id: Id
    payload: str = ""
    payload_digest: str = ""


class PollTrigger(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="poll"):
    poll_epoch: Int64


class PushTrigger(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="push"):
    message_id: Id


class SensorEvaluated(Event, frozen=True, kw_only=True, tag="SensorEvaluated"):
    """A sensor looked. Heads a batch whose followers are the runs it asked for.

    A poll is conditional on the state version it saw; a push is recognised by its message id.
    `cursor_after` of None keeps the cursor; a push never moves the cursor of a poll.
    """

    KIND: ClassVar[EventKind] = EventKind.INTENT

    v: Literal[1] = 1
    sensor_id: str
    eval_id: Id
    trigger: PollTrigger | PushTrigger
    expected_state_version: Int64 | None = None
    cursor_before: str | None = None
    cursor_after: str | None = None
    status: SensorEvalStatus
    message: str = ""
    run_keys: tuple[Id, ...] = ()
