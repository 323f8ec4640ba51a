"""`ServoInstance`: a workspace for tests, scripts and assets: its outputs, runs and partitions.

    instance = ServoInstance.ephemeral()
    materialize([orders], instance=instance)
    instance.get_latest_materialization_event("orders").asset_materialization.metadata

Every call reads the store, up to the last ledger entry. Changes go through the leader (see
`servo.workspace.instance.changes`).
"""

import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any, TypeVar

from servo.core.events.assets import (
    AssetObserved,
    AssetReported,
    AssetWiped,
    DynamicPartitionsChanged,
)
from servo.core.events.sensors import SensorMode
from servo.core.ids import check_text, ulid
from servo.core.keys import AssetKey
from servo.core.partitions import shown_partition
from servo.core.state.rows.assets import (
    AssetRow,
    DynamicPartitionRow,
    MaterializationRow,
)
from servo.core.state.rows.automation import SensorDefinitionRow
from servo.core.state.rows.execution import RunRow
from servo.core.state.rows.row import Row
from servo.errors import Invalid, NotFound
from servo.leader.assignments import PinnedInput
from servo.leader.inputs import latest_output
from servo.leader.service import Service
from servo.ports.world import World
from servo.projection.files.arrow import ArrowTable, pa, pc
from servo.projection.read.replay import PRESENT
from servo.projection.read.time_travel import snapshot_at
from servo.sdk.assets.results import AssetMaterialization, AssetObservation
from servo.sdk.assets.specs import to_key
from servo.sdk.metadata.entries import encode_metadata
from servo.sdk.partitions.definition import checked_keys
from servo.sdk.partitions.text import partitions_from_text
from servo.sdk.resources.redaction import refuse_secrets
from servo.workspace.address import IN_MEMORY, Address
from servo.workspace.composition import in_memory, open_to_read, open_world
from servo.workspace.instance.changes import Changes
from servo.workspace.instance.records import (
    AssetEntry,
    AssetEvent,
    AssetEventType,
    AssetRecord,
    EventRecordsFilter,
    EventRecordsResult,
    Run,
    RunRecord,
    RunsFilter,
    made_event,
    seen_event,
)
from servo.workspace.push_messages import as_json, in_batches, message
from servo.workspace.usual_address import usual_address

VERSION_TAG = "dagster/data_version"

R = TypeVar("R", bound=Row)
_LATEST = ("partition_key", "last_materialization_id", "last_output_uri", "last_content_hash")


