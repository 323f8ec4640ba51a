"""When the rows of a finished run leave the active tier and the leader's memory.

A run that has been over for a while moves once: its rows are written to the closed tier and
tombstones take their place in the active one, in the same manifest, and after that the leader
forgets them. A fact that arrives later brings its rows back by key; if it changes one, the run is
closed again in time.

The queue holds every run that is over and has rows in the active tier. So a run that is over, in
memory, unchanged and not in the queue came back by key and changed nothing: it leaves at once.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime
from heapq import heappop, heappush
from itertools import chain
from typing import Any

import msgspec

from servo.core.state.rows.row import Row
from servo.core.state.state import State
from servo.core.state.states import TERMINAL_RUN_STATES
from servo.core.state.tables import TABLES, Residency

HISTORY = tuple(name for name, spec in TABLES.items() if spec.residency is Residency.HISTORY)
RUN = tuple(name for name, spec in TABLES.items() if spec.residency is Residency.RUN)

Rows = dict[str, list[tuple[Any, Row]]]


class ClosingRun(msgspec.Struct, frozen=True):
    """A run on its way to the closed tier, with all its rows."""

    run_id: str
    over_since: datetime
    rows: Rows


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
            self._push(since, run_id)

    def take(self, state: State, *, before: datetime, budget: int) -> tuple[ClosingRun, ...]:
        """Runs that were over `before` then and have no unpublished row, about `budget` rows."""
        taken: list[ClosingRun] = []
        unready: list[tuple[datetime, str]] = []
        while self._heap and budget > 0 and self._heap[0][0] <= before:
            since, run_id = heappop(self._heap)
            rows = rows_of(state, run_id)
            if is_changed(state, rows):
                unready.append((since, run_id))
            else:
                taken.append(ClosingRun(run_id, since, rows))
                budget -= sum(map(len, rows.values()))
        for since, run_id in unready:
            heappush(self._heap, (since, run_id))
        return tuple(taken)

    @property
    def first(self) -> datetime | None:
        """When the run that is over for longest ended."""
        return self._heap[0][0] if self._heap else None

    def put_back(self, runs: Iterable[ClosingRun]) -> None:
        """The runs were not closed after all."""
        for run in runs:
            heappush(self._heap, (run.over_since, run.run_id))

    def closed(self, runs: Iterable[ClosingRun]) -> None:
        """The runs are in the closed tier now."""
        self._queued.difference_update(run.run_id for run in runs)

    def visitors(self, state: State) -> Iterator[str]:
        """Runs that came back by key since the last call and were not changed.

        New runs stand at the end of the index, so the search ends at the first one queued.
        """
        for run_id in list(_until(reversed(state.index.runs_over), self._queued)):
            if not is_changed(state, rows_of(state, run_id)):
                yield run_id

    def _push(self, since: datetime, run_id: str) -> None:
        self._queued.add(run_id)
        heappush(self._heap, (since, run_id))


def _until(run_ids: Iterable[str], stop: set[str]) -> Iterator[str]:
    for run_id in run_ids:
        if run_id in stop:
            return
        yield run_id


def rows_of(state: State, run_id: str) -> Rows:
    """Every row of a run that is in memory, by table."""
    index = state.index
    keys: dict[str, Iterable[Any]] = {
        "runs": (run_id,),
        "tasks": [(run_id, task_key) for task_key in index.run_tasks.get(run_id, ())],
        "dep_satisfaction": index.run_edges.get(run_id, ()),
        "dispatch_outbox": index.run_outbox.get(run_id, ()),
        "timers": index.run_timers.get(run_id, ()),
    }
    return {name: _held(state, name, wanted) for name, wanted in keys.items()}


def _held(state: State, name: str, keys: Iterable[Any]) -> list[tuple[Any, Row]]:
    rows = state.tables[name].rows
    return [(key, rows[key]) for key in keys if key in rows]


def is_changed(state: State, rows: Rows) -> bool:
    """Whether any of the rows waits to be published."""
    return any(
        key in dirty
        for name, held in rows.items()
        if (dirty := state.tables[name].dirty)
        for key, _ in held
    )


def forget(state: State, rows: Rows) -> None:
    """Drop rows from memory that are published in the closed tier."""
    for name, held in rows.items():
        table = state.tables[name]
        for key, _ in held:
            table.evict(key)


def forget_history(state: State) -> None:
    """Drop the published rows of tables that are only ever asked by key."""
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
