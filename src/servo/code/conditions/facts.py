"""The initial facts for an evaluation of conditions, read from a workspace.

The facts come in two parts: the state up to a ledger entry, and then, as changes, what came after
it. So a new process continues where another stopped. Only current rows are read, by columns, and
only the columns that some condition needs: a start costs as much as there are current rows, however
long the history is.
"""

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property, partial
from typing import Any

import msgspec

from servo.code.conditions.columns import Rows
from servo.code.conditions.progress import ProgressTracker, bits_of
from servo.core.automation.compiling import Node
from servo.core.automation.condition import Operand
from servo.core.automation.evaluating import Evaluator
from servo.core.automation.facts import has_tags
from servo.core.state.rows.assets import AssetRow
from servo.core.state.state import State
from servo.projection.files.arrow import ArrowTable, pa, pc
from servo.sdk.automation.spaces import KeySpace

_Telling = tuple[int, int, Callable[[], None]]

_PARTITIONS = (
    "asset_key",
    "partition_key",
    "last_materialization_seq",
    "last_materialization_at",
    "last_materialization_run_id",
    "last_attempt_outcome",
    "last_observed_at",
    "data_changed_seq",
    "latest_floor",
)
_CHECKS = ("asset_key", "check_name", "partition_key", "passed", "row_version", "evaluated_at")
_TASKS = ("run_id", "asset_key", "also_makes")
LONG_AGO = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


class Latest(msgspec.Struct, frozen=True, kw_only=True):
    """The newest data of an asset or a partition: which entry brought it, when, in which run."""

    seq: int
    at: datetime
    run_id: str = ""
    changed_seq: int = 0


def latest_of(row: Any) -> Latest | None:
    """What is current by the row of an asset or a partition: made, or seen where others make it.

    Data of the version that was there before is not news of what was only seen.
    """
    made, seen = row.last_materialization_seq, row.last_observed_at
    changed = row.data_changed_seq
    if seen is not None and changed > max(made or 0, row.latest_floor):
        return Latest(seq=changed, at=seen, changed_seq=changed)
    if made is None:
        # Observed before it was kept which entry that was: it is there, and no news.
        if seen is None or changed or row.latest_floor:
            return None
        return Latest(seq=0, at=seen)
    run_id = row.last_materialization_run_id or ""
    return Latest(seq=made, at=row.last_materialization_at, run_id=run_id, changed_seq=changed)


class Runs:
    """What the runs of a workspace made besides, and how they are tagged; read when asked for."""

    def __init__(self, snapshot: Any, roots: Collection[str]) -> None:
        self._snapshot = snapshot
        self._roots = roots

    def targets(self, run_id: str) -> Collection[str]:
        """The assets with conditions that a run makes."""
        return self._targets.get(run_id, ())

    def tags(self, run_id: str) -> Mapping[str, str]:
        """The tags of a run."""
        return self._tags.get(run_id, {})

    @cached_property
    def _targets(self) -> dict[str, set[str]]:
        tasks = self._snapshot.table("tasks", only=_TASKS)
        roots = pa.array(sorted(self._roots), pa.string())
        own = pc.is_in(tasks["asset_key"].cast(pa.string()), value_set=roots)
        more = pc.greater(pc.list_value_length(tasks["also_makes"]), 0)
        found: dict[str, set[str]] = {}
        for row in tasks.filter(pc.or_(own, more)).to_pylist():
            made = found.setdefault(row["run_id"], set())
            made.update(key for key in (row["asset_key"], *row["also_makes"]) if key in self._roots)
        return found

    @cached_property
    def _tags(self) -> dict[str, dict[str, str]]:
        rows = self._snapshot.table("runs", only=("run_id", "labels")).to_pylist()
        return {row["run_id"]: dict(row["labels"]) for row in rows}


