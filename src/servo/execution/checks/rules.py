"""The rules behind the checks of `servo.checks`.

Each takes a `CheckSubject` and returns its result, with a few of the wrong rows. Tables are those
of Polars, pandas, Arrow and DuckDB, lists of dicts, and dicts of lists; any other value fails the
check with a message and never crashes it.
"""

import re
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from importlib import import_module
from typing import Any, cast

import msgspec

from servo.core.cron import Cron
from servo.core.keys import AssetKey
from servo.errors import Invalid
from servo.execution.checks.limits import TookTooLong
from servo.execution.outputs.tables import kind_of, to_arrow
from servo.sdk.checks.definition import AssetCheckResult
from servo.sdk.partitions.time_partitions import TimeWindowPartitionsDefinition

SAMPLE_ROWS = 5
SAMPLE_TEXT = 200

INTERRUPT_EVERY = 0.05
INTERRUPTS = 1_200

_FIRST = datetime(1970, 1, 1, tzinfo=UTC)


def _nothing() -> Any:
    return None


def _no_other(name: str) -> Any:
    raise LookupError(name)


class CheckSubject(msgspec.Struct, frozen=True, kw_only=True):
    """The checked value, and what is known about it.

    `made_at` is when it was stored, None if not yet or if unknown; `previous` is the value that it
    replaces; `other` is the value of another asset, by a name in `names`.
    """

    value: Any
    key: AssetKey
    now: datetime
    made_at: datetime | None = None
    previous: Callable[[], Any] = _nothing
    other: Callable[[str], Any] = _no_other
    names: Sequence[str] = ()
    seconds: float = 300.0


def _says(passed: bool, text: str, **metadata: Any) -> AssetCheckResult:
    return AssetCheckResult(passed=passed, description=text, metadata=metadata)


# --- tables ---------------------------------------------------------------------------------------


def table_of(value: Any, what: object) -> Any:
    """A value as an Arrow table; `Invalid` if it is not a table."""
    kind, name = kind_of(value), type(value).__name__
    if kind:
        return to_arrow(value, kind)
    pyarrow = import_module("pyarrow")
    if isinstance(value, Mapping):
        columns = cast("Mapping[str, Any]", value)
        if all(isinstance(column, list | tuple) for column in columns.values()):
            return pyarrow.table(dict(columns))
    elif isinstance(value, list | tuple):
        rows = cast("Sequence[Any]", value)
        if all(isinstance(row, Mapping) for row in rows):
            names = list(dict.fromkeys(name for row in rows for name in row))
            return pyarrow.table({name: [row.get(name) for row in rows] for name in names})
    raise Invalid(
        f"{what} is a {name}, which is not a table",
        remedy="return a table of Polars, pandas, Arrow or DuckDB, or a list of dicts",
    )


def rows_in(value: Any, what: object) -> int:
    """How many rows a table has, or items a list."""
    if kind_of(value) == "pandas" or isinstance(value, list | tuple):
        return len(cast("Sequence[Any]", value))
    return int(table_of(value, what).num_rows)


def sample(table: Any) -> list[dict[str, Any]]:
    """The first rows of a table, as JSON can hold them and people can read them."""
    rows: list[dict[str, Any]] = table.slice(0, SAMPLE_ROWS).to_pylist()
    return [{name: _shown(value) for name, value in row.items()} for row in rows]


