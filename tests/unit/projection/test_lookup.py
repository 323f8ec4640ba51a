"""Rows by the values of their columns: the same whether Arrow looks or Python does."""

from typing import Any, cast

import pytest

from servo.core.events.assets import AssetDefinition, DefinitionsDeployed
from servo.core.events.quotas import QuotaSet
from servo.core.events.runs import ManualSource
from servo.core.events.schedules import ScheduleUpserted
from servo.core.state.rows.execution import RunRow
from servo.core.state.tables import TABLES, Residency
from servo.errors import NotFound
from servo.projection.read.lookup import Lookup, Page, Paged
from servo.projection.read.reader import Reader
from servo.testing.explaining import StateTables
from servo.testing.workspaces import StoredStory

# What has left the memory of the leader is only in the files.
STAYING = [
    name for name, spec in TABLES.items() if spec.residency in (Residency.LIVE, Residency.RUN)
]


def told() -> StoredStory:
    """A workspace whose tables are published in several files."""
    story = StoredStory()
    story.tell(ScheduleUpserted(schedule_id="s", cron_expressions=("* * * * *",)))
    story.publish()
    for name in ("a", "b"):
        selection = ("ns/a", name, "")
        story.tell(
            ScheduleUpserted(
                schedule_id=name, cron_expressions=("0 0 * * *",), asset_selection=selection
            )
        )
        story.publish()
    asset = AssetDefinition(asset_key="ns/a", upstream=("ns/b", "ns/c"))
    story.tell(DefinitionsDeployed(deployment_id="d", assets=(asset,)))
    story.tell(QuotaSet(max_concurrent_runs=1))
    story.plan({"a": [], "b": ["a"]})
    story.publish()
    story.execute("a")
    story.request("run_2", source=ManualSource(user_id="ada"))
    story.publish()
    return story


def values_of(held: Any) -> list[str]:
    """The values that a column could be asked for, given what one of its rows holds."""
    values = cast("tuple[Any, ...]", held if isinstance(held, tuple) else (held,))
    strings = [str(value) for value in values if isinstance(value, str)]
    return [*strings, "nowhere"] if len(strings) == len(values) else []


def test_whatever_is_asked_the_answer_is_that_of_the_state() -> None:
    story = told()
    lookup = Lookup(Reader(story.store, story.paths).snapshot())
    tables = StateTables(story.state)
    asked = 0
    for table in STAYING:
        rows = tables.rows(table)
        assert sorted(map(repr, lookup.rows(table))) == sorted(map(repr, rows))
        questions = {
            (name, value): None
            for row in rows
            for name in row.__struct_fields__
            for value in values_of(getattr(row, name))
        }
        for name, value in questions:
            found = lookup.rows(table, most=None, **{name: value})
            expected = tables.rows(table, most=None, **{name: value})
            assert [row.row_version for row in found] == [row.row_version for row in expected]
            assert sorted(map(repr, found)) == sorted(map(repr, expected)), (table, name, value)
            asked += 1
    assert asked > 100


def test_the_newest_come_first_and_no_more_than_asked_for() -> None:
    story = told()
    lookup = Lookup(Reader(story.store, story.paths).snapshot())
    rows = lookup.rows("schedule_definitions", most=2, asset_selection="ns/a")
    assert [(type(row).__name__, row.row_version) for row in rows] == [
        ("ScheduleDefinitionRow", 3),
        ("ScheduleDefinitionRow", 2),
    ]
    assert len(lookup.rows("schedule_definitions", most=1, asset_selection="ns/a")) == 1
    assert lookup.rows("schedule_definitions", asset_selection="b", schedule_id="a") == []


def test_several_columns_must_all_have_their_values_and_nulls_have_none() -> None:
    story = told()
    lookup = Lookup(Reader(story.store, story.paths).snapshot())
    found = lookup.rows("tasks", run_id="run_1", state="SUCCEEDED")
    assert [getattr(row, "asset_key", "") for row in found] == ["ns/a"]
    assert lookup.rows("tasks", partition_key="p") == []
    assert lookup.values("tasks", "partition_key") == []
    assert sorted(lookup.values("tasks", "asset_key", run_id="run_1")) == ["ns/a", "ns/b"]


# --- pages ----------------------------------------------------------------------------------------


def many_runs(count: int = 5) -> Lookup:
    story = StoredStory()
    for number in range(count):
        story.request(f"run_{number}", source=ManualSource(user_id="ada" if number % 2 else "bob"))
        story.publish()
    return Lookup(Reader(story.store, story.paths).snapshot())


def names(paged: Paged[RunRow]) -> list[str]:
    return [row.run_id for row in paged.rows]


def test_pages_follow_each_other_without_a_gap_and_the_last_one_says_so() -> None:
    lookup, seen, page = many_runs(), list[str](), Page(limit=2)
    while True:
        found = lookup.page(RunRow, page, name="run_id", newest=("created_at",))
        seen += names(found)
        if found.older is None:
            break
        assert found.older == seen[-1]
        page = Page(limit=2, before=found.older)
    assert seen == ["run_4", "run_3", "run_2", "run_1", "run_0"]


def test_a_page_that_is_just_full_is_the_last_if_nothing_is_older() -> None:
    found = many_runs().page(RunRow, Page(limit=5), name="run_id")
    assert (len(found.rows), found.older) == (5, None)


def test_a_page_before_a_name_stays_what_it_was_when_newer_ones_come() -> None:
    page = Page(limit=2, before="run_3")
    for count in (5, 8):
        found = many_runs(count).page(RunRow, page, name="run_id", newest=("created_at",))
        assert names(found) == ["run_2", "run_1"]


def test_a_name_that_is_not_there_is_refused() -> None:
    with pytest.raises(NotFound, match="'run_9' is not in the list"):
        _ = many_runs().page(RunRow, Page(limit=2, before="run_9"), name="run_id")


def test_rows_are_found_by_how_they_begin_and_by_a_list_of_values() -> None:
    lookup = many_runs()
    assert len(lookup.beginning(RunRow, "run_id", "run_")) == 5
    assert [row.run_id for row in lookup.beginning(RunRow, "run_id", "run_3")] == ["run_3"]
    some = lookup.any(RunRow, "run_id", ["run_1", "run_4", "nowhere"])
    assert sorted(row.run_id for row in some) == ["run_1", "run_4"]
    assert lookup.any(RunRow, "run_id", []) == []
    assert [row.run_id for row in lookup.all(RunRow, run_id="run_2")] == ["run_2"]
