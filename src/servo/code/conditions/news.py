"""The changes of a workspace, passed to a running evaluation of conditions.

Rows of assets and partitions hold the current data and the entry that recorded it, so changes that
were passed before are recognised by their entry, and a new start (`facts`) gives the same.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from servo.code.conditions.facts import Latest, latest_of, whole
from servo.code.conditions.progress import ProgressTracker, bits_of
from servo.core.automation.evaluating import Evaluator
from servo.core.events.tasks import TaskOutcome
from servo.core.state import derived
from servo.core.state.rows.assets import AssetRow, CheckResultRow, PartitionStatusRow
from servo.core.state.rows.conditions import AssetFreshnessRow
from servo.core.state.state import State
from servo.projection.read.follower import Changed
from servo.sdk.automation.spaces import KeySpace

_Telling = tuple[int, int, Callable[[], None]]

_FAILED = frozenset({TaskOutcome.FAILED, TaskOutcome.TIMED_OUT})
_WIPED, _MADE, _CHECKED, _TRIED = range(4)
"""What one entry did, in this order: a check of what it brought comes after it."""


class News:
    """Tells an evaluation the rows that changed, in the order of the ledger."""

    def __init__(self, evaluator: Evaluator, spaces: Mapping[str, KeySpace], state: State) -> None:
        self._evaluator = evaluator
        self._world = evaluator.world
        self._spaces = spaces
        self._state = state
        self._seq = state.seq
        self._progress = ProgressTracker(evaluator, spaces, state)
        self._progress.tell_all()

    def tell(self, changed: Changed) -> None:
        """Tell what changed since it was told last."""
        told = [*self._of_assets(changed), *self._of_partitions(changed), *self._checked(changed)]
        for _, _, tell in sorted(told, key=lambda item: item[:2]):
            tell()
        self._progress.tell_tasks(changed.get("tasks", {}))
        if "backfills" in changed:
            self._progress.tell_backfills()
        for row in _rows(changed, "asset_freshness", AssetFreshnessRow):
            if (row.asset_key, "") in self._world.facts:
                self._world.judged(row.asset_key, row.state.value)
        self._seq = self._state.seq

    # --- what happened --------------------------------------------------------------------------

    def _of_assets(self, changed: Changed) -> Iterator[_Telling]:
        """Assets that were wiped, and what became of those without partitions."""
        for row in _rows(changed, "assets", AssetRow):
            key = row.asset_key
            if (key, "") not in self._world.facts:
                continue
            if row.wiped_seq > self._seq:
                everything = self._everything(key)
                yield row.wiped_seq, _WIPED, partial(self._world.wiped, key, everything)
            if key not in self._spaces:
                yield from self._made(key, 1, whole(row), row.latest_floor)
                if row.consecutive_failures:
                    yield row.row_version, _TRIED, partial(self._world.failed, key, 1)

    def _of_partitions(self, changed: Changed) -> Iterator[_Telling]:
        for stored in _rows(changed, "partition_status", PartitionStatusRow):
            row = derived.partition_status(self._state, stored)
            key, space = row.asset_key, self._spaces.get(row.asset_key)
            bits = 0 if space is None else space.bit_of(row.partition_key)
            if not bits or (key, "") not in self._world.facts:
                continue
            yield from self._made(key, bits, latest_of(row), row.latest_floor)
            if row.last_attempt_outcome in _FAILED:
                yield row.row_version, _TRIED, partial(self._world.failed, key, bits)

    def _made(self, key: str, bits: int, found: Latest | None, floor: int) -> Iterator[_Telling]:
        """What is there of an asset or a partition, if that is new, or that nothing is."""
        if found is None and floor > self._seq:
            yield floor, _WIPED, partial(self._world.wiped, key, bits)
        elif found is not None and found.seq > self._seq:
            yield found.seq, _MADE, partial(self._make, key, bits, found)

    def _make(self, key: str, bits: int, found: Latest) -> None:
        run = self._state.runs.rows.get(found.run_id)
        self._world.made(
            key,
            bits,
            found.at,
            with_assets=self._targets(found.run_id),
            tags={} if run is None else run.labels,
            same_data=0 if found.changed_seq > self._seq else bits,
        )

    def _targets(self, run_id: str) -> set[str]:
        rows = self._state.tasks.rows
        found: set[str] = set()
        for name in self._state.index.run_tasks.get(run_id, ()):
            task = rows[run_id, name]
            found.update((task.asset_key, *task.also_makes))
        return found

    def _checked(self, changed: Changed) -> Iterator[_Telling]:
        for row in _rows(changed, "check_results", CheckResultRow):
            if (row.asset_key, row.check_name) in self._world.facts:
                yield row.row_version, _CHECKED, partial(self._check, row)

    def _check(self, row: CheckResultRow) -> None:
        bits = bits_of(self._spaces, row.asset_key, row.partition_key)
        passed, failed = (bits, 0) if row.passed else (0, bits)
        self._world.checked(
            row.asset_key, row.check_name, row.evaluated_at, passed=passed, failed=failed
        )

    def _everything(self, asset: str) -> int:
        space = self._spaces.get(asset)
        return 1 if space is None else space.everything


def _rows(changed: Changed, table: str, kind: type[Any]) -> list[Any]:
    return [row for row in changed.get(table, {}).values() if isinstance(row, kind)]
