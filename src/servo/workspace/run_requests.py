"""The events that request a run."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from servo.core.canonical import sha256_hex
from servo.core.events.runs import (
    ManualSource,
    PlanCreated,
    PlanSegment,
    RerunSource,
    RunRequested,
    SourceRef,
)
from servo.core.ids import RunKey, TenantId, WorkspaceId, run_id
from servo.core.lanes import lane_of
from servo.core.plan import Plan, chunk_bytes, chunk_digest, fingerprint, split
from servo.core.state.rows.execution import RunRow
from servo.core.tags import CONFIG_LABEL, priority_of
from servo.errors import Conflict
from servo.ledger.paths import Paths
from servo.ports.object_store import ObjectStore

INLINE_TASKS = 200
MOST_ASSETS = 1_000
MOST_ASSET_BYTES = 64 * 1024
MOST_TEXT = 1_000
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
    more = (replace(t, priority=t.priority + priority) for t in plan.tasks)
    return Plan(tasks=tuple(more))


class WantedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A requested run; `again` is the run that it repeats.

    Without a fingerprint, the plan identifies the request. `text` is the request as the user wrote
    it, `user` is that user if it was a person, and `request_id` the idempotency key. `assets` are
    the requested ones, if they differ from the planned ones.
    """

    plan: Plan
    run_key: str
    tags: Mapping[str, str]
    again: str | None = None
    source: SourceRef | None = None
    fingerprint: str = ""
    partitions: tuple[str, ...] = ()
    location: str = ""
    assets: tuple[str, ...] = ()
    text: str = ""
    user: str = ""
    request_id: str = ""


def request_fingerprint(plan: Plan, tags: Mapping[str, str]) -> str:
    """The fingerprint of a user's request: what to do and how, regardless of the code."""
    asked = {"tasks": sorted(task.task_key for task in plan.tasks), "labels": dict(tags)}
    return f"v1:sha256:{sha256_hex(asked)}"


def assets_of(plan: Plan) -> tuple[str, ...]:
    """The assets of a plan; none if there are too many for an event."""
    keys = dict.fromkeys(key for task in plan.tasks for key in (task.asset_key, *task.also_makes))
    found = tuple(key for key in keys if key)
    size = sum(len(key.encode()) for key in found)
    return found if len(found) <= MOST_ASSETS and size <= MOST_ASSET_BYTES else ()


def _by_hand(request: WantedRun) -> ManualSource | RerunSource:
    if request.again is None:
        return ManualSource(user_id=request.user, request_id=request.request_id)
    return RerunSource(run_id=request.again, user_id=request.user)


def run_events(
    store: ObjectStore, paths: Paths, salt: bytes, request: WantedRun
) -> tuple[RunRequested, PlanCreated]:
    """The events that request a run; a large plan is stored first."""
    tenant, workspace = TenantId(paths.tenant), WorkspaceId(paths.workspace)
    made = run_id(salt, tenant, workspace, RunKey(request.run_key))
    plan = _with_priority(request.plan, priority_of(request.tags, "the run"))
    printed = fingerprint(tenant, workspace, plan)
    source = _by_hand(request) if request.source is None else request.source
    requested = RunRequested(
        run_id=made,
        run_key=request.run_key,
        request_fingerprint=request.fingerprint or printed,
        labels=dict(request.tags),
        source=source,
        lane=lane_of(source, request.tags),
        asset_selection=request.assets or assets_of(plan),
        partition_selection=request.partitions,
        parent_run_id=request.again,
        request_text=request.text[:MOST_TEXT],
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


def by_person(wanted: WantedRun, user: str, again: RunRow | None) -> WantedRun:
    """A run that a user requests, described as a retry if it repeats another."""
    if again is None:
        return replace(wanted, user=user)
    text = wanted.text or f"retry {again.run_id}"
    return replace(wanted, user=user, again=again.run_id, text=text)


def run_key_taken(run_key: str, reason: str) -> Conflict:
    """Why a run key cannot be used."""
    return Conflict(
        f"the run key {run_key!r} belongs to another request: {reason}",
        remedy="repeat that request exactly, or use another run key",
    )
