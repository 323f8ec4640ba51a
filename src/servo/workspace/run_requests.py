"""Telling a workspace what a project defines, and asking it for runs."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from servo.core.declared import Declared
from servo.core.definitions import definitions_bytes
from servo.core.events.assets import DefinitionsDeployed
from servo.core.events.envelope import Answer, Batch, Event
from servo.core.events.runs import (
    ManualSource,
    PlanCreated,
    PlanSegment,
    RerunSource,
    RunCancelRequested,
    RunRequested,
    SourceRef,
)
from servo.core.ids import RunKey, TenantId, WorkspaceId, run_id
from servo.core.lanes import lane_of
from servo.core.plan import Plan, chunk_bytes, chunk_digest, fingerprint, split
from servo.core.tags import CONFIG_LABEL, priority_of
from servo.errors import Conflict
from servo.leader.service import Service, World
from servo.ledger.paths import Paths
from servo.planning.deployment import changes
from servo.ports.object_store import ObjectStore

INLINE_TASKS = 200
TASKS_PER_SEGMENT = 1_000
EVENTS_PER_BATCH = 200

_CORRECT = "correct the request, or ask again under another run key"
_QUOTA = "ask for less or later, or raise the limit with `servo admin quota`"


def with_config(tags: Mapping[str, str], config: Mapping[str, Any]) -> dict[str, str]:
    """The labels of a run with these tags and this configuration."""
    if not config:
        return dict(tags)
    return {**tags, CONFIG_LABEL: msgspec.json.encode(config).decode()}


def _with_priority(plan: Plan, priority: int) -> Plan:
    """A plan whose tasks go before, or after, those of other runs."""
    if not priority:
        return plan
    more = (replace(t, priority=t.priority + priority) for t in plan.tasks)
    return Plan(tasks=tuple(more))


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """A run that somebody wants; `again` names the run that it repeats.

    Without a fingerprint of its own the request is told from others by its plan.
    """

    plan: Plan
    run_key: str
    tags: Mapping[str, str]
    again: str | None = None
    source: SourceRef | None = None
    fingerprint: str = ""
    partitions: tuple[str, ...] = ()
    location: str = ""


def run_events(
    store: ObjectStore, paths: Paths, salt: bytes, request: Wanted
) -> tuple[RunRequested, PlanCreated]:
    """What asks for a run; a large plan is stored first."""
    tenant, workspace = TenantId(paths.tenant), WorkspaceId(paths.workspace)
    made = run_id(salt, tenant, workspace, RunKey(request.run_key))
    plan = _with_priority(request.plan, priority_of(request.tags, "the run"))
    printed = fingerprint(tenant, workspace, plan)
    by_hand = ManualSource() if request.again is None else RerunSource(run_id=request.again)
    source = by_hand if request.source is None else request.source
    requested = RunRequested(
        run_id=made,
        run_key=request.run_key,
        request_fingerprint=request.fingerprint or printed,
        labels=dict(request.tags),
        source=source,
        lane=lane_of(source, request.tags),
        partition_selection=request.partitions,
        parent_run_id=request.again,
        location=request.location,
    )
    return requested, _created(store, paths, PlanCreated(run_id=made, fingerprint=printed), plan)


def _created(store: ObjectStore, paths: Paths, empty: PlanCreated, plan: Plan) -> PlanCreated:
    """The event that plans a run; a large plan is stored beside it."""
    if len(plan.tasks) <= INLINE_TASKS:
        return replace(empty, tasks=plan.tasks)
    segments: list[PlanSegment] = []
    for chunk in split(plan, TASKS_PER_SEGMENT):
        data = chunk_bytes(chunk)
        digest = chunk_digest(data)
        store.put(paths.plan(digest), data)
        segments.append(PlanSegment(digest=digest, count=len(chunk.tasks)))
    return replace(empty, segments=tuple(segments))


class Requests:
    """What the outside asks of a workspace that this process leads."""

    def __init__(self, service: Service, world: World, paths: Paths) -> None:
        self._service = service
        self._world = world
        self._paths = paths

    def deploy(self, location: str, declared: Declared) -> None:
        """Tell the workspace what the project declares, unless it knows."""
        found = changes(self._service.engine.state, location, declared)
        for start in range(0, len(found), EVENTS_PER_BATCH):
            for event in found[start : start + EVENTS_PER_BATCH]:
                if isinstance(event, DefinitionsDeployed):
                    data = definitions_bytes(declared.assets)
                    self._world.store.put(self._paths.plan(event.definitions_digest), data)
            _ = self._commit(*found[start : start + EVENTS_PER_BATCH])

    def name_run(self, run_key: str) -> str:
        """The id of the run with this key."""
        tenant, workspace = TenantId(self._paths.tenant), WorkspaceId(self._paths.workspace)
        return run_id(self.salt(), tenant, workspace, RunKey(run_key))

    def run(self, request: Wanted) -> str:
        """Ask for a run of a plan; its id."""
        events = run_events(self._world.store, self._paths, self.salt(), request)
        _ = self._commit(*events)
        return events[0].run_id

    def salt(self) -> bytes:
        """What run ids are made with."""
        return bytes.fromhex(self._service.engine.maintenance.manifest.identity)

    def commit(self, events: Sequence[Event]) -> None:
        """Commit events as one batch; `Conflict` if the workspace refuses them."""
        _ = self._commit(*events)

    def cancel(self, run: str, by: str, *, force: bool = False) -> None:
        """Ask for a run to be stopped; with `force` nobody waits for what runs."""
        _ = self._commit(RunCancelRequested(run_id=run, requested_by=by, force=force))

    def _commit(self, *events: Event) -> Answer:
        name = f"request-{self._world.entropy.token_bytes(10).hex()}"
        answer = self._service.commit(Batch(id=name, events=events, actor="user"))
        if not answer.applied:
            raise Conflict(
                f"the workspace refused: {answer.reason}",
                remedy=_QUOTA if answer.reason.startswith("quota:") else _CORRECT,
            )
        return answer
