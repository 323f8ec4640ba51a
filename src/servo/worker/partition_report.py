"""How the partitions of an asset stand in a workspace, read without the code that defines it.

The definition and the mappings are those that were deployed. Rows are read as columns and never
become objects, so that an asset with a million partitions is read in a moment.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

import msgspec

from servo.core.manifest import Tier
from servo.core.partitions import ValueType
from servo.core.state.rows.assets import AssetRow, DynamicPartitionRow
from servo.core.state.states import TERMINAL_TASK_STATES
from servo.errors import Invalid, NotFound
from servo.projection.arrow import ArrowTable, pa, pc
from servo.projection.reader import Snapshot
from servo.sdk.mapping_resolution import Moment, edge_between
from servo.sdk.mapping_text import mapping_from_text
from servo.sdk.partition_space import PartitionSpace
from servo.sdk.partition_status import (
    PartitionStatus,
    Policy,
    Recorded,
    StaleReason,
    Table,
    Upstream,
)
from servo.sdk.partitions_definition import PartitionsDefinition
from servo.sdk.partitions_text import partitions_from_text
from servo.sdk.time_partitions import TimeWindowPartitionsDefinition
from servo.worker.naming import find_asset

_COLUMNS = (
    "asset_key",
    "partition_key",
    "last_materialization_seq",
    "last_materialization_at",
    "last_materialization_code_version",
    "last_attempt_outcome",
)
_TASK_COLUMNS = ("asset_key", "also_makes", "partition_key", "also_partitions", "state")
_FAILED = ("FAILED", "TIMED_OUT")
_TAGS = {ValueType.DATE: "partition=d:", ValueType.TIMESTAMP: "partition=t:"}


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """How the partitions of an asset stand; `unknown` are mappings that only code knows."""

    asset_key: str
    space: PartitionSpace
    status: PartitionStatus
    stale: Mapping[StaleReason, int]
    unknown: tuple[str, ...] = ()


class Workspace:
    """One snapshot, asked about partitions at one moment."""

    def __init__(self, snapshot: Snapshot, now: datetime) -> None:
        self._snapshot = snapshot
        self._now = now
        self.moment = Moment(now, self)
        self._known: list[tuple[PartitionsDefinition, Any, Table]] = []

    @cached_property
    def assets(self) -> Mapping[str, AssetRow]:
        """Every asset that is known."""
        rows = self._snapshot.rows("assets")
        return {row.asset_key: row for row in rows if isinstance(row, AssetRow)}

    def get_dynamic_partitions(self, partitions_def_name: str) -> Sequence[str]:
        """The partitions of a set, in the order in which they were added."""
        found = [
            row
            for row in self._snapshot.rows("dynamic_partitions")
            if isinstance(row, DynamicPartitionRow) and row.set_name == partitions_def_name
        ]
        found.sort(key=lambda row: (row.row_version, row.partition_key))
        return [row.partition_key for row in found]

    def report(self, name: str) -> Report:
        """How the partitions of the asset that is called this stand."""
        row = self.assets[find_asset(self.assets, name)]
        definition = partitions_from_text(row.partitions)
        if definition is None:
            raise NotFound(
                f"{row.asset_key} has no partitions",
                remedy=f"see `servo asset show {row.asset_key}`",
            )
        table = self._table(row.asset_key, definition, whole=True)
        upstream, unknown = self._upstream(row, definition)
        return Report(
            asset_key=row.asset_key,
            space=table.space,
            status=table.status(self._in_progress(row.asset_key)),
            stale=table.stale(self._policy(row), upstream),
            unknown=tuple(unknown),
        )

    def _policy(self, row: AssetRow) -> Policy:
        window = _fail_window(row.freshness_policy)
        since = None if window is None else _milliseconds(self._now - window)
        return Policy(code_version=row.code_version, fresh_since_ms=since)

    def _upstream(
        self, row: AssetRow, definition: PartitionsDefinition
    ) -> tuple[list[Upstream], list[str]]:
        """What an asset is made from, as far as it can be followed, and what cannot."""
        found: list[Upstream] = []
        unknown: list[str] = []
        for name in row.upstream:
            above = self.assets.get(name)
            if above is None:
                continue
            try:
                found.append(self._edge(row, above, definition))
            except Invalid:
                unknown.append(name)
        return found, unknown

    def _edge(self, row: AssetRow, above: AssetRow, below: PartitionsDefinition) -> Upstream:
        own = partitions_from_text(above.partitions)
        told = row.partition_mappings.get(above.asset_key)
        mapping = None if told is None else mapping_from_text(told)
        edge = edge_between(own, below, mapping, self.moment)
        if own is None:
            return Upstream(edge=edge, made=[above.last_materialization_seq or 0])
        return Upstream(edge=edge, made=self._table(above.asset_key, own).made)

    # --- columns --------------------------------------------------------------------------------

    @cached_property
    def _rows(self) -> ArrowTable:
        return self._snapshot.table("partition_status", only=_COLUMNS)

    def _table(
        self, asset_key: str, definition: PartitionsDefinition, *, whole: bool = False
    ) -> Table:
        """What is recorded of an asset: all of it, or when its partitions were made."""
        rows = self._rows.filter(pc.equal(self._rows["asset_key"], asset_key))
        rows = in_order(rows.combine_chunks(), "partition_key")
        keys = rows["partition_key"]
        like = self._known_like(definition, keys)
        recorded = Recorded(
            keys=Texts(keys),
            seconds=seconds_of(keys, definition) if like is None else None,
            made=_filled(rows["last_materialization_seq"], 0),
        )
        if whole:
            recorded = _with_all(recorded, rows)
        table = Table(self.moment.space(definition), recorded, like=like)
        self._known.append((definition, keys, table))
        return table

    def _known_like(self, definition: PartitionsDefinition, keys: Any) -> Table | None:
        """A table with the same partitions: what is made from another often has them."""
        for known, texts, table in self._known:
            if known == definition and texts.equals(keys):
                return table
        return None

    def _in_progress(self, asset_key: str) -> list[str]:
        """The partitions of an asset that are planned, waiting or running."""
        # What has ended long ago is in the other tier, and may be very much.
        tasks = self._snapshot.table("tasks", only=_TASK_COLUMNS, tiers=(Tier.ACTIVE,))
        over = pa.array([state.value for state in TERMINAL_TASK_STATES])
        tasks = tasks.filter(pc.invert(pc.is_in(tasks["state"].cast(pa.string()), value_set=over)))
        found: list[str] = []
        for task in tasks.to_pylist():
            if asset_key in (task["asset_key"], *task["also_makes"]) and task["partition_key"]:
                found += [task["partition_key"], *task["also_partitions"]]
        return found


class Texts(Sequence[str]):
    """A column of texts of which few are looked at."""

    def __init__(self, column: Any) -> None:
        self._column = column

    def __len__(self) -> int:
        return len(self._column)

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            start, stop, _ = at.indices(len(self._column))
            return self._column.slice(start, max(stop - start, 0)).to_pylist()
        return self._column[at].as_py()


def _with_all(recorded: Recorded, rows: ArrowTable) -> Recorded:
    at = rows["last_materialization_at"].cast(pa.timestamp("ms", "UTC"), safe=False)
    outcomes = rows["last_attempt_outcome"].cast(pa.string())
    return msgspec.structs.replace(
        recorded,
        made_ms=_filled(at.cast(pa.int64()), 0),
        versions=_few(rows["last_materialization_code_version"]),
        failed=_filled(pc.is_in(outcomes, value_set=pa.array(_FAILED)), False),
    )


def in_order(rows: ArrowTable, column: str) -> ArrowTable:
    """Rows sorted by a column; they often are, and looking is cheaper than sorting."""
    texts = rows[column]
    pairs = pc.less(texts.slice(0, max(len(texts) - 1, 0)), texts.slice(1))
    return rows if pc.all(pairs, min_count=0).as_py() else rows.sort_by(column)


def _few(column: Any) -> list[str]:
    """Texts of which there are few different ones; empty for none."""
    encoded = pc.fill_null(column, "").combine_chunks().dictionary_encode()
    values = encoded.dictionary.to_pylist()
    if len(values) <= 1:
        return values * len(encoded)
    return [values[index] for index in encoded.indices.to_pylist()]


def _filled(column: Any, nothing: Any) -> list[Any]:
    return pc.fill_null(column, nothing).to_pylist()


def seconds_of(keys: Any, definition: PartitionsDefinition) -> list[int] | None:
    """What keys of time stand for, in seconds since 1970; -1 for those of another type."""
    if not isinstance(definition, TimeWindowPartitionsDefinition):
        return None
    kind = definition.value_type()
    tag = _TAGS[kind]
    # They are sorted: what is between two that begin alike begins alike.
    ends = [keys[at].as_py() for at in (0, -1)] if len(keys) else []
    if not all(key.startswith(tag) for key in ends):
        keys = pc.if_else(pc.starts_with(keys, tag), keys, None)
    try:
        if kind is ValueType.DATE:
            plain = pc.utf8_slice_codeunits(keys, len(tag))
            days = plain.cast(pa.date32()).cast(pa.int32()).cast(pa.int64())
            return _filled(pc.multiply(days, 86_400), -1)
        plain = pc.utf8_slice_codeunits(keys, len(tag), -1)
        instants = plain.cast(pa.timestamp("us"))
        return _filled(instants.cast(pa.timestamp("s"), safe=False).cast(pa.int64()), -1)
    except pa.ArrowInvalid:
        return None  # one of them is no time: every key is looked at by itself


def _fail_window(policy: str) -> timedelta | None:
    """For how long an output is fresh by a stored policy that says so."""
    if not policy:
        return None
    try:
        told = msgspec.json.decode(policy, type=_Window)
    except msgspec.MsgspecError:
        return None
    return timedelta(milliseconds=told.fail_ms)


class _Window(msgspec.Struct):
    fail_ms: int


def _milliseconds(at: datetime) -> int:
    return round(at.timestamp() * 1000)
