"""A host that leads: the leader, its worker processes, and the runs that callers wait for."""

import logging
import os
import threading
from collections.abc import Mapping, Sequence
from datetime import datetime
from importlib import import_module
from typing import TYPE_CHECKING, overload

from servo.code.backfills.view import Backfill, in_state
from servo.code.process_setup import ProcessSetup
from servo.config import Settings, WorkerSettings, worker_settings
from servo.controllers import timers
from servo.core.declared import Declared
from servo.core.locations import HasLocation, one_of
from servo.core.state.rows.automation import BackfillRow
from servo.core.state.rows.execution import RunRow, TaskRow
from servo.core.state.state import State
from servo.core.state.states import TERMINAL_RUN_STATES
from servo.errors import Fenced, ServoError
from servo.execution.outputs.patience import Patience
from servo.execution.outputs.store import OutputStore
from servo.host.questions import AnsweredCode, CodeQuestions
from servo.host.recovery import Recovery
from servo.host.waiting import FollowingChannel, Waiting
from servo.leader.leases.lease import HostedTriggers, LeaderAdvert
from servo.leader.loaded_code import LoadedCode
from servo.leader.service import Service
from servo.operations.deployments import submit_deployment
from servo.planning.deployment import changes
from servo.ports.world import World
from servo.projection.read.lookup import Lookup
from servo.workers.local_pool.pool import Pool
from servo.workers.located_pools import LocatedPools
from servo.workspace.channels import LeaderInThisProcess
from servo.workspace.composition import open_world
from servo.workspace.leader_lock import Leader
from servo.workspace.leading import LedByAnother, Replaced, try_to_lead, who_leads
from servo.workspace.workspace import Workspace

if TYPE_CHECKING:
    from servo.code.evaluator.plan_store import PlanStore
    from servo.triggers.host import Triggers

LOOK_EVERY = 0.5
FINISH_LOOK_EVERY = 0.02


