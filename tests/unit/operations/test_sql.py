"""SQL as an operation: tables and data, now and then, and never a change."""

import msgspec
import pytest

from servo import asset, materialize
from servo.errors import Invalid, NotFound
from servo.operations.sql import run_sql
from servo.testing.operating import workspace_of
from servo.workspace.instance.instance import ServoInstance
from servo.workspace.workspace import Workspace


@asset
def numbers() -> list[int]:
    return [1, 2, 3]


@pytest.fixture
def workspace() -> Workspace:
    instance = ServoInstance.ephemeral()
    for _ in range(2):
        assert materialize([numbers], instance=instance).success
    return workspace_of(instance)


def test_tables_and_data_are_answered_with_where_they_stand(workspace: Workspace) -> None:
    found = run_sql(workspace, "select sum(value) as s, count(*) as n from data.numbers")
    assert (found.columns, found.rows) == (["s", "n"], [(6, 3)])
    seq, when = workspace.read(lambda snapshot: (snapshot.applied_seq, snapshot.as_of))
    assert (found.applied_seq, found.as_of) == (seq, when)


def test_columns_of_one_name_are_all_answered(workspace: Workspace) -> None:
    found = run_sql(workspace, "select 1 as n, 2 as n")
    assert (len(found.columns), found.rows) == (2, [(1, 2)])


def test_the_past_is_asked_by_its_entry(workspace: Workspace) -> None:
    made = "select created_seq from materializations order by 1"
    (first,), _ = run_sql(workspace, made).rows
    then = run_sql(workspace, made, as_of=first)
    assert (then.rows, then.applied_seq) == ([(first,)], first)
    with pytest.raises(NotFound, match="has not been materialized"):
        _ = run_sql(workspace, "from data.numbers", as_of=first - 1)


@pytest.mark.parametrize(
    "statement", ["drop view runs", "create table x (i int)", "select 1; select 2"]
)
def test_what_does_not_read_is_refused(workspace: Workspace, statement: str) -> None:
    before = workspace.store.list_after("")
    with pytest.raises(Invalid):
        _ = run_sql(workspace, statement)
    assert workspace.store.list_after("") == before


def test_an_answer_is_plain_json(workspace: Workspace) -> None:
    found = run_sql(workspace, "select run_id, labels, created_at from runs limit 1")
    data = msgspec.json.decode(msgspec.json.encode(found))
    assert list(data) == ["columns", "rows", "applied_seq", "as_of"]
    assert len(data["rows"][0]) == 3
