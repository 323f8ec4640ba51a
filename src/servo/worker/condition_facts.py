"""What a workspace knows, told to the evaluation of conditions.

Everything is told twice: what was so up to an entry of the ledger, and then, as news, what came
after it. So a process that starts goes on from where another stopped.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

from servo.core.automation.evaluating import Evaluator
from servo.core.events.backfills import BackfillState
from servo.core.events.tasks import TaskOutcome
from servo.core.state.rows.assets import (
    AssetRow,
    CheckResultRow,
    MaterializationRow,
    PartitionStatusRow,
)
from servo.core.state.rows.automation import BackfillRow
from servo.core.state.rows.conditions import AssetFreshnessRow
from servo.core.state.rows.execution import RunRow, TaskRow
from servo.core.state.states import TERMINAL_TASK_STATES
from servo.sdk.condition_spaces import KeySpace

R = TypeVar("R")
Telling = tuple[int, int, Callable[[], None]]

_ENDED = frozenset({BackfillState.SUCCEEDED, BackfillState.FAILED, BackfillState.CANCELLED})
_FAILED = frozenset({TaskOutcome.FAILED, TaskOutcome.TIMED_OUT})


class Facts:
    """The rows of a workspace, as far as conditions ask for them."""

    def __init__(self, snapshot: Any, spaces: Mapping[str, KeySpace]) -> None:
        self._snapshot = snapshot
        self._spaces = spaces
        self.made = sorted(self._of("materializations", MaterializationRow), key=_by_seq)
        self.runs = {row.run_id: row for row in self._of("runs", RunRow)}
        self.tasks = self._of("tasks", TaskRow)
        self._evaluator: Evaluator
        self._targets: dict[str, set[str]] = {}
        for task in self.tasks:
            self._targets.setdefault(task.run_id, set()).update((task.asset_key, *task.also_makes))

    def tell(self, evaluator: Evaluator, since: int, last: datetime | None = None) -> None:
        """Tell what was so at entry `since`, and what came after it as news.

        `last` is when the last evaluation was: rows do not say which entry an observation is from.
        """
        self._evaluator = evaluator
        seen = [(since + (last is None or at > last), 0, tell) for at, tell in self._sightings()]
        told = sorted([*self._makings(), *seen, *self._checkings()], key=_order)
        for _, _, tell in (item for item in told if item[0] <= since):
            tell()
        evaluator.begin()
        for _, _, tell in (item for item in told if item[0] > since):
            tell()
        self._tell_attempts(evaluator)
        self._tell_progress(evaluator)
        for row in self._of("asset_freshness", AssetFreshnessRow):
            if row.asset_key in evaluator.graph.assets:
                evaluator.world.judged(row.asset_key, row.state.value)

    def _of(self, table: str, kind: type[R]) -> list[R]:
        return [row for row in self._snapshot.rows(table) if isinstance(row, kind)]

    def _bits(self, asset: str, partition: str | None) -> int:
        space = self._spaces.get(asset)
        if space is None:
            return 0 if partition else 1
        return space.bit_of(partition or "")

    def _wiped(self) -> dict[tuple[str, str | None], int]:
        """Up to which entry what was made of an asset or a partition does not count any more."""
        gone = {
            (row.asset_key, None): row.latest_floor
            for row in self._of("assets", AssetRow)
            if row.last_materialization_id is None
        }
        partitions = {
            (row.asset_key, row.partition_key): row.latest_floor
            for row in self._of("partition_status", PartitionStatusRow)
            if row.last_materialization_id is None
        }
        return {**gone, **partitions}

    def _makings(self) -> Iterator[Telling]:
        """What was made, in order, with whether its data was what it had been."""
        wiped, versions = self._wiped(), dict[tuple[str, str | None], str]()
        for row in self.made:
            place = (row.asset_key, row.partition_key)
            known = row.asset_key in self._evaluator.graph.assets
            if not known or not row.promoted or row.created_seq <= wiped.get(place, 0):
                continue
            same = bool(row.data_version) and versions.get(place) == row.data_version
            versions[place] = row.data_version
            yield row.created_seq, 0, partial(self._make, row, same=same)

    def _make(self, row: MaterializationRow, *, same: bool) -> None:
        bits, run = self._bits(row.asset_key, row.partition_key), self.runs.get(row.run_id)
        self._evaluator.world.made(
            row.asset_key,
            bits,
            row.created_at,
            with_assets=self._targets.get(row.run_id, set()),
            tags={} if run is None else run.labels,
            same_data=bits if same else 0,
        )

    def _sightings(self) -> Iterator[tuple[datetime, Callable[[], None]]]:
        """When assets that others make were last seen."""
        for row in self._of("assets", AssetRow):
            seen, known = row.last_observed_at, row.asset_key in self._evaluator.graph.assets
            if known and seen is not None and row.last_materialization_id is None:
                bits = self._bits(row.asset_key, None)
                made = self._evaluator.world.made
                yield seen, partial(made, row.asset_key, bits, seen)

    def _checkings(self) -> Iterator[Telling]:
        known = {
            (asset.key, check.name)
            for asset in self._evaluator.graph.assets.values()
            for check in asset.checks
        }
        for row in self._of("check_results", CheckResultRow):
            if (row.asset_key, row.check_name) in known:
                yield row.row_version, 1, partial(self._check, row)

    def _check(self, row: CheckResultRow) -> None:
        bits = self._bits(row.asset_key, row.partition_key)
        passed, failed = (bits, 0) if row.passed else (0, bits)
        self._evaluator.world.checked(
            row.asset_key, row.check_name, row.evaluated_at, passed=passed, failed=failed
        )

    def _tell_attempts(self, evaluator: Evaluator) -> None:
        for row in self._of("partition_status", PartitionStatusRow):
            if row.asset_key in evaluator.graph.assets and row.last_attempt_outcome in _FAILED:
                bits = self._bits(row.asset_key, row.partition_key)
                evaluator.world.failed(row.asset_key, bits)
        for row in self._of("assets", AssetRow):
            whole = row.asset_key not in self._spaces
            if row.asset_key in evaluator.graph.assets and whole and row.consecutive_failures:
                evaluator.world.failed(row.asset_key, 1)

    def _tell_progress(self, evaluator: Evaluator) -> None:
        running: dict[str, int] = {}
        for task in self.tasks:
            if task.state in TERMINAL_TASK_STATES:
                continue
            for asset in (task.asset_key, *task.also_makes):
                for name in (task.partition_key, *task.also_partitions):
                    running[asset] = running.get(asset, 0) | self._bits(asset, name)
        backfilling: dict[str, int] = {}
        for row in self._of("backfills", BackfillRow):
            for asset in () if row.state in _ENDED else row.asset_selection:
                bits = [self._bits(asset, key) for key in row.partition_keys]
                backfilling[asset] = backfilling.get(asset, 0) | _union(bits)
        for asset in evaluator.graph.assets:
            evaluator.world.running(asset, running.get(asset, 0))
            evaluator.world.backfilling(asset, backfilling.get(asset, 0))


def _by_seq(row: MaterializationRow) -> int:
    return row.created_seq


def _order(telling: Telling) -> tuple[int, int]:
    """The order of the ledger; a check of what its own entry brought comes after it."""
    return telling[0], telling[1]


def _union(sets: Iterable[int]) -> int:
    union = 0
    for bits in sets:
        union |= bits
    return union
