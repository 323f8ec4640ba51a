"""Rows of the tables that follow a run: runs, tasks, edges, outbox, timers, costs."""

from datetime import datetime

from servo.core.events.runs import ManualSource, PlanSegment, SourceRef
from servo.core.events.tasks import TaskOutcome
from servo.core.events.timers import TimerType
from servo.core.keys import TaskOperation
from servo.core.retry import RetryRules
from servo.core.state.rows.row import Row
from servo.core.state.states import (
    OutboxStatus,
    Resolution,
    RunState,
    RunTransitionReason,
    TaskState,
    TimerState,
    TransitionReason,
)


class RunRow(Row, frozen=True, kw_only=True):
    run_id: str
    run_key: str
    request_fingerprint: str
    state: RunState
    reason: RunTransitionReason
    transitioned_at: datetime
    created_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None
    plan_deadline: datetime | None = None
    deadline: datetime | None = None
    timeout_ms: int = 0
    source: SourceRef = ManualSource()
    asset_selection: tuple[str, ...] = ()
    partition_selection: tuple[str, ...] = ()
    labels: dict[str, str] = {}
    lane: str = ""
    priority: int = 0
    parent_run_id: str | None = None
    backfill_id: str | None = None
    plan_fingerprint: str = ""
    plan_segments: tuple[PlanSegment, ...] = ()
    segments_expanded: int = 0
    task_count: int = 0
    tasks_succeeded: int = 0
    tasks_failed: int = 0
    tasks_skipped: int = 0
    tasks_cancelled: int = 0
    cancel_requested_at: datetime | None = None
    cancel_requested_by: str = ""
    cancel_reason: str = ""
    cancel_forced: bool = False
    timed_out: bool = False
    error: str = ""
    requested_by: str = ""
    request_text: str = ""
    request_position: str = ""
    cause: str = ""
    correlation: str = ""
    location: str = ""


class TaskRow(Row, frozen=True, kw_only=True):
    run_id: str
    task_key: str
    state: TaskState
    reason: TransitionReason
    transitioned_at: datetime
    asset_key: str = ""
    also_makes: tuple[str, ...] = ()
    partition_key: str | None = None
    also_partitions: tuple[str, ...] = ()
    operation: TaskOperation = TaskOperation.MATERIALIZE
    attempt: int = 0
    attempt_id: str = ""
    exec_id: str = ""
    worker_id: str = ""
    fencing_token: int = 0
    delivery: int = 0
    deps_total: int = 0
    deps_satisfied_count: int = 0
    deps_resolved_count: int = 0
    upstream_failed: bool = False
    upstream_cancelled: bool = False
    user_failures: int = 0
    infra_losses: int = 0
    max_attempts: int = 3
    retry: RetryRules | None = None
    priority: int = 0
    pool: str = ""
    queue: str = ""
    lane: str = ""
    heartbeat_timeout_ms: int = 300_000
    dispatch_ack_timeout_ms: int = 30_000
    execution_timeout_ms: int = 0
    memory_bytes: int = 0
    cpu_millicores: int = 0
    ready_at: datetime | None = None
    dispatched_at: datetime | None = None
    dispatch_deadline: datetime | None = None
    started_at: datetime | None = None
    lease_expires_at: datetime | None = None
    execution_deadline: datetime | None = None
    cancel_deadline: datetime | None = None
    retry_at: datetime | None = None
    finished_at: datetime | None = None
    reported: bool = False
    outcome: TaskOutcome | None = None
    late_outcome: TaskOutcome | None = None
    materialization_id: str | None = None
    error_code: str = ""
    error_message: str = ""
    code_version: str = ""
    config_digest: str | None = None
    tags: dict[str, str] = {}
    location: str = ""


class DepSatisfactionRow(Row, frozen=True, kw_only=True):
    run_id: str
    upstream_task_key: str
    downstream_task_key: str
    satisfied: bool = False
    resolution: Resolution | None = None
    satisfied_at: datetime | None = None
    satisfying_attempt: int | None = None


class DispatchOutboxRow(Row, frozen=True, kw_only=True):
    dispatch_id: str
    cloud_task_id: str
    run_id: str
    task_key: str
    attempt: int
    attempt_id: str
    delivery: int
    status: OutboxStatus
    worker_queue: str
    created_at: datetime


class TimerRow(Row, frozen=True, kw_only=True):
    timer_id: str
    cloud_task_id: str
    timer_type: TimerType
    run_id: str | None = None
    task_key: str | None = None
    attempt: int | None = None
    fire_at: datetime
    state: TimerState
    enqueued: bool = False
    payload: str = ""


class TaskCostRow(Row, frozen=True, kw_only=True):
    run_id: str
    task_key: str
    attempt: int
    cpu_ms: int = 0
    wall_ms: int = 0
    peak_memory_bytes: int = 0
    bytes_read: int | None = None
    bytes_written: int | None = None
    recorded_at: datetime


class TaskHeartbeatRow(Row, frozen=True, kw_only=True):
    """Kept in the leader's memory and shown for information: not folded, lost on takeover."""

    run_id: str
    task_key: str
    attempt_id: str
    exec_id: str
    worker_id: str
    last_heartbeat_at: datetime
    beats: int
