"""Runs: requested, planned, admitted, cancelled and timed out."""

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from servo.core.events.envelope import Event
from servo.core.events.runs import (
    BackfillSource,
    PlanCreated,
    PlanDeadlineExceeded,
    PlanFailed,
    PlanSegmentExpanded,
    RunAdmitted,
    RunCancelRequested,
    RunDeadlineExceeded,
    RunRequested,
    ScheduleSource,
)
from servo.core.fold import backfills, schedules, sensors
from servo.core.fold.bounds import MOST
from servo.core.fold.context import Ctx, FoldRule, FurtherNeedsTable, NeedsTable, Rejected, Repeated
from servo.core.fold.expansion import activate, expand
from servo.core.fold.force_cancel import end_executions, partitions_of_executions
from servo.core.fold.limits import MAX_TASKS_PER_RUN, PLAN_TIMEOUT, clamp_ms, span
from servo.core.fold.run_lifecycle import cancel_run, close_if_over, end_run
from servo.core.state.index import WORKSPACE_QUOTA
from servo.core.state.rows.automation import RunKeyConflictRow, RunKeyRow
from servo.core.state.rows.execution import RunRow
from servo.core.state.state import State
from servo.core.state.states import (
    TERMINAL_RUN_STATES,
    RunState,
    RunTransitionReason,
)


def _on_requested(state: State, event: RunRequested, ctx: Ctx) -> None:
    known = state.run_keys.rows.get(event.run_key)
    if known is None:
        _create(state, event, ctx)
        ctx.data["run_id"] = event.run_id
        return
    ctx.data["run_id"] = known.run_id
    run = state.runs.rows.get(known.run_id)
    ctx.repeats("" if run is None else run.request_position)
    if known.request_fingerprint != event.request_fingerprint:
        _conflict(state, event, known, ctx)


def _create(state: State, event: RunRequested, ctx: Ctx) -> None:
    if event.run_id in state.runs:
        raise Rejected(f"the run id {event.run_id} belongs to another run key")
    _count_against_day(state)
    row = RunKeyRow(
        run_key=event.run_key,
        run_id=event.run_id,
        request_fingerprint=event.request_fingerprint,
        created_at=state.ts,
        row_version=state.seq,
    )
    state.run_keys.put(event.run_key, row)
    state.runs.put(event.run_id, _new_run(state, event, ctx))
    if isinstance(event.source, ScheduleSource):
        schedules.correlate_run(state, event.source, event.run_id)
    elif isinstance(event.source, BackfillSource):
        backfills.correlate_run(state, event.source, event.run_id)


def _new_run(state: State, event: RunRequested, ctx: Ctx) -> RunRow:
    source = event.source
    return RunRow(
        run_id=event.run_id,
        run_key=event.run_key,
        request_fingerprint=event.request_fingerprint,
        state=RunState.PENDING,
        reason=RunTransitionReason.CREATED,
        transitioned_at=state.ts,
        created_at=state.ts,
        plan_deadline=state.ts + PLAN_TIMEOUT,
        timeout_ms=clamp_ms(event.timeout_ms),
        source=source,
        asset_selection=event.asset_selection,
        partition_selection=event.partition_selection,
        labels=event.labels,
        lane=event.lane,
        priority=event.priority,
        parent_run_id=event.parent_run_id,
        location=event.location,
        backfill_id=source.backfill_id if isinstance(source, BackfillSource) else None,
        requested_by=ctx.batch.actor,
        request_text=event.request_text,
        request_position=ctx.position,
        cause=ctx.cause,
        correlation=ctx.correlation,
        row_version=state.seq,
    )


def _count_against_day(state: State) -> None:
    quota = state.index.workspace_quota
    if quota is None or quota.max_daily_runs is None:
        return
    today = state.ts.date().isoformat()
    count = quota.daily_runs_count if quota.daily_runs_day == today else 0
    if count >= quota.max_daily_runs:
        raise Rejected(f"quota: no more runs today; the limit is {quota.max_daily_runs}")
    counted = replace(
        quota, daily_runs_day=today, daily_runs_count=count + 1, row_version=state.seq
    )
    state.quotas.put(WORKSPACE_QUOTA, counted)