class ServoInstance:
    """One workspace, used inside or outside of runs."""

    def __init__(self, world: World, address: Address, *, alone: bool = False) -> None:
        self.world = world
        self.address = address
        self.paths = address.paths
        self._alone = alone
        self._changes = Changes(world, address)
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    # --- where it comes from ------------------------------------------------------------------

    @classmethod
    def ephemeral(cls, tempdir: str | None = None) -> "ServoInstance":
        """A workspace of this process alone, in memory or in a given folder."""
        if tempdir is not None:
            return cls.local_temp(tempdir)
        return cls(in_memory(), IN_MEMORY, alone=True)

    @classmethod
    def local_temp(cls, tempdir: str | None = None) -> "ServoInstance":
        """A workspace in a folder; by default a temporary one, removed at the end."""
        made = tempfile.TemporaryDirectory(prefix="servo-") if tempdir is None else None
        folder = str(tempdir) if made is None else made.name
        found = cls(open_world(folder), Address.of(folder), alone=made is not None)
        found._folder = made
        return found

    @classmethod
    def get(cls) -> "ServoInstance":
        """The workspace that commands in this folder use.

        Its store is `$SERVO_STORE`, that of the project file, or the folder `.servo`.
        """
        address = usual_address(Path.cwd(), os.environ)
        address.check_exists()
        return cls(open_to_read(address.store), address)

    @classmethod
    def of_store(
        cls, url: str, *, tenant: str = "default", workspace: str = "default"
    ) -> "ServoInstance":
        """A workspace of the store at `url`, which other processes may use too."""
        address = Address.of(url, tenant, workspace)
        return cls(open_to_read(address.store), address)

    @property
    def is_ephemeral(self) -> bool:
        """Whether it ends with this process."""
        return self._alone

    def dispose(self) -> None:
        """Remove its temporary folder, if it has one."""
        if self._folder is not None:
            self._folder.cleanup()

    def __enter__(self) -> "ServoInstance":
        return self

    def __exit__(self, *_: object) -> None:
        self.dispose()

    def led_by(self, service: Service) -> AbstractContextManager[None]:
        """Send changes through a leader in this process, for as long as it leads."""
        return self._changes.through(service)

    # --- assets -------------------------------------------------------------------------------

    def get_latest_materialization_event(self, asset_key: Any) -> AssetEvent | None:
        """The latest output of an asset, if there is one."""
        found = self._made(to_key(asset_key))
        return found[0] if found else None

    def get_latest_materialization_events(
        self, asset_keys: Iterable[Any]
    ) -> dict[AssetKey, AssetEvent | None]:
        """The latest output of each asset."""
        keys = [to_key(key) for key in asset_keys]
        return {key: self.get_latest_materialization_event(key) for key in keys}

    def get_latest_data_version_record(
        self, key: Any, is_source: bool | None = None, partition_key: str | None = None
    ) -> AssetEvent | None:
        """The newest event of an asset with a data version.

        `is_source` chooses observations (True) or materializations (False); without it, both count.
        """
        asset = to_key(key)
        made = [] if is_source else self._made(asset)
        seen = self._seen(asset) if is_source is not False else []
        found = [e for e in (*made, *seen) if partition_key in (None, e.partition_key)]
        return max(found, key=lambda event: event.storage_id, default=None)

    def get_materialized_partitions(self, asset_key: Any) -> set[str]:
        """The materialized partitions of an asset."""
        rows = self._partitions(asset_key)
        made = rows.filter(pc.is_valid(rows["last_materialization_id"]))
        return {shown_partition(key) or "" for key in made["partition_key"].to_pylist()}

    def latest_outputs(self, asset_key: Any, partitions: Sequence[str]) -> dict[str, PinnedInput]:
        """The latest outputs of an asset's partitions, by typed key."""
        rows = self._partitions(asset_key)
        rows = rows.filter(pc.is_in(rows["partition_key"], value_set=pa.array(partitions)))
        return {
            key: PinnedInput(*output)
            for key, *output in zip(*(rows[name].to_pylist() for name in _LATEST), strict=True)
            if output[0] is not None
        }

    def latest_output(self, asset_key: Any) -> PinnedInput | None:
        """The newest output of an asset; None if it was never materialized."""
        name = to_key(asset_key).canonical()
        rows = [row for row in self._rows("assets", AssetRow) if row.asset_key == name]
        return latest_output(rows[0]) if rows else None

    def _partitions(self, asset_key: Any) -> ArrowTable:
        """The rows of an asset's partitions, in columns: there may be very many."""
        snapshot = snapshot_at(self.world.store, self.paths, PRESENT)
        return snapshot.partitions(to_key(asset_key).canonical(), only=_LATEST)

    def get_asset_keys(self, prefix: Sequence[str] | None = None) -> Sequence[AssetKey]:
        """The assets that the workspace knows, sorted."""
        keys = sorted(AssetKey.parse(row.asset_key) for row in self._rows("assets", AssetRow))
        return [key for key in keys if prefix is None or key.has_prefix(prefix)]

    all_asset_keys = get_asset_keys

    def has_asset_key(self, asset_key: Any) -> bool:
        """Whether the workspace knows an asset."""
        return to_key(asset_key) in self.get_asset_keys()

    def get_event_records(
        self,
        event_records_filter: EventRecordsFilter,
        limit: int | None = None,
        ascending: bool = False,
    ) -> Sequence[AssetEvent]:
        """The events of assets, newest first; of observations, only the last one."""
        wanted, key = event_records_filter, event_records_filter.asset_key
        kind = wanted.kind()
        made = kind is AssetEventType.ASSET_MATERIALIZATION
        found = [e for e in (self._made(key) if made else self._seen(key)) if wanted.holds(e)]
        found.sort(key=lambda event: event.storage_id, reverse=not ascending)
        return found[:limit]

    def fetch_materializations(
        self,
        records_filter: Any,
        limit: int = 1000,
        cursor: str | None = None,
        ascending: bool = False,
    ) -> EventRecordsResult:
        """The outputs of an asset, page by page; `cursor` is that of the previous page."""
        wanted = _filter(AssetEventType.ASSET_MATERIALIZATION, records_filter)
        return _part(self.get_event_records(wanted, ascending=ascending), cursor, limit)

    def fetch_observations(
        self,
        records_filter: Any,
        limit: int = 1000,
        cursor: str | None = None,
        ascending: bool = False,
    ) -> EventRecordsResult:
        """The last observation of an asset, as in `fetch_materializations`."""
        wanted = _filter(AssetEventType.ASSET_OBSERVATION, records_filter)
        return _part(self.get_event_records(wanted, ascending=ascending), cursor, limit)

    def get_asset_records(self, asset_keys: Iterable[Any] | None = None) -> Sequence[AssetRecord]:
        """The records of these assets, or of all; unknown assets are left out."""
        wanted = None if asset_keys is None else {to_key(key) for key in asset_keys}
        rows = {AssetKey.parse(row.asset_key): row for row in self._rows("assets", AssetRow)}
        newest = {event.asset_key: event for event in reversed(self._made(None))}
        return [
            AssetRecord(
                storage_id=rows[key].row_version,
                asset_entry=AssetEntry(
                    asset_key=key,
                    last_materialization_record=newest.get(key),
                    last_observation_record=seen_event(rows[key]),
                ),
            )
            for key in sorted(rows)
            if wanted is None or key in wanted
        ]

    def report_runless_asset_event(self, asset_event: Any) -> None:
        """Record a materialization or an observation outside of any run."""
        self._changes.commit(self.as_event(asset_event))

    def as_event(self, asset_event: Any) -> AssetObserved | AssetReported:
        """The event that records a materialization or an observation outside of any run."""
        if not isinstance(asset_event, AssetMaterialization):
            raise Invalid(
                f"{type(asset_event).__name__} cannot be recorded outside of a run",
                remedy="report an AssetMaterialization or an AssetObservation",
            )
        told = asset_event.metadata or {}
        said: dict[str, Any] = {
            "asset_key": asset_event.asset_key.canonical(),
            "partition_key": self._stored_under(asset_event.asset_key, asset_event.partition),
            "data_version": (asset_event.tags or {}).get(VERSION_TAG, ""),
            "metadata": encode_metadata(told) if told else "",
        }
        if isinstance(asset_event, AssetObservation):
            return AssetObserved(**said)
        name = f"reported-{self.world.entropy.token_bytes(10).hex()}"
        return AssetReported(materialization_id=name, **said)

    def _stored_under(self, key: AssetKey, partition: str | None) -> str | None:
        """The key that a partition is stored under, if it is known how its asset is divided."""
        if partition is None:
            return None
        refuse_secrets(partition, f"the partition key of an event of {key}")
        name = key.canonical()
        strings = [
            row.partitions for row in self._rows("assets", AssetRow) if row.asset_key == name
        ]
        with suppress(Invalid):
            definition = partitions_from_text(strings[0]) if strings else None
            if definition is not None:
                return definition.typed_key(partition).canonical()
        return partition

    def wipe_assets(self, asset_keys: Iterable[Any]) -> None:
        """Wipe these assets."""
        names = [to_key(key).canonical() for key in asset_keys]
        by = self.world.identity
        self._changes.commit(*(AssetWiped(asset_key=name, requested_by=by) for name in names))

    def _made(self, key: AssetKey | None) -> list[AssetEvent]:
        """The valid outputs of an asset, or of all assets, newest first."""
        name = None if key is None else key.canonical()
        floors = {
            row.asset_key: row.latest_floor
            for row in self._rows("assets", AssetRow)
            if row.last_materialization_id is None
        }
        rows = [
            row
            for row in self._rows("materializations", MaterializationRow)
            if row.promoted
            and name in (None, row.asset_key)
            and row.created_seq > floors.get(row.asset_key, 0)
        ]
        rows.sort(key=lambda row: row.created_seq, reverse=True)
        return [made_event(row) for row in rows]

    def _seen(self, key: AssetKey | None) -> list[AssetEvent]:
        name = None if key is None else key.canonical()
        rows = [r for r in self._rows("assets", AssetRow) if name in (None, r.asset_key)]
        return [event for event in map(seen_event, rows) if event is not None]

    # --- runs ---------------------------------------------------------------------------------

    def get_runs(
        self,
        filters: RunsFilter | None = None,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> Sequence[Run]:
        """The runs, the newest first; after the one that `cursor` names."""
        wanted = filters or RunsFilter()
        rows = sorted(self._rows("runs", RunRow), key=lambda row: row.created_at, reverse=True)
        runs = [run for run in map(Run.of, rows) if wanted.holds(run)]
        if cursor is not None:
            names = [run.run_id for run in runs]
            runs = runs[names.index(cursor) + 1 :] if cursor in names else []
        return runs[:limit]

    def get_run_records(
        self,
        filters: RunsFilter | None = None,
        limit: int | None = None,
        order_by: str | None = None,
        ascending: bool = False,
        cursor: str | None = None,
    ) -> Sequence[RunRecord]:
        """The runs with their times, the newest first; or, `ascending`, the oldest."""
        if order_by not in (None, "id", "create_timestamp"):
            raise Invalid(f"runs cannot be ordered by {order_by!r}", remedy="leave out order_by")
        runs = list(self.get_runs(filters))
        runs = runs[::-1] if ascending else runs
        names = [run.run_id for run in runs]
        if cursor is not None:
            runs = runs[names.index(cursor) + 1 :] if cursor in names else []
        return [RunRecord(run) for run in runs[:limit]]

    def get_run_record_by_id(self, run_id: str) -> RunRecord | None:
        """A run with its times, or None."""
        run = self.get_run_by_id(run_id)
        return None if run is None else RunRecord(run)

    def get_run_by_id(self, run_id: str) -> Run | None:
        """A run, or None."""
        return next(iter(self.get_runs(RunsFilter(run_ids=[run_id]))), None)

    def has_run(self, run_id: str) -> bool:
        """Whether there is a run with this id."""
        return self.get_run_by_id(run_id) is not None

    def get_runs_count(self, filters: RunsFilter | None = None) -> int:
        """How many runs there are."""
        return len(self.get_runs(filters))

    # --- dynamic partitions -------------------------------------------------------------------

    def add_dynamic_partitions(
        self, partitions_def_name: str, partition_keys: Sequence[str]
    ) -> None:
        """Add partitions to a set; those that are in it stay."""
        if isinstance(partition_keys, str):
            raise Invalid(
                f"partition_keys is the string {partition_keys!r}, not a list",
                remedy=f"pass [{partition_keys!r}]",
            )
        keys = checked_keys(dict.fromkeys(partition_keys), what=f"partitions {partitions_def_name}")
        known = set(self.get_dynamic_partitions(partitions_def_name))
        added = tuple(key for key in keys if key not in known)
        for key in added:
            refuse_secrets(key, f"a new key of {partitions_def_name}")
        if added:
            self._changes.commit(
                DynamicPartitionsChanged(set_name=partitions_def_name, added=added)
            )

    def delete_dynamic_partition(self, partitions_def_name: str, partition_key: str) -> None:
        """Delete a partition from a set."""
        if self.has_dynamic_partition(partitions_def_name, partition_key):
            removed = (partition_key,)
            self._changes.commit(
                DynamicPartitionsChanged(set_name=partitions_def_name, removed=removed)
            )

    def get_dynamic_partitions(self, partitions_def_name: str) -> Sequence[str]:
        """The partitions of a set, in the order in which they were added."""
        rows = [
            row
            for row in self._rows("dynamic_partitions", DynamicPartitionRow)
            if row.set_name == partitions_def_name
        ]
        rows.sort(key=lambda row: (row.row_version, row.partition_key))
        return [row.partition_key for row in rows]

    def has_dynamic_partition(self, partitions_def_name: str, partition_key: str) -> bool:
        """Whether a partition is in a set."""
        return partition_key in self.get_dynamic_partitions(partitions_def_name)

    # --- sensors ------------------------------------------------------------------------------

    def push_sensor_message(
        self, sensor_name: str, payload: Any = None, *, message_id: str | None = None
    ) -> str:
        """Send a message to a push sensor; its id.

        When this returns, the message is durable and will be evaluated once. The id is an
        idempotency key: sending it again changes nothing. Without an id, every call sends a new
        message.
        """
        if message_id is None:
            message_id = ulid(self.world.clock.now(), self.world.entropy.token_bytes(10))
        name = check_text(message_id, "message id")
        self.push_sensor_messages(sensor_name, {name: payload})
        return name

    def push_sensor_messages(self, sensor_name: str, payloads: Mapping[str, Any]) -> None:
        """Send many messages to a push sensor, each under its id, in the order given."""
        self._check_pushed(sensor_name)
        for name, payload in payloads.items():
            refuse_secrets(name, f"the id of a message to {sensor_name}")
            refuse_secrets(as_json(payload), f"a message to {sensor_name}")
        store, paths = self.world.store, self.paths
        events = [
            message(store, paths, sensor_name, name, as_json(payload))
            for name, payload in payloads.items()
        ]
        for batch in in_batches(events):
            self._changes.commit(*batch)

    def _check_pushed(self, name: str) -> None:
        rows = self._rows("sensor_definitions", SensorDefinitionRow)
        known = {row.sensor_id: row.mode for row in rows if row.removed_at is None}
        if known.get(name) is not SensorMode.PUSH:
            pushed = sorted(one for one, mode in known.items() if mode is SensorMode.PUSH)
            raise NotFound(
                f"there is no push sensor {name} in this workspace",
                remedy=f"available: {', '.join(pushed) or 'none'}; deploy it with `servo dev`",
            )

    # --- reading ------------------------------------------------------------------

    def _rows(self, table: str, kind: type[R]) -> list[R]:
        found = snapshot_at(self.world.store, self.paths, PRESENT).rows(table)
        return [row for row in found if isinstance(row, kind)]


def _filter(kind: AssetEventType, given: Any) -> EventRecordsFilter:
    """The filter that a person meant by one, or by an asset."""
    return (
        given if isinstance(given, EventRecordsFilter) else EventRecordsFilter(kind, to_key(given))
    )


def _part(found: Sequence[AssetEvent], cursor: str | None, limit: int) -> EventRecordsResult:
    """Some of the events: those after the part that `cursor` ended."""
    begin = int(cursor or 0)
    part = found[begin : begin + limit]
    end = begin + len(part)
    return EventRecordsResult(part, str(end), end < len(found))
