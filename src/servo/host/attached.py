"""A client of the leader: another process does the work.

A permanent leader on this machine plans the runs itself; for any other, this process plans them,
and both must have the same code. Requests go to the leader over its socket, or through the inbox of
the workspace if it is on another machine; each gets a receipt. Runs are followed as they are
published.

**When the leader ends** before the work is done, nothing is lost: what it acknowledged is in the
ledger. The host then becomes the leader and continues. A leader that was killed on another
machine is found within seconds: it does not answer any more.
"""

import threading
from collections.abc import Callable
from typing import overload

from servo.code.backfills.view import Backfill, in_tables
from servo.core.locations import one_of
from servo.core.state.rows.automation import BackfillRow
from servo.core.state.rows.execution import RunRow, TaskRow
from servo.core.state.states import TERMINAL_RUN_STATES, TaskState
from servo.host.host import Host
from servo.leader.leases.lease import HostedTriggers, LeaderAdvert
from servo.projection.read.lookup import Lookup
from servo.projection.read.reader import Snapshot
from servo.workspace.answering import why_silent
from servo.workspace.leading import LedByAnother, described
from servo.workspace.workspace import Workspace

LOOK_EVERY = 0.15
LOOK_FOR_LEADER_EVERY = 1.0
PING_EVERY = 5.0


