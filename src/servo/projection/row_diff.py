"""Which rows differ between the published projection and one made again from the ledger.

None, unless something is damaged or the fold has changed. A new version of the fold may see the
past differently; rows of runs that are over are marked, because work that was done must not become
work to do because somebody improved a rule.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from servo.core.state.rows.execution import RunRow
from servo.core.state.rows.row import Row
from servo.core.state.state import folded_tables
from servo.core.state.states import TERMINAL_RUN_STATES
from servo.core.state.tables import TABLES
from servo.projection.reader import Snapshot
from servo.projection.replay import NOTHING
from servo.projection.schema import key_parts
from servo.projection.time_travel import Overlaid

Key = tuple[Any, ...]


class RowDiff(msgspec.Struct, frozen=True, kw_only=True):
    """A row that is not the same on both sides, or that one side does not have.

    `columns` holds the published and the rebuilt value of what differs, and nothing for a row that
    one side does not have. `over` says that the row belongs to a run that has ended.
    """

    table: str
    key: Key
    published: bool
    rebuilt: bool
    columns: dict[str, tuple[Any, Any]] = {}
    over: bool = False


def row_diffs(published: Snapshot, rebuilt: Overlaid) -> Iterator[RowDiff]:
    """The rows that differ, table by table."""
    ended = _ended_runs(published)
    for name in folded_tables():
        left = _by_key(name, published.rows(name))
        right = _by_key(name, _rows(rebuilt, name))
        for key in dict.fromkeys([*left, *right]):
            if left.get(key) != right.get(key):
                found = left.get(key), right.get(key)
                yield _diff(name, key, found, over=_run_of(found) in ended)


def _rows(rebuilt: Overlaid, name: str) -> Iterable[Row]:
    """Straight from memory where all of it is there, so that writing and reading are tested too."""
    if rebuilt.manifest is NOTHING:
        return rebuilt.state.tables[name].values()
    return rebuilt.rows(name)


def _by_key(name: str, rows: Iterable[Row]) -> dict[Key, Row]:
    key_of = key_parts(TABLES[name])
    return {key_of(row): row for row in rows}


def _ended_runs(published: Snapshot) -> frozenset[str]:
    runs = [row for row in published.rows("runs") if isinstance(row, RunRow)]
    return frozenset(row.run_id for row in runs if row.state in TERMINAL_RUN_STATES)


def _run_of(found: tuple[Row | None, Row | None]) -> str | None:
    row = found[0] if found[0] is not None else found[1]
    return getattr(row, "run_id", None)


def _diff(table: str, key: Key, found: tuple[Row | None, Row | None], *, over: bool) -> RowDiff:
    published, rebuilt = found
    columns: dict[str, tuple[Any, Any]] = {}
    if published is not None and rebuilt is not None:
        pairs = {
            name: (getattr(published, name), getattr(rebuilt, name))
            for name in published.__struct_fields__
        }
        columns = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
    return RowDiff(
        table=table,
        key=key,
        published=published is not None,
        rebuilt=rebuilt is not None,
        columns=columns,
        over=over,
    )
