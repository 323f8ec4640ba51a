"""What became of the partitions of a backfill's chunk, judged by the tasks of its run.

A partition has succeeded if all of its tasks have, and is to be tried again if one of them failed,
was cancelled or never came into being. A partition is skipped if user code chose to skip it. A
skip that was only handed down counts as the failure it came from, unless the run had none.
"""

from enum import IntEnum

import msgspec

from servo.core.state.rows.automation import BackfillChunkRow
from servo.core.state.rows.execution import RunRow, TaskRow
from servo.core.state.state import State
from servo.core.state.states import ChunkState, RunState, TaskState, TransitionReason


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How a chunk ended: its state, its failed partitions, and how many were skipped."""

    state: ChunkState
    failed: tuple[str, ...] = ()
    skipped: int = 0


class _Fate(IntEnum):
    """What a task means for its partition; of several the greatest decides."""

    SUCCEEDED = 0
    SKIP_HANDED_DOWN = 1
    SKIP_CHOSEN = 2
    FAILED = 3


def outcome_by_tasks(state: State, chunk: BackfillChunkRow, run: RunRow) -> Outcome:
    """The outcome of a chunk whose run has just ended."""
    fates = _fates(state, run)
    failed: list[str] = []
    skipped = 0
    for key in chunk.partition_keys:
        fate = fates.get(key)
        if _is_failed(fate, run):
            failed.append(key)
        elif fate:
            skipped += 1
    return Outcome(state=_chunk_state(run), failed=tuple(failed), skipped=skipped)


def outcome_by_run(chunk: BackfillChunkRow, run: RunRow) -> Outcome:
    """The outcome of a chunk whose run ended before it: the tasks may have left memory."""
    failed = () if run.state is RunState.SUCCEEDED else chunk.partition_keys
    return Outcome(state=_chunk_state(run), failed=failed)


def _fates(state: State, run: RunRow) -> dict[str | None, _Fate]:
    """The fate of each partition a run has tasks for, as far as it is known.

    Tasks of a large plan that were never made stand in no row; then no partition is complete.
    """
    names = state.index.run_tasks.get(run.run_id, {})
    if len(names) < run.task_count:
        return {}
    fates: dict[str | None, _Fate] = {}
    for name in names:
        task = state.tasks.rows[run.run_id, name]
        for key in (task.partition_key, *task.also_partitions):
            fates[key] = max(_fate(task), fates.get(key, _Fate.SUCCEEDED))
    return fates


def _fate(task: TaskRow) -> _Fate:
    if task.state is TaskState.SUCCEEDED:
        return _Fate.SUCCEEDED
    if task.state is not TaskState.SKIPPED:
        return _Fate.FAILED
    chosen = task.reason is TransitionReason.EXECUTION_SKIPPED
    return _Fate.SKIP_CHOSEN if chosen else _Fate.SKIP_HANDED_DOWN


def _is_failed(fate: _Fate | None, run: RunRow) -> bool:
    if fate is None or fate is _Fate.SKIP_HANDED_DOWN:
        return run.state is not RunState.SUCCEEDED
    return fate is _Fate.FAILED


def _chunk_state(run: RunRow) -> ChunkState:
    if run.state is RunState.SUCCEEDED:
        return ChunkState.SUCCEEDED
    return ChunkState.CANCELLED if run.state is RunState.CANCELLED else ChunkState.FAILED
