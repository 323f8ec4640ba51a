"""Rows as Parquet: readable by others, and by versions of Servo before and after this one."""

import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import duckdb
import pytest
from msgspec.structs import replace

from servo.core.events.runs import BackfillSource, PlanSegment
from servo.core.retry import RetryRules
from servo.core.state.rows.assets import PartitionStatusRow
from servo.core.state.rows.execution import RunRow, TaskRow
from servo.core.state.rows.row import Row
from servo.core.state.states import (
    RunState,
    RunTransitionReason,
    TaskState,
    TransitionReason,
)
from servo.core.state.tables import TABLES, Residency, TableSpec
from servo.errors import Corrupt, Internal
from servo.ledger.paths import Paths
from servo.projection.files.arrow import pa, pc, pq
from servo.projection.files.parquet import (
    GROUP_ROWS,
    conform,
    decode,
    encode,
    live,
    read,
    read_where,
    to_rows,
)
from servo.projection.files.schema import DELETED, columns, schema, stored_schema
from servo.projection.publish.closing import RUN

Change = Callable[[Any], Any]

NOW = datetime(2026, 1, 1, 12, 30, 0, 123456, tzinfo=UTC)
PATHS = Paths("acme", "prod")
RUNS, TASKS = TABLES["runs"], TABLES["tasks"]


def task(name: str = "t", **fields: object) -> TaskRow:
    row = TaskRow(
        run_id="run_1",
        task_key=name,
        state=TaskState.RUNNING,
        reason=TransitionReason.EXECUTION_STARTED,
        transitioned_at=NOW,
        row_version=7,
    )
    return replace(row, **fields)


def run(**fields: object) -> RunRow:
    row = RunRow(
        run_id="run_1",
        run_key="key",
        request_fingerprint="f",
        state=RunState.RUNNING,
        reason=RunTransitionReason.STARTED,
        transitioned_at=NOW,
        created_at=NOW,
        row_version=7,
    )
    return replace(row, **fields)


def stored(spec: TableSpec, *rows: Row) -> bytes:
    return encode(spec, rows, (), PATHS)


def rewritten(data: bytes, change: Change) -> bytes:
    """A file as another version would have written it."""
    sink = pa.BufferOutputStream()
    pq.write_table(change(pq.read_table(pa.BufferReader(data))), sink)
    return sink.getvalue().to_pybytes()


# --- what others see ------------------------------------------------------------------------------


def test_duckdb_reads_every_kind_of_column(tmp_path: Path) -> None:
    path = tmp_path / "runs.parquet"
    source = BackfillSource(backfill_id="bf", chunk_index=3)
    row = run(labels={"team": "core"}, asset_selection=("a", "b"), source=source, timed_out=True)
    _ = path.write_bytes(stored(RUNS, row))
    found = duckdb.connect().execute(
        "select tenant_id, workspace_id, run_id, state, created_at at time zone 'UTC', "
        "labels['team'], asset_selection[2], source->>'$.kind', timed_out, started_at, row_version "
        "from read_parquet(?)",
        [str(path)],
    )
    created = NOW.replace(tzinfo=None)
    assert found.fetchall() == [
        ("acme", "prod", "run_1", "RUNNING", created, "core", "b", "backfill", True, None, 7)
    ]


def test_tenant_and_workspace_come_first_and_the_version_last() -> None:
    names = schema(RUNS.row, RUNS.key).names
    assert names[:3] == ["tenant_id", "workspace_id", "run_id"]
    assert names[-1] == "row_version"


def test_the_public_schema_allows_null_only_where_a_row_does() -> None:
    public = schema(TASKS.row, TASKS.key)
    assert not public.field("state").nullable
    assert not public.field("attempt").nullable
    assert public.field("partition_key").nullable
    assert public.field("retry").nullable


def test_a_file_without_tombstones_has_no_mark_for_them() -> None:
    assert read(stored(TASKS, task()), what="f").schema.equals(stored_schema(TASKS.row, TASKS.key))


def test_every_table_has_a_schema() -> None:
    for spec in TABLES.values():
        assert schema(spec.row, spec.key).names[2:] == [c.name for c in columns(spec.row)]


def test_every_table_of_runs_can_be_closed() -> None:
    expected = {n for n, spec in TABLES.items() if spec.residency is Residency.RUN}
    assert set(RUN) == expected
    assert expected == {"runs", "tasks", "dep_satisfaction", "dispatch_outbox", "timers"}


def test_importing_the_projection_does_not_import_pyarrow() -> None:
    rooms = ("publish.publisher", "read.reader", "read.load", "upkeep.compare")
    modules = ", ".join(f"servo.projection.{room}" for room in rooms)
    program = f"import sys, {modules}; sys.exit('pyarrow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


# --- values ---------------------------------------------------------------------------------------


def test_nested_values_come_back_as_they_were() -> None:
    row = task(retry=RetryRules(max_attempts=9, retry_on=("ValueError",)), tags={"a": "", "": "b"})
    segments = (PlanSegment(digest="ab", count=2), PlanSegment(digest="cd", count=1))
    assert decode(TASKS, stored(TASKS, row)) == [row]
    assert decode(RUNS, stored(RUNS, run(plan_segments=segments))) == [run(plan_segments=segments)]


def test_an_instant_of_another_zone_is_the_same_instant() -> None:
    east = NOW.astimezone(timezone(timedelta(hours=2)))
    (found,) = decode(TASKS, stored(TASKS, task(ready_at=east)))
    assert found == task(ready_at=NOW)


