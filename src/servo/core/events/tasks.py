"""What workers report: an attempt was claimed, an attempt ended."""

from enum import StrEnum
from typing import Literal

import msgspec

from servo.core.events.envelope import Event, Instant
from servo.core.wire import Id, Int64, MaybeId


class TaskOutcome(StrEnum):
    """How an attempt ended, as its worker saw it."""

    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    SKIPPED = "SKIPPED"
    CANCELLED = "CANCELLED"
    TIMED_OUT = "TIMED_OUT"
    INTERRUPTED = "INTERRUPTED"


class Gate(StrEnum):
    """What the checks decided about an output."""

    PROMOTED = "promoted"
    WARNED = "warned"
    QUARANTINED = "quarantined"


class CommittedOutput(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an attempt produced, committed under its execution id.

    `asset_key` says of which asset it is, where a task makes several; empty means the task's own.
    `partition_key` says the same of partitions; empty means all that the task makes.
    """

    materialization_id: MaybeId
    asset_key: MaybeId = ""
    partition_key: MaybeId = ""
    uri: str = ""
    format: str = ""
    row_count: Int64 | None = None
    byte_size: Int64 | None = None
    schema_hash: str = ""
    content_hash: str = ""
    data_version: str = ""
    gate: Gate = Gate.PROMOTED
    metadata: str = ""


class TaskError(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why an attempt failed.

    `types` are the names of the exception's class and its bases, most derived first; `retriable`
    is None where the worker leaves it to the policy.
    """

    code: str = ""
    message: str = ""
    types: tuple[str, ...] = ()
    retriable: bool | None = None
    max_attempts: Int64 | None = None
    detail: str = ""


class TaskCost(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an attempt used; null is what was not measured.

    A number of bytes that is absent is 0, as in ledgers that were written before null was.
    """

    cpu_ms: Int64 = 0
    wall_ms: Int64 = 0
    peak_memory_bytes: Int64 = 0
    bytes_read: Int64 | None = 0
    bytes_written: Int64 | None = 0


class StoredLog(msgspec.Struct, frozen=True, kw_only=True):
    """Where the output of an execution to the terminal is stored, and what its bytes must be."""

    key: str
    size: Int64
    sha256: str


class TaskStarted(Event, frozen=True, kw_only=True, tag="TaskStarted"):
    """A worker claims an attempt for one execution. Only a granted claim may run user code."""

    v: Literal[1] = 1
    run_id: Id
    task_key: Id
    attempt_id: Id
    exec_id: Id
    worker_id: MaybeId = ""


class TaskFinished(Event, frozen=True, kw_only=True, tag="TaskFinished"):
    """The granted execution of an attempt ended.

    A task that defines several assets says in `outputs` which of them it produced, and only those
    count. `started_at` and `completed_at` are the worker's clock: information, never order.
    One that was `INTERRUPTED` before it `began` counts for nothing: the task is ready again, as if
    it had not been granted.
    """

    v: Literal[1] = 1
    run_id: Id
    task_key: Id
    attempt_id: Id
    exec_id: Id
    outcome: TaskOutcome
    output: CommittedOutput | None = None
    outputs: tuple[CommittedOutput, ...] = ()
    error: TaskError | None = None
    cost: TaskCost | None = None
    retry_after_ms: Int64 | None = None
    code_version: str = ""
    began: bool = True
    log: StoredLog | None = None
    started_at: Instant | None = None
    completed_at: Instant | None = None
