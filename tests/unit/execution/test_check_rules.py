"""The checks of `servo.checks`, on every kind of table."""

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from importlib import import_module
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pytest

from servo import AssetCheckResult, AssetChecksDefinition, AssetKey, checks
from servo.errors import Invalid
from servo.execution.checks.limits import TookTooLong
from servo.execution.checks.rules import CheckSubject

pa: Any = import_module("pyarrow")

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)

Columns = dict[str, list[Any]]
MISSPELT: Any = {"blockin": True}


def _rows(columns: Columns) -> list[dict[str, Any]]:
    names = list(columns)
    return [dict(zip(names, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _relation(columns: Columns) -> Any:
    table = pa.table(columns)
    return duckdb.connect().from_arrow(table)


KINDS: dict[str, Callable[[Columns], Any]] = {
    "arrow": pa.table,
    "polars": pl.DataFrame,
    "lazy": pl.LazyFrame,
    "pandas": pd.DataFrame,
    "duckdb": _relation,
    "rows": _rows,
    "columns": dict,
}


@pytest.fixture(params=KINDS)
def table(request: pytest.FixtureRequest) -> Callable[..., Any]:
    make = KINDS[request.param]

    def made(**columns: list[Any]) -> Any:
        return make(columns)

    return made


def judged(check: AssetChecksDefinition, value: Any, **known: Any) -> AssetCheckResult:
    subject = CheckSubject(value=value, key=AssetKey("orders"), now=NOW, **known)
    found = check.fn(subject)
    assert isinstance(found, AssetCheckResult)
    return found


@pytest.mark.parametrize(
    ("limits", "passed", "told"),
    [
        ({"min": 3, "max": 3}, True, "3 rows"),
        ({"min": 4}, False, "3 rows: fewer than 4"),
        ({"max": 2}, False, "3 rows: more than 2"),
    ],
)
def test_rows_are_counted(
    table: Callable[..., Any], limits: dict[str, Any], passed: bool, told: str
) -> None:
    found = judged(checks.row_count("orders", **limits), table(id=[1, 2, 3]))
    assert (found.passed, found.description) == (passed, told)
    assert found.metadata == {"row_count": 3}


@pytest.mark.parametrize(("rows", "passed"), [(5, True), (4, False)])
def test_rows_are_compared_with_those_of_the_last_time(rows: int, passed: bool) -> None:
    check = checks.row_count("orders", min_ratio=0.5)
    found = judged(check, list(range(rows)), previous=lambda: list(range(10)))
    assert (found.passed, found.metadata["previous_row_count"]) == (passed, 10)
    assert judged(check, []).passed  # there was no last time
    assert check.options.sees_previous


def test_nulls_are_found_and_shown(table: Callable[..., Any]) -> None:
    value = table(id=[1, 2, 3], name=["a", None, None])
    assert judged(checks.not_null("orders", "id"), value).passed
    found = judged(checks.not_null("orders", ["id", "name"]), value)
    assert (found.passed, found.description) == (False, "nulls: 2 in name")
    assert found.metadata["nulls"] == {"name": 2}
    assert [row["id"] for row in found.metadata["sample"]] == [2, 3]


def test_pandas_nan_is_a_null() -> None:
    frame = pd.DataFrame({"amount": [1.0, float("nan")]})
    assert not judged(checks.not_null("orders", "amount"), frame).passed


def test_duplicates_are_found_by_one_column_and_by_several(table: Callable[..., Any]) -> None:
    value = table(shop=[1, 1, 2, 2], number=[1, 1, 1, 2])
    found = judged(checks.unique("orders", ["shop", "number"]), value)
    assert (found.passed, found.metadata["duplicates"]) == (False, 1)
    assert found.metadata["sample"] == [{"shop": 1, "number": 1, "count_all": 2}]
    assert judged(checks.unique("orders", "number"), value).metadata["duplicates"] == 2
    found = judged(checks.unique("orders", "id"), table(id=[1, 2, 3]))
    assert (found.passed, found.metadata["row_count"]) == (True, 3)


def test_rows_with_a_null_are_not_compared() -> None:
    value = pa.table({"id": [1, None, None]})
    assert judged(checks.unique("orders", "id"), value).passed


def test_the_newest_row_must_be_new_enough(table: Callable[..., Any]) -> None:
    value = table(at=[NOW - timedelta(days=9), NOW - timedelta(hours=3)])
    check = checks.freshness("orders", max_age=timedelta(hours=4), column="at")
    found = judged(check, value)
    assert (found.passed, found.metadata["age_seconds"]) == (True, 10_800.0)
    late = judged(checks.freshness("orders", max_age=3600, column="at"), value)
    assert (late.passed, late.description) == (
        False,
        "the newest is from 2026-03-01T09:00:00+00:00, 3:00:00 ago",
    )


@pytest.mark.parametrize(
    ("newest", "passed"),
    [
        (date(2026, 3, 1), True),
        (date(2026, 2, 27), False),
        ("2026-03-01T10:00:00", True),
        ("2026-03-01T02:00:00-08:00", True),
        ("yesterday", False),
        (7, False),
        (None, False),
    ],
)
def test_times_are_read_as_they_come(newest: Any, passed: bool) -> None:
    check = checks.freshness("orders", max_age=timedelta(days=1), column="at")
    assert judged(check, [{"at": newest}]).passed is passed


def test_without_a_column_it_is_the_output_that_must_be_fresh() -> None:
    check = checks.freshness("orders", max_age=60)
    assert judged(check, 1, made_at=NOW - timedelta(seconds=60)).passed
    assert not judged(check, 1, made_at=NOW - timedelta(seconds=61)).passed
    unknown = judged(check, 1, made_at=None)
    assert not unknown.passed
    assert "pass a column" in str(unknown.description)


def test_columns_and_types_are_as_they_should_be(table: Callable[..., Any]) -> None:
    value = table(id=[1], name=["a"], amount=[1.5], good=[True])
    names = {"id": "int64", "name": "string", "amount": "float64", "good": "bool"}
    python = {"id": int, "name": str, "amount": float, "good": None}
    for columns in (names, python, {"id": "Int64", "name": "String"}):
        assert judged(checks.schema("orders", columns), value).passed
    found = judged(
        checks.schema("orders", {"id": "string", "day": "date"}, allow_extra=False), value
    )
    assert found.description == (
        "day is missing; id is int64, not string; name is not expected; "
        "amount is not expected; good is not expected"
    )
    assert found.metadata["wrong"] == {"id": {"expected": "string", "found": "int64"}}


def test_categories_and_times_have_types_too() -> None:
    frame = pl.DataFrame({"kind": ["a"], "at": [NOW]}, schema_overrides={"kind": pl.Enum(["a"])})
    columns = {"kind": "string", "at": "datetime"}
    assert judged(checks.schema("orders", columns), frame).passed
    narrow = pa.table({"x": pa.array([1.0], pa.float32())})
    assert judged(checks.schema("orders", {"x": "float32"}), narrow).passed
    assert not judged(checks.schema("orders", {"x": "float64"}), narrow).passed


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("struct", {"a": 1}), ("list", [1]), ("number", 1), ("number", 1.5), ("integer", 1),
        ("float", 1.5), ("timestamp", NOW), ("any", "text"),
    ],
)  # fmt: skip
def test_a_kind_of_type_stands_for_all_types_of_that_kind(kind: str, value: Any) -> None:
    check = checks.schema("orders", {"x": kind})
    assert judged(check, pa.table({"x": pa.array([value])})).passed
    other = pa.table({"x": pa.array([True])})
    assert judged(check, other).passed == (kind == "any")


@pytest.mark.parametrize("name", ["orders", "asset"])
def test_a_query_says_whether_it_is_good(table: Callable[..., Any], name: str) -> None:
    check = checks.sql("orders", f"select count(*) = 0 from {name} where amount < 0")  # noqa: S608 - our own words
    assert judged(check, table(amount=[1, 2])).passed
    assert not judged(check, table(amount=[1, -2])).passed


def test_a_query_sees_other_assets_it_names() -> None:
    asked: list[str] = []

    def other(name: str) -> Any:
        asked.append(name)
        return [{"id": 1}, {"id": 2}]

    query = "select bool_and(id in (select id from customers)) from asset"
    check = checks.sql("orders", query)
    known = {"other": other, "names": ("customers", "items")}
    assert judged(check, [{"id": 2}], **known).passed
    assert not judged(check, [{"id": 3}], **known).passed
    assert asked == ["customers", "customers"]


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("select 3", "returned 3"),
        ("select null", "returned None"),
        ("select * from asset", "2 rows of 1 values"),
        ("select true where false", "no rows"),
    ],
)
def test_a_query_that_says_something_else_fails(query: str, told: str) -> None:
    found = judged(checks.sql("orders", query), [{"id": 1}, {"id": 2}])
    assert not found.passed
    assert told in str(found.description)