class LeadingHost:
    """Leads a workspace with warm workers until it is closed.

    `workers` is the number of processes for each code location, or for all of them. Runs of other
    locations are left to processes that have their code. What locations have `declared` is
    deployed. `loaded` says which version of their code this is.
    """

    def __init__(  # noqa: PLR0913 - all that a leader is told
        self,
        *locations: ProcessSetup,
        workers: int | Mapping[str, int],
        settings: Settings | None = None,
        limits: WorkerSettings | None = None,
        world: World | None = None,
        triggers: HostedTriggers = HostedTriggers.NONE,
        command: str = "",
        declared: Mapping[str, Declared] | None = None,
        loaded: Mapping[str, LoadedCode] | None = None,
    ) -> None:
        setup = locations[0]  # they differ in their code alone
        self._address = setup.address
        self._limits = worker_settings(os.environ) if limits is None else limits
        self._world = open_world(setup.address.store) if world is None else world
        self.paths = setup.address.paths
        self._loaded = dict(loaded or {})
        led = try_to_lead(
            setup.address,
            self._world,
            settings=settings,
            workers=lambda service: self._pools_for(service, locations, workers),
            leader=Leader(
                stays=setup.stays,
                command=command,
                locations=tuple(one.location.name for one in locations),
                triggers=triggers,
                code=dict(self._loaded),
            ),
        )
        if led is None:
            raise LedByAnother(who_leads(setup.address, self._world) or LeaderAdvert(pid=0))
        self._led = led
        self.service = led.service
        self._declared = declared or {}
        self._waiting = Waiting(self.service)
        patience = Patience(self._world.clock, logging.getLogger(__name__))
        outputs = OutputStore(self._world.store, self.paths, patience=patience)
        recovery = Recovery(
            self.service.send, self.pool.actor, self.pool.is_here, outputs.result_of
        )
        self.service.watch(recovery.look)
        channel = FollowingChannel(LeaderInThisProcess(self.service), self._waiting)
        self.workspace = Workspace(setup.address, self._world, channel, actor=self.service.identity)
        self._hosted = triggers
        self.triggers = self._triggers(locations)
        self.questions = CodeQuestions(self._answered(locations), self._loaded)
        if setup.stays:
            led.answer_questions(self.questions.answer)

    def _pools_for(
        self, service: Service, locations: Sequence[ProcessSetup], workers: int | Mapping[str, int]
    ) -> LocatedPools:
        pools: dict[str, Pool] = {}
        for setup in locations:
            name = setup.location.name
            size = workers if isinstance(workers, int) else workers[name]
            pools[name] = Pool(service, setup, self._world, size, self._limits)
        self.pool = LocatedPools(pools)
        return self.pool

    def _triggers(self, locations: Sequence[ProcessSetup]) -> "Triggers | None":
        if self._hosted is HostedTriggers.NONE:
            return None
        made = import_module("servo.triggers.opening").open_triggers
        only_backfills = self._hosted is HostedTriggers.BACKFILLS
        return made(
            self.service, self._world, locations, self._records, only_backfills=only_backfills
        )

    def _answered(self, locations: Sequence[ProcessSetup]) -> dict[str, AnsweredCode]:
        """The locations that other processes can ask about, with their evaluators."""
        if self.triggers is None:
            return {}
        return {
            one.location.name: AnsweredCode(
                place=one.location.place, evaluates=self.triggers.evaluators(one.location.name)
            )
            for one in locations
        }

    def _records(self) -> "PlanStore":
        made = import_module("servo.code.evaluator.plan_store").PlanStore
        return made(
            store=self._world.store,
            paths=self.paths,
            salt=bytes.fromhex(self.service.workspace_identity),
        )

    @property
    def leads(self) -> bool:
        """Whether this process executes the runs: always."""
        return True

    def hosts(self, triggers: HostedTriggers) -> bool:
        """Whether these triggers are hosted here."""
        return self._hosted.include(triggers)

    def start_triggers(self) -> None:
        """Start the triggers that this host has, if it has any."""
        if self.triggers is not None:
            self.triggers.start()

    def has(self, location: str) -> bool:
        """Whether this host has workers for a location."""
        return one_of(self.pool.working)(location)

    def __enter__(self) -> "LeadingHost":
        try:
            self.pool.start()
            _ = self.service.start()
            self.pool.wait()
            for location, its in self._declared.items():
                self.deploy(location, its)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *raised: object) -> None:
        if self.triggers is not None:
            self.triggers.stop()
        self.pool.stop()
        self._led.stop()
        for error in raised:
            if isinstance(error, Fenced):
                raise Replaced(self._successor()) from error

    def _successor(self) -> LeaderAdvert | None:
        try:
            return who_leads(self._address, self._world)
        except ServoError:
            return None  # whoever it is, it cannot be asked

    # --- what can be asked of it --------------------------------------------------------------

    def deploy(self, location: str, declared: Declared) -> None:
        """Deploy the definitions of the project, unless they are deployed already."""
        found = self.service.read(lambda state: changes(state, location, declared))
        submit_deployment(self.workspace, found, declared)

    def tell_loaded(self, location: str, code: LoadedCode) -> None:
        """Tell other processes which version of a location this host has now."""
        self._loaded[location] = code
        self._led.tell_code(dict(self._loaded))

    def begun_runs(self) -> list[str]:
        """Runs that were unfinished when this host started, and all open runs, to wait for.

        Without runs of locations that this host does not have: see `left_runs`.
        """
        found = [*self._waiting.begun, *(row.run_id for row in self.open_runs())]
        rows = (self.row(run) for run in dict.fromkeys(found))
        return [row.run_id for row in rows if row is not None and self.has(row.location)]

    def left_runs(self) -> list[RunRow]:
        """Unfinished runs of locations that this host does not have."""
        return [row for row in self.open_runs() if not self.has(row.location)]

    def open_runs(self) -> list[RunRow]:
        """Requested runs that have not finished, oldest first, to wait for."""

        def look(state: State) -> list[RunRow]:
            found = [row for row in state.runs.values() if row.state not in TERMINAL_RUN_STATES]
            for row in found:
                self._waiting.add(row.run_id)  # before any of them can end
            return found

        return sorted(self.service.read(look), key=lambda row: row.created_at)

    @overload
    def wait(self, run: str) -> RunRow: ...
    @overload
    def wait(self, run: str, timeout: float) -> RunRow | None: ...

    def wait(self, run: str, timeout: float | None = None) -> RunRow | None:
        """Wait until a run has finished, at most `timeout` s; its last row, or None."""
        clock = self._world.clock
        until = None if timeout is None else clock.monotonic() + timeout
        self._waiting.add(run)
        if (before := self._ended_before(run)) is not None:
            return before
        while True:
            left = LOOK_EVERY if until is None else min(LOOK_EVERY, until - clock.monotonic())
            ended = self._waiting.wait(run, max(left, 0))
            if ended is not None or (until is not None and clock.monotonic() >= until):
                return ended
            row = self.row(run)
            self.pool.check("" if row is None else row.location)

    def _ended_before(self, run: str) -> RunRow | None:
        """A run that had finished when it was requested again with the same run key."""
        row = self.row(run)
        if row is None:  # none of the active ones, so it is old and published
            found = self.workspace.read(lambda snapshot: Lookup(snapshot).all(RunRow, run_id=run))
            row = found[0] if found else None
        return row if row is not None and row.state in TERMINAL_RUN_STATES else None

    def row(self, run: str) -> RunRow | None:
        """The current state of a run."""
        return self.service.read(lambda state: state.runs.rows.get(run))

    def running(self) -> list[TaskRow]:
        """The tasks that are running."""
        return self.service.read(
            lambda state: [state.tasks.rows[key] for key in state.index.running]
        )

    def settled(self) -> bool:
        """Whether no unfinished work can continue now, and no requests are waiting."""
        now = self._world.clock.now()
        try:
            if self.service.batches_waiting or self.service.read(
                lambda state: can_go_on(state, now, self.has)
            ):
                return False
        except ServoError:
            return False  # it takes over again, unless it is over: `check` says so
        self.service.wake()  # so that what others left is found
        return not self._world.store.list_after(self.paths.inbox_prefix, limit=1)

    def backfill(self, name: str) -> Backfill | None:
        """The current state of a backfill."""
        return self.service.read(lambda state: in_state(state, name))

    def open_backfills(self) -> list[BackfillRow]:
        """Unfinished backfills of the locations of this host, oldest first."""
        rows = self.service.read(
            lambda state: [state.backfills.rows[name] for name in state.index.backfills_open]
        )
        found = [row for row in rows if self.has(row.location)]
        return sorted(found, key=lambda row: row.created_at)

    def check(self) -> None:
        """Raise the error that keeps this process from working, if there is one."""
        if self.service.over and self.service.failure is not None:
            raise self.service.failure
        self.pool.check()

    def interrupt(self) -> str:
        """Interrupt running tasks; return the message that says how to resume them."""
        self.pool.drain()
        return "interrupted; continue with `servo resume`"

    def finish(self) -> None:
        """Start nothing more, and let running tasks finish: other processes wait for them."""
        self.pool.take_no_more()
        pause = threading.Event()
        while self.pool.busy and not self.service.over:
            pause.wait(FINISH_LOOK_EVERY)

    def tasks(self, run: str) -> list[TaskRow]:
        """The current state of a run's tasks."""
        found = self.service.read(lambda state: _tasks_of(state, run))
        if found is None:
            return self.workspace.read(lambda snapshot: Lookup(snapshot).all(TaskRow, run_id=run))
        return found


def _tasks_of(state: State, run: str) -> list[TaskRow] | None:
    """The tasks of a run that is in memory; None of one that has left it."""
    if run not in state.runs.rows:
        return None
    return [state.tasks.rows[run, name] for name in state.index.run_tasks.get(run, ())]


def can_go_on(state: State, now: datetime, has: HasLocation) -> bool:
    """Whether unfinished runs can continue now, without waiting.

    Ready tasks of locations that this host does not have wait for another process.
    """
    index = state.index
    if index.active or index.runs_expanding or index.outbox_pending:
        return True
    if any(has(location) for places in list(index.ready.values()) for location, _ in list(places)):
        return True
    at = timers.next_due(state)
    return at is not None and at <= now
