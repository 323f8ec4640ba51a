"""Automation conditions, evaluated."""

from typing import ClassVar, Literal

from servo.core.events.envelope import Event, EventKind, Instant
from servo.core.wire import Id, Int64


class AutomationTicked(Event, frozen=True, kw_only=True, tag="AutomationTicked"):
    """The conditions of a sensor's assets were evaluated. Heads a batch.

    What it changed of each asset follows, and then the runs that are asked for. `tick` counts the
    evaluations of the sensor: of two that are both the next one the first counts, and the other is
    refused with everything that follows it. Facts were read as of `applied_seq`.
    """

    KIND: ClassVar[EventKind] = EventKind.INTENT

    v: Literal[1] = 1
    sensor_id: str
    tick: Int64
    eval_id: Id
    applied_seq: Int64
    ticked_at: Instant
    requested_count: Int64 = 0
    run_keys: tuple[Id, ...] = ()


class AutomationEvaluated(Event, frozen=True, kw_only=True, tag="AutomationEvaluated"):
    """The condition of one asset has another state, or something is asked for or to be told.

    Follows the `AutomationTicked` of its evaluation in the same batch. `cursor` is what the next
    evaluation has to remember, and None to keep it; `requested` are the ordinals of the partitions
    that were asked for, as ranges; `tree` says as JSON why.
    """

    KIND: ClassVar[EventKind] = EventKind.INTENT

    v: Literal[1] = 1
    sensor_id: str
    tick: Int64
    asset_key: Id
    cursor: str | None = None
    requested: str = ""
    requested_count: Int64 = 0
    tree: str = ""
