"""Every public table: its row, its primary key, and how long its rows stay in memory.

Residency decides what the leader keeps, never what a reader sees. `LIVE` rows stay. `RUN` rows
leave when their run has been over for a while. `HISTORY` rows leave as soon as they are
published. A row that has left and is needed again is fetched by key before the fold runs, so a
fold with evictions and one without give the same answers.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from operator import attrgetter
from types import MappingProxyType
from typing import Any

import msgspec

from servo.core.state.rows.assets import (
    AssetRow,
    CheckResultRow,
    DynamicPartitionRow,
    MaterializationRow,
    PartitionSetRow,
    PartitionStatusRow,
)
from servo.core.state.rows.automation import (
    BackfillChunkRow,
    BackfillRow,
    RunKeyConflictRow,
    RunKeyRow,
    ScheduleDefinitionRow,
    ScheduleStateRow,
    ScheduleTickRow,
    SensorDefinitionRow,
    SensorEvalRow,
    SensorMessageRow,
    SensorStateRow,
)
from servo.core.state.rows.conditions import (
    AssetFreshnessRow,
    AutomationEvaluationRow,
    AutomationSensorRow,
    AutomationStateRow,
    FreshnessChangeRow,
)
from servo.core.state.rows.execution import (
    DepSatisfactionRow,
    DispatchOutboxRow,
    RunRow,
    TaskCostRow,
    TaskHeartbeatRow,
    TaskRow,
    TimerRow,
)
from servo.core.state.rows.row import Row
from servo.core.state.rows.system import (
    DeadLetterRow,
    IdempotencyKeyRow,
    LedgerIndexRow,
    ParkedBatchRow,
    QuotaRow,
)


class Residency(StrEnum):
    LIVE = "live"
    RUN = "run"
    HISTORY = "history"
    VOLATILE = "volatile"


class TableSpec(msgspec.Struct, frozen=True):
    """`indexed` tables can be asked for a row that has left memory; they carry key filters."""

    name: str
    row: type[Row]
    key: tuple[str, ...]
    residency: Residency
    indexed: bool = False

    @property
    def key_of(self) -> Callable[[Any], Any]:
        """Reads the primary key of a row: the bare value, or a tuple for several columns."""
        return attrgetter(*self.key)


_LIVE, _RUN, _HISTORY = Residency.LIVE, Residency.RUN, Residency.HISTORY

_SPECS = (
    TableSpec("runs", RunRow, ("run_id",), _RUN, indexed=True),
    TableSpec("tasks", TaskRow, ("run_id", "task_key"), _RUN, indexed=True),
    TableSpec(
        "dep_satisfaction",
        DepSatisfactionRow,
        ("run_id", "upstream_task_key", "downstream_task_key"),
        _RUN,
    ),
    TableSpec("dispatch_outbox", DispatchOutboxRow, ("attempt_id", "delivery"), _RUN),
    TableSpec("timers", TimerRow, ("timer_id",), _RUN),
    TableSpec("task_costs", TaskCostRow, ("run_id", "task_key", "attempt"), _HISTORY),
    TableSpec("task_heartbeats", TaskHeartbeatRow, ("run_id", "task_key"), Residency.VOLATILE),
    TableSpec("schedule_definitions", ScheduleDefinitionRow, ("schedule_id",), _LIVE),
    TableSpec("schedule_state", ScheduleStateRow, ("schedule_id",), _LIVE),
    TableSpec("schedule_ticks", ScheduleTickRow, ("tick_id",), _HISTORY, indexed=True),
    TableSpec("sensor_definitions", SensorDefinitionRow, ("sensor_id",), _LIVE),
    TableSpec("sensor_state", SensorStateRow, ("sensor_id",), _LIVE),
    TableSpec("sensor_messages", SensorMessageRow, ("sensor_id", "message_id"), _LIVE),
    TableSpec("sensor_evals", SensorEvalRow, ("sensor_id", "dedup_key"), _HISTORY, indexed=True),
    TableSpec("automation_sensors", AutomationSensorRow, ("sensor_id",), _LIVE),
    TableSpec("automation_state", AutomationStateRow, ("sensor_id", "asset_key"), _LIVE),
    TableSpec(
        "automation_evaluations",
        AutomationEvaluationRow,
        ("sensor_id", "asset_key", "tick"),
        _HISTORY,
    ),
    TableSpec("backfills", BackfillRow, ("backfill_id",), _LIVE),
    TableSpec("backfill_chunks", BackfillChunkRow, ("backfill_id", "chunk_index"), _LIVE),
    TableSpec(
        "partition_status",
        PartitionStatusRow,
        ("asset_key", "partition_key"),
        _HISTORY,
        indexed=True,
    ),
    TableSpec(
        "dynamic_partitions",
        DynamicPartitionRow,
        ("set_name", "partition_key"),
        _HISTORY,
        indexed=True,
    ),
    TableSpec("partition_sets", PartitionSetRow, ("set_name",), _LIVE),
    TableSpec("run_key_index", RunKeyRow, ("run_key",), _HISTORY, indexed=True),
    TableSpec(
        "run_key_conflicts",
        RunKeyConflictRow,
        ("run_key", "conflicting_fingerprint"),
        _HISTORY,
        indexed=True,
    ),
    TableSpec("assets", AssetRow, ("asset_key",), _LIVE),
    TableSpec(
        "materializations", MaterializationRow, ("materialization_id",), _HISTORY, indexed=True
    ),
    TableSpec(
        "check_results",
        CheckResultRow,
        ("attempt_id", "asset_key", "check_name"),
        _HISTORY,
        indexed=True,
    ),
    TableSpec("asset_freshness", AssetFreshnessRow, ("asset_key",), _LIVE),
    TableSpec("freshness_changes", FreshnessChangeRow, ("asset_key", "version"), _HISTORY),
    TableSpec("quotas", QuotaRow, ("scope", "name"), _LIVE),
    TableSpec("ledger_index", LedgerIndexRow, ("seq", "batch_index"), _HISTORY),
    TableSpec("idempotency_keys", IdempotencyKeyRow, ("idempotency_key",), _HISTORY, indexed=True),
    TableSpec("parked_batches", ParkedBatchRow, ("batch_id",), _LIVE),
    TableSpec("dead_letter", DeadLetterRow, ("source", "sha256"), _HISTORY, indexed=True),
)

TABLES: Mapping[str, TableSpec] = MappingProxyType({spec.name: spec for spec in _SPECS})