def test_rows_come_back_in_the_order_of_their_keys() -> None:
    names = ["b", "a", "Ω", "é", "~", "a\x00", "\U0001f600", ""]
    found = decode(TASKS, stored(TASKS, *[task(name) for name in names]))
    assert [row.task_key for row in found if isinstance(row, TaskRow)] == sorted(names)


def test_a_number_beyond_64_bits_is_cut_and_stops_nothing() -> None:
    big, small = task("a", memory_bytes=2**70), task("b", memory_bytes=-(2**70))
    assert decode(TASKS, stored(TASKS, big, small)) == [
        task("a", memory_bytes=2**63 - 1),
        task("b", memory_bytes=-(2**63)),
    ]


def test_tombstones_are_stored_sorted_among_the_rows() -> None:
    tombstones = [(("run_1", "c"), 3), (("run_1", "a"), 4)]
    table = read(encode(TASKS, [task("b")], tombstones, PATHS), what="f")
    assert table.column("task_key").to_pylist() == ["a", "b", "c"]
    assert table.column(DELETED).to_pylist() == [True, False, True]
    assert table.column("row_version").to_pylist() == [4, 7, 3]
    assert table.column("state").to_pylist() == [None, "RUNNING", None]
    assert to_rows(TASKS, live(table)) == [task("b")]


# --- other versions -------------------------------------------------------------------------------


def test_a_column_that_did_not_exist_yet_reads_as_its_default() -> None:
    gone = ["max_attempts", "tags", "partition_key", "heartbeat_timeout_ms"]
    data = rewritten(stored(TASKS, task(max_attempts=9)), lambda table: table.drop_columns(gone))
    assert decode(TASKS, data) == [task()]


def test_a_required_column_that_is_missing_makes_the_file_unreadable() -> None:
    data = rewritten(stored(TASKS, task()), lambda table: table.drop_columns(["state"]))
    with pytest.raises(Corrupt, match="no column state"):
        _ = decode(TASKS, data)


def test_a_column_that_is_not_known_yet_is_ignored() -> None:
    data = rewritten(stored(TASKS, task()), lambda table: table.append_column("mood", [["fine"]]))
    assert decode(TASKS, data) == [task()]


def test_a_column_that_is_not_known_yet_survives_being_brought_up_to_date() -> None:
    data = rewritten(
        stored(TASKS, task()),
        lambda table: table.append_column("mood", [["fine"]]).drop_columns(["pool"]),
    )
    found = conform(TASKS, read(data, what="f"))
    assert found.column_names == [*stored_schema(TASKS.row, TASKS.key).names, "mood"]
    assert found.column("pool").to_pylist() == [""]


def test_a_row_that_was_brought_up_to_date_has_the_defaults_of_its_struct() -> None:
    gone = ["tags", "pool", "retry", "max_attempts"]
    data = rewritten(stored(TASKS, task(pool="p")), lambda table: table.drop_columns(gone))
    assert to_rows(TASKS, conform(TASKS, read(data, what="f"))) == [task()]


def test_a_state_that_is_not_known_yet_asks_for_an_upgrade() -> None:
    def change(table: Any) -> Any:
        place = table.column_names.index("state")
        return table.set_column(place, "state", [["HIBERNATING"]])

    with pytest.raises(Corrupt, match=r"HIBERNATING.*upgrade Servo"):
        _ = decode(TASKS, rewritten(stored(TASKS, task()), change))


def test_a_null_where_a_row_must_have_a_value_is_damage() -> None:
    def change(table: Any) -> Any:
        place = table.column_names.index("state")
        return table.set_column(place, "state", [pa.nulls(1, pa.string())])

    with pytest.raises(Corrupt, match="column state has no value"):
        _ = decode(TASKS, rewritten(stored(TASKS, task()), change))


def test_a_null_from_a_merge_with_an_older_file_is_the_default() -> None:
    def change(table: Any) -> Any:
        place = table.column_names.index("max_attempts")
        return table.set_column(place, "max_attempts", [pa.nulls(1, pa.int64())])

    assert decode(TASKS, rewritten(stored(TASKS, task(max_attempts=9)), change)) == [task()]


def test_bytes_that_are_no_parquet_are_damage_and_not_a_crash() -> None:
    data = stored(TASKS, task())
    for broken in (b"", b"PAR1", data[:-20], data[20:], b"PAR1" + b"\x00" * 100 + b"PAR1"):
        with pytest.raises(Corrupt, match="rebuild the projection"):
            _ = decode(TASKS, broken)


def test_an_optional_column_with_another_default_than_none_is_refused() -> None:
    class Bad(Row, frozen=True):
        name: str
        size: int | None = 3

    with pytest.raises(Internal, match="null would mean two things"):
        _ = columns(Bad)


@pytest.mark.parametrize("each", [3, GROUP_ROWS + 7])
def test_the_rows_of_one_value_are_read_without_the_others(each: int) -> None:
    """In a small file, and in one of whose groups some are mixed, some pure, and some without."""
    spec = TABLES["partition_status"]
    rows = [
        PartitionStatusRow(asset_key=name, partition_key=f"{at:06d}", row_version=at + 1)
        for name in ("a", "b", "c")
        for at in range(each)
    ]
    data = stored(spec, *rows)
    whole = read(data, what="a file", only=["asset_key", "partition_key", "row_version"])
    for name in ("a", "b", "c", "d"):
        one = whole.filter(pc.equal(whole.column("asset_key"), name))
        for only in (["partition_key", "row_version"], ["asset_key", "row_version"]):
            found = read_where(data, "asset_key", name, what="a file", only=only)
            assert found.equals(one.select(only).cast(found.schema))
