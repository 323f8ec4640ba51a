"""A project at work: a leader, its workers, and the runs somebody waits for."""

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import overload

from servo.config import Settings
from servo.core.definitions import definitions_bytes, definitions_digest
from servo.core.events.assets import AssetDefinition, DefinitionsDeployed
from servo.core.events.envelope import Answer, Batch, Event
from servo.core.events.runs import PlanCreated, PlanSegment, RunCancelRequested, RunRequested
from servo.core.ids import RunKey, TenantId, WorkspaceId, run_id
from servo.core.plan import Plan, chunk_bytes, chunk_digest, fingerprint, split
from servo.core.state.rows.execution import RunRow, TaskRow
from servo.core.state.state import State
from servo.core.state.states import TERMINAL_RUN_STATES
from servo.errors import Conflict
from servo.ledger.paths import Paths
from servo.runtime.deployment import open_world
from servo.runtime.service import Service, World
from servo.worker.pool import Pool
from servo.worker.process import Setting

INLINE_TASKS = 200
TASKS_PER_SEGMENT = 1_000


class Session:
    """Leads a workspace with warm workers until it is closed."""

    def __init__(
        self,
        setting: Setting,
        *,
        workers: int,
        settings: Settings | None = None,
        world: World | None = None,
    ) -> None:
        self._world = world if world is not None else open_world(setting.store)
        self.paths = Paths(setting.tenant, setting.workspace)
        self._lock = threading.Condition()
        self._ended: dict[str, RunRow] = {}
        self._waited: set[str] = set()
        self.service = Service(
            self._world,
            self.paths,
            settings,
            workers=lambda service: self._pool_for(service, setting, workers),
        )
        self.service.watch(self._look)

    def _pool_for(self, service: Service, setting: Setting, size: int) -> Pool:
        self.pool = Pool(service, setting, self._world.clock, self._world.entropy, size)
        return self.pool

    def __enter__(self) -> "Session":
        self.pool.start()
        try:
            self.service.start()
            self.pool.recover(self.service.engine.state)
            self.pool.wait()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.pool.stop()
        self.service.stop()

    # --- what can be asked of it --------------------------------------------------------------

    def deploy(self, location: str, assets: Sequence[AssetDefinition]) -> None:
        """Tell the workspace what the project defines, unless it knows."""
        data = definitions_bytes(assets)
        digest = definitions_digest(data)
        if self._deployed(location) == digest:
            return
        self._world.store.put(self.paths.plan(digest), data)
        event = DefinitionsDeployed(
            deployment_id=digest, location=location, definitions_digest=digest
        )
        self._commit(event)

    def _deployed(self, location: str) -> str | None:
        """The deployment that every asset of a location is from, if it is one."""
        rows = self.service.engine.state.assets.rows
        found = {row.deployment_id for row in list(rows.values()) if row.location == location}
        return found.pop() if len(found) == 1 else None

    def request(self, plan: Plan, run_key: str, *, tags: Mapping[str, str] | None = None) -> str:
        """Ask for a run of a plan; its id."""
        manifest = self.service.engine.maintenance.manifest
        tenant, workspace = TenantId(self.paths.tenant), WorkspaceId(self.paths.workspace)
        salt = bytes.fromhex(manifest.identity)
        made = run_id(salt, tenant, workspace, RunKey(run_key))
        printed = fingerprint(tenant, workspace, plan)
        requested = RunRequested(
            run_id=made, run_key=run_key, request_fingerprint=printed, labels=dict(tags or {})
        )
        self._waited.add(made)
        self._commit(requested, self._created(made, plan, printed))
        return made

    def _created(self, made: str, plan: Plan, printed: str) -> PlanCreated:
        if len(plan.tasks) <= INLINE_TASKS:
            return PlanCreated(run_id=made, fingerprint=printed, tasks=plan.tasks)
        segments: list[PlanSegment] = []
        for chunk in split(plan, TASKS_PER_SEGMENT):
            data = chunk_bytes(chunk)
            digest = chunk_digest(data)
            self._world.store.put(self.paths.plan(digest), data)
            segments.append(PlanSegment(digest=digest, count=len(chunk.tasks)))
        return PlanCreated(run_id=made, fingerprint=printed, segments=tuple(segments))

    def _commit(self, *events: Event) -> Answer:
        name = f"session-{self._world.entropy.token_bytes(10).hex()}"
        answer = self.service.commit(Batch(id=name, events=events, actor="session"))
        if not answer.applied:
            raise Conflict(f"the workspace refused: {answer.reason}", remedy="see the reason")
        return answer

    def open_runs(self) -> list[RunRow]:
        """Runs that were asked for and have not ended, oldest first; they are waited for."""
        rows = self.service.engine.state.runs.rows
        found = [row for row in list(rows.values()) if row.state not in TERMINAL_RUN_STATES]
        self._waited.update(row.run_id for row in found)
        return sorted(found, key=lambda row: row.created_at)

    def cancel(self, run: str) -> None:
        """Ask for a run to be stopped."""
        self._commit(RunCancelRequested(run_id=run, requested_by="session"))

    @overload
    def wait(self, run: str) -> RunRow: ...
    @overload
    def wait(self, run: str, timeout: float) -> RunRow | None: ...

    def wait(self, run: str, timeout: float | None = None) -> RunRow | None:
        """Until a run has ended, or for so many seconds; its last row, None if it goes on."""
        with self._lock:
            self._lock.wait_for(lambda: run in self._ended or bool(self.service.failure), timeout)
            if run not in self._ended and self.service.failure is not None:
                raise self.service.failure
            return self._ended.get(run)

    def row(self, run: str) -> RunRow | None:
        """A run as it stands."""
        return self.service.engine.state.runs.rows.get(run)

    def tasks(self, run: str) -> list[TaskRow]:
        """The tasks of a run, as they stand."""
        state = self.service.engine.state
        return [state.tasks.rows[run, name] for name in list(state.index.run_tasks.get(run, ()))]

    def _look(self, state: State) -> None:
        """On the leader's thread: runs that somebody waits for and that have ended."""
        over = state.index.runs_over
        ended = [run for run in self._waited if run in over]
        if ended:
            with self._lock:
                for run in ended:
                    self._waited.discard(run)
                    self._ended[run] = state.runs.rows[run]
                self._lock.notify_all()


def setting_for(
    code: str, folder: Path, store: str, *, tenant: str = "default", workspace: str = "default"
) -> Setting:
    """Where the workers of a project find everything."""
    return Setting(code=code, folder=str(folder), store=store, tenant=tenant, workspace=workspace)
