"""Backfills: a frozen list of partitions, planned chunk by chunk, followed run by run.

Chunks are planned in order and none is left out, so the number of planned chunks is the index of
the smallest missing one. A chunk is accepted only together with its run and only the end of that
run ends it; every run ends, so every backfill does. The outcome of a backfill is derived
here from its partitions. It is not a transition by a user, so it does not raise the version.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from msgspec.structs import replace

from servo.core.events.backfills import (
    BackfillChunkPlanned,
    BackfillCreated,
    BackfillState,
    BackfillStateChanged,
)
from servo.core.events.envelope import Event
from servo.core.events.runs import BackfillSource, RunRequested
from servo.core.fold.bounds import MOST, number
from servo.core.fold.chunk_outcome import ChunkOutcome, outcome_by_run, outcome_by_tasks
from servo.core.fold.context import Ctx, FoldRule, FurtherNeedsTable, NeedsTable, Rejected, Repeated
from servo.core.fold.force_cancel import end_executions, partitions_running
from servo.core.fold.run_lifecycle import cancel_run
from servo.core.state.rows.automation import BackfillChunkRow, BackfillRow
from servo.core.state.rows.execution import RunRow
from servo.core.state.state import State
from servo.core.state.states import TERMINAL_RUN_STATES, ChunkState, RunTransitionReason

MAX_PARTITIONS = 100_000_000
MAX_CHUNK_SIZE = 1_000_000
MAX_CONCURRENT_RUNS = 100_000

# The transitions a user may request. A cancel ends as CANCELLED once nothing is active.
_TARGET = MappingProxyType(
    {
        BackfillState.PAUSED: BackfillState.PAUSED,
        BackfillState.RUNNING: BackfillState.RUNNING,
        BackfillState.CANCELLING: BackfillState.CANCELLING,
        BackfillState.CANCELLED: BackfillState.CANCELLING,
    }
)
_ALLOWED = frozenset(
    {
        (BackfillState.RUNNING, BackfillState.PAUSED),
        (BackfillState.PAUSED, BackfillState.RUNNING),
        (BackfillState.RUNNING, BackfillState.CANCELLING),
        (BackfillState.PAUSED, BackfillState.CANCELLING),
    }
)


# --- called for runs ------------------------------------------------------------------------------


def correlate_run(state: State, source: BackfillSource, run_id: str) -> None:
    """Record a run in its chunk, if the chunk came first."""
    chunk = state.chunks.rows.get((source.backfill_id, source.chunk_index))
    run = state.runs.rows.get(run_id)
    if chunk is None or run is None or chunk.run_id is not None or chunk.run_key != run.run_key:
        return
    running = replace(chunk, run_id=run_id, state=ChunkState.RUNNING, row_version=state.seq)
    state.chunks.put((chunk.backfill_id, chunk.chunk_index), running)


def on_run_ended(state: State, run: RunRow, ctx: Ctx) -> None:
    """Settle the chunk of a run, and its backfill if that was the last chunk."""
    del ctx
    source = run.source
    if not isinstance(source, BackfillSource):
        return
    chunk = state.chunks.rows.get((source.backfill_id, source.chunk_index))
    if chunk is not None and chunk.run_id == run.run_id and chunk.state is ChunkState.RUNNING:
        _settle(state, chunk, outcome_by_tasks(state, chunk, run))


def _settle(state: State, chunk: BackfillChunkRow, outcome: ChunkOutcome) -> None:
    settled = replace(
        chunk,
        state=outcome.state,
        failed_partition_keys=outcome.failed,
        finished_at=state.ts,
        row_version=state.seq,
    )
    state.chunks.put((chunk.backfill_id, chunk.chunk_index), settled)
    row = state.backfills.rows[chunk.backfill_id]
    failed, skipped = len(outcome.failed), outcome.skipped
    row = replace(
        row,
        active_chunks=row.active_chunks - 1,
        completed_chunks=row.completed_chunks + (outcome.state is ChunkState.SUCCEEDED),
        failed_chunks=row.failed_chunks + (outcome.state is ChunkState.FAILED),
        cancelled_chunks=row.cancelled_chunks + (outcome.state is ChunkState.CANCELLED),
        partitions_succeeded=row.partitions_succeeded
        + len(chunk.partition_keys)
        - failed
        - skipped,
        partitions_failed=row.partitions_failed + failed,
        partitions_skipped=row.partitions_skipped + skipped,
        row_version=state.seq,
    )
    _put(state, row)


# --- created, paused, resumed, cancelled ----------------------------------------------------------


def _on_created(state: State, event: BackfillCreated, ctx: Ctx) -> None:
    known = state.backfills.rows.get(event.backfill_id)
    if known is not None:
        if known.request_fingerprint != event.request_fingerprint:
            raise Rejected(
                f"backfill_exists: the id {event.backfill_id} belongs to a different request",
                conflict=True,
            )
        raise Repeated(backfill_id=known.backfill_id, at=known.request_position)
    _check(event)
    row = BackfillRow(
        backfill_id=event.backfill_id,
        client_request_id=event.client_request_id,
        request_fingerprint=event.request_fingerprint,
        asset_selection=event.asset_selection,
        selector=event.selector,
        partition_keys=event.partition_keys,
        partitions_digest=event.partitions_digest,
        state=BackfillState.RUNNING,
        total_partitions=event.total_partitions,
        total_chunks=-(-event.total_partitions // event.chunk_size),
        chunk_size=event.chunk_size,
        max_concurrent_runs=event.max_concurrent_runs,
        stop_on_failure=event.stop_on_failure,
        max_failed_partitions=event.max_failed_partitions,
        max_failed_percent=event.max_failed_percent,
        priority=event.priority,
        labels=event.labels,
        parent_backfill_id=event.parent_backfill_id,
        location=event.location,
        created_at=state.ts,
        requested_by=ctx.batch.actor,
        request_position=ctx.position,
        cause=ctx.cause,
        correlation=ctx.correlation,
        row_version=state.seq,
    )
    _put(state, row)
    ctx.data["backfill_id"] = row.backfill_id


def _check(event: BackfillCreated) -> None:
    number(event.total_partitions, "total_partitions", most=MAX_PARTITIONS)
    number(event.chunk_size, "chunk_size", least=1, most=MAX_CHUNK_SIZE)
    number(event.max_concurrent_runs, "max_concurrent_runs", least=1, most=MAX_CONCURRENT_RUNS)
    number(event.max_failed_partitions or 0, "max_failed_partitions")
    number(event.max_failed_percent or 0, "max_failed_percent", most=100)
    number(event.priority, "priority", least=-MOST)
    if not event.partition_keys and event.partitions_digest:
        return
    if len(event.partition_keys) != event.total_partitions:
        raise Rejected(
            f"invalid_partitions: the list has {len(event.partition_keys)} partitions, and "
            f"total_partitions is {event.total_partitions}"
        )
    if len(dict.fromkeys(event.partition_keys)) != event.total_partitions:
        raise Rejected("invalid_partitions: a partition is listed twice")


def _on_state_changed(state: State, event: BackfillStateChanged, ctx: Ctx) -> None:
    row = _known(state, event.backfill_id)
    expected = event.expected_state_version
    if expected is not None and expected != row.state_version:
        raise _version_changed(row)
    target = _TARGET.get(event.to_state)
    if target is None or not _may_become(row, target, force=event.force):
        raise Rejected(
            f"illegal_transition: the backfill is {row.state} and cannot become {event.to_state}",
            conflict=True,
        )
    row = replace(
        row,
        state=target,
        state_version=row.state_version + 1,
        changed_by=event.changed_by,
        row_version=state.seq,
    )
    _put(state, row)
    if target is BackfillState.CANCELLING:
        _cancel_runs(state, row, ctx, force=event.force)
    ctx.data["state_version"] = row.state_version


def _may_become(row: BackfillRow, target: BackfillState, *, force: bool) -> bool:
    """Whether a user may request this state; force may follow a cancel that takes too long."""
    if force and row.state is target is BackfillState.CANCELLING:
        return True
    return (row.state, target) in _ALLOWED


def _cancel_runs(state: State, row: BackfillRow, ctx: Ctx, *, force: bool) -> None:
    why, reason = "the backfill was cancelled", RunTransitionReason.SYSTEM_CANCELLED
    for run in _active_runs(state, row.backfill_id):
        cancel_run(state, run, ctx, reason=reason, by=row.changed_by, why=why)
        if force:
            end_executions(state, run.run_id, ctx)


def _active_runs(state: State, backfill_id: str) -> list[RunRow]:
    numbers = state.index.chunks.get(backfill_id, ())
    chunks = (state.chunks.rows[backfill_id, number] for number in numbers)
    active = (chunk for chunk in chunks if chunk.state is ChunkState.RUNNING)
    found = (state.runs.rows.get(chunk.run_id or "") for chunk in active)
    return [run for run in found if run is not None]


def _put(state: State, row: BackfillRow) -> None:
    """Store a backfill, as ended if no chunk of it is active or will be."""
    over = None if row.active_chunks or row.finished_at is not None else _verdict(row)
    if over is not None:
        row = replace(row, state=over, finished_at=state.ts)
    state.backfills.put(row.backfill_id, row)


def _verdict(row: BackfillRow) -> BackfillState | None:
    """The final state of a backfill without active chunks, or None if it has not ended."""
    if row.state is BackfillState.CANCELLING:
        return BackfillState.CANCELLED
    if row.state is BackfillState.RUNNING and (
        row.planned_chunks == row.total_chunks or has_failed_enough(row)
    ):
        clean = row.completed_chunks == row.total_chunks
        return BackfillState.SUCCEEDED if clean else BackfillState.FAILED
    return None


def has_failed_enough(row: BackfillRow) -> bool:
    """Whether a backfill has reached its limit of failures, so that no more is planned."""
    limit, percent = row.max_failed_partitions, row.max_failed_percent
    if limit is not None and row.partitions_failed > limit:
        return True
    if percent is not None and row.partitions_failed * 100 > percent * row.total_partitions:
        return True
    return row.stop_on_failure and row.failed_chunks + row.cancelled_chunks > 0


def _version_changed(row: BackfillRow) -> Rejected:
    return Rejected(
        f"state_version_changed: the state version of the backfill is now {row.state_version}",
        conflict=True,
    )


def _known(state: State, backfill_id: str) -> BackfillRow:
    row = state.backfills.rows.get(backfill_id)
    if row is None:
        raise Rejected(f"unknown_backfill: there is no backfill {backfill_id}")
    return row


# --- chunks ---------------------------------------------------------------------------------------


def _on_chunk_planned(state: State, event: BackfillChunkPlanned, ctx: Ctx) -> None:
    row = _known(state, event.backfill_id)
    known = state.chunks.rows.get((event.backfill_id, event.chunk_index))
    if known is not None:
        raise _planned_before(known, event)
    _check_turn(state, row, event)
    _check_partitions(row, event)
    run = _run_of(state, event, ctx)
    chunk = BackfillChunkRow(
        backfill_id=event.backfill_id,
        chunk_index=event.chunk_index,
        partition_keys=event.partition_keys,
        run_key=event.run_key,
        run_id=None if run is None else run.run_id,
        request_fingerprint=event.request_fingerprint,
        state=ChunkState.PLANNED if run is None else ChunkState.RUNNING,
        planned_at=state.ts,
        row_version=state.seq,
    )
    state.chunks.put((chunk.backfill_id, chunk.chunk_index), chunk)
    row = replace(
        row,
        planned_chunks=row.planned_chunks + 1,
        active_chunks=row.active_chunks + 1,
        row_version=state.seq,
    )
    state.backfills.put(row.backfill_id, row)
    if run is not None and run.state in TERMINAL_RUN_STATES:
        _settle(state, chunk, outcome_by_run(chunk, run))
    ctx.data["chunk_index"] = chunk.chunk_index


def _planned_before(chunk: BackfillChunkRow, event: BackfillChunkPlanned) -> Rejected | Repeated:
    planned = (chunk.partition_keys, chunk.run_key, chunk.request_fingerprint)
    same = planned == (event.partition_keys, event.run_key, event.request_fingerprint)
    if not same or chunk.run_id is None:  # it has a run from the end of its batch on
        return Rejected(
            f"chunk_already_planned: chunk {chunk.chunk_index} has a different plan", conflict=True
        )
    return Repeated(whole=True, chunk_index=chunk.chunk_index, run_id=chunk.run_id)


def _check_turn(state: State, row: BackfillRow, event: BackfillChunkPlanned) -> None:
    if row.state is not BackfillState.RUNNING:
        raise Rejected(f"backfill_not_running: the backfill is {row.state}", conflict=True)
    if event.expected_state_version != row.state_version:
        raise _version_changed(row)
    if event.chunk_index != row.planned_chunks or event.chunk_index >= row.total_chunks:
        raise Rejected(f"not_the_next_chunk: the next chunk is {row.planned_chunks}")
    if has_failed_enough(row):
        raise Rejected("too_many_failures: the backfill has reached its limit of failures")
    if row.active_chunks >= row.max_concurrent_runs:
        raise Rejected(
            f"too_many_chunks: the backfill already has {row.active_chunks} active runs, which is "
            "its limit"
        )
    if not _has_workspace_slot(state):
        raise Rejected("quota: no free run slot for backfills")


def _has_workspace_slot(state: State) -> bool:
    quota = state.index.workspace_quota
    if quota is None or quota.max_backfill_concurrency is None:
        return True
    rows = state.backfills.rows
    active = sum(rows[key].active_chunks for key in state.index.backfills_open)
    return active < quota.max_backfill_concurrency


def _check_partitions(row: BackfillRow, event: BackfillChunkPlanned) -> None:
    """The chunk must be its slice of the frozen list; of a stored list only the size is known."""
    start = event.chunk_index * row.chunk_size
    stop = min(start + row.chunk_size, row.total_partitions)
    if len(event.partition_keys) != stop - start or (
        row.partition_keys and event.partition_keys != row.partition_keys[start:stop]
    ):
        raise Rejected(
            "not_the_frozen_partitions: the chunk differs from its slice of the partition list"
        )


def _run_of(state: State, event: BackfillChunkPlanned, ctx: Ctx) -> RunRow | None:
    """The run of a chunk if it exists; a rejection if there is none and none is requested.

    A chunk without a run would never end, and one with another request's run would not be notified
    when that ends.
    """
    source = BackfillSource(backfill_id=event.backfill_id, chunk_index=event.chunk_index)
    known = state.run_keys.rows.get(event.run_key)
    if known is None:
        asked = (follower for follower in ctx.batch.events if isinstance(follower, RunRequested))
        if any(run.run_key == event.run_key and run.source == source for run in asked):
            return None
        raise Rejected("chunk_without_run: the same batch must request the run of the chunk")
    run = state.runs.rows.get(known.run_id)
    fits = known.request_fingerprint == event.request_fingerprint
    if run is None or run.source != source or not fits:
        raise Rejected(
            f"run_key_in_use: the run key {event.run_key} belongs to a run of another request",
            conflict=True,
        )
    return run


def _partitions_of_runs(state: State, event: BackfillStateChanged) -> Iterable[tuple[str, object]]:
    """The partitions whose rows note how executions ended that a cancel does not wait for."""
    runs = _active_runs(state, event.backfill_id) if event.force else ()
    return [place for run in runs for place in partitions_running(state, run.run_id)]


def _needs_run_key(event: BackfillChunkPlanned) -> Iterable[tuple[str, object]]:
    return (("run_key_index", event.run_key),)


RULES: Mapping[type[Event], FoldRule] = {
    BackfillCreated: _on_created,
    BackfillChunkPlanned: _on_chunk_planned,
    BackfillStateChanged: _on_state_changed,
}
NEEDS: NeedsTable = {BackfillChunkPlanned: _needs_run_key}
FURTHER_NEEDS: FurtherNeedsTable = {BackfillStateChanged: _partitions_of_runs}
