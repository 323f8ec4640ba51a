"""The folded state of one workspace.

The fold changes it through `Table.put` and `Table.drop` only. A change is first in the journal;
`rollback` takes back everything after a mark, `seal` makes what is in the journal final and
marks the rows as changed since the last publish. Readers outside the leader never see this
object: they read what was published.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from servo.core.events.assets import AssetDefinition
from servo.core.plan import TaskSpec
from servo.core.state.index import Index
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
from servo.core.state.table import RowChange, Table
from servo.core.state.tables import TABLES, Residency

EPOCH_START = datetime(1970, 1, 1, tzinfo=UTC)


class State:
    """All tables of one workspace, their indexes, and where in the ledger they stand."""

    def __init__(self, tenant: str, workspace: str) -> None:
        self.tenant = tenant
        self.workspace = workspace
        self.seq = 0
        self.epoch = 0
        self.ts = EPOCH_START
        self.last_hash = ""
        self.min_reader = 1
        self.journal: list[RowChange] = []
        self.index = index = Index()
        self.plan_segments: dict[str, tuple[TaskSpec, ...]] = {}
        self.definitions: dict[str, tuple[AssetDefinition, ...]] = {}
        self.tables: dict[str, Table[Any]] = {}
        self.runs: Table[RunRow] = self._table("runs", index.on_run)
        self.tasks: Table[TaskRow] = self._table("tasks", index.on_task)
        self.edges: Table[DepSatisfactionRow] = self._table(
            "dep_satisfaction", index.on_edge, each=False
        )
        self.outbox: Table[DispatchOutboxRow] = self._table("dispatch_outbox", index.on_outbox)
        self.timers: Table[TimerRow] = self._table("timers", index.on_timer)
        self.task_costs: Table[TaskCostRow] = self._table("task_costs")
        self.heartbeats: Table[TaskHeartbeatRow] = self._table("task_heartbeats")
        self.schedules: Table[ScheduleDefinitionRow] = self._table("schedule_definitions")
        self.schedule_state: Table[ScheduleStateRow] = self._table("schedule_state")
        self.schedule_ticks: Table[ScheduleTickRow] = self._table("schedule_ticks")
        self.sensors: Table[SensorDefinitionRow] = self._table("sensor_definitions")
        self.sensor_state: Table[SensorStateRow] = self._table("sensor_state")
        self.sensor_messages: Table[SensorMessageRow] = self._table("sensor_messages")
        self.sensor_evals: Table[SensorEvalRow] = self._table("sensor_evals")
        self.automation_sensors: Table[AutomationSensorRow] = self._table("automation_sensors")
        self.automation_state: Table[AutomationStateRow] = self._table("automation_state")
        self.automation_evaluations: Table[AutomationEvaluationRow] = self._table(
            "automation_evaluations"
        )
        self.backfills: Table[BackfillRow] = self._table("backfills", index.on_backfill)
        self.chunks: Table[BackfillChunkRow] = self._table(
            "backfill_chunks", index.on_chunk, each=False
        )
        self.partitions: Table[PartitionStatusRow] = self._table("partition_status")
        self.dynamic_partitions: Table[DynamicPartitionRow] = self._table("dynamic_partitions")
        self.partition_sets: Table[PartitionSetRow] = self._table("partition_sets")
        self.run_keys: Table[RunKeyRow] = self._table("run_key_index")
        self.run_key_conflicts: Table[RunKeyConflictRow] = self._table("run_key_conflicts")
        self.assets: Table[AssetRow] = self._table("assets", index.on_asset)
        self.materializations: Table[MaterializationRow] = self._table("materializations")
        self.check_results: Table[CheckResultRow] = self._table("check_results")
        self.freshness: Table[AssetFreshnessRow] = self._table(
            "asset_freshness", index.on_freshness
        )
        self.freshness_changes: Table[FreshnessChangeRow] = self._table("freshness_changes")
        self.quotas: Table[QuotaRow] = self._table("quotas", index.on_quota)
        self.ledger_index: Table[LedgerIndexRow] = self._table("ledger_index")
        self.answers: Table[IdempotencyKeyRow] = self._table("idempotency_keys")
        self.parked: Table[ParkedBatchRow] = self._table("parked_batches", index.on_parked)
        self.dead_letter: Table[DeadLetterRow] = self._table("dead_letter")

    def _table(self, name: str, watch: Any = None, *, each: bool = True) -> Any:
        table: Table[Any] = Table(TABLES[name], self.journal, watch, each=each)
        self.tables[name] = table
        return table

    def rollback(self, mark: int) -> None:
        """Take back every change after `mark`, newest first."""
        journal = self.journal
        while len(journal) > mark:
            table, key, old, _ = journal.pop()
            table.undo(key, old)

    def seal(self) -> None:
        """Make the journalled changes final and remember the rows for the next publish."""
        journal = self.journal
        for table, key, _, row in journal:
            table.dirty[key] = row
        journal.clear()

    def forget_loaded(self) -> None:
        """Let go of the plans and lists that were read for the entry just folded."""
        self.plan_segments.clear()
        self.definitions.clear()

    def hydrate(self, table: str, rows: Iterable[Row]) -> None:
        """Bring back rows that had left memory, before a fold that needs them."""
        target = self.tables[table]
        key_of = target.spec.key_of
        for row in rows:
            target.load(key_of(row), row)


def folded_tables() -> tuple[str, ...]:
    """Names of the tables that are a function of the ledger."""
    return tuple(n for n, spec in TABLES.items() if spec.residency is not Residency.VOLATILE)
