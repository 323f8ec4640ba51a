"""Which rows differ between the published projection and one rebuilt from the ledger.

None, unless something is damaged or the fold has changed. A new version of the fold may derive
other rows from the same ledger; rows of runs that have ended are marked, because a changed rule
must not turn finished work into work to do.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

import msgspec

from servo.core.fold.limits import FOLD_VERSION
from servo.core.state import derived
from servo.core.state.rows.execution import RunRow
from servo.core.state.rows.row import Row
from servo.core.state.state import State, folded_tables
from servo.core.state.states import TERMINAL_RUN_STATES
from servo.core.state.tables import TABLES
from servo.errors import Corrupt, NotFound
from servo.ledger.archive import last_entry
from servo.ledger.paths import Paths
from servo.ports.object_store import ObjectStore
from servo.projection.files.manifest_store import ManifestStore
from servo.projection.files.schema import key_parts
from servo.projection.read.reader import Snapshot
from servo.projection.read.replay import NOTHING, Replay
from servo.projection.read.time_travel import Overlaid, Past
from servo.projection.upkeep.rebuild import readable

MOST = 100

_Key = tuple[Any, ...]
_Progress = Callable[[int, int], None]


def ignore(done: int, total: int) -> None:
    """Ignore progress."""
    del done, total


class RowDiff(msgspec.Struct, frozen=True, kw_only=True):
    """A row that differs between the two sides, or that one side lacks.

    `columns` holds the published and the rebuilt value of each column that differs; it is empty if
    one side lacks the row. `over` says that the row belongs to a run that has ended.
    """

    table: str
    key: _Key
    published: bool
    rebuilt: bool
    columns: dict[str, tuple[Any, Any]] = {}
    over: bool = False


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """The newest version compared with the ledger, up to its last applied entry.

    `unreadable` says why there was nothing to compare with. `more` says that only the first
    differences are listed.
    """

    v: int
    applied_seq: int
    fold_version: int
    differences: tuple[RowDiff, ...] = ()
    more: bool = False
    unreadable: str = ""

    @property
    def differs(self) -> bool:
        return bool(self.differences) or bool(self.unreadable)

    @property
    def rewrites_history(self) -> bool:
        """Whether publishing would change, by a new fold, what ended under an old one."""
        changed = any(diff.over for diff in self.differences)
        return changed and self.fold_version != FOLD_VERSION


def compare(store: ObjectStore, paths: Paths, *, progress: _Progress = ignore) -> Comparison:
    """Fold the ledger from its beginning and compare it with what is published.

    `Corrupt` if the ledger itself is damaged: there is nothing then that could be published.
    """
    newest = next(readable(store, paths), NOTHING)
    state = State(paths.tenant, paths.workspace)
    until = newest.applied_seq if newest.v else last_entry(store, paths)
    Replay(store, paths, progress=lambda seq: progress(seq, until)).forward(
        state, NOTHING, until=until
    )
    rebuilt = Overlaid(store, paths, Past(state=state, base=NOTHING))
    found: list[RowDiff] = []
    unreadable = ""
    try:
        _ = ManifestStore(store, paths).current()
        found = list(islice(row_diffs(Snapshot(store, newest), rebuilt), MOST + 1))
    except (Corrupt, NotFound) as error:
        unreadable = error.message
    return Comparison(
        v=newest.v,
        applied_seq=newest.applied_seq,
        fold_version=newest.fold_version,
        differences=tuple(found[:MOST]),
        more=len(found) > MOST,
        unreadable=unreadable,
    )


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
        return derived.rows(rebuilt.state, name)
    return rebuilt.rows(name)


def _by_key(name: str, rows: Iterable[Row]) -> dict[_Key, Row]:
    key_of = key_parts(TABLES[name])
    return {key_of(row): row for row in rows}


def _ended_runs(published: Snapshot) -> frozenset[str]:
    runs = [row for row in published.rows("runs") if isinstance(row, RunRow)]
    return frozenset(row.run_id for row in runs if row.state in TERMINAL_RUN_STATES)


def _run_of(found: tuple[Row | None, Row | None]) -> str | None:
    row = found[0] if found[0] is not None else found[1]
    return getattr(row, "run_id", None)


def _diff(table: str, key: _Key, found: tuple[Row | None, Row | None], *, over: bool) -> RowDiff:
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
