"""One pass over everything that is due, for `servo tick`.

`servo tick` leads a workspace only if there is something to do. Leading means writing, so this is
decided from what was published: changed definitions in the code, requests in the inbox, an entry
after the newest manifest (a leader died, or is running), tasks that can continue, and due triggers.
A workspace where nothing is due costs a few reads.

If another process leads, the pass is left to it only if it hosts every kind of trigger for these
code locations. Any other leader does not run what is due. A pass waits for one that ends by itself,
such as `servo materialize`, and refuses to run beside one that stays.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from datetime import datetime
from functools import partial
from typing import Protocol

import msgspec

from servo.code.evaluator.messages import ConditionsEvaluated, EvaluateConditions
from servo.code.evaluator.pool import EvaluatorPool
from servo.code.process_setup import ProcessSetup
from servo.controllers import backfills, freshness, sensors, timers
from servo.controllers.schedules import Timetable
from servo.core.declared import AUTOMATION_LABEL, Declared
from servo.core.locations import HasLocation, one_of
from servo.core.manifest import check_leadable
from servo.core.state.rows.automation import SensorStateRow
from servo.core.state.rows.execution import RunRow
from servo.core.state.state import State
from servo.core.state.states import RunState, SensorStatus
from servo.errors import NotFound, Unavailable
from servo.host.evaluators import evaluator_process
from servo.host.leading import LeadingHost, can_go_on
from servo.host.location_code import LocationCode, lead_with
from servo.host.opening import refuse_missing
from servo.leader.leases.lease import HostedTriggers, LeaderAdvert
from servo.leader.ledger_time import ledger_time
from servo.ledger.paths import Paths
from servo.ledger.reader import LedgerReader
from servo.planning.deployment import changes
from servo.ports.object_store import ObjectStore
from servo.projection.read.load import load_state
from servo.projection.read.reader import Reader, Snapshot
from servo.triggers.conditions import JUDGE_SECONDS
from servo.workspace.answering import Unreached, responds
from servo.workspace.leading import LedByAnother, described
from servo.workspace.workspace import Workspace

LOOK_EVERY = 0.05
WAIT_SECONDS = 30.0
"""How long a pass waits for a leader that does not run what is due."""

MOST_ROUNDS = 10
"""So often what came of a pass is looked at in the same pass."""


class Outlook(msgspec.Struct, frozen=True, kw_only=True):
    """Whether something is due now and why, and otherwise when it will be."""

    why: str = ""
    next_due: datetime | None = None


class PassReport(msgspec.Struct, frozen=True, kw_only=True):
    """What one pass did: why it ran, and the runs that finished in it.

    `next_due` is when something is due next, if that is known. `left_to` describes the leader
    that runs what is due instead; `left_to_pass` says that it makes one pass as well, so
    that what has become due since it began is left to the next.
    """

    why: str = ""
    next_due: datetime | None = None
    runs: list[RunRow] = []
    left_to: str = ""
    left_to_pass: bool = False

    @property
    def failed(self) -> list[RunRow]:
        """The runs that did not succeed."""
        return [row for row in self.runs if row.state is not RunState.SUCCEEDED]


class WatchesPass(Protocol):
    """Listens to what a pass does."""

    def waiting(self, leader: LeaderAdvert) -> None:
        """The pass waits for a leader that does not run what is due."""
        ...

    def leading(self, host: LeadingHost) -> AbstractContextManager[LeadingHost]:
        """The host of a pass, opened from its beginning to its end."""
        ...


def do_what_is_due(
    workspace: Workspace,
    locations: Sequence[str],
    load: Callable[[], Sequence[LocationCode]],
    *,
    workers: int,
    watcher: WatchesPass,
    wait_seconds: float = WAIT_SECONDS,
) -> PassReport:
    """Make one pass over these code locations, or leave it to the leader that does the same.

    `load` imports the code, which is not needed beside such a leader. `Unavailable` if another
    leader has not ended in time, `Conflict` if it stays: nothing was done then.
    """
    until = workspace.clock.monotonic() + wait_seconds
    codes: Sequence[LocationCode] | None = None
    while True:
        leader = _leader_of_pass(workspace, locations, watcher, until)
        if leader is not None:
            return PassReport(left_to=described(leader), left_to_pass=not leader.stays)
        codes = load() if codes is None else codes
        with suppress(LedByAnother):  # it began to lead meanwhile
            return _pass(codes, workspace, workers, watcher)


def _leader_of_pass(
    workspace: Workspace, locations: Sequence[str], watcher: WatchesPass, until: float
) -> LeaderAdvert | None:
    """The leader that runs what is due in these locations; None once nobody leads."""
    told, pause, unreached = False, threading.Event(), Unreached(workspace.clock)
    while (leader := workspace.awaited_leader()) is not None:
        waits = workspace.clock.monotonic() < until
        if not responds(leader) and waits and not unreached.is_lost(leader):
            _ = pause.wait(LOOK_EVERY)  # it has ended, or will say in a moment how to reach it
            continue
        if waits and not workspace.is_led():
            _ = pause.wait(LOOK_EVERY)  # on another machine: it answers in a moment, or never
            continue
        for name in locations:
            refuse_missing(leader, name)
        if leader.hosts(HostedTriggers.ALL, *locations):
            return leader
        if workspace.clock.monotonic() >= until:
            raise Unavailable(
                f"not done: {described(leader)} leads this workspace and does not run what is due",
                remedy="try again when it has ended",
                may_have_applied=False,
            )
        if leader.pid and not told:
            told = True
            watcher.waiting(leader)
        _ = pause.wait(LOOK_EVERY)
    return None


def _pass(
    codes: Sequence[LocationCode], workspace: Workspace, workers: int, watcher: WatchesPass
) -> PassReport:
    """Lead the workspace for one pass, if there is something to do."""
    began = workspace.now()
    declared = {code.name: code.declared for code in codes}
    state = _published(workspace)
    present = began
    if state is not None:
        present = ledger_time(workspace.store, workspace.paths, state, began)
    ahead = outlook(workspace, state, declared, now=began, present=present)
    why = ahead.why or _changed_conditions(codes, workspace)
    if not why:
        return PassReport(next_due=ahead.next_due)
    leading = lead_with(
        codes, workspace.address, workers=workers, triggers=HostedTriggers.ALL, command="tick"
    )
    with watcher.leading(leading) as host:
        make_pass(host, workspace.now())
        rows = host.service.read(lambda state: list(state.runs.values()))
    ended = [row for row in rows if row.finished_at is not None and row.finished_at >= present]
    return PassReport(why=why, next_due=ahead.next_due, runs=ended)


def _changed_conditions(codes: Sequence[LocationCode], workspace: Workspace) -> str:
    """That a sensor's conditions have something to say that is not on record; empty if none has.

    They are evaluated in processes that have their code.
    """
    for code in codes:
        names = workspace.read(partial(active_conditions, declared=code.declared))
        setup = ProcessSetup(location=code.location, address=workspace.address)
        with evaluator_process(setup, salt=bytes(32)) as pool:
            if found := next((name for name in names if _has_news(pool, name)), ""):
                return f"automation conditions changed: {found}"
    return ""


def _has_news(pool: EvaluatorPool, name: str) -> bool:
    """Whether conditions ask for something, or cannot be evaluated, which the pass then says."""
    found = pool.ask(EvaluateConditions(sensor_id=name), JUDGE_SECONDS)
    return not isinstance(found, ConditionsEvaluated) or bool(found.ticked or found.error)


def _published(workspace: Workspace) -> State | None:
    """The state that was published last; None if the workspace is new."""
    store, paths = workspace.store, workspace.paths
    try:
        manifest = Reader(store, paths).snapshot().manifest
        check_leadable(manifest)
        return load_state(store, manifest, paths.tenant, paths.workspace)
    except NotFound:
        return None


def outlook(
    workspace: Workspace,
    state: State | None,
    declared: Mapping[str, Declared],
    *,
    now: datetime,
    present: datetime,
) -> Outlook:
    """What is due in a workspace for these code locations, according to what was published.

    Writes nothing. Other locations are left to other processes. `present` is the time of the
    ledger, which is ahead of `now` if a clock was wrong.
    """
    if state is None:
        return Outlook(why="the workspace is new")
    store, paths = workspace.store, workspace.paths
    if _has_tail(store, paths, state.seq):
        return Outlook(why="the last leader stopped before publishing everything")
    if store.list_after(paths.inbox_prefix, limit=1):
        return Outlook(why="requests are waiting in the inbox")
    if any(changes(state, name, its) for name, its in declared.items()):
        return Outlook(why="the definitions in the code changed")
    return _due(state, now, present, one_of(declared))


def active_conditions(snapshot: Snapshot, declared: Declared) -> list[str]:
    """The sensors of some code that evaluate conditions and are not paused."""
    names = [one.sensor_id for one in declared.sensors if AUTOMATION_LABEL in one.labels]
    if not names:
        return []
    states = [row for row in snapshot.rows("sensor_state") if isinstance(row, SensorStateRow)]
    active = {row.sensor_id for row in states if row.status is SensorStatus.ACTIVE}
    return [name for name in names if name in active]


def _has_tail(store: ObjectStore, paths: Paths, seq: int) -> bool:
    return LedgerReader(store, paths).read_bytes(seq + 1) is not None


def _due(state: State, now: datetime, present: datetime, has: HasLocation) -> Outlook:
    timetable = Timetable(has)
    _ = timetable.look(state)
    if why := _by_schedule(state, timetable, now) or _by_ledger(state, present, has):
        return Outlook(why=why)
    recorded = [sensors.next_due(state, has), timers.next_due(state), freshness.next_due(state)]
    by_clock = [None if at is None else at - (present - now) for at in recorded]
    instants = [timetable.next_due(), *by_clock]
    return Outlook(next_due=min((at for at in instants if at is not None), default=None))


def _by_schedule(state: State, timetable: Timetable, now: datetime) -> str:
    """Which schedules are due; empty if none is."""
    if ticking := timetable.due(now):
        return f"schedules are due: {', '.join(ticking[:5])}"
    if ahead := [event.schedule_id for event in timetable.far_ahead(state, now)]:
        return f"a clock was wrong, and schedules are ahead: {', '.join(ahead[:5])}"
    return ""


def _by_ledger(state: State, present: datetime, has: HasLocation) -> str:
    """What else is due at a time of the ledger; empty if nothing is."""
    if can_go_on(state, present, has):
        return "tasks can continue"
    if open_ := backfills.reconcile(state, has=has):
        return f"backfills can continue: {open_[0].backfill.backfill_id}"
    if looking := sensors.due(state, present, has):
        return f"sensors are due: {', '.join(looking[:5])}"
    return "the freshness of an asset has changed" if freshness.reconcile(state, present) else ""


def make_pass(session: LeadingHost, now: datetime) -> None:
    """Evaluate triggers and execute runs until nothing is due by `now` and nothing can continue.

    What becomes due by time meanwhile is left to the next pass: otherwise a schedule that ticks
    every second would keep this one running for ever. What results from the work itself belongs to
    this pass: run status sensors see finished runs, and conditions see new outputs. The number of
    such rounds is limited, so that a cycle of triggers is left to the next pass.
    """
    triggers, pause = session.triggers, threading.Event()
    rounds, seen = 0, -1
    while True:
        busy = triggers is not None and triggers.look(now)
        session.check()
        if not busy and session.settled():
            seq = session.service.read(lambda state: state.seq)
            if triggers is None or seq == seen or rounds == MOST_ROUNDS:
                return
            rounds, seen = rounds + 1, seq
            triggers.again()
            continue
        _ = pause.wait(LOOK_EVERY)
