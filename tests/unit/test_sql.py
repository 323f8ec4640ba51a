"""SQL over a snapshot: right answers, nothing read that was not asked for, nothing changed."""

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from functools import cache

import pytest

from servo.core.manifest import Tier
from servo.core.partitions import PartitionKey, Scalar
from servo.core.state.tables import TABLES
from servo.errors import Corrupt, Invalid
from servo.projection.files.arrow import ArrowTable
from servo.projection.read.reader import Snapshot
from servo.projection.read.sql import query
from servo.projection.read.time_travel import snapshot_at
from servo.testing.builders import START, task_key
from servo.testing.workspaces import StoredStory


@cache
def story() -> StoredStory:
    told = StoredStory()
    for number in range(3):
        run = f"run_{number}"
        _ = told.request(run, labels={"team": f"t{number}"}, asset_selection=("ns/a", "ns/b"))
        _ = told.publish()
    _ = told.plan({"a": [], "b": ["a"]}, run_id="run_9")
    _ = told.execute("a", run_id="run_9")
    _ = told.publish()
    return told


def snapshot() -> Snapshot:
    return Snapshot(story().store, story().manifest)


def answer(sql: str) -> list[tuple[object, ...]]:
    return query(snapshot(), sql).rows


# --- answers --------------------------------------------------------------------------------------


def test_a_table_has_one_row_per_key_the_newest() -> None:
    assert answer("select state, count(*) from runs group by 1 order by 1") == [
        ("PENDING", 3),
        ("RUNNING", 1),
    ]
    assert answer("select count(*), count(distinct task_key) from tasks") == [(2, 2)]


def test_columns_have_their_names_in_order() -> None:
    found = query(snapshot(), "select run_id as id, 1 as one, 1 as one from runs limit 1")
    assert found.columns == ("id", "one", "one")
    assert found.rows == [("run_0", 1, 1)]


def test_instants_are_utc_maps_are_dicts_and_lists_are_lists() -> None:
    found = answer(
        "select created_at, labels, asset_selection, source->>'$.kind', labels['team'] "
        "from runs where run_id = 'run_1'"
    )
    assert found == [
        (START + timedelta(microseconds=1), {"team": "t1"}, ["ns/a", "ns/b"], "manual", "t1")
    ]
    when = found[0][0]
    assert isinstance(when, datetime)
    assert when.utcoffset() == UTC.utcoffset(None)


@pytest.mark.parametrize(
    "values",
    [
        {"partition": "eu"},
        {"partition": "é:/..,|=x~ÿ?> '日本'"},
        {"partition": -1},
        {"partition": True},
        {"partition": None},
        {"partition": date(2025, 1, 15)},
        {"partition": datetime(2025, 1, 15, 6, tzinfo=UTC)},
        {"partition": datetime(2025, 1, 15, 6, 0, 0, 7, tzinfo=UTC)},
        {"day": date(2025, 1, 15), "region": "eu,=", "n": 3},
    ],
)
def test_partitions_are_shown_as_people_read_them(values: dict[str, Scalar]) -> None:
    key = PartitionKey.of(values)
    assert answer(f"select shown_partition('{key.canonical()}')") == [(key.display(),)]


def test_what_has_no_partition_shows_none() -> None:
    assert answer("select shown_partition(null)") == [(None,)]


def test_differences_of_instants_are_timedeltas() -> None:
    found = answer(
        "select timestamptz '2026-02-01 00:00:01.5Z' - timestamptz '2026-01-30 00:00:00Z', "
        "interval 1 month, -interval 2 seconds, null::interval"
    )
    assert found == [
        (timedelta(days=2, seconds=1.5), timedelta(days=30), timedelta(seconds=-2), None)
    ]


def test_tables_join_and_join_themselves() -> None:
    found = answer(
        "select t.task_key, u.task_key from tasks t join dep_satisfaction d "
        "on t.run_id = d.run_id and t.task_key = d.upstream_task_key "
        "join tasks u on u.run_id = d.run_id and u.task_key = d.downstream_task_key"
    )
    assert found == [(task_key("a"), task_key("b"))]


def test_every_table_can_be_shown_described_and_counted() -> None:
    assert [name for (name,) in answer("show tables")] == sorted(TABLES)
    for name in TABLES:
        described = answer(f"describe {name}")
        assert [row[0] for row in described][:2] == ["tenant_id", "workspace_id"]
        assert described[-1][0] == "row_version"
        assert len(answer(f"from {name}")) == snapshot().table(name).num_rows