def test_a_query_cannot_see_our_variables() -> None:
    with pytest.raises(duckdb.CatalogException):
        judged(checks.sql("orders", "select count(*) = 0 from subject"), [{"id": 1}])


def test_a_query_stops_by_itself_when_its_time_is_over() -> None:
    query = "select sum(a.range * b.range) > 0 from range(2000000) a, range(100000) b"
    with pytest.raises(TookTooLong):
        judged(checks.sql("orders", query), [{"id": 1}], seconds=0.2)


def test_a_column_that_is_not_there_is_told() -> None:
    for check in (
        checks.not_null("orders", ["id", "nme"]),
        checks.unique("orders", "nme"),
        checks.freshness("orders", max_age=1, column="nme"),
    ):
        found = judged(check, pa.table({"id": [1], "name": ["a"]}))
        assert (found.passed, found.description) == (
            False,
            "there is no column nme; available: id, name",
        )


def test_a_row_may_lack_what_others_have() -> None:
    rows = [{"id": 1}, {"id": 2, "name": "b"}]
    found = judged(checks.not_null("orders", "name"), rows)
    assert found.metadata["sample"] == [{"id": 1, "name": None}]


@pytest.mark.parametrize("value", [7, "text", None, {"a": 1}, [1, 2]])
def test_what_is_no_table_is_told(value: Any) -> None:
    with pytest.raises(Invalid, match="which is not a table"):
        judged(checks.unique("orders", "id"), value)


