"""Backfills: a frozen list of partitions worked off in chunks, one run a chunk."""

from enum import StrEnum
from typing import ClassVar, Literal

import msgspec

from servo.core.canonical import intern_defaults
from servo.core.events.envelope import Event, EventKind
from servo.core.wire import Id, Int64, MaybeId

DEFAULT_CONCURRENT_RUNS = 2
"""Concurrent runs of a backfill by default: decision 47."""


class BackfillState(StrEnum):
    PENDING = "PENDING"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    CANCELLING = "CANCELLING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


class RangeSelector(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="range"):
    start: str
    end: str


class ExplicitSelector(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="explicit"):
    count: Int64


PartitionSelector = RangeSelector | ExplicitSelector


class BackfillCreated(Event, frozen=True, kw_only=True, tag="BackfillCreated"):
    """A backfill begins. Its partition list is frozen now: here, or stored under its digest.

    The id is derived from the client's request id, so that a repeated request finds its backfill.
    `location` names the code location whose evaluator plans the chunks; empty means any.
    """

    KIND: ClassVar[EventKind] = EventKind.FACT

    v: Literal[1] = 1
    backfill_id: Id
    client_request_id: Id
    request_fingerprint: str
    asset_selection: tuple[Id, ...]
    selector: PartitionSelector
    partition_keys: tuple[Id, ...] = ()
    partitions_digest: str = ""
    total_partitions: Int64
    chunk_size: Int64 = 10
    max_concurrent_runs: Int64 = DEFAULT_CONCURRENT_RUNS
    stop_on_failure: bool = False
    max_failed_partitions: Int64 | None = None
    max_failed_percent: Int64 | None = None
    priority: Int64 = 0
    labels: dict[str, str] = {}
    parent_backfill_id: Id | None = None
    location: MaybeId = ""

    def __post_init__(self) -> None:
        intern_defaults(self)


class BackfillChunkPlanned(Event, frozen=True, kw_only=True, tag="BackfillChunkPlanned"):
    """The smallest missing chunk gets its run. Heads a batch with that `RunRequested`."""

    KIND: ClassVar[EventKind] = EventKind.INTENT

    v: Literal[1] = 1
    backfill_id: Id
    chunk_index: Int64
    expected_state_version: Int64
    partition_keys: tuple[Id, ...]
    run_key: Id
    request_fingerprint: str


class BackfillStateChanged(Event, frozen=True, kw_only=True, tag="BackfillStateChanged"):
    """A person pauses, resumes or cancels. Conditional on the version they saw, if given.

    A cancel with `force` ends its runs now: their executions lose their leases and are not waited
    for. It may follow a cancel without.
    """

    KIND: ClassVar[EventKind] = EventKind.COMMAND

    v: Literal[1] = 1
    backfill_id: Id
    to_state: BackfillState
    expected_state_version: Int64 | None = None
    changed_by: str = ""
    force: bool = False
