"""What controllers look things up by, kept in step with the rows.

Everything here is derived: it is rebuilt by loading the rows and never stored. Containers are
dicts used as ordered sets, because the order of iteration decides the order of intents and must
be the same in every replay.
"""

from datetime import datetime
from heapq import heappush
from typing import TypeVar

from servo.core.state.rows.assets import AssetRow
from servo.core.state.rows.automation import BackfillChunkRow, BackfillRow
from servo.core.state.rows.conditions import AssetFreshnessRow
from servo.core.state.rows.execution import (
    DepSatisfactionRow,
    DispatchOutboxRow,
    RunRow,
    TaskRow,
    TimerRow,
)
from servo.core.state.rows.system import ParkedBatchRow, QuotaRow
from servo.core.state.states import (
    DISPATCHED,
    READY,
    RUNNING,
    TERMINAL_RUN_STATES,
    OutboxStatus,
    RunState,
    TimerState,
)

TaskPk = tuple[str, str]
EdgePk = tuple[str, str, str]
OutboxPk = tuple[str, int]
ReadySet = dict[TaskPk, None]
WorkerSlot = tuple[str, str]
"""What a ready task needs to start: a worker of its code location, and room in its pool."""

WORKSPACE_QUOTA = ("workspace", "")

G = TypeVar("G")
K = TypeVar("K")