def _shown(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    text = value.isoformat() if isinstance(value, date) else str(value)
    return text if len(text) <= SAMPLE_TEXT else f"{text[:SAMPLE_TEXT]}…"


def _missing(table: Any, columns: Iterable[str]) -> AssetCheckResult | None:
    missing = [column for column in columns if column not in table.column_names]
    if not missing:
        return None
    has = ", ".join(table.column_names[:50]) or "none"
    return _says(
        False, f"there is no column {', '.join(missing)}; available: {has}", missing=missing
    )


# --- the checks -----------------------------------------------------------------------------------


def row_count(
    subject: CheckSubject, *, least: int | None, most: int | None, min_ratio: float | None
) -> AssetCheckResult:
    """Whether there are as many rows as there should be."""
    count = rows_in(subject.value, subject.key)
    facts: dict[str, Any] = {"row_count": count}
    wrong: list[str] = []
    if least is not None and count < least:
        wrong.append(f"fewer than {least}")
    if most is not None and count > most:
        wrong.append(f"more than {most}")
    if min_ratio is not None:
        before = subject.previous()
        if before is not None:
            facts["previous_row_count"] = was = rows_in(before, f"the last {subject.key}")
            if count < was * min_ratio:
                wrong.append(f"less than {min_ratio:g} of the previous {was}")
    told = f"{count} rows" + (f": {' and '.join(wrong)}" if wrong else "")
    return _says(not wrong, told, **facts)


def not_null(subject: CheckSubject, *, columns: Sequence[str]) -> AssetCheckResult:
    """Whether these columns contain no nulls."""
    table = table_of(subject.value, subject.key)
    if wrong := _missing(table, columns):
        return wrong
    nulls = {column: int(table.column(column).null_count) for column in columns}
    found = {column: count for column, count in nulls.items() if count}
    if not found:
        return _says(True, f"{table.num_rows} rows without a null", row_count=table.num_rows)
    compute = import_module("pyarrow.compute")
    where = None
    for column in found:
        empty = compute.is_null(table.column(column))
        where = empty if where is None else compute.or_(where, empty)
    told = ", ".join(f"{count} in {column}" for column, count in found.items())
    rows = sample(table.filter(where))
    return _says(False, f"nulls: {told}", nulls=found, row_count=table.num_rows, sample=rows)


def unique(subject: CheckSubject, *, columns: Sequence[str]) -> AssetCheckResult:
    """Whether no two rows are the same in these columns; a row with a null there is left out."""
    table = table_of(subject.value, subject.key)
    if wrong := _missing(table, columns):
        return wrong
    compute = import_module("pyarrow.compute")
    keys = table.select(list(dict.fromkeys(columns))).drop_null()
    counted = keys.group_by(keys.column_names).aggregate([([], "count_all")])
    twice = counted.filter(compute.greater(counted.column("count_all"), 1))
    if not twice.num_rows:
        return _says(True, f"{keys.num_rows} rows, all unique", row_count=table.num_rows)
    extra = int(compute.sum(twice.column("count_all")).as_py()) - twice.num_rows
    return _says(
        False,
        f"duplicate {', '.join(keys.column_names)} in {extra} of {table.num_rows} rows",
        duplicates=extra,
        row_count=table.num_rows,
        sample=sample(twice),
    )


def last_update(
    subject: CheckSubject, *, within: timedelta, deadlines: Cron | None
) -> AssetCheckResult:
    """Whether the asset was materialized within a time before the last deadline, or before now."""
    if subject.made_at is None:
        return _says(
            False, f"it is unknown when {subject.key} was materialized: an IO manager stored it"
        )
    made, since = subject.made_at, _last(deadlines, subject.now) - within
    return _says(
        made >= since,
        f"materialized {made.isoformat(timespec='seconds')}, required since "
        f"{since.isoformat(timespec='seconds')}",
        last_updated=made.isoformat(),
        lower_bound=since.isoformat(),
    )


def last_partition(
    windows: TimeWindowPartitionsDefinition, deadlines: Cron, now: datetime, there: Collection[str]
) -> AssetCheckResult:
    """Whether the last partition that was complete at the last deadline is materialized."""
    wanted = windows.get_last_partition_key(_last(deadlines, now))
    if wanted is None:
        return _says(True, "no partition is due yet")
    made = wanted in there
    return _says(
        made, f"partition {wanted} {'is materialized' if made else 'is missing'}", wanted=wanted
    )


def _last(deadlines: Cron | None, now: datetime) -> datetime:
    """The last deadline; where there are none, now."""
    passed = [] if deadlines is None else deadlines.newest_between(_FIRST, now, 1)
    return passed[-1] if passed else now


def freshness(subject: CheckSubject, *, max_age: timedelta, column: str | None) -> AssetCheckResult:
    """Whether the newest row, or the whole, is new enough."""
    if column is None:
        newest = subject.made_at
        if newest is None:
            told = f"it is unknown when {subject.key} was materialized: an IO manager stored it"
            return _says(False, f"{told}; pass a column that contains times")
    else:
        table = table_of(subject.value, subject.key)
        if wrong := _missing(table, [column]):
            return wrong
        if table.num_rows == table.column(column).null_count:
            return _says(False, f"every row is null in {column}", row_count=table.num_rows)
        latest = import_module("pyarrow.compute").max(table.column(column)).as_py()
        newest = _instant(latest)
        if newest is None:
            return _says(False, f"{column} holds {latest!r:.100}, which is not a time")
    age = subject.now - newest
    return _says(
        age <= max_age,
        f"the newest is from {newest.isoformat(timespec='seconds')}, {_spoken(age)} ago",
        newest=newest.isoformat(),
        age_seconds=round(age.total_seconds(), 3),
        max_age_seconds=max_age.total_seconds(),
    )


def _instant(value: Any) -> datetime | None:
    """A time as it stands in a column; one without a zone is UTC, a day is its beginning."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return None
    if not isinstance(value, date):
        return None
    if not isinstance(value, datetime):
        return datetime(value.year, value.month, value.day, tzinfo=UTC)
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def _spoken(age: timedelta) -> str:
    return str(timedelta(seconds=round(age.total_seconds())))


def sql(subject: CheckSubject, *, query: str) -> AssetCheckResult:
    """Whether a query that returns one boolean returns true."""
    duckdb = import_module("duckdb")
    with duckdb.connect(config={"python_enable_replacements": "false"}) as db:
        for name in ("asset", subject.key.name, subject.key.to_python_identifier()):
            db.register(name, table_of(subject.value, subject.key))
        for name in subject.names:
            if names(query, name):
                db.register(name, table_of(subject.other(name), name))
        rows = _asked(db, query, subject.seconds)
    if len(rows) == 1 and len(rows[0]) == 1 and isinstance(rows[0][0], bool):
        return _says(
            rows[0][0], "the query returned " + ("yes" if rows[0][0] else "no"), query=query
        )
    shape = f"{len(rows)} rows of {len(rows[0])} values" if rows else "no rows"
    if len(rows) == 1 and len(rows[0]) == 1:
        shape = f"{rows[0][0]!r:.100}"
    told = f"the query returned {shape}; make it return one boolean, such as `count(*) = 0`"
    return _says(False, told, query=query)


def names(query: str, name: str) -> bool:
    """Whether a query may be about a table of this name."""
    return re.search(rf"\b{re.escape(name)}\b", query) is not None


def _asked(db: Any, query: str, seconds: float) -> list[tuple[Any, ...]]:
    """The first rows of a result. Alarms do not stop DuckDB: another thread interrupts it."""
    over = threading.Event()
    watching = threading.Thread(target=_interrupt_when_late, args=(db, seconds, over), daemon=True)
    watching.start()
    try:
        return db.execute(query).fetchmany(2)
    except Exception as error:
        if type(error).__name__ == "InterruptException":
            raise TookTooLong from None
        raise
    finally:
        over.set()
        watching.join()


def _interrupt_when_late(db: Any, seconds: float, over: threading.Event) -> None:
    """Interrupt a query until it ends: an interrupt before its start has no effect.

    Not for ever: the check may have been stopped before it could report the end.
    """
    if over.wait(seconds):
        return
    for _ in range(INTERRUPTS):
        with suppress(Exception):  # it may be closed by now
            db.interrupt()
        if over.wait(INTERRUPT_EVERY):
            return
