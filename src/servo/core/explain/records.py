"""Look up what an explanation needs.

A reader only has to implement `Tables`: the rows of a table with certain values, or the last few
that changed, so that a long history costs no more than is read. `Records` reads what each question
needs and caches it, because a chain of causes visits the same rows repeatedly.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Protocol

import msgspec

from servo.core.declared import AUTOMATION_LABEL
from servo.core.events.tasks import Gate, TaskOutcome
from servo.core.fold.limits import DEFAULT_MAX_CONCURRENT_TASKS
from servo.core.positions import Position
from servo.core.state.rows.assets import (
    AssetRow,
    CheckResultRow,
    MaterializationRow,
    PartitionStatusRow,
)
from servo.core.state.rows.automation import (
    BackfillChunkRow,
    BackfillRow,
    RunKeyConflictRow,
    ScheduleDefinitionRow,
    ScheduleStateRow,
    ScheduleTickRow,
    SensorDefinitionRow,
    SensorEvalRow,
    SensorStateRow,
)
from servo.core.state.rows.conditions import (
    AssetFreshnessRow,
    AutomationEvaluationRow,
    AutomationStateRow,
)
from servo.core.state.rows.execution import (
    DepSatisfactionRow,
    RunRow,
    TaskHeartbeatRow,
    TaskRow,
)
from servo.core.state.rows.system import DeadLetterRow, LedgerIndexRow, ParkedBatchRow, QuotaRow
from servo.core.state.states import RunState, TaskState

MOST_TASKS = 50


class Subject(msgspec.Struct, frozen=True):
    """An asset, or one of its partitions."""

    asset_key: str
    partition_key: str | None = None


class Tables(Protocol):
    """The tables of a workspace at one time."""

    def rows(self, table: str, *, most: int | None = None, **where: str) -> Sequence[Any]:
        """The rows of a table with these column values, most recently changed first.

        For a column with a list, the value must be in the list; a number is compared as text. At
        most `most` rows are returned.
        """
        ...


class Records:
    """The records of a workspace, and the time of the explanation.

    `led` is whether a leader is running; None if that is unknown. `whole` is whether to include
    every part of a condition, not only those that decided it.
    """

    def __init__(
        self, tables: Tables, now: datetime, *, led: bool | None = None, whole: bool = False
    ) -> None:
        self._tables = tables
        self._known: dict[tuple[str, ...], Any] = {}
        self.now = now
        self.led = led
        self.whole = whole

    def _rows(self, table: str, *, most: int | None = None, **where: str) -> list[Any]:
        key = (table, str(most), *(part for item in sorted(where.items()) for part in item))
        if key not in self._known:
            self._known[key] = list(self._tables.rows(table, most=most, **where))
        return self._known[key]

    def _one(self, table: str, **where: str) -> Any:
        rows = self._rows(table, most=1, **where)
        return rows[0] if rows else None

    # --- runs and tasks -----------------------------------------------------------------------

    def run(self, run_id: str) -> RunRow | None:
        return self._one("runs", run_id=run_id)

    def runs_in(self, *states: RunState) -> list[RunRow]:
        """The runs in these states, in the order of their requests."""
        rows: list[RunRow] = [row for state in states for row in self._rows("runs", state=state)]
        return sorted(rows, key=lambda row: (row.created_at, row.run_id))

    def tasks(self, run_id: str) -> dict[str, TaskRow]:
        """The tasks of a run by their keys."""
        rows: list[TaskRow] = self._rows("tasks", run_id=run_id)
        return {row.task_key: row for row in sorted(rows, key=lambda row: row.task_key)}

    def tasks_in(self, *states: TaskState) -> list[TaskRow]:
        """The tasks of all runs in these states, in the order in which they reached them."""
        rows: list[TaskRow] = [row for state in states for row in self._rows("tasks", state=state)]
        return sorted(rows, key=lambda row: (row.transitioned_at, row.run_id, row.task_key))

    def tasks_of(self, subject: Subject) -> list[TaskRow]:
        """The most recently changed tasks of an asset or a partition."""
        part = {} if subject.partition_key is None else {"partition_key": subject.partition_key}
        rows: list[TaskRow] = [
            *self._rows("tasks", most=MOST_TASKS, asset_key=subject.asset_key, **part),
            *self._rows("tasks", most=MOST_TASKS, also_makes=subject.asset_key, **part),
        ]
        return sorted(rows, key=lambda row: (row.row_version, row.task_key), reverse=True)

    def upstream(self, run_id: str) -> dict[str, list[DepSatisfactionRow]]:
        """The upstream tasks of each task of a run."""
        found: dict[str, list[DepSatisfactionRow]] = {}
        rows: list[DepSatisfactionRow] = self._rows("dep_satisfaction", run_id=run_id)
        for row in sorted(rows, key=lambda row: row.upstream_task_key):
            found.setdefault(row.downstream_task_key, []).append(row)
        return found

    def heartbeat(self, task: TaskRow) -> TaskHeartbeatRow | None:
        """The last heartbeat of the execution that holds a task."""
        rows: list[TaskHeartbeatRow] = self._rows("task_heartbeats", run_id=task.run_id)
        mine = (row for row in rows if row.task_key == task.task_key)
        return next((row for row in mine if row.exec_id == task.exec_id), None)

    def conflicts(self, run_key: str) -> list[RunKeyConflictRow]:
        return sorted(
            self._rows("run_key_conflicts", run_key=run_key), key=lambda row: row.row_version
        )

    def parked(self, run_id: str) -> list[ParkedBatchRow]:
        return sorted(
            self._rows("parked_batches", waits_for_run_id=run_id), key=lambda row: row.row_version
        )

    def dead_letters(self, run_id: str) -> list[DeadLetterRow]:
        """Batches about a run that could not be applied."""
        rows: list[DeadLetterRow] = self._rows("dead_letter")
        mine = [row for row in rows if row.run_id == run_id or f'"{run_id}"' in row.original]
        return sorted(mine, key=lambda row: row.seq)

    # --- limits -------------------------------------------------------------------------------

    def quota(self, scope: str, name: str = "") -> QuotaRow | None:
        rows: list[QuotaRow] = self._rows("quotas", scope=scope)
        return next((row for row in rows if row.name == name), None)

    def most_tasks(self) -> int:
        """How many attempts may be in flight in the workspace."""
        quota = self.quota("workspace")
        if quota is None or quota.max_concurrent_tasks is None:
            return DEFAULT_MAX_CONCURRENT_TASKS
        return quota.max_concurrent_tasks

    # --- assets -------------------------------------------------------------------------------

    def asset(self, asset_key: str) -> AssetRow | None:
        return self._one("assets", asset_key=asset_key)

    def partition(self, asset_key: str, partition_key: str) -> PartitionStatusRow | None:
        return self._one("partition_status", asset_key=asset_key, partition_key=partition_key)

    def failing_partitions(self, asset_key: str) -> list[str]:
        """Partitions of an asset whose last attempt failed; not all if there are many."""
        rows: list[PartitionStatusRow] = [
            row
            for outcome in (TaskOutcome.FAILED, TaskOutcome.TIMED_OUT)
            for row in self._rows(
                "partition_status",
                most=MOST_TASKS,
                asset_key=asset_key,
                last_attempt_outcome=outcome,
            )
        ]
        return sorted(row.partition_key for row in rows)

    def output(self, materialization_id: str) -> MaterializationRow | None:
        return self._one("materializations", materialization_id=materialization_id)

    def outputs_of(self, task: TaskRow) -> list[MaterializationRow]:
        """The outputs of a task."""
        rows: list[MaterializationRow] = self._rows(
            "materializations", run_id=task.run_id, task_key=task.task_key
        )
        return sorted(rows, key=lambda row: row.asset_key)

    def quarantined(self, subject: Subject) -> list[MaterializationRow]:
        """Quarantined outputs, decided or not, newest first."""
        rows: list[MaterializationRow] = self._rows(
            "materializations", asset_key=subject.asset_key, gating_decision=Gate.QUARANTINED
        )
        part = subject.partition_key
        mine = [row for row in rows if part is None or row.partition_key == part]
        return sorted(mine, key=lambda row: row.created_seq, reverse=True)

    def checks(self, run_id: str, attempt_id: str) -> list[CheckResultRow]:
        """The check results of an attempt."""
        rows: list[CheckResultRow] = self._rows("check_results", run_id=run_id)
        mine = [row for row in rows if row.attempt_id == attempt_id]
        return sorted(mine, key=lambda row: (row.asset_key, row.check_name))

    # --- schedules, sensors, backfills --------------------------------------------------------

    def schedule(self, schedule_id: str) -> ScheduleDefinitionRow | None:
        return self._one("schedule_definitions", schedule_id=schedule_id)

    def schedule_state(self, schedule_id: str) -> ScheduleStateRow | None:
        return self._one("schedule_state", schedule_id=schedule_id)

    def schedules_of(self, asset_key: str) -> list[ScheduleDefinitionRow]:
        """The schedules that select an asset."""
        return sorted(
            self._selecting("schedule_definitions", asset_key), key=lambda row: row.schedule_id
        )

    def tick(self, tick_id: str) -> ScheduleTickRow | None:
        return self._one("schedule_ticks", tick_id=tick_id)

    def last_tick(self, schedule_id: str) -> ScheduleTickRow | None:
        """The last recorded tick, or skipped stretch, of a schedule."""
        rows: list[ScheduleTickRow] = self._rows("schedule_ticks", most=3, schedule_id=schedule_id)
        return max(rows, key=lambda row: (row.recorded_at, row.tick_id), default=None)

    def ticks_of_run(self, run_id: str) -> list[ScheduleTickRow]:
        return sorted(self._rows("schedule_ticks", run_id=run_id), key=lambda row: row.row_version)

    def sensor(self, sensor_id: str) -> SensorDefinitionRow | None:
        return self._one("sensor_definitions", sensor_id=sensor_id)

    def sensor_state(self, sensor_id: str) -> SensorStateRow | None:
        return self._one("sensor_state", sensor_id=sensor_id)

    def sensors_of(self, asset_key: str) -> list[SensorDefinitionRow]:
        """The sensors that select an asset."""
        return sorted(
            self._selecting("sensor_definitions", asset_key), key=lambda row: row.sensor_id
        )

    def automation_sensors(self) -> list[SensorDefinitionRow]:
        """The sensors that evaluate conditions and were not removed."""
        rows: list[SensorDefinitionRow] = self._rows("sensor_definitions")
        found = [row for row in rows if AUTOMATION_LABEL in row.labels and row.removed_at is None]
        return sorted(found, key=lambda row: row.sensor_id)

    def condition_states(self, asset_key: str) -> list[AutomationStateRow]:
        """The stored states of the condition of an asset, most recent evaluation first."""
        return self._rows("automation_state", asset_key=asset_key)

    def last_condition(self, sensor_id: str, asset_key: str) -> AutomationEvaluationRow | None:
        """The last recorded evaluation of a condition."""
        return self._one("automation_evaluations", sensor_id=sensor_id, asset_key=asset_key)

    def conditions_at(self, sensor_id: str, tick: int) -> list[AutomationEvaluationRow]:
        """The recorded results of an evaluation, by asset."""
        rows: list[AutomationEvaluationRow] = self._rows(
            "automation_evaluations", sensor_id=sensor_id, tick=str(tick)
        )
        return sorted(rows, key=lambda row: row.asset_key)

    def freshness(self, asset_key: str) -> AssetFreshnessRow | None:
        return self._one("asset_freshness", asset_key=asset_key)

    def last_evaluation(self, sensor_id: str) -> SensorEvalRow | None:
        """The last recorded evaluation of a sensor."""
        return next(iter(self._rows("sensor_evals", most=1, sensor_id=sensor_id)), None)

    def evaluation(self, sensor_id: str, eval_id: str) -> SensorEvalRow | None:
        return self._one("sensor_evals", sensor_id=sensor_id, eval_id=eval_id)

    def evaluations_for(self, run_key: str) -> list[SensorEvalRow]:
        """The evaluations that requested a run key, oldest first."""
        return sorted(self._rows("sensor_evals", run_keys=run_key), key=lambda row: row.row_version)

    def backfill(self, backfill_id: str) -> BackfillRow | None:
        return self._one("backfills", backfill_id=backfill_id)

    def backfills_of(self, asset_key: str) -> list[BackfillRow]:
        """The backfills that an asset is in, newest first."""
        rows: list[BackfillRow] = self._selecting("backfills", asset_key)
        return sorted(rows, key=lambda row: (row.created_at, row.backfill_id), reverse=True)

    def active_chunks(self) -> int:
        """How many active runs all backfills of the workspace have."""
        rows: list[BackfillRow] = self._rows("backfills")
        return sum(row.active_chunks for row in rows if row.finished_at is None)

    def chunks(self, backfill_id: str) -> list[BackfillChunkRow]:
        return sorted(
            self._rows("backfill_chunks", backfill_id=backfill_id),
            key=lambda row: row.chunk_index,
        )

    def _selecting(self, table: str, asset_key: str) -> list[Any]:
        """The rows that select an asset, however they spell its key."""
        spellings = dict.fromkeys((asset_key, asset_key.replace("/", ".")))
        return [row for name in spellings for row in self._rows(table, asset_selection=name)]

    # --- events -------------------------------------------------------------------------------

    def batch_at(self, at: Position) -> LedgerIndexRow | None:
        """The batch that holds the event at a position."""
        rows: list[LedgerIndexRow] = self._rows("ledger_index", seq=str(at.seq))
        for row in rows:
            first = row.first_index
            if first is not None and first <= at.index < first + row.event_count:
                return row
        return None

    def starting_at(
        self, position: str
    ) -> RunRow | BackfillRow | ScheduleTickRow | SensorEvalRow | None:
        """What the event at a position created, if that starts something."""
        for table in ("schedule_ticks", "sensor_evals", "backfills", "runs"):
            if (row := self._one(table, request_position=position)) is not None:
                return row
        return None

    def run_of_key(self, run_key: str) -> RunRow | None:
        """The run that a run key belongs to."""
        return self._one("runs", run_key=run_key)