class Index:
    """Derived lookups over the rows of one workspace."""

    def __init__(self) -> None:
        self.run_tasks: dict[str, dict[str, None]] = {}
        self.run_edges: dict[str, dict[EdgePk, None]] = {}
        self.run_outbox: dict[str, dict[OutboxPk, None]] = {}
        self.run_timers: dict[str, dict[str, None]] = {}
        self.downstream: dict[TaskPk, dict[str, None]] = {}
        self.ready: dict[str, dict[WorkerSlot, dict[int, ReadySet]]] = {}
        self.ready_count = 0
        self.dispatched: ReadySet = {}
        self.running: ReadySet = {}
        self.pool_active: dict[str, int] = {}
        self.outbox_pending: dict[OutboxPk, None] = {}
        self.timers_due: list[tuple[datetime, str]] = []
        self.runs_due: list[tuple[datetime, str]] = []
        self.runs_waiting: dict[str, None] = {}
        self.runs_unplanned: dict[str, None] = {}
        self.runs_expanding: dict[str, None] = {}
        self.runs_active: dict[str, None] = {}
        self.runs_over: dict[str, None] = {}
        self.parked: dict[str, dict[str, None]] = {}
        self.chunks: dict[str, dict[int, None]] = {}
        self.backfills_open: dict[str, None] = {}
        self.freshness_unjudged: dict[str, None] = {}
        self.freshness_due: list[tuple[datetime, str]] = []
        self.freshness_hints: dict[str, datetime] = {}
        self.quotas: dict[tuple[str, str], QuotaRow] = {}
        self.workspace_quota: QuotaRow | None = None

    @property
    def active(self) -> int:
        """How many attempts hold a slot."""
        return len(self.dispatched) + len(self.running)

    def on_task(self, key: TaskPk, old: TaskRow | None, new: TaskRow | None) -> None:
        was = None if old is None else old.state
        now = None if new is None else new.state
        if was is now:
            return
        if old is None:
            _add(self.run_tasks, *key)
        elif was is READY or was is DISPATCHED or was is RUNNING:
            self._leave(key, old)
        if new is None:
            _discard(self.run_tasks, *key)
        elif now is READY or now is DISPATCHED or now is RUNNING:
            self._enter(key, new)

    def _enter(self, key: TaskPk, row: TaskRow) -> None:
        """A task is ready now, or holds a slot."""
        state = row.state
        if state is READY:
            self._bucket(row)[key] = None
            self.ready_count += 1
            return
        (self.running if state is RUNNING else self.dispatched)[key] = None
        if row.pool:
            self.pool_active[row.pool] = self.pool_active.get(row.pool, 0) + 1

    def _leave(self, key: TaskPk, row: TaskRow) -> None:
        """A task is no longer ready, or no longer holds a slot."""
        state = row.state
        if state is READY:
            self._leave_ready(key, row)
            return
        del (self.running if state is RUNNING else self.dispatched)[key]
        if row.pool:
            left = self.pool_active.pop(row.pool) - 1
            if left:
                self.pool_active[row.pool] = left

    def _bucket(self, row: TaskRow) -> ReadySet:
        """Where a ready task waits: by lane, place and priority."""
        place = (row.location, row.pool)
        try:
            return self.ready[row.lane][place][row.priority]
        except KeyError:
            places = self.ready.setdefault(row.lane, {})
            return places.setdefault(place, {}).setdefault(row.priority, {})

    def _leave_ready(self, key: TaskPk, row: TaskRow) -> None:
        self.ready_count -= 1
        place = (row.location, row.pool)
        bucket = self.ready[row.lane][place][row.priority]
        del bucket[key]
        if not bucket:
            places = self.ready[row.lane]
            priorities = places[place]
            del priorities[row.priority]
            if not priorities:
                del places[place]
                if not places:
                    del self.ready[row.lane]

    def on_edge(
        self, key: EdgePk, old: DepSatisfactionRow | None, new: DepSatisfactionRow | None
    ) -> None:
        if old is None and new is not None:
            _add(self.run_edges, key[0], key)
            _add(self.downstream, (key[0], key[1]), key[2])
        elif new is None and old is not None:
            _discard(self.run_edges, key[0], key)
            _discard(self.downstream, (key[0], key[1]), key[2])

    def on_outbox(
        self, key: OutboxPk, old: DispatchOutboxRow | None, new: DispatchOutboxRow | None
    ) -> None:
        if old is None and new is not None:
            _add(self.run_outbox, new.run_id, key)
        elif new is None and old is not None:
            _discard(self.run_outbox, old.run_id, key)
        _mark(self.outbox_pending, key, on=new is not None and new.status is OutboxStatus.PENDING)

    def on_timer(self, key: str, old: TimerRow | None, new: TimerRow | None) -> None:
        row = new if new is not None else old
        if row is not None and row.run_id is not None:
            (_add if new is not None else _discard)(self.run_timers, row.run_id, key)
        if new is not None and new.state is TimerState.SCHEDULED:
            heappush(self.timers_due, (new.fire_at, key))

    def on_run(self, key: str, old: RunRow | None, new: RunRow | None) -> None:
        if new is None:
            for holder in self._run_sets():
                holder.pop(key, None)
            return
        if (
            old is not None
            and old.state is new.state
            and old.segments_expanded == new.segments_expanded
            and old.plan_fingerprint == new.plan_fingerprint
        ):
            return
        self._place_run(key, new)
        deadline = new.deadline if new.plan_fingerprint else new.plan_deadline
        if deadline is not None and new.state not in TERMINAL_RUN_STATES:
            heappush(self.runs_due, (deadline, key))

    def _place_run(self, key: str, row: RunRow) -> None:
        pending = row.state is RunState.PENDING
        planned = bool(row.plan_fingerprint)
        _mark(self.runs_unplanned, key, on=pending and not planned)
        _mark(self.runs_waiting, key, on=pending and planned)
        expanding = row.segments_expanded < len(row.plan_segments)
        # Last, although it was there before: the run that was expanded least recently comes first.
        _ = self.runs_expanding.pop(key, None)
        _mark(self.runs_expanding, key, on=row.state is RunState.RUNNING and expanding)
        _mark(self.runs_active, key, on=row.state in (RunState.RUNNING, RunState.CANCELLING))
        _mark(self.runs_over, key, on=row.state in TERMINAL_RUN_STATES)

    def _run_sets(self) -> tuple[dict[str, None], ...]:
        return (
            self.runs_unplanned,
            self.runs_waiting,
            self.runs_expanding,
            self.runs_active,
            self.runs_over,
        )

    def on_parked(self, key: str, old: ParkedBatchRow | None, new: ParkedBatchRow | None) -> None:
        if old is not None:
            _discard(self.parked, old.waits_for_run_id, key)
        if new is not None:
            _add(self.parked, new.waits_for_run_id, key)

    def on_backfill(self, key: str, old: BackfillRow | None, new: BackfillRow | None) -> None:
        del old
        _mark(self.backfills_open, key, on=new is not None and new.finished_at is None)

    def on_chunk(
        self, key: tuple[str, int], old: BackfillChunkRow | None, new: BackfillChunkRow | None
    ) -> None:
        if new is not None and old is None:
            _add(self.chunks, key[0], key[1])
        elif new is None:
            _discard(self.chunks, key[0], key[1])

    def on_asset(self, key: str, old: AssetRow | None, new: AssetRow | None) -> None:
        """Let the freshness of an asset be judged again if it may be another."""
        if new is None:
            self.freshness_unjudged.pop(key, None)
        elif new.freshness_policy or (old is not None and old.freshness_policy):
            self.freshness_unjudged[key] = None

    def on_freshness(
        self, key: str, old: AssetFreshnessRow | None, new: AssetFreshnessRow | None
    ) -> None:
        del old, new
        self.freshness_unjudged[key] = None

    def on_quota(self, key: tuple[str, str], old: QuotaRow | None, new: QuotaRow | None) -> None:
        del old
        if new is None:
            self.quotas.pop(key, None)
        else:
            self.quotas[key] = new
        if key == WORKSPACE_QUOTA:
            self.workspace_quota = new


def _mark(holder: dict[K, None], key: K, *, on: bool) -> None:
    if on:
        holder[key] = None
    else:
        holder.pop(key, None)


def _add(holder: dict[G, dict[K, None]], group: G, key: K) -> None:
    members = holder.get(group)
    if members is None:
        holder[group] = {key: None}
    else:
        members[key] = None


def _discard(holder: dict[G, dict[K, None]], group: G, key: K) -> None:
    """Take a member out of its group: a row that goes was added when it came."""
    members = holder[group]
    del members[key]
    if not members:
        del holder[group]
