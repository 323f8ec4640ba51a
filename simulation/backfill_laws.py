"""Laws of backfills, checked against the ledger itself, not against its counters."""

from collections import Counter

from servo.core.events.backfills import BackfillState
from servo.core.state.rows.automation import BackfillChunkRow, BackfillRow
from servo.core.state.state import State
from servo.core.state.states import ChunkState, TaskState, TransitionReason
from simulation.kernel import Violation

Seen = dict[str, tuple[BackfillState, int]]
_OVER = (ChunkState.SUCCEEDED, ChunkState.FAILED, ChunkState.CANCELLED)


def seen(state: State) -> Seen:
    """How far each open backfill is planned, to be held against what comes next."""
    rows = state.backfills.rows
    return {name: (rows[name].state, rows[name].planned_chunks) for name in rows}


def check_planned(state: State, before: Seen) -> None:
    """No chunk is planned of a backfill that did not run, or beyond what may run at once."""
    for row in state.backfills.rows.values():
        was, planned = before.get(row.backfill_id, (row.state, 0))
        asleep = BackfillState.RUNNING not in (was, row.state) and was is row.state
        if row.planned_chunks > planned and asleep:
            raise Violation(
                f"a chunk of {row.backfill_id} was planned while the backfill is {row.state}"
            )
        if row.active_chunks > row.max_concurrent_runs:
            raise Violation(f"{row.backfill_id} has {row.active_chunks} runs at once")


def check_ended(state: State) -> None:
    """Every backfill has counted what there is, and made what it says."""
    for row in state.backfills.rows.values():
        chunks = [c for c in state.chunks.rows.values() if c.backfill_id == row.backfill_id]
        _check_chunks(row, chunks)
        _check_counts(state, row, chunks)
        _check_child(state, row)


def _check_chunks(row: BackfillRow, chunks: list[BackfillChunkRow]) -> None:
    numbers = sorted(chunk.chunk_index for chunk in chunks)
    if numbers != list(range(row.planned_chunks)):
        raise Violation(f"{row.backfill_id} has planned {row.planned_chunks} chunks: {numbers}")
    listed = [key for chunk in chunks for key in chunk.partition_keys]
    if Counter(listed) - Counter(row.partition_keys):
        raise Violation(
            f"{row.backfill_id} materializes a partition twice, or one that it does not have"
        )
    if any(chunk.state not in _OVER for chunk in chunks):
        raise Violation(f"{row.backfill_id} has ended, but one of its chunks has not")


def _check_counts(state: State, row: BackfillRow, chunks: list[BackfillChunkRow]) -> None:
    by_state = Counter(chunk.state for chunk in chunks)
    counted = (row.completed_chunks, row.failed_chunks, row.cancelled_chunks, row.active_chunks)
    if counted != (*(by_state[kind] for kind in _OVER), 0):
        raise Violation(f"{row.backfill_id} counts chunks {counted}, but there are {by_state}")
    fates = Counter(_fate(state, chunk, key) for chunk in chunks for key in chunk.partition_keys)
    told = (row.partitions_succeeded, row.partitions_failed, row.partitions_skipped)
    found = (fates["succeeded"], fates["failed"], fates["skipped"])
    if told != found:
        raise Violation(f"{row.backfill_id} counts partitions {told}, but there are {found}")
    if row.state is BackfillState.SUCCEEDED and fates["failed"]:
        raise Violation(f"{row.backfill_id} succeeded, but {fates['failed']} partitions failed")


def _fate(state: State, chunk: BackfillChunkRow, key: str) -> str:
    """The outcome of a partition, by the tasks of the chunk's run."""
    tasks = [
        row
        for row in state.tasks.rows.values()
        if row.run_id == chunk.run_id and row.partition_key == key
    ]
    if tasks and all(row.state is TaskState.SUCCEEDED for row in tasks):
        return "succeeded"
    chosen = [row for row in tasks if row.reason is TransitionReason.EXECUTION_SKIPPED]
    if chosen and all(row.state in (TaskState.SUCCEEDED, TaskState.SKIPPED) for row in tasks):
        return "skipped"
    return "failed"


def _check_child(state: State, row: BackfillRow) -> None:
    if row.parent_backfill_id is None:
        return
    chunks = state.chunks.rows.values()
    mine = [chunk for chunk in chunks if chunk.backfill_id == row.parent_backfill_id]
    failed = [key for chunk in mine for key in chunk.failed_partition_keys]
    if sorted(failed) != sorted(row.partition_keys):
        raise Violation(f"{row.backfill_id} retries other partitions than those that failed")
