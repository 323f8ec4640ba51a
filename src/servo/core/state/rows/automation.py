"""Rows of the tables that start runs: schedules, sensors, backfills, run keys."""

from datetime import datetime

from servo.core.events.backfills import BackfillState, PartitionSelector
from servo.core.events.schedules import TickStatus
from servo.core.events.sensors import SensorEvalStatus, SensorMode
from servo.core.state.rows.row import Row
from servo.core.state.states import ChunkState, ScheduleStatus, SensorStatus


class ScheduleDefinitionRow(Row, frozen=True, kw_only=True):
    schedule_id: str
    cron_expressions: tuple[str, ...]
    timezone: str
    catchup_window_minutes: int
    max_catchup_ticks: int
    asset_selection: tuple[str, ...]
    partition_selection: tuple[str, ...] = ()
    enabled: bool = True
    labels: dict[str, str] = {}
    target: str = ""
    definition_version: int = 1
    created_at: datetime


class ScheduleStateRow(Row, frozen=True, kw_only=True):
    schedule_id: str
    status: ScheduleStatus
    low_water: datetime
    last_scheduled_for: datetime | None = None
    last_tick_id: str | None = None
    last_run_key: str | None = None
    last_status: TickStatus | None = None
    ticks_skipped: int = 0
    paused_at: datetime | None = None


class ScheduleTickRow(Row, frozen=True, kw_only=True):
    tick_id: str
    schedule_id: str
    scheduled_for: datetime
    definition_version: int
    asset_selection: tuple[str, ...] = ()
    partition_selection: tuple[str, ...] = ()
    status: TickStatus
    message: str = ""
    run_key: str | None = None
    run_id: str | None = None
    request_fingerprint: str | None = None
    skipped_count: int = 0
    skipped_until: datetime | None = None
    recorded_at: datetime
    request_position: str = ""
    cause: str = ""
    correlation: str = ""


class SensorDefinitionRow(Row, frozen=True, kw_only=True):
    sensor_id: str
    mode: SensorMode
    asset_selection: tuple[str, ...] = ()
    min_interval_ms: int = 30_000
    timeout_ms: int = 60_000
    enabled: bool = True
    labels: dict[str, str] = {}
    target: str = ""
    definition_version: int = 1
    created_at: datetime
    removed_at: datetime | None = None


class SensorStateRow(Row, frozen=True, kw_only=True):
    sensor_id: str
    status: SensorStatus
    cursor: str | None = None
    last_evaluation_at: datetime | None = None
    last_eval_id: str | None = None
    last_error: str = ""
    consecutive_failures: int = 0
    state_version: int = 0
    last_poll_epoch: int | None = None
    messages_received: int = 0
    messages_waiting: int = 0


class SensorMessageRow(Row, frozen=True, kw_only=True):
    """A message that waits for its evaluation; gone once it has one."""

    sensor_id: str
    message_id: str
    arrival: int
    payload: str = ""
    payload_digest: str = ""
    received_at: datetime
    attempts: int = 0
    last_attempt_at: datetime | None = None
    last_error: str = ""
    request_position: str = ""
    correlation: str = ""


class SensorEvalRow(Row, frozen=True, kw_only=True):
    """One evaluation. A push is keyed by its message, so that a redelivery finds it."""

    sensor_id: str
    dedup_key: str
    eval_id: str
    trigger: str
    message_id: str | None = None
    poll_epoch: int | None = None
    cursor_before: str | None = None
    cursor_after: str | None = None
    expected_state_version: int | None = None
    status: SensorEvalStatus
    stale: bool = False
    message: str = ""
    run_keys: tuple[str, ...] = ()
    evaluated_at: datetime
    request_position: str = ""
    cause: str = ""
    correlation: str = ""


class BackfillRow(Row, frozen=True, kw_only=True):
    backfill_id: str
    client_request_id: str
    request_fingerprint: str
    asset_selection: tuple[str, ...]
    selector: PartitionSelector
    partition_keys: tuple[str, ...] = ()
    partitions_digest: str = ""
    state: BackfillState
    state_version: int = 1
    total_partitions: int
    total_chunks: int
    chunk_size: int
    max_concurrent_runs: int
    stop_on_failure: bool = False
    max_failed_partitions: int | None = None
    priority: int = 0
    labels: dict[str, str] = {}
    planned_chunks: int = 0
    completed_chunks: int = 0
    failed_chunks: int = 0
    cancelled_chunks: int = 0
    active_chunks: int = 0
    partitions_succeeded: int = 0
    partitions_failed: int = 0
    partitions_skipped: int = 0
    parent_backfill_id: str | None = None
    created_at: datetime
    finished_at: datetime | None = None
    changed_by: str = ""
    requested_by: str = ""
    request_position: str = ""
    cause: str = ""
    correlation: str = ""
    location: str = ""


class BackfillChunkRow(Row, frozen=True, kw_only=True):
    backfill_id: str
    chunk_index: int
    partition_keys: tuple[str, ...]
    failed_partition_keys: tuple[str, ...] = ()
    run_key: str
    run_id: str | None = None
    request_fingerprint: str = ""
    state: ChunkState
    planned_at: datetime
    finished_at: datetime | None = None


class RunKeyRow(Row, frozen=True, kw_only=True):
    run_key: str
    run_id: str
    request_fingerprint: str
    created_at: datetime


class RunKeyConflictRow(Row, frozen=True, kw_only=True):
    run_key: str
    existing_run_id: str
    existing_fingerprint: str
    conflicting_fingerprint: str
    conflicting_batch_id: str
    detected_at: datetime
    occurrences: int = 1
