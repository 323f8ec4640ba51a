"""The status of the partitions of an asset, read without the code that defines it.

The definition and the mappings are those that were deployed, unless others are passed. Rows are
read as columns and never become objects, so that an asset with a million partitions is read in a
moment.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cached_property

import msgspec

from servo.core.definitions import as_defined
from servo.core.events.assets import AssetDefinition
from servo.core.freshness import fresh_since, read_policy
from servo.core.manifest import Tier
from servo.core.state.rows.assets import AssetRow
from servo.core.state.states import TERMINAL_TASK_STATES
from servo.errors import Invalid, NotFound
from servo.projection.files.arrow import ArrowColumn, pa, pc
from servo.projection.partitions.asset_names import find_asset
from servo.projection.partitions.places import RowPlaces
from servo.projection.partitions.since import (
    StaleSince,
    StaleTimes,
    microseconds,
    never_known,
)
from servo.projection.partitions.table import (
    KEY,
    MADE,
    MADE_AT,
    OUTCOME,
    PartitionTable,
    StalenessPolicy,
    UpstreamTable,
)
from servo.projection.read.reader import Snapshot
from servo.sdk.partitions.definition import PartitionsDefinition
from servo.sdk.partitions.mapping_resolution import Moment, edge_between
from servo.sdk.partitions.mapping_text import mapping_from_text
from servo.sdk.partitions.space import PartitionSpace
from servo.sdk.partitions.status import PartitionStatus, StaleReason
from servo.sdk.partitions.text import partitions_from_text

_TASK_COLUMNS = ("asset_key", "also_makes", "partition_key", "also_partitions", "state")


class PartitionReport(msgspec.Struct, frozen=True, kw_only=True):
    """The status of an asset's partitions; `unknown` are mappings that only its code knows."""

    asset_key: str
    space: PartitionSpace
    status: PartitionStatus
    stale: Mapping[StaleReason, int]
    unknown: tuple[str, ...] = ()
    since: StaleSince = never_known


class PartitionReader:
    """Reads the status of partitions from one snapshot, at one time.

    `defined` are definitions to use instead of the deployed ones, as if they were deployed.
    """

    def __init__(
        self, snapshot: Snapshot, now: datetime, defined: Iterable[AssetDefinition] = ()
    ) -> None:
        self._snapshot = snapshot
        self._defined = defined
        self._now = now
        self.moment = Moment(now, self)
        self._known: list[tuple[PartitionsDefinition, ArrowColumn, RowPlaces]] = []

    @cached_property
    def assets(self) -> Mapping[str, AssetRow]:
        """Every asset that is known."""
        stored = self._snapshot.rows("assets")
        rows = {row.asset_key: row for row in stored if isinstance(row, AssetRow)}
        for one in self._defined:
            row = rows.get(one.asset_key) or AssetRow(asset_key=one.asset_key, row_version=0)
            rows[one.asset_key] = as_defined(row, row.location, one)
        return rows

    def get_dynamic_partitions(self, partitions_def_name: str) -> Sequence[str]:
        """The partitions of a set, in the order in which they were added."""
        columns = ["row_version", KEY]
        found = self._snapshot.stored_of("dynamic_partitions", partitions_def_name, only=columns)
        return found.sort_by([(name, "ascending") for name in columns])[KEY].to_pylist()

    def report(self, name: str) -> PartitionReport:
        """The status of the partitions of the asset of this name."""
        row = self.assets[find_asset(self.assets, name)]
        definition = partitions_from_text(row.partitions)
        if definition is None:
            raise NotFound(
                f"{row.asset_key} has no partitions",
                remedy=f"see `servo asset show {row.asset_key}`",
            )
        policy = self._policy(row)
        table = self._table(row.asset_key, definition, [OUTCOME, *policy.columns()])
        upstream, unknown = self._upstream(row, definition)
        return PartitionReport(
            asset_key=row.asset_key,
            space=self.moment.space(definition),
            status=table.status(self._in_progress(row.asset_key)),
            stale=table.stale(policy, upstream),
            unknown=tuple(unknown),
            since=StaleTimes(row, table, upstream, self._now).since,
        )

    def _policy(self, row: AssetRow) -> StalenessPolicy:
        since = _fresh_since(row.freshness_policy, self._now)
        return StalenessPolicy(code_version=row.code_version, fresh_since=since)

    def _upstream(
        self, row: AssetRow, definition: PartitionsDefinition
    ) -> tuple[list[UpstreamTable], list[str]]:
        """The upstream assets of an asset with known mappings, and those without."""
        found: list[UpstreamTable] = []
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

    def _edge(self, row: AssetRow, above: AssetRow, below: PartitionsDefinition) -> UpstreamTable:
        own = partitions_from_text(above.partitions)
        told = row.partition_mappings.get(above.asset_key)
        mapping = None if told is None else mapping_from_text(told)
        edge = edge_between(own, below, mapping, self.moment)
        if own is None:
            made = pa.array([above.last_materialization_seq or 0], pa.int64())
            at = pa.array([microseconds(above.last_materialization_at)], pa.int64())
            return UpstreamTable(edge=edge, made=made, made_at=lambda: at)
        return UpstreamTable(
            edge=edge,
            made=self._table(above.asset_key, own).made,
            made_at=lambda: self._table(above.asset_key, own, [MADE_AT]).made_at,
        )

    # --- columns --------------------------------------------------------------------------------

    def _table(
        self, asset_key: str, definition: PartitionsDefinition, more: Sequence[str] = ()
    ) -> PartitionTable:
        """The records of an asset: when its partitions were materialized, and `more` columns."""
        rows = self._snapshot.partitions(asset_key, only=[KEY, MADE, *more])
        space = self.moment.space(definition)
        places = self._known_places(definition, rows[KEY])
        if places is None:
            places = RowPlaces.of(rows[KEY], definition, space)
            self._known.append((definition, rows[KEY], places))
        return PartitionTable(space, rows, places)

    def _known_places(
        self, definition: PartitionsDefinition, keys: ArrowColumn
    ) -> RowPlaces | None:
        """The places of an equal partitions_def: upstream and downstream assets often share one."""
        for known, strings, places in self._known:
            if known == definition and strings.equals(keys):
                return places
        return None

    def _in_progress(self, asset_key: str) -> list[str]:
        """The partitions of an asset that are planned, waiting or running."""
        # Tasks that ended long ago are in the closed tier, which may be very large.
        tasks = self._snapshot.table("tasks", only=_TASK_COLUMNS, tiers=(Tier.ACTIVE,))
        over = pa.array([state.value for state in TERMINAL_TASK_STATES])
        tasks = tasks.filter(pc.invert(pc.is_in(tasks["state"], value_set=over)))
        several = pc.greater(pc.list_value_length(tasks["also_makes"]), 0)
        tasks = tasks.filter(pc.or_(pc.equal(tasks["asset_key"], asset_key), several))
        found: list[str] = []
        for task in tasks.to_pylist():
            if asset_key in (task["asset_key"], *task["also_makes"]) and task["partition_key"]:
                found += [task["partition_key"], *task["also_partitions"]]
        return found


def _fresh_since(policy: str, now: datetime) -> datetime | None:
    """The earliest time of an output that is fresh by a stored policy, if there is one."""
    try:
        return fresh_since(read_policy(policy), now) if policy else None
    except Invalid:
        return None  # of a later version: unknown