class AttachedHost:
    """Sends requests to the leader of a workspace, and takes over when the leader ends.

    It requests runs of these code locations. `lead` opens a leading host with their code, for when
    there is no other leader. `warn` is called once if the leader is suspended: somebody has to
    continue or kill it.
    """

    def __init__(
        self,
        workspace: Workspace,
        locations: tuple[str, ...],
        leader: LeaderAdvert,
        *,
        lead: Callable[[], Host],
        warn: Callable[[str], None],
    ) -> None:
        self._workspace = workspace
        self._locations = locations
        self._leader = leader
        self._lead = lead
        self._warn = warn
        self._warned = False
        self._ping_at = 0.0
        self._own: Host | None = None
        self._start_triggers = False
        self._pause = threading.Event()
        self._look_at = 0.0
        self._version = -1
        self._rows: dict[str, RunRow] = {}
        self._waiting_for = ""

    def __enter__(self) -> "AttachedHost":
        return self

    def __exit__(self, *error: object) -> None:
        if self._own is not None:
            self._own.__exit__(*error)

    @property
    def leads(self) -> bool:
        return self._own is not None

    def _has(self, location: str) -> bool:
        return one_of(self._locations)(location)

    @property
    def workspace(self) -> Workspace:
        return self._workspace if self._own is None else self._own.workspace

    def hosts(self, triggers: HostedTriggers) -> bool:
        if self._own is not None:
            return self._own.hosts(triggers)
        return self._leader.hosts(triggers, *self._locations)

    def start_triggers(self) -> None:
        self._start_triggers = True
        if self._own is not None:
            self._own.start_triggers()

    # --- what can be asked of it --------------------------------------------------------------

    def begun_runs(self) -> list[str]:
        if self._own is not None:
            return self._own.begun_runs()
        return [row.run_id for row in self.open_runs() if self._has(row.location)]

    def left_runs(self) -> list[RunRow]:
        return [] if self._own is None else self._own.left_runs()

    def open_runs(self) -> list[RunRow]:
        if self._own is not None:
            return self._own.open_runs()
        self._look()
        found = [row for row in self._rows.values() if row.state not in TERMINAL_RUN_STATES]
        return sorted(found, key=lambda row: row.created_at)

    @overload
    def wait(self, run: str) -> RunRow: ...
    @overload
    def wait(self, run: str, timeout: float) -> RunRow | None: ...

    def wait(self, run: str, timeout: float | None = None) -> RunRow | None:
        self._waiting_for = run
        clock = self._workspace.clock
        until = None if timeout is None else clock.monotonic() + timeout
        while self._own is None:
            self._look()
            row = self._rows.get(run)
            if row is not None and row.state in TERMINAL_RUN_STATES:
                return row
            self._take_over_if_left()
            if until is not None and clock.monotonic() >= until:
                return None
            self._pause.wait(LOOK_EVERY)
        row = self.row(run)
        if row is not None and row.state in TERMINAL_RUN_STATES:
            return row
        if until is None:
            return self._own.wait(run)
        return self._own.wait(run, max(until - clock.monotonic(), 0))

    def row(self, run: str) -> RunRow | None:
        if self._own is not None and (found := self._own.row(run)) is not None:
            return found
        self._look()
        return self._rows.get(run)

    def tasks(self, run: str) -> list[TaskRow]:
        if self._own is not None and (found := self._own.tasks(run)):
            return found
        return self._workspace.read(lambda snapshot: Lookup(snapshot).all(TaskRow, run_id=run))

    def running(self) -> list[TaskRow]:
        if self._own is not None:
            return self._own.running()
        state = TaskState.RUNNING.value
        return self._workspace.read(lambda snapshot: Lookup(snapshot).all(TaskRow, state=state))

    def backfill(self, name: str) -> Backfill | None:
        if self._own is not None:
            return self._own.backfill(name)
        return self._workspace.read(lambda snapshot: _backfill(snapshot, name))

    def open_backfills(self) -> list[BackfillRow]:
        if self._own is not None:
            return self._own.open_backfills()
        rows = self._workspace.read(lambda snapshot: snapshot.rows("backfills"))
        found = [row for row in rows if isinstance(row, BackfillRow) and row.finished_at is None]
        mine = [row for row in found if self._has(row.location)]
        return sorted(mine, key=lambda row: row.created_at)

    def check(self) -> None:
        if self._own is not None:
            self._own.check()
        else:
            self._take_over_if_left()

    def interrupt(self) -> str:
        if self._own is not None:
            return self._own.interrupt()
        return (
            f"interrupted; {described(self._leader)} continues the run: follow it with "
            f"`servo logs -f {self._waiting_for}`, "
            f"stop it with `servo run cancel {self._waiting_for or 'RUN_ID'}`"
        )

    def finish(self) -> None:
        if self._own is not None:
            self._own.finish()

    # --- between the two ----------------------------------------------------------------------

    def _look(self) -> None:
        """Read what was published since the last look."""
        version, rows = self._workspace.read(self._newer)
        if rows is not None:
            self._version = version
            self._rows = {row.run_id: row for row in rows}

    def _newer(self, snapshot: Snapshot) -> tuple[int, list[RunRow] | None]:
        version = snapshot.manifest.v
        if version == self._version:
            return version, None
        return version, [row for row in snapshot.rows("runs") if isinstance(row, RunRow)]

    def _take_over_if_left(self) -> None:
        """Become the leader if there is no other."""
        now = self._workspace.clock.monotonic()
        if now < self._look_at:
            return
        self._look_at = now + LOOK_FOR_LEADER_EVERY
        leader = self._workspace.awaited_leader()
        if leader is not None:
            self._leader = leader
            self._ping_if_due(leader, now)
            return
        try:
            host = self._lead()
        except LedByAnother as other:
            self._leader = other.leader  # somebody was faster
            return
        self._own = host.__enter__()
        if self._start_triggers:
            self._own.start_triggers()

    def _ping_if_due(self, leader: LeaderAdvert, now: float) -> None:
        if now < self._ping_at:
            return
        self._ping_at = now + PING_EVERY
        silent = why_silent(leader)
        if silent and not self._warned:
            self._warn(silent)
        self._warned = bool(silent)


def _backfill(snapshot: Snapshot, name: str) -> Backfill | None:
    for row in Lookup(snapshot).all(BackfillRow, backfill_id=name):
        return in_tables(snapshot, row)
    return None
