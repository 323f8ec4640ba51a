"""A plan becomes tasks.

Specifications come in topological order, so when a task is made its upstreams exist: those made
before it in the same plan, or in an earlier segment, possibly over already. A large plan is
expanded segment by segment and its first tasks run while the last are not yet rows.
"""

from collections.abc import Iterable

from msgspec.structs import replace

from servo.core.fold.context import Rejected
from servo.core.fold.limits import MIN_HEARTBEAT_TIMEOUT_MS, clamp_ms
from servo.core.fold.run_lifecycle import (
    counted,
    note_resolution,
    ready_or_skipped,
    resolution_of,
)
from servo.core.plan import TaskSpec
from servo.core.state.rows.execution import DepSatisfactionRow, RunRow, TaskRow
from servo.core.state.state import State
from servo.core.state.states import (
    BLOCKED,
    PLANNED,
    TERMINAL_TASK_STATES,
    Resolution,
    TransitionReason,
)


def expand(state: State, run: RunRow, specs: Iterable[TaskSpec], *, planned_only: bool) -> RunRow:
    """Make the tasks of these specifications; the run row with those that ended at once counted."""
    over: list[TaskRow] = []
    for spec in specs:
        key = (run.run_id, spec.task_key)
        if key in state.tasks:
            raise Rejected(f"invalid_plan: {spec.task_key} is in the plan twice")
        row = _new_task(state, run, spec)
        for upstream in dict.fromkeys(spec.upstream):
            row = _add_edge(state, row, upstream)
        if not planned_only:
            row = _activated(state, row)
            if row.state in TERMINAL_TASK_STATES:
                over.append(row)
        state.tasks.put(key, row)
    return counted(run, over, state.seq)


def activate(state: State, run: RunRow) -> None:
    """Let the planned tasks of a run that was just admitted go."""
    for name in state.index.run_tasks.get(run.run_id, ()):
        row = state.tasks.rows[run.run_id, name]
        state.tasks.put((run.run_id, name), _activated(state, row))


def _activated(state: State, row: TaskRow) -> TaskRow:
    if row.deps_resolved_count == row.deps_total:
        return ready_or_skipped(state, row)
    return replace(
        row,
        state=BLOCKED,
        reason=TransitionReason.WAITING_FOR_UPSTREAM,
        transitioned_at=state.ts,
        row_version=state.seq,
    )


def _add_edge(state: State, row: TaskRow, upstream: str) -> TaskRow:
    above = state.tasks.rows.get((row.run_id, upstream))
    if above is None:
        raise Rejected(
            f"invalid_plan: {row.task_key} depends on {upstream}, which is not in the plan"
        )
    over = above.state in TERMINAL_TASK_STATES
    resolution = resolution_of(above) if over else None
    state.edges.put(
        (row.run_id, upstream, row.task_key),
        DepSatisfactionRow(
            run_id=row.run_id,
            upstream_task_key=upstream,
            downstream_task_key=row.task_key,
            satisfied=resolution is Resolution.SUCCESS,
            resolution=resolution,
            satisfied_at=state.ts if over else None,
            satisfying_attempt=above.attempt if over else None,
            row_version=state.seq,
        ),
    )
    return row if resolution is None else note_resolution(row, resolution, state.seq)


def _new_task(state: State, run: RunRow, spec: TaskSpec) -> TaskRow:
    return TaskRow(
        run_id=run.run_id,
        task_key=spec.task_key,
        state=PLANNED,
        reason=TransitionReason.PLANNED,
        transitioned_at=state.ts,
        asset_key=spec.asset_key,
        also_makes=spec.also_makes,
        partition_key=spec.partition,
        also_partitions=spec.also_partitions,
        operation=spec.operation,
        deps_total=len(dict.fromkeys(spec.upstream)),
        max_attempts=spec.retry.max_attempts,
        retry=spec.retry,
        priority=run.priority + spec.priority,
        pool=spec.pool,
        queue=spec.queue,
        lane=run.lane,
        heartbeat_timeout_ms=max(clamp_ms(spec.heartbeat_timeout_ms), MIN_HEARTBEAT_TIMEOUT_MS),
        dispatch_ack_timeout_ms=clamp_ms(spec.dispatch_ack_timeout_ms),
        execution_timeout_ms=clamp_ms(spec.timeout_ms),
        memory_bytes=spec.memory_bytes,
        cpu_millicores=spec.cpu_millicores,
        code_version=spec.code_version,
        config_digest=spec.config_digest,
        tags=spec.tags,
        location=run.location,
        row_version=state.seq,
    )