def test_a_query_without_rows_has_columns() -> None:
    found = query(snapshot(), "select tick_id from schedule_ticks")
    assert (found.columns, found.rows) == (("tick_id",), [])


def test_a_query_can_be_explained() -> None:
    assert answer("explain select * from runs")


def test_the_past_is_asked_like_the_present() -> None:
    past = snapshot_at(story().store, story().paths, 2)
    assert query(past, "select run_id from runs order by 1").rows == [("run_0",), ("run_1",)]


# --- only what is asked ---------------------------------------------------------------------------


class Watched(Snapshot):
    """A snapshot that remembers which tables were read."""

    def __init__(self) -> None:
        super().__init__(story().store, story().manifest)
        self.read: list[str] = []

    def table(
        self, name: str, *, only: Sequence[str] | None = None, tiers: Sequence[Tier] = tuple(Tier)
    ) -> ArrowTable:
        self.read.append(name)
        return super().table(name, only=only, tiers=tiers)


@pytest.mark.parametrize(
    ("sql", "read"),
    [
        ("select count(*) from runs", ["runs"]),
        ("select * from runs a join runs b using (run_id)", ["runs"]),
        ("with x as (select * from tasks) select * from x", ["tasks"]),
        ("select * from query_table('assets')", ["assets"]),
        ("show tables", []),
        ("describe runs", []),
        ("select 1", []),
    ],
)
def test_only_the_tables_that_a_query_scans_are_read_and_each_once(
    sql: str, read: list[str]
) -> None:
    watched = Watched()
    _ = query(watched, sql)
    assert watched.read == read


# --- nothing else ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sql",
    [
        "create table x as select 1",
        "create temp table x (i int)",
        "insert into runs select * from runs",
        "delete from runs",
        "update runs set state = 'x'",
        "drop view runs",
        "copy runs to '/tmp/servo-runs.csv'",
        "export database '/tmp/servo-export'",
        "attach '/tmp/servo.db'",
        "install httpfs",
        "load httpfs",
        "set enable_external_access = true",
        "pragma version",
        "call pragma_version()",
        "begin",
    ],
)
def test_a_statement_that_does_not_read_is_refused(sql: str) -> None:
    with pytest.raises(Invalid, match="statements are not allowed: the tables are read only"):
        _ = answer(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "select * from read_csv('/etc/passwd')",
        "select * from read_text('/etc/hostname')",
        "select * from glob('/etc/*')",
        "select * from '/etc/passwd'",
        "select * from sniff_csv('/etc/passwd')",
        "select * from parquet_scan('s3://bucket/key')",
    ],
)
def test_nothing_outside_the_workspace_can_be_read(sql: str) -> None:
    with pytest.raises(Invalid):
        _ = answer(sql)


def test_variables_of_this_process_are_no_tables() -> None:
    for name in ("snapshot", "views", "msgspec"):  # all in the frame that runs the query
        with pytest.raises(Invalid, match=f"Table with name {name} does not exist"):
            _ = answer(f"from {name}")


@pytest.mark.parametrize(("sql", "count"), [("", 0), ("-- nothing", 0), ("select 1; select 2", 2)])
def test_there_is_exactly_one_statement(sql: str, count: int) -> None:
    with pytest.raises(Invalid, match=f"expected one statement, got {count}"):
        _ = answer(sql)


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("selec 1", 'syntax error at or near "selec"'),
        ("select nope from runs", 'column "nope" not found'),
        ("select * from nope", "nope does not exist"),
        ("select 'x'::int", "Could not convert"),
    ],
)
def test_what_cannot_be_run_is_said_in_one_line_with_a_remedy(sql: str, words: str) -> None:
    with pytest.raises(Invalid) as caught:
        _ = answer(sql)
    assert words.lower() in str(caught.value).lower()
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith('their columns with "describe runs"')


def test_a_damaged_file_is_said_and_not_dressed_up_as_a_mistake_in_the_query() -> None:
    told = StoredStory()
    _ = told.request()
    manifest = told.publish()
    for file in manifest.tables["runs"].files:
        _ = told.store.put(file.key, b"PAR1" + bytes(file.size - 4))
    with pytest.raises(Corrupt, match="its bytes do not match their hash; rebuild"):
        _ = query(Snapshot(told.store, manifest), "select count(*) from runs")
    assert query(Snapshot(told.store, manifest), "select count(*) from tasks").rows == [(0,)]