def _conflict(state: State, event: RunRequested, known: RunKeyRow, ctx: Ctx) -> None:
    ctx.conflict = f"run_key_conflict: the run key {event.run_key} belongs to a different request"
    sensors.tell_conflict(state, event, ctx.batch)
    key = (event.run_key, event.request_fingerprint)
    if key in state.run_key_conflicts:
        return
    row = RunKeyConflictRow(
        run_key=event.run_key,
        existing_run_id=known.run_id,
        existing_fingerprint=known.request_fingerprint,
        conflicting_fingerprint=event.request_fingerprint,
        conflicting_batch_id=ctx.batch.id,
        detected_at=state.ts,
        row_version=state.seq,
    )
    state.run_key_conflicts.put(key, row)


def _open_run(state: State, run_id: str) -> RunRow:
    run = state.runs.rows.get(run_id)
    if run is None:
        raise Rejected("unknown_run", waits_for=run_id)
    if run.state in TERMINAL_RUN_STATES:
        raise Rejected("the run has already ended")
    return run


def _on_planned(state: State, event: PlanCreated, ctx: Ctx) -> None:
    run = state.runs.rows.get(event.run_id)
    if run is not None and run.plan_fingerprint:
        raise Repeated(run_id=run.run_id)
    run = _open_run(state, event.run_id)
    count = len(event.tasks) + sum(max(segment.count, 0) for segment in event.segments)
    _check_size(state, event, count)
    run = replace(
        run,
        plan_fingerprint=event.fingerprint or "none",
        plan_segments=event.segments,
        task_count=count,
        plan_deadline=None,
        row_version=state.seq,
    )
    admitted = free_run_slots(state) > 0
    if admitted:
        run = _admit(state, run)
    else:
        state.runs.put(run.run_id, run)
    run = expand(state, run, event.tasks, planned_only=not admitted)
    close_if_over(state, run, ctx)


def _check_size(state: State, event: PlanCreated, count: int) -> None:
    if event.tasks and event.segments:
        raise Rejected(
            "invalid_plan: a plan lists its tasks either inline or in segments, not both"
        )
    quota = state.index.workspace_quota
    limit = MAX_TASKS_PER_RUN
    if quota is not None and quota.max_tasks_per_run is not None:
        limit = min(limit, quota.max_tasks_per_run)
    if count > limit:
        raise Rejected(f"quota: the plan has {count} tasks; the limit for a run is {limit}")


def free_run_slots(state: State) -> int:
    """How many more runs may be active."""
    quota = state.index.workspace_quota
    if quota is None or quota.max_concurrent_runs is None:
        return MOST
    return quota.max_concurrent_runs - len(state.index.runs_active)


def _admit(state: State, run: RunRow) -> RunRow:
    limit_ms = run.timeout_ms
    quota = state.index.workspace_quota
    if quota is not None and quota.max_run_duration_ms is not None:
        limit_ms = min(limit_ms, quota.max_run_duration_ms)
    run = replace(
        run,
        state=RunState.RUNNING,
        reason=RunTransitionReason.STARTED,
        transitioned_at=state.ts,
        started_at=state.ts,
        deadline=state.ts + span(limit_ms),
        row_version=state.seq,
    )
    state.runs.put(run.run_id, run)
    return run


def _on_admitted(state: State, event: RunAdmitted, ctx: Ctx) -> None:
    run = _open_run(state, event.run_id)
    if run.state is not RunState.PENDING or not run.plan_fingerprint:
        raise Rejected("the run is not waiting for a slot")
    if free_run_slots(state) <= 0:
        raise Rejected("quota: no free run slot")
    run = _admit(state, run)
    activate(state, run)
    close_if_over(state, run, ctx)


