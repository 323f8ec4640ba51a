"""Wiped partitions as readers see them are wiped partitions as the fold sees them."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from servo.core.events.assets import AssetObserved, AssetReported, AssetWiped
from servo.core.events.envelope import Batch
from servo.core.fold.latest import partition_of
from servo.core.state import derived
from servo.core.state.rows.assets import PartitionStatusRow
from servo.core.state.rows.row import Row
from servo.core.state.state import State
from servo.core.state.tables import TABLES
from servo.projection.files.parquet import to_rows
from servo.projection.read.cold import ColdRows
from servo.projection.read.hydration import Hydrator
from servo.projection.read.lookup import Lookup
from servo.projection.read.reader import Reader, Snapshot
from servo.projection.read.sql import query
from servo.projection.read.time_travel import snapshot_at
from servo.projection.upkeep.compare import canonical_rows, dump
from servo.projection.upkeep.row_diff import compare
from servo.storage.memory import MemoryStore
from servo.testing.clock import ManualClock
from servo.testing.dumps import dump_snapshot
from servo.testing.leader import HandLeader

DAYS = tuple(f"day=d:2025-01-{day:02}" for day in range(1, 4))


def made(asset: str, day: str, name: str) -> AssetReported:
    return AssetReported(
        asset_key=asset, partition_key=day, materialization_id=name, data_version=f"v-{name}"
    )


def leader_with_a_wiped_asset() -> HandLeader:
    """Two assets of three partitions; one wiped, and one of its partitions made again."""
    leader = HandLeader(MemoryStore(ManualClock()))
    for asset in ("ns/a", "ns/b"):
        for day in DAYS:
            leader.tell(made(asset, day, f"{asset}/{day}"))
    leader.engine.finish()
    leader.tell(AssetWiped(asset_key="ns/a"))
    leader.tell(made("ns/a", DAYS[1], "again"))
    leader.engine.finish()
    return leader


def newest(leader: HandLeader) -> Snapshot:
    return Reader(leader.ports.store, leader.paths).snapshot()


def ids(snapshot: Snapshot, columns: Sequence[str] | None = None) -> dict[str, str | None]:
    wanted = ["asset_key", "partition_key", "last_materialization_id"]
    table = snapshot.table("partition_status", only=columns or wanted)
    rows = table.to_pylist()
    return {
        row["partition_key"]: row["last_materialization_id"]
        for row in rows
        if row.get("asset_key", "ns/a") == "ns/a"
    }


def test_a_reader_sees_the_partitions_of_a_wiped_asset_wiped() -> None:
    leader = leader_with_a_wiped_asset()
    assert ids(newest(leader)) == {DAYS[0]: None, DAYS[1]: "again", DAYS[2]: None}
    found = newest(leader).table("partition_status", only=["last_materialization_id"])
    assert found.column_names == ["last_materialization_id"]
    assert sorted(map(str, found.column(0).to_pylist())) == [
        "None",
        "None",
        "again",
        *(f"ns/b/{day}" for day in DAYS),
    ]


def test_what_a_reader_sees_of_every_column_is_what_the_fold_says() -> None:
    leader = leader_with_a_wiped_asset()
    whole = State("acme", "prod")
    snapshot = newest(leader)
    for name in ("assets", "partition_status"):
        whole.hydrate(name, _stored(snapshot, name))
    assert canonical_rows(snapshot.rows("partition_status")) == canonical_rows(
        derived.rows(whole, "partition_status")
    )
    assert dump_snapshot(snapshot)["partition_status"] == dump(whole)["partition_status"]


def _stored(snapshot: Snapshot, name: str) -> Sequence[Row]:
    return to_rows(TABLES[name], snapshot.stored(name))


def test_time_travel_knows_before_and_after_the_wipe() -> None:
    leader = leader_with_a_wiped_asset()
    last = leader.engine.state.seq
    store, paths = leader.ports.store, leader.paths
    before = ids(snapshot_at(store, paths, last - 2))
    assert before == {day: f"ns/a/{day}" for day in DAYS}
    assert ids(snapshot_at(store, paths, last - 1)) == dict.fromkeys(DAYS)
    assert ids(snapshot_at(store, paths, last)) == {**dict.fromkeys(DAYS), DAYS[1]: "again"}


@pytest.mark.parametrize("column", ["partition_key", "last_attempt_outcome"])
def test_columns_that_no_wipe_changes_are_read_as_they_are_stored(column: str) -> None:
    snapshot = newest(leader_with_a_wiped_asset())
    assert snapshot.table("partition_status", only=[column]).equals(
        snapshot.stored("partition_status", only=[column])
    )


def test_a_workspace_without_wipes_is_read_as_it_is_stored() -> None:
    leader = HandLeader(MemoryStore(ManualClock()))
    leader.tell(AssetObserved(asset_key="ns/a", partition_key=DAYS[0]))
    leader.engine.finish()
    snapshot = newest(leader)
    assert snapshot.table("partition_status").equals(snapshot.stored("partition_status"))


def _of_one(table: Any, asset: str, columns: Sequence[str]) -> list[Any]:
    return sorted(
        (
            {name: row[name] for name in columns}
            for row in table.to_pylist()
            if row["asset_key"] == asset
        ),
        key=lambda row: row["partition_key"],
    )


@pytest.mark.parametrize("asset", ["ns/a", "ns/b", "ns/none"])
@pytest.mark.parametrize("back", [0, 1, 2])
def test_the_partitions_of_one_asset_are_those_of_the_table(asset: str, back: int) -> None:
    leader = leader_with_a_wiped_asset()
    snapshot = newest(leader)
    if back:
        seq = leader.engine.state.seq - back
        snapshot = snapshot_at(leader.ports.store, leader.paths, seq)
    columns = ["partition_key", "last_materialization_id", "last_data_version"]
    found = snapshot.partitions(asset, only=columns)
    assert found.column_names == columns
    every = snapshot.table("partition_status", only=["asset_key", *columns])
    assert sorted(found.to_pylist(), key=lambda row: row["partition_key"]) == _of_one(
        every, asset, columns
    )


# --- every other way to a row that has left memory ------------------------------------------------

AFTER = {DAYS[0]: None, DAYS[1]: "again", DAYS[2]: None}


def by_sql(leader: HandLeader) -> dict[str, str | None]:
    text = (
        "select partition_key, last_materialization_id from partition_status "
        "where asset_key = 'ns/a'"
    )
    return {str(key): name for key, name in query(newest(leader), text).rows}


def by_lookup(leader: HandLeader) -> dict[str, str | None]:
    found = Lookup(newest(leader)).all(PartitionStatusRow, asset_key="ns/a")
    return {row.partition_key: row.last_materialization_id for row in found}


def by_time_travel(leader: HandLeader) -> dict[str, str | None]:
    return ids(snapshot_at(leader.ports.store, leader.paths, leader.engine.state.seq))


def by_key(leader: HandLeader) -> dict[str, str | None]:
    """What a leader fetches for a fold counts by `derived`, in the state it is fetched into."""
    store, state = leader.ports.store, State("acme", "prod")
    manifest, cold = newest(leader).manifest, ColdRows(store)
    state.hydrate("assets", _stored(newest(leader), "assets"))
    hydrator = Hydrator(store, leader.paths, manifest, cold=cold)
    _ = hydrator.prepare(state, [Batch(id="b", events=tuple(seen(day) for day in DAYS))])
    rows = [partition_of(state, "ns/a", day) for day in DAYS]
    return {row.partition_key: row.last_materialization_id for row in rows}


def seen(day: str) -> AssetObserved:
    return AssetObserved(asset_key="ns/a", partition_key=day)


@pytest.mark.parametrize("read", [by_sql, by_lookup, by_time_travel, by_key])
def test_every_reader_of_partitions_that_left_memory_sees_the_wipe(
    read: Callable[[HandLeader], dict[str, str | None]],
) -> None:
    leader = leader_with_a_wiped_asset()
    assert not leader.engine.state.partitions.rows
    assert read(leader) == AFTER


def test_what_is_published_of_a_wiped_asset_is_what_its_ledger_says() -> None:
    leader = leader_with_a_wiped_asset()
    assert not compare(leader.ports.store, leader.paths).differs
