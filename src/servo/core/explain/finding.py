"""Findings: the parts of an explanation, each one recorded fact in plain words.

A finding says what happened (`text`), when and in which ledger entry, what it is about, and what
has to happen for it to change (`next`), with a command if there is one. `because` holds its causes,
so that findings form a tree whose leaves are first causes.

`what` is for programs: its meaning never changes, while the words may.
"""

from datetime import datetime
from enum import StrEnum

import msgspec


class FindingStatus(StrEnum):
    """Whether a finding is good, bad, or still open."""

    DONE = "done"
    WAITS = "waits"
    FAILED = "failed"
    NOTE = "note"


class What(StrEnum):
    """The kind of a finding."""

    # What requested a run.
    BY_HAND = "asked.by_hand"
    BY_SCHEDULE = "asked.by_schedule"
    BY_SENSOR = "asked.by_sensor"
    BY_BACKFILL = "asked.by_backfill"
    BY_AUTOMATION = "asked.by_automation"
    AGAIN = "asked.again"
    SAME_RUN_KEY = "asked.same_run_key"
    RUN_KEY_CONFLICT = "asked.run_key_conflict"
    CAUSE = "asked.cause"
    # The state of a run.
    RUN_UNPLANNED = "run.waits_for_plan"
    RUN_WAITS = "run.waits_for_slot"
    RUN_RUNNING = "run.running"
    RUN_STOPPING = "run.stopping"
    RUN_SUCCEEDED = "run.succeeded"
    RUN_FAILED = "run.failed"
    RUN_CANCELLED = "run.cancelled"
    RUN_TIMED_OUT = "run.timed_out"
    RUN_UNKNOWN = "run.unknown"
    PARKED = "run.parked_batches"
    DEAD_LETTER = "run.dead_letter"
    # The state of a task.
    TASK_PLANNED = "task.planned"
    TASK_BLOCKED = "task.waits_for_upstream"
    TASK_READY = "task.waits_for_worker"
    POOL_FULL = "task.waits_for_pool"
    SLOTS_FULL = "task.waits_for_slot"
    QUEUE_FULL = "task.waits_for_queue"
    TASK_SENT = "task.sent"
    TASK_RUNNING = "task.running"
    TASK_SILENT = "task.worker_silent"
    TASK_RETRY = "task.waits_for_retry"
    TASK_FAILED = "task.failed"
    TASK_SKIPPED = "task.skipped"
    TASK_CANCELLED = "task.cancelled"
    TASK_SUCCEEDED = "task.succeeded"
    CHECK_FAILED = "check.failed"
    # The state of an asset, or one of its partitions.
    MADE = "asset.made"
    NEVER_MADE = "asset.never_made"
    WIPED = "asset.wiped"
    UNDEFINED = "asset.undefined"
    FRESHNESS = "asset.freshness"
    PARTITIONS = "asset.partitions"
    UPSTREAM = "asset.upstream"
    HELD = "output.quarantined"
    REJECTED = "output.rejected"
    RELEASED = "output.released"
    WARNED = "output.warned"
    EXPIRED = "output.expired"
    # What would start it.
    SCHEDULE = "starts.schedule"
    SENSOR = "starts.sensor"
    BACKFILL = "starts.backfill"
    CONDITION = "starts.condition"
    EVALUATION = "condition.evaluation"
    CONDITION_PART = "condition.part"
    DAILY_LIMIT = "starts.daily_limit"
    NOTHING = "starts.nothing"
    MORE = "more"


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One recorded fact, what follows from it, and its causes."""

    what: What
    status: FindingStatus
    subject: str
    text: str
    at: datetime | None = None
    seq: int | None = None
    next: str = ""
    command: str = ""
    because: tuple["Finding", ...] = ()
