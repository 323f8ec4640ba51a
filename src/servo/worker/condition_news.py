"""What changed in a workspace, told to an evaluation of conditions that goes on."""

from collections.abc import Iterable, Mapping
from typing import Any

from servo.core.automation.evaluating import Evaluator
from servo.core.events.backfills import BackfillState
from servo.core.events.tasks import TaskOutcome
from servo.core.state.rows.assets import (
    AssetRow,
    CheckResultRow,
    MaterializationRow,
    PartitionStatusRow,
)
from servo.core.state.rows.conditions import AssetFreshnessRow
from servo.core.state.rows.execution import TaskRow
from servo.core.state.state import State
from servo.core.state.states import TERMINAL_TASK_STATES
from servo.projection.follower import Changed
from servo.sdk.condition_spaces import KeySpace

_FAILED = frozenset({TaskOutcome.FAILED, TaskOutcome.TIMED_OUT})
_OVER = frozenset({BackfillState.SUCCEEDED, BackfillState.FAILED, BackfillState.CANCELLED})


class News:
    """Tells an evaluation the rows that changed, in the order of the ledger."""

    def __init__(self, evaluator: Evaluator, spaces: Mapping[str, KeySpace], state: State) -> None:
        self._evaluator = evaluator
        self._spaces = spaces
        self._state = state
        self._made: set[str] = set()
        self._running: dict[str, dict[tuple[str, str], int]] = {}
        for row in list(state.tasks.rows.values()):
            self._note(row)

    def tell(self, changed: Changed) -> None:
        """Tell what changed since it was told last."""
        for row in _ordered(changed, "materializations", MaterializationRow):
            self._tell_made(row)
        self._tell_wiped(changed)
        for row in _ordered(changed, "check_results", CheckResultRow):
            self._tell_checked(row)
        self._tell_attempts(changed)
        self._tell_running(changed)
        if "backfills" in changed:
            self._tell_backfills()
        for row in _ordered(changed, "asset_freshness", AssetFreshnessRow):
            if row.asset_key in self._evaluator.graph.assets:
                self._evaluator.world.judged(row.asset_key, row.state.value)

    def _tell_made(self, row: MaterializationRow) -> None:
        """Of one that was told before only whether its data is kept can be new."""
        known = row.asset_key in self._evaluator.graph.assets
        if not known or not row.promoted or row.materialization_id in self._made:
            return
        self._made.add(row.materialization_id)
        run = self._state.runs.rows.get(row.run_id)
        self._evaluator.world.made(
            row.asset_key,
            self._bits(row.asset_key, row.partition_key),
            row.created_at,
            with_assets=self._targets(row.run_id),
            tags={} if run is None else run.labels,
        )

    def _targets(self, run_id: str) -> set[str]:
        rows = self._state.tasks.rows
        found: set[str] = set()
        for name in self._state.index.run_tasks.get(run_id, ()):
            task = rows[run_id, name]
            found.update((task.asset_key, *task.also_makes))
        return found

    def _tell_wiped(self, changed: Changed) -> None:
        for row in _ordered(changed, "assets", AssetRow):
            if row.asset_key not in self._evaluator.graph.assets:
                continue
            gone = row.last_materialization_id is None and row.latest_floor == row.row_version
            if gone:
                self._evaluator.world.wiped(row.asset_key, self._everything(row.asset_key))
            elif row.last_materialization_id is None and row.last_observed_at is not None:
                seen = row.last_observed_at
                self._evaluator.world.made(row.asset_key, self._bits(row.asset_key, None), seen)
        for row in _ordered(changed, "partition_status", PartitionStatusRow):
            gone = row.last_materialization_id is None and row.latest_floor == row.row_version
            if gone and row.asset_key in self._evaluator.graph.assets:
                bits = self._bits(row.asset_key, row.partition_key)
                self._evaluator.world.wiped(row.asset_key, bits)

    def _tell_checked(self, row: CheckResultRow) -> None:
        if (row.asset_key, row.check_name) not in self._evaluator.world.facts:
            return
        bits = self._bits(row.asset_key, row.partition_key)
        passed, failed = (bits, 0) if row.passed else (0, bits)
        self._evaluator.world.checked(
            row.asset_key, row.check_name, row.evaluated_at, passed=passed, failed=failed
        )

    def _tell_attempts(self, changed: Changed) -> None:
        graph = self._evaluator.graph.assets
        for row in _ordered(changed, "partition_status", PartitionStatusRow):
            if row.asset_key in graph and row.last_attempt_outcome in _FAILED:
                bits = self._bits(row.asset_key, row.partition_key)
                self._evaluator.world.failed(row.asset_key, bits)
        for row in _ordered(changed, "assets", AssetRow):
            whole = row.asset_key in graph and row.asset_key not in self._spaces
            if whole and row.consecutive_failures:
                self._evaluator.world.failed(row.asset_key, 1)

    def _tell_running(self, changed: Changed) -> None:
        touched: set[str] = set()
        for key, row in changed.get("tasks", {}).items():
            if isinstance(row, TaskRow):
                touched.update(self._note(row))
            else:
                for asset, held in self._running.items():
                    if held.pop(key, None) is not None:
                        touched.add(asset)
        for asset in sorted(touched & self._evaluator.graph.assets.keys()):
            self._evaluator.world.running(asset, _union(self._running[asset].values()))

    def _note(self, row: TaskRow) -> tuple[str, ...]:
        """Keep whether a task is under way; the assets it makes."""
        assets, key = (row.asset_key, *row.also_makes), (row.run_id, row.task_key)
        for asset in assets:
            held = self._running.setdefault(asset, {})
            if row.state in TERMINAL_TASK_STATES:
                _ = held.pop(key, None)
            else:
                names = (row.partition_key, *row.also_partitions)
                held[key] = _union(self._bits(asset, name) for name in names)
        return assets

    def _tell_backfills(self) -> None:
        busy: dict[str, int] = {}
        for row in list(self._state.backfills.rows.values()):
            if row.state in _OVER:
                continue
            for asset in row.asset_selection:
                found = (self._bits(asset, key) for key in row.partition_keys)
                busy[asset] = busy.get(asset, 0) | _union(found)
        for asset in self._evaluator.graph.assets:
            self._evaluator.world.backfilling(asset, busy.get(asset, 0))

    def _bits(self, asset: str, partition: str | None) -> int:
        space = self._spaces.get(asset)
        if space is None:
            return 0 if partition else 1
        return space.bit_of(partition or "")

    def _everything(self, asset: str) -> int:
        space = self._spaces.get(asset)
        return 1 if space is None else space.bits(space.keys)


def _ordered(changed: Changed, table: str, kind: type[Any]) -> list[Any]:
    rows = [row for row in changed.get(table, {}).values() if isinstance(row, kind)]
    return sorted(rows, key=lambda row: row.row_version)


def _union(sets: Iterable[int]) -> int:
    union = 0
    for bits in sets:
        union |= bits
    return union
