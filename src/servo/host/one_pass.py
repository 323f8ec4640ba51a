"""One pass over everything that is due, for `servo tick`.

`servo tick` leads a workspace only if there is something to do. Leading means writing, so this is
decided from what was published: changed definitions in the code, requests in the inbox, an entry
after the newest manifest (a leader died, or is running), tasks that can continue, and due triggers.
A workspace where nothing is due costs a few reads.
"""

import threading
from collections.abc import Mapping
from datetime import datetime

import msgspec

from servo.controllers import backfills, freshness, sensors, timers
from servo.controllers.schedules import Timetable
from servo.core.declared import AUTOMATION_LABEL, Declared
from servo.core.locations import HasLocation, one_of
from servo.core.state.rows.automation import SensorStateRow
from servo.core.state.rows.execution import RunRow
from servo.core.state.state import State
from servo.core.state.states import SensorStatus
from servo.errors import NotFound
from servo.host.leading import LeadingHost, can_go_on
from servo.ledger.paths import Paths
from servo.ledger.reader import LedgerReader
from servo.planning.deployment import changes
from servo.ports.object_store import ObjectStore
from servo.projection.read.load import load_state
from servo.projection.read.reader import Reader, Snapshot

LOOK_EVERY = 0.05
MOST_ROUNDS = 10
"""So often what came of a pass is looked at in the same pass."""


class Outlook(msgspec.Struct, frozen=True, kw_only=True):
    """Whether something is due now and why, and otherwise when it will be."""

    why: str = ""
    next_due: datetime | None = None


class PassReport(msgspec.Struct, frozen=True, kw_only=True):
    """What one pass did: why it ran, or which leader runs instead, and the runs it finished.

    `next_due` is when something is due next, as far as that is known.
    """

    why: str
    next_due: datetime | None
    runs: list[RunRow]


def outlook(
    store: ObjectStore, paths: Paths, declared: Mapping[str, Declared], now: datetime
) -> Outlook:
    """What is due in a workspace for these code locations, according to what was published.

    Writes nothing. Other locations are left to other processes.
    """
    try:
        manifest = Reader(store, paths).snapshot().manifest
        state = load_state(store, manifest, paths.tenant, paths.workspace)
    except NotFound:
        return Outlook(why="the workspace is new")
    if _has_tail(store, paths, state.seq):
        return Outlook(why="the last leader stopped before publishing everything")
    if store.list_after(paths.inbox_prefix, limit=1):
        return Outlook(why="requests are waiting in the inbox")
    if any(changes(state, name, its) for name, its in declared.items()):
        return Outlook(why="the definitions in the code changed")
    return _due(state, now, one_of(declared))


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


def _due(state: State, now: datetime, has: HasLocation) -> Outlook:
    if can_go_on(state, now, has):
        return Outlook(why="tasks can continue")
    timetable = Timetable(has)
    _ = timetable.look(state)
    if ticking := timetable.due(now):
        return Outlook(why=f"schedules are due: {', '.join(ticking[:5])}")
    if open_ := backfills.reconcile(state, has=has):
        return Outlook(why=f"backfills can continue: {open_[0].backfill.backfill_id}")
    if looking := sensors.due(state, now, has):
        return Outlook(why=f"sensors are due: {', '.join(looking[:5])}")
    if freshness.reconcile(state, now):
        return Outlook(why="the freshness of an asset has changed")
    instants = [
        timetable.next_due(),
        sensors.next_due(state, has),
        timers.next_due(state),
        freshness.next_due(state),
    ]
    return Outlook(next_due=min((at for at in instants if at is not None), default=None))


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
