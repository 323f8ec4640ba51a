"""Rows of the tables about data: assets, partitions, materializations, checks."""

from datetime import datetime

from servo.core.events.assets import Severity
from servo.core.events.tasks import Gate, TaskOutcome
from servo.core.state.rows.row import Row


class AssetRow(Row, frozen=True, kw_only=True):
    """`latest_floor` is the seq of the newest output, or of the last wipe.

    No output recorded at or before it can become the latest: neither one approved after a newer one
    was promoted, nor one from before a wipe.

    `wiped_seq` is the seq of the last wipe of the whole asset. The rows of its partitions do not
    change: those last changed before it count as wiped (`state.derived`).

    `data_changed_seq` is the seq that last materialized or observed data of another version, or of
    none. In an asset with partitions, each partition has its own.
    """

    asset_key: str
    defined: bool = False
    location: str = ""
    deployment_id: str = ""
    group: str = ""
    upstream: tuple[str, ...] = ()
    code_version: str = ""
    code_changed_at: datetime | None = None
    partitions: str = ""
    description: str = ""
    tags: dict[str, str] = {}
    owners: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    freshness_policy: str = ""
    automation_condition: str = ""
    check_conditions: dict[str, str] = {}
    retention_versions: int | None = None
    retention_age_ms: int | None = None
    partition_mappings: dict[str, str] = {}
    last_materialization_id: str | None = None
    last_materialization_at: datetime | None = None
    last_materialization_seq: int | None = None
    last_materialization_run_id: str | None = None
    last_partition_key: str | None = None
    last_output_uri: str = ""
    last_data_version: str = ""
    last_observed_at: datetime | None = None
    last_success_at: datetime | None = None
    last_failure_at: datetime | None = None
    consecutive_failures: int = 0
    last_check_passed: bool | None = None
    last_gating_decision: Gate | None = None
    latest_floor: int = 0
    wiped_seq: int = 0
    data_changed_seq: int = 0
    last_content_hash: str = ""


class PartitionStatusRow(Row, frozen=True, kw_only=True):
    """`latest_floor` is as in `AssetRow`, for this partition alone.

    `stale_since` and `stale_reason_code` stay null: one event may make a million partitions
    stale, so it is computed when asked (`servo.operations.stale`).
    """

    asset_key: str
    partition_key: str
    last_materialization_id: str | None = None
    last_materialization_run_id: str | None = None
    last_materialization_at: datetime | None = None
    last_materialization_seq: int | None = None
    last_materialization_code_version: str | None = None
    last_output_uri: str = ""
    last_data_version: str = ""
    last_attempt_run_id: str | None = None
    last_attempt_at: datetime | None = None
    last_attempt_outcome: TaskOutcome | None = None
    stale_since: datetime | None = None
    stale_reason_code: str | None = None
    partition_values: dict[str, str] = {}
    latest_floor: int = 0
    last_observed_at: datetime | None = None
    data_changed_seq: int = 0
    last_content_hash: str = ""


class DynamicPartitionRow(Row, frozen=True, kw_only=True):
    """A key of a set. `number` is its own for ever: no other key of the set has it, had it or will.

    A key that is removed and added again is another partition, with another number. 0 is one that
    was published before keys had numbers.
    """

    set_name: str
    partition_key: str
    added_at: datetime
    number: int = 0


class PartitionSetRow(Row, frozen=True, kw_only=True):
    """A dynamic set of partitions; `numbered` is the last number that one of its keys was given."""

    set_name: str
    numbered: int = 0


class MaterializationRow(Row, frozen=True, kw_only=True):
    """`expired_at` is when its data expired: from then on it may be deleted.

    `created_seq` and `created_index` are the position of the event that recorded it.
    """

    materialization_id: str
    asset_key: str
    partition_key: str | None = None
    run_id: str
    task_key: str
    attempt: int
    exec_id: str
    output_uri: str = ""
    output_format: str = ""
    row_count: int | None = None
    byte_size: int | None = None
    schema_hash: str = ""
    content_hash: str = ""
    data_version: str = ""
    code_version: str = ""
    gating_decision: Gate = Gate.PROMOTED
    promoted: bool = True
    decided_by: str = ""
    decision_reason: str = ""
    decided_at: datetime | None = None
    metadata: str = ""
    created_at: datetime
    created_seq: int
    expired_at: datetime | None = None
    created_index: int | None = None


class CheckResultRow(Row, frozen=True, kw_only=True):
    run_id: str
    task_key: str
    attempt_id: str
    asset_key: str
    partition_key: str | None = None
    check_name: str
    passed: bool
    severity: Severity
    blocking: bool = False
    message: str = ""
    metadata: str = ""
    materialization_id: str = ""
    evaluated_at: datetime