class WorkspaceFacts:
    """The current rows of a workspace, as far as conditions ask for them."""

    def __init__(self, snapshot: Any, spaces: Mapping[str, KeySpace], evaluator: Evaluator) -> None:
        self._snapshot = snapshot
        self._state: State = snapshot.state
        self._spaces = spaces
        self._evaluator = evaluator
        self._world = evaluator.world
        self._runs = Runs(snapshot, evaluator.plans)
        self._news: list[_Telling] = []
        self._made_at: dict[str, Rows] = {}

    def tell(self, since: int) -> None:
        """Tell what was so at entry `since`, and what came after it as news."""
        self._tell_assets(since)
        self._tell_partitions(since)
        self._tell_checks(since)
        self._evaluator.begin()
        for _, _, tell in sorted(self._news, key=lambda item: item[:2]):
            tell()
        ProgressTracker(self._evaluator, self._spaces, self._state).tell_all()
        for row in list(self._state.freshness.rows.values()):
            if (row.asset_key, "") in self._world.facts:
                self._world.judged(row.asset_key, row.state.value)

    # --- what was made --------------------------------------------------------------------------

    def _tell_assets(self, since: int) -> None:
        """Tell of assets without partitions: their rows are in memory."""
        for row in list(self._state.assets.rows.values()):
            if (row.asset_key, "") not in self._world.facts or row.asset_key in self._spaces:
                continue
            found = whole(row)
            if found is not None:
                self._say(row.asset_key, 1, found, since)
            if row.consecutive_failures:
                self._news.append((row.row_version, 2, partial(self._fail, row.asset_key, 1)))

    def _say(self, asset: str, bits: int, found: Latest, since: int) -> None:
        tell = partial(self._make, asset, bits, found, changed=found.changed_seq > since)
        if found.seq > since:
            self._news.append((found.seq, 0, tell))
        else:
            tell()

    def _make(self, asset: str, bits: int, found: Latest, *, changed: bool) -> None:
        facts = self._world.facts[asset, ""]
        run = found.run_id
        self._world.made(
            asset,
            bits,
            found.at,
            with_assets=self._runs.targets(run) if run and self._asks(asset, found) else (),
            tags=self._runs.tags(run) if run and facts.tagged else {},
            same_data=0 if changed else bits,
        )

    def _asks(self, asset: str, found: Latest) -> bool:
        """Whether a condition asks with what this data was made."""
        old = found.at is LONG_AGO and asset not in self._looks_at_old_runs
        return bool(self._world.facts[asset, ""].with_root) and not old

    def _fail(self, asset: str, bits: int) -> None:
        self._world.failed(asset, bits)

    def _tell_partitions(self, since: int) -> None:
        known = [asset for asset in self._spaces if (asset, "") in self._world.facts]
        if not known:
            return
        table = self._snapshot.table("partition_status", only=_PARTITIONS)
        for asset in known:
            rows = Rows(self._spaces[asset], table.filter(pc.equal(table["asset_key"], asset)))
            self._made_at[asset] = rows
            self._tell_rows(asset, rows, since)

    def _tell_rows(self, asset: str, rows: Rows, since: int) -> None:
        facts = self._world.facts[asset, ""]
        roots = facts.with_root if asset in self._looks_at_old_runs else ()
        apart = self._signature(roots, facts.tagged) if roots or facts.tagged else None
        for bits, run in rows.made_until(since, apart):
            self._make(asset, bits, Latest(seq=0, at=LONG_AGO, run_id=run), changed=False)
        for row, bit in rows.made_after(since):
            found = latest_of(row)
            if found is not None:
                self._say(asset, bit, found, since)
        if failed := rows.failed():
            self._news.append((self._state.seq, 2, partial(self._fail, asset, failed)))

    @cached_property
    def _looks_at_old_runs(self) -> set[str]:
        """The assets of which a condition asks with what even old data was made.

        Most ask that only of data that is new: then the tasks of all runs need not be read.
        """
        nodes = [node for plan in self._evaluator.plans.values() for node in plan.nodes]
        asking = [node for node in nodes if node.kind == "executed_with_root_target"]
        return {node.key[0] for node in asking if not _of_news(node)}

    def _signature(
        self, roots: Collection[str], tagged: Collection[Operand]
    ) -> Callable[[str], Hashable]:
        """What conditions can tell of a run: most runs are alike."""

        def of(run: str) -> Hashable:
            made = self._runs.targets(run) if roots else ()
            tags = self._runs.tags(run) if tagged else dict[str, str]()
            known = tuple(root in made for root in roots)
            return known, tuple(has_tags(tags, operand) for operand in tagged)

        return of

    # --- what was checked -----------------------------------------------------------------------

    def _tell_checks(self, since: int) -> None:
        """Tell the results of checks that a condition looks at, of the data that there is."""
        keys = {node.key for plan in self._evaluator.plans.values() for node in plan.nodes}
        wanted = {key for key in keys if key[1]}
        if not wanted:
            return
        table = self._snapshot.table("check_results", only=_CHECKS)
        assets = pa.array(sorted({asset for asset, _ in wanted}), pa.string())
        table = table.filter(pc.is_in(table["asset_key"].cast(pa.string()), value_set=assets))
        for row in _in_order(table):
            if (row["asset_key"], row["check_name"]) in wanted:
                self._tell_check(row, since)

    def _tell_check(self, row: Mapping[str, Any], since: int) -> None:
        asset, partition, seq = row["asset_key"], row["partition_key"], row["row_version"]
        tell = partial(self._check, row, bits_of(self._spaces, asset, partition))
        if seq > since:
            self._news.append((seq, 1, tell))
        elif seq >= self._made_seq(asset, partition):
            tell()

    def _made_seq(self, asset: str, partition: str | None) -> int:
        """The entry that brought what there is of a partition."""
        if asset in self._spaces:
            return self._made_at[asset].made_seq(partition or "")
        row = self._state.assets.rows.get(asset)
        found = None if row is None else whole(row)
        return 0 if found is None else found.seq

    def _check(self, row: Mapping[str, Any], bits: int) -> None:
        passed, failed = (bits, 0) if row["passed"] else (0, bits)
        at: datetime = row["evaluated_at"]
        self._world.checked(row["asset_key"], row["check_name"], at, passed=passed, failed=failed)


def _of_news(node: Node) -> bool:
    """Whether a node, or its opposite, is joined with that its asset was just made."""
    above = node.parent
    if above is not None and above.kind == "not":
        above = above.parent
    joined = above.children if above is not None and above.kind == "and" else ()
    return any(one.kind == "newly_updated" and one.key == node.key for one in joined)


def whole(row: AssetRow) -> Latest | None:
    """What is current of an asset without partitions."""
    return latest_of(row) if row.last_partition_key is None else None


def _in_order(table: ArrowTable) -> Iterator[Mapping[str, Any]]:
    rows: Sequence[Mapping[str, Any]] = table.sort_by("row_version").to_pylist()
    yield from rows
