"""A backfill with its chunks and their runs, as the leader or a reader sees it."""

from collections.abc import Sequence
from enum import StrEnum

import msgspec

from servo.core.events.backfills import BackfillState
from servo.core.state.rows.automation import BackfillChunkRow, BackfillRow
from servo.core.state.rows.execution import RunRow, TaskRow
from servo.core.state.state import State
from servo.core.state.states import ChunkState, TaskState
from servo.projection.read.lookup import Lookup
from servo.projection.read.reader import Snapshot


class BackfillStatus(StrEnum):
    """The status of a backfill for people: its state, and whether a paused one has failures."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    PAUSED_WITH_FAILURES = "PAUSED_WITH_FAILURES"
    CANCELLING = "CANCELLING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


class ShownBackfill(BackfillRow, frozen=True, kw_only=True):
    """The row of a backfill with its status."""

    status: BackfillStatus


def status_of(row: BackfillRow) -> BackfillStatus:
    """The status of a backfill. Failures do not end a paused one, but must not be hidden."""
    if row.state is BackfillState.PAUSED and (row.failed_chunks or row.partitions_failed):
        return BackfillStatus.PAUSED_WITH_FAILURES
    return BackfillStatus(row.state.value)


def shown(row: BackfillRow) -> ShownBackfill:
    """A backfill as listings show it."""
    return ShownBackfill(**msgspec.structs.asdict(row), status=status_of(row))


class Backfill(msgspec.Struct, frozen=True, kw_only=True):
    """A backfill with its chunks and their runs, in order."""

    row: BackfillRow
    chunks: Sequence[BackfillChunkRow]
    runs: dict[str, RunRow]

    def failed(self) -> list[str]:
        """The partitions that failed, in order."""
        return [key for chunk in self.chunks for key in chunk.failed_partition_keys]

    def done(self) -> int:
        """How many partitions have ended; for active chunks, estimated from their tasks."""
        row = self.row
        over = row.partitions_succeeded + row.partitions_failed + row.partitions_skipped
        return over + sum(self._done_of(chunk) for chunk in self.chunks)

    def _done_of(self, chunk: BackfillChunkRow) -> int:
        run = self.runs.get(chunk.run_id or "")
        if chunk.state is not ChunkState.RUNNING or run is None or not run.task_count:
            return 0
        ended = run.tasks_succeeded + run.tasks_failed + run.tasks_skipped + run.tasks_cancelled
        return len(chunk.partition_keys) * ended // run.task_count


def in_state(state: State, name: str) -> Backfill | None:
    """A backfill of a workspace that this process leads, with the chunks that matter now.

    While it runs, these are the active chunks, however many have ended.
    """
    row = state.backfills.rows.get(name)
    if row is None:
        return None
    numbers = list(state.index.chunks.get(name, ()))
    chunks = [state.chunks.rows[name, number] for number in numbers]
    if row.finished_at is None:
        chunks = [chunk for chunk in chunks if chunk.finished_at is None]
    runs = [state.runs.rows.get(chunk.run_id or "") for chunk in chunks]
    return Backfill(row=row, chunks=chunks, runs={run.run_id: run for run in runs if run})


def in_tables(tables: Snapshot, row: BackfillRow) -> Backfill:
    """A backfill as it was published."""
    lookup = Lookup(tables)
    chunks = lookup.all(BackfillChunkRow, backfill_id=row.backfill_id)
    names = [chunk.run_id for chunk in chunks if chunk.run_id is not None]
    return Backfill(
        row=row,
        chunks=sorted(chunks, key=lambda chunk: chunk.chunk_index),
        runs={run.run_id: run for run in lookup.any(RunRow, "run_id", names)},
    )


def partition_states(tables: Snapshot, found: Backfill, keys: Sequence[str]) -> dict[str, str]:
    """The state of each partition of a backfill, in order."""
    states = dict.fromkeys(keys, "waiting")
    open_runs: list[str] = []
    for chunk in found.chunks:
        if chunk.finished_at is None:
            open_runs += [chunk.run_id] if chunk.run_id is not None else []
            states |= dict.fromkeys(chunk.partition_keys, "planned")
        else:
            states |= dict.fromkeys(chunk.partition_keys, "succeeded")
            states |= dict.fromkeys(chunk.failed_partition_keys, "failed")
    for task in Lookup(tables).any(TaskRow, "run_id", open_runs) if open_runs else ():
        if (key := task.partition_key) in states:
            states[key] = _with(states[key], task.state)
    return states


def _with(known: str, state: TaskState) -> str:
    """The most informative of several task states of a partition."""
    if known == "failed" or state is TaskState.FAILED:
        return "failed"
    begun = state not in (TaskState.PLANNED, TaskState.BLOCKED, TaskState.READY)
    return "running" if begun else known
