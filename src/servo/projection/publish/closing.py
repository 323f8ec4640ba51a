"""When the rows of a finished run leave the active tier and the leader's memory.

A run that has been over for a while moves once: its rows are written to the closed tier and
tombstones take their place in the active one, in the same manifest, and after that the leader
forgets them. A fact that arrives later brings its rows back by key; if it changes one, the run is
closed again in time. A large run moves in parts, so that no publish is held up by it; its own row
goes first, because a reader that misses it looks the others up by key, and its edges before its
tasks, because those say how the edges were resolved.

The queue holds every run that is over and has rows in the active tier. So a run that is over, in
memory, unchanged and not in the queue came back by key and changed nothing: it leaves at once.
"""

from collections.abc import Collection, Iterable, Iterator
from datetime import datetime
from heapq import heappop, heappush
from itertools import chain, islice
from typing import Any

import msgspec

from servo.core.state import derived
from servo.core.state.derived import EDGES
from servo.core.state.rows.row import Row
from servo.core.state.state import State
from servo.core.state.states import TERMINAL_RUN_STATES
from servo.core.state.tables import TABLES, Residency

HISTORY = tuple(name for name, spec in TABLES.items() if spec.residency is Residency.HISTORY)
RUN = tuple(name for name, spec in TABLES.items() if spec.residency is Residency.RUN)

_Rows = dict[str, list[tuple[Any, Row]]]


class ClosingRun(msgspec.Struct, frozen=True):
    """Rows of a run on their way to the closed tier: the rest of it if `complete`, else a part."""

    run_id: str
    over_since: datetime
    rows: _Rows
    complete: bool


class ClosingQueue:
    """The runs that are over and not yet closed, by the time they ended."""

    def __init__(self, state: State) -> None:
        self._heap: list[tuple[datetime, str]] = []
        self._queued: set[str] = set()
        index = state.index
        by_run = (index.run_tasks, index.run_edges, index.run_outbox, index.run_timers)
        orphans = (run_id for run_id in chain(*by_run) if run_id not in state.runs)
        self.note(state, chain(index.runs_over, orphans), now=state.ts)

    def note(self, state: State, run_ids: Iterable[str], *, now: datetime) -> None:
        """Queue those of the runs that are over; one that is not in memory must be over."""
        for run_id in run_ids:
            run = state.runs.get(run_id)
            if run_id in self._queued or (run and run.state not in TERMINAL_RUN_STATES):
                continue
            since = now if run is None else run.finished_at or run.transitioned_at
            self._queued.add(run_id)
            heappush(self._heap, (since, run_id))

    def take(
        self, state: State, busy: Collection[str], *, before: datetime, budget: int
    ) -> tuple[ClosingRun, ...]:
        """Up to `budget` rows of runs that ended before this time and are not `busy`."""
        taken: list[ClosingRun] = []
        unready: list[tuple[datetime, str]] = []
        while budget > 0 and self._heap and self._heap[0][0] <= before:
            since, run_id = heappop(self._heap)
            if run_id in busy:
                unready.append((since, run_id))
                continue
            rows, complete = _some_rows(state, run_id, budget)
            taken.append(ClosingRun(run_id, since, rows, complete))
            budget -= sum(map(len, rows.values()))
        for item in unready:
            heappush(self._heap, item)
        return tuple(taken)

    @property
    def first(self) -> datetime | None:
        """When the run that is over for longest ended."""
        return self._heap[0][0] if self._heap else None

    def put_back(self, runs: Iterable[ClosingRun]) -> None:
        """Queue runs again that were not closed after all."""
        for run in runs:
            heappush(self._heap, (run.over_since, run.run_id))

    def closed(self, runs: Iterable[ClosingRun]) -> None:
        """Note that rows are in the closed tier; a run with remaining rows is queued again."""
        for run in runs:
            if run.complete:
                self._queued.discard(run.run_id)
            else:
                heappush(self._heap, (run.over_since, run.run_id))

    def visitors(self, state: State, busy: Collection[str]) -> list[str]:
        """Runs that came back by key since the last call and were not changed.

        New runs stand at the end of the index, so the search ends at the first one queued.
        """
        found = _until(reversed(state.index.runs_over), self._queued)
        return [run_id for run_id in found if run_id not in busy]


def _until(run_ids: Iterable[str], stop: set[str]) -> Iterator[str]:
    for run_id in run_ids:
        if run_id in stop:
            return
        yield run_id


def rows_of(state: State, run_id: str) -> _Rows:
    """Every row of a run that is in memory, by table."""
    return _some_rows(state, run_id, None)[0]


def _some_rows(state: State, run_id: str, limit: int | None) -> tuple[_Rows, bool]:
    """Rows of a run, its own first, and whether they are all; reads no more than it returns."""
    left = _keys_of(state, run_id)
    rows: _Rows = {}
    for name, key in islice(left, limit):
        row = state.tables[name].rows[key]
        rows.setdefault(name, []).append((key, derived.edge(state, row) if name == EDGES else row))
    return rows, next(left, None) is None


def _keys_of(state: State, run_id: str) -> Iterator[tuple[str, Any]]:
    index = state.index
    if run_id in state.runs:
        yield "runs", run_id
    for key in index.run_edges.get(run_id, ()):
        yield EDGES, key
    for task_key in index.run_tasks.get(run_id, ()):
        yield "tasks", (run_id, task_key)
    for key in index.run_outbox.get(run_id, ()):
        yield "dispatch_outbox", key
    for key in index.run_timers.get(run_id, ()):
        yield "timers", key


def changed_runs(state: State) -> set[str]:
    """The busy runs: those of which a row waits to be published."""
    return {run_id for name in RUN for run_id in run_ids_of(state.tables[name].dirty.values())}


def forget(state: State, rows: _Rows) -> None:
    """Drop rows from memory that are published in the closed tier."""
    for name, held in rows.items():
        table = state.tables[name]
        for key, _ in held:
            table.evict(key)


def forget_history(state: State) -> None:
    """Drop the published rows of tables that are only read by key."""
    for name in HISTORY:
        table = state.tables[name]
        for key in [key for key in table.rows if key not in table.dirty]:
            table.evict(key)


def run_ids_of(changed: Iterable[Row | None]) -> Iterator[str]:
    """The runs that changed rows belong to."""
    for row in changed:
        run_id = None if row is None else getattr(row, "run_id", None)
        if run_id is not None:
            yield run_id
