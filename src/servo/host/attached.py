"""Asking another process of this machine, which leads the workspace and stays, for runs.

The request goes through the inbox of the workspace, where the leader finds it, and the run is
followed as it is published. The plan is made here and the work is done there, so both must have
the same code: the same file, and the same state of it.

**What can go wrong.** The leader may end before it has read the request, or before the run has
ended: then nothing is lost, whoever leads next goes on, and the guest says so. It may refuse the
request: then the batch is among the dead letters, under the name the guest gave it.
"""

import threading
from collections.abc import Mapping, Sequence
from typing import Any, overload

from servo.code.backfills.view import Backfill, in_tables
from servo.code.setting import Setting
from servo.core.declared import Declared
from servo.core.events.codec import encode_batch
from servo.core.events.envelope import Event
from servo.core.events.runs import RunRequested
from servo.core.ids import ulid
from servo.core.plan import Plan
from servo.core.state.rows.automation import BackfillRow, ScheduleDefinitionRow
from servo.core.state.rows.execution import RunRow, TaskRow
from servo.core.state.rows.system import DeadLetterRow
from servo.core.state.states import TERMINAL_RUN_STATES, TaskState
from servo.errors import Conflict, NotFound, Unavailable
from servo.ledger.paths import Paths
from servo.ports.object_store import ObjectStore
from servo.projection.read.reader import Reader, Snapshot
from servo.storage.from_url import store_from_url
from servo.workspace.identity import this_user
from servo.workspace.origins import Cause, batch_from, origin_of
from servo.workspace.registry import Member, at_work, loaded_by, registry_folder
from servo.workspace.run_requests import Wanted, by_person, run_events, with_config
from servo.workspace.system import SystemClock, SystemEntropy

LOOK_EVERY = 0.15
RELOADED_WITHIN = 20.0