def _on_segment(state: State, event: PlanSegmentExpanded, ctx: Ctx) -> None:
    run = _open_run(state, event.run_id)
    due = run.state is RunState.RUNNING and event.index == run.segments_expanded
    if not due or event.index >= len(run.plan_segments):
        raise Rejected("the segment is not the next one")
    segment = run.plan_segments[event.index]
    specs = state.plan_segments.get(segment.digest) if segment.digest == event.digest else None
    if specs is None or len(specs) != segment.count:
        raise Rejected("invalid_plan: the segment does not match the plan")
    run = replace(run, segments_expanded=event.index + 1, row_version=state.seq)
    run = expand(state, run, specs, planned_only=False)
    close_if_over(state, run, ctx)


def _on_plan_failed(state: State, event: PlanFailed, ctx: Ctx) -> None:
    """No plan, or one whose stored segments turned out to be missing or damaged."""
    run = _open_run(state, event.run_id)
    if not run.plan_fingerprint:
        why = RunTransitionReason.PLAN_FAILED
        end_run(state, replace(run, error=event.error), RunState.FAILED, why, ctx)
        return
    if run.segments_expanded >= len(run.plan_segments):
        raise Rejected("the run already has a plan")
    why = RunTransitionReason.SYSTEM_CANCELLED
    broken = replace(run, error=event.error)
    cancel_run(state, broken, ctx, reason=why, by="", why=event.error)


def _on_plan_overdue(state: State, event: PlanDeadlineExceeded, ctx: Ctx) -> None:
    run = _open_run(state, event.run_id)
    if run.plan_deadline is None or run.plan_deadline > state.ts:
        raise Rejected("the deadline for the plan has not passed")
    late = replace(run, error="nobody planned the run in time")
    end_run(state, late, RunState.FAILED, RunTransitionReason.PLAN_TIMED_OUT, ctx)


def _on_cancel(state: State, event: RunCancelRequested, ctx: Ctx) -> None:
    run = state.runs.rows.get(event.run_id)
    if run is not None and run.cancel_requested_at is not None and not _forces(run, event):
        raise Repeated(run_id=run.run_id)
    run = _open_run(state, event.run_id)
    cancel_run(
        state,
        run,
        ctx,
        reason=RunTransitionReason.USER_CANCELLED,
        by=event.requested_by,
        why=event.reason,
    )
    if event.force:
        end_executions(state, run.run_id, ctx)
    ctx.data["run_id"] = run.run_id


def _forces(run: RunRow, event: RunCancelRequested) -> bool:
    """Whether a run that is being stopped is now to end at once."""
    return event.force and run.state is RunState.CANCELLING


def _on_overdue(state: State, event: RunDeadlineExceeded, ctx: Ctx) -> None:
    run = _open_run(state, event.run_id)
    if run.deadline is None or run.deadline > state.ts:
        raise Rejected("the deadline of the run has not passed")
    if run.cancel_requested_at is not None:
        raise Rejected("the run is already being cancelled")
    why = "the run took longer than it may"
    cancel_run(state, run, ctx, reason=RunTransitionReason.TIMED_OUT, by="", why=why)


def _needs_run(event: Any) -> Iterable[tuple[str, object]]:
    return (("runs", event.run_id),)


def _needs_key(event: RunRequested) -> Iterable[tuple[str, object]]:
    yield ("run_key_index", event.run_key)
    yield ("run_key_conflicts", (event.run_key, event.request_fingerprint))
    yield ("runs", event.run_id)
    if isinstance(event.source, ScheduleSource):
        yield ("schedule_ticks", event.source.tick_id)


RULES: Mapping[type[Event], FoldRule] = {
    RunRequested: _on_requested,
    PlanCreated: _on_planned,
    PlanFailed: _on_plan_failed,
    PlanSegmentExpanded: _on_segment,
    RunAdmitted: _on_admitted,
    RunCancelRequested: _on_cancel,
    RunDeadlineExceeded: _on_overdue,
    PlanDeadlineExceeded: _on_plan_overdue,
}
NEEDS: NeedsTable = {
    RunRequested: _needs_key,
    PlanCreated: _needs_run,
    PlanFailed: _needs_run,
    RunCancelRequested: _needs_run,
}
FURTHER_NEEDS: FurtherNeedsTable = {RunCancelRequested: partitions_of_executions}