def test_what_is_shown_is_bounded() -> None:
    rows = [{"id": None, "text": "x" * 1000} for _ in range(50)]
    shown = judged(checks.not_null("orders", "id"), rows).metadata["sample"]
    assert len(shown) == 5
    assert all(len(row["text"]) == 201 for row in shown)


def test_a_check_can_be_called_with_a_bare_value() -> None:
    assert checks.row_count("orders", min=1)([1]).passed
    assert checks.freshness("orders", max_age=1)([1]).passed


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: checks.row_count("orders"), "has no limit"),
        (lambda: checks.row_count("orders", min=2, max=1), "min 2 is more than max 1"),
        (lambda: checks.not_null("orders", []), "names no columns"),
        (lambda: checks.freshness("orders", max_age=0), "max_age is 0"),
        (lambda: checks.schema("orders", {"id": "int46"}), "unknown type 'int46'"),
        (lambda: checks.sql("orders", " "), "query is empty"),
        (lambda: checks.unique("orders", "id", **MISSPELT), "no option blockin"),
        (lambda: checks.unique("orders", "id", when="later"), "when is 'later'"),
        (lambda: checks.unique("orders", "id", input="raw"), "names an input"),
        (lambda: checks.unique("orders", "id", timeout=0), "timeout is 0"),
        (lambda: checks.unique("orders", "id", severity="BAD"), "no severity 'BAD'"),
        (lambda: checks.unique("orders", "id", name="a b"), "invalid check name 'a b'"),
        (lambda: checks.unique(7, "id"), "does not name an asset"),
    ],
)
def test_mistakes_are_told_where_they_are_made(make: Callable[[], object], told: str) -> None:
    with pytest.raises(Invalid, match=told):
        make()


def test_names_tell_checks_of_different_columns_apart() -> None:
    assert checks.unique("orders", ["a", "b c"]).spec.name == "unique_a_b_c"
    assert checks.not_null("orders", "id").spec.name == "not_null_id"