class AttachedHost:
    """Has another process make what is asked for here."""

    def __init__(self, setting: Setting, host: Member, fingerprint: str) -> None:
        _check_code(setting, host)
        self.paths = Paths(setting.tenant, setting.workspace)
        self._setting = setting
        self._host = host
        self._fingerprint = fingerprint
        self._clock = SystemClock()
        self._entropy = SystemEntropy()
        self._store = store_from_url(setting.store, clock=self._clock)
        self._reader = Reader(self._store, self.paths)
        self._pause = threading.Event()
        self._sent: dict[str, tuple[str, str]] = {}
        self._version = -1
        self._rows: dict[str, RunRow] = {}

    def __enter__(self) -> "AttachedHost":
        """Wait until the other process has the code that is here."""
        until = self._clock.monotonic() + RELOADED_WITHIN
        while loaded_by(registry_folder(), self._host.name) != self._fingerprint:
            self._check_host()
            if self._clock.monotonic() > until:
                raise Conflict(
                    f"process {self._host.pid} has not loaded {self._setting.code} as it is now",
                    remedy="see in its terminal what is wrong with the code",
                )
            self._pause.wait(LOOK_EVERY)
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is to be closed: the work is elsewhere."""

    # --- what can be asked of it --------------------------------------------------------------

    def deploy(self, location: str, declared: Declared) -> None:
        """Nothing: the other process has the same code, and has told what it declares."""
        del location, declared

    def request(
        self,
        plan: Plan,
        run_key: str,
        *,
        tags: Mapping[str, str] | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> str:
        """Ask for a run of a plan; its id."""
        labels = with_config(tags or {}, config or {})
        return self.ask(Wanted(plan=plan, run_key=run_key, tags=labels))

    def ask(self, wanted: Wanted) -> str:
        """Ask for a run; its id."""
        return self._leave(wanted)

    def repeat(self, run: RunRow, plan: Plan, run_key: str) -> str:
        """Ask for a run that repeats what another left undone, with its tags; its id."""
        return self._leave(Wanted(plan=plan, run_key=run_key, tags=run.labels), run)

    @property
    def salt(self) -> bytes:
        """What the ids of runs are made with."""
        return bytes.fromhex(self._reader.snapshot().manifest.identity)

    def submit(self, events: Sequence[Event], *, after: Cause | None = None) -> list[str]:
        """Leave what asks for runs to the other process, whole; their ids."""
        now = self._clock.now()
        name = ulid(now, self._entropy.token_bytes(10))
        origin = origin_of(this_user(), after)
        batch = batch_from(f"request-{name}", events, origin, sent_at=now)
        key = self.paths.inbox_item(name)
        self._store.create(key, encode_batch(batch))
        runs = [event.run_id for event in events if isinstance(event, RunRequested)]
        self._sent |= dict.fromkeys(runs, (batch.id, key))
        return runs

    def schedule(self, name: str) -> ScheduleDefinitionRow:
        """A schedule that the other process has deployed, by its name."""
        rows = self._reader.read(lambda snapshot: snapshot.rows("schedule_definitions"))
        found = [row for row in rows if isinstance(row, ScheduleDefinitionRow)]
        return next(row for row in found if row.schedule_id == name)

    @property
    def store(self) -> ObjectStore:
        """Where plans are stored."""
        return self._store

    def begun_runs(self) -> list[str]:
        """Runs that have not ended, oldest first."""
        return [row.run_id for row in self.open_runs()]

    def open_runs(self) -> list[RunRow]:
        """Runs that were asked for and have not ended, oldest first."""
        self._look()
        found = [row for row in self._rows.values() if row.state not in TERMINAL_RUN_STATES]
        return sorted(found, key=lambda row: row.created_at)

    @overload
    def wait(self, run: str) -> RunRow: ...
    @overload
    def wait(self, run: str, timeout: float) -> RunRow | None: ...

    def wait(self, run: str, timeout: float | None = None) -> RunRow | None:
        """Until a run has ended, or for so many seconds; its last row, None if it goes on."""
        until = None if timeout is None else self._clock.monotonic() + timeout
        while True:
            self._look()
            row = self._rows.get(run)
            if row is not None and row.state in TERMINAL_RUN_STATES:
                return row
            if row is None:
                self._check_taken(run)
            self._check_host()
            if until is not None and self._clock.monotonic() >= until:
                return None
            self._pause.wait(LOOK_EVERY)

    def row(self, run: str) -> RunRow | None:
        """A run as it stands."""
        return self._rows.get(run)

    def tasks(self, run: str) -> list[TaskRow]:
        """The tasks of a run, as they stand."""
        return self._reader.read(lambda snapshot: _tasks(snapshot, run))

    def running(self) -> list[TaskRow]:
        """The tasks that are being done."""
        rows = self._reader.read(lambda snapshot: snapshot.rows("tasks"))
        tasks = [row for row in rows if isinstance(row, TaskRow)]
        return [task for task in tasks if task.state is TaskState.RUNNING]

    def backfill(self, name: str) -> Backfill | None:
        """A backfill as it was published."""
        return self._reader.read(lambda snapshot: _backfill(snapshot, name))

    def open_backfills(self) -> list[BackfillRow]:
        """Backfills that are not over, oldest first."""
        rows = self._reader.read(lambda snapshot: snapshot.rows("backfills"))
        found = [row for row in rows if isinstance(row, BackfillRow) and row.finished_at is None]
        return sorted(found, key=lambda row: row.created_at)

    def check(self) -> None:
        """`Unavailable` if the other process has ended."""
        self._check_host()

    def interrupt(self) -> str:
        """Stop following; the run goes on."""
        return (
            f"interrupted; what was asked for goes on in process {self._host.pid}: "
            "follow it with `servo logs -f`, stop it with `servo run cancel`"
        )

    # --- between the two ----------------------------------------------------------------------

    def _leave(self, wanted: Wanted, again: RunRow | None = None) -> str:
        asked = by_person(wanted, this_user(), again)
        events = run_events(self._store, self.paths, self.salt, asked)
        return self.submit(events, after=again)[0]

    def _look(self) -> None:
        """See what was published since."""
        snapshot = self._reader.snapshot()
        if snapshot.manifest.v == self._version:
            return
        rows = self._reader.read(lambda newest: newest.rows("runs"))
        self._rows = {row.run_id: row for row in rows if isinstance(row, RunRow)}
        self._version = snapshot.manifest.v

    def _check_taken(self, run: str) -> None:
        """`Conflict` if the leader took the request and refused it."""
        if run not in self._sent:
            return
        batch, key = self._sent[run]
        try:
            _ = self._store.get(key)
        except NotFound:
            pass
        else:
            return
        rows = self._reader.read(lambda snapshot: snapshot.rows("dead_letter"))
        for row in rows:
            if isinstance(row, DeadLetterRow) and row.batch_id == batch:
                raise Conflict(
                    f"the workspace refused: {row.reason}: {row.error}",
                    remedy="correct the request and ask again",
                )

    def _check_host(self) -> None:
        found = at_work(registry_folder(), self._setting.address)
        if found is None or found.name != self._host.name:
            raise Unavailable(
                f"process {self._host.pid}, which was to do the work, has ended",
                remedy="`servo resume` goes on with what was asked for",
            )


def _check_code(setting: Setting, host: Member) -> None:
    """`Conflict` if the other process does not stay, or has other code."""
    if not host.code:
        raise Conflict(
            f"another process ({host.pid}) is at work in this workspace",
            remedy="wait for it to end, or stop it; what it has begun is then resumed",
        )
    if host.code != setting.place:
        raise Conflict(
            f"`servo dev` (process {host.pid}) works with {host.code} in this workspace, "
            f"and {setting.place} was asked for",
            remedy="name that code, stop that process, or use another --store or --workspace",
        )


def _backfill(snapshot: Snapshot, name: str) -> Backfill | None:
    for row in snapshot.rows("backfills"):
        if isinstance(row, BackfillRow) and row.backfill_id == name:
            return in_tables(snapshot, row)
    return None


def _tasks(snapshot: Snapshot, run: str) -> list[TaskRow]:
    rows = [row for row in snapshot.rows("tasks") if isinstance(row, TaskRow)]
    return [row for row in rows if row.run_id == run]
