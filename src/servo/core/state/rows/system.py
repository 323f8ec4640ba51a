"""Rows of the tables about the ledger itself: its index, answers given, what could not apply."""

from datetime import datetime

from servo.core.events.envelope import Encoding, Status, WaitsUntil
from servo.core.state.rows.row import Row


class LedgerIndexRow(Row, frozen=True, kw_only=True):
    """A batch. Its events are those from `first_index` on; None if it waited in another entry."""

    seq: int
    batch_index: int
    batch_id: str
    actor: str
    epoch: int
    ts: datetime
    event_count: int
    event_types: tuple[str, ...]
    run_id: str | None = None
    first_index: int | None = None
    request_id: str = ""
    correlation: str = ""
    cause: str = ""


class IdempotencyKeyRow(Row, frozen=True, kw_only=True):
    """An answer that was given; `first_index` is its `index`, which the text leaves out."""

    idempotency_key: str
    request_hash: str
    answer: str
    created_at: datetime
    first_index: int | None = None


class QuotaRow(Row, frozen=True, kw_only=True):
    """`scope` is `workspace`, `pool` or `lane`; `name` is empty for the workspace."""

    scope: str
    name: str
    max_concurrent_tasks: int | None = None
    max_concurrent_runs: int | None = None
    max_queued_tasks: int | None = None
    max_daily_runs: int | None = None
    max_run_duration_ms: int | None = None
    max_tasks_per_run: int | None = None
    max_backfill_concurrency: int | None = None
    weight: int | None = None
    daily_runs_day: str = ""
    daily_runs_count: int = 0
    updated_at: datetime


class ParkedBatchRow(Row, frozen=True, kw_only=True):
    """A batch that came before what it is about; `batch` is its JSON, `first_index` its place."""

    batch_id: str
    waits_for_run_id: str
    waits_until: WaitsUntil = WaitsUntil.REQUESTED
    reason: str
    batch: str
    parked_at: datetime
    expires_at: datetime
    first_index: int = 0


class DeadLetterRow(Row, frozen=True, kw_only=True):
    """What could not be applied. `source` is the inbox object it came in, or the batch."""

    source: str
    sha256: str
    batch_id: str
    seq: int
    status: Status
    code: str
    reason: str
    run_id: str | None = None
    fold_version: int
    size: int
    encoding: Encoding
    original: str
    recorded_at: datetime
