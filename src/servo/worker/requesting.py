"""Telling a workspace what a project defines, and asking it for runs."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from servo.core.definitions import definitions_bytes, definitions_digest
from servo.core.events.assets import AssetDefinition, DefinitionsDeployed
from servo.core.events.envelope import Answer, Batch, Event
from servo.core.events.runs import (
    ManualSource,
    PlanCreated,
    PlanSegment,
    RerunSource,
    RunCancelRequested,
    RunRequested,
)
from servo.core.ids import RunKey, TenantId, WorkspaceId, run_id
from servo.core.plan import Plan, chunk_bytes, chunk_digest, fingerprint, split
from servo.core.tags import priority_of
from servo.errors import Conflict
from servo.ledger.paths import Paths
from servo.ports.object_store import ObjectStore
from servo.runtime.service import Service, World

CONFIG_LABEL = "servo/run_config"
"""The label that holds the configuration of a run, as JSON."""

PARTITION_LABEL = "dagster/partition"
"""The label of a run that makes one partition."""

INLINE_TASKS = 200
TASKS_PER_SEGMENT = 1_000


def with_config(tags: Mapping[str, str], config: Mapping[str, Any]) -> dict[str, str]:
    """The labels of a run with these tags and this configuration."""
    if not config:
        return dict(tags)
    return {**tags, CONFIG_LABEL: msgspec.json.encode(config).decode()}


def _with_priority(plan: Plan, priority: int) -> Plan:
    """A plan whose tasks go before, or after, those of other runs."""
    if not priority:
        return plan
    more = (msgspec.structs.replace(t, priority=t.priority + priority) for t in plan.tasks)
    return Plan(tasks=tuple(more))


class RunRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A run that somebody wants; `again` names the run that it repeats."""

    plan: Plan
    run_key: str
    tags: Mapping[str, str]
    again: str | None = None


def run_events(
    store: ObjectStore, paths: Paths, salt: bytes, request: RunRequest
) -> tuple[RunRequested, PlanCreated]:
    """What asks for a run; a large plan is stored first."""
    tenant, workspace = TenantId(paths.tenant), WorkspaceId(paths.workspace)
    made = run_id(salt, tenant, workspace, RunKey(request.run_key))
    plan = _with_priority(request.plan, priority_of(request.tags, "the run"))
    printed = fingerprint(tenant, workspace, plan)
    requested = RunRequested(
        run_id=made,
        run_key=request.run_key,
        request_fingerprint=printed,
        labels=dict(request.tags),
        source=ManualSource() if request.again is None else RerunSource(run_id=request.again),
        parent_run_id=request.again,
    )
    return requested, _created(store, paths, requested, plan)


def _created(store: ObjectStore, paths: Paths, requested: RunRequested, plan: Plan) -> PlanCreated:
    made, printed = requested.run_id, requested.request_fingerprint
    if len(plan.tasks) <= INLINE_TASKS:
        return PlanCreated(run_id=made, fingerprint=printed, tasks=plan.tasks)
    segments: list[PlanSegment] = []
    for chunk in split(plan, TASKS_PER_SEGMENT):
        data = chunk_bytes(chunk)
        digest = chunk_digest(data)
        store.put(paths.plan(digest), data)
        segments.append(PlanSegment(digest=digest, count=len(chunk.tasks)))
    return PlanCreated(run_id=made, fingerprint=printed, segments=tuple(segments))


class Requests:
    """What the outside asks of a workspace that this process leads."""

    def __init__(self, service: Service, world: World, paths: Paths) -> None:
        self._service = service
        self._world = world
        self._paths = paths

    def deploy(self, location: str, assets: Sequence[AssetDefinition]) -> None:
        """Tell the workspace what the project defines, unless it knows."""
        data = definitions_bytes(assets)
        digest = definitions_digest(data)
        if self._deployed(location) == digest:
            return
        self._world.store.put(self._paths.plan(digest), data)
        event = DefinitionsDeployed(
            deployment_id=digest, location=location, definitions_digest=digest
        )
        _ = self._commit(event)

    def _deployed(self, location: str) -> str | None:
        """The deployment that every asset of a location is from, if it is one."""
        rows = self._service.engine.state.assets.rows
        found = {row.deployment_id for row in list(rows.values()) if row.location == location}
        return found.pop() if len(found) == 1 else None

    def name_run(self, run_key: str) -> str:
        """The id of the run with this key."""
        tenant, workspace = TenantId(self._paths.tenant), WorkspaceId(self._paths.workspace)
        return run_id(self._salt(), tenant, workspace, RunKey(run_key))

    def run(
        self, plan: Plan, run_key: str, tags: Mapping[str, str], *, again: str | None = None
    ) -> str:
        """Ask for a run of a plan; its id. `again` names the run that it repeats."""
        request = RunRequest(plan=plan, run_key=run_key, tags=tags, again=again)
        events = run_events(self._world.store, self._paths, self._salt(), request)
        _ = self._commit(*events)
        return events[0].run_id

    def _salt(self) -> bytes:
        return bytes.fromhex(self._service.engine.maintenance.manifest.identity)

    def cancel(self, run: str, by: str) -> None:
        """Ask for a run to be stopped."""
        _ = self._commit(RunCancelRequested(run_id=run, requested_by=by))

    def _commit(self, *events: Event) -> Answer:
        name = f"request-{self._world.entropy.token_bytes(10).hex()}"
        answer = self._service.commit(Batch(id=name, events=events, actor="user"))
        if not answer.applied:
            raise Conflict(
                f"the workspace refused: {answer.reason}",
                remedy="correct the request, or ask again under another run key",
            )
        return answer
