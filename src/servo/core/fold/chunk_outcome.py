"""The outcome of the partitions of a backfill chunk, derived from the tasks of its run.

A partition succeeded if all of its tasks did, and has to be retried if one of them failed, was
cancelled or was never created. A partition is skipped if user code chose to skip it. A skip that
was only passed down counts as the failure it came from, unless the run had none.

A run may also materialize assets with other partitions, or none, such as the month of its days. If
such a task fails, the partitions that it depends on have to be retried, or all if there are none.
"""

from enum import IntEnum

import msgspec

from servo.core.state.rows.automation import BackfillChunkRow
from servo.core.state.rows.execution import RunRow, TaskRow
from servo.core.state.state import State
from servo.core.state.states import ChunkState, RunState, TaskState, TransitionReason


class ChunkOutcome(msgspec.Struct, frozen=True, kw_only=True):
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


FAILED = _Fate.FAILED


def outcome_by_tasks(state: State, chunk: BackfillChunkRow, run: RunRow) -> ChunkOutcome:
    """The outcome of a chunk whose run has just ended."""
    fates = _fates(state, run)
    _blame(state, chunk, run, fates)
    failed: list[str] = []
    skipped = 0
    for key in chunk.partition_keys:
        fate = fates.get(key)
        if _is_failed(fate, run):
            failed.append(key)
        elif fate:
            skipped += 1
    return ChunkOutcome(state=_chunk_state(run), failed=tuple(failed), skipped=skipped)


def outcome_by_run(chunk: BackfillChunkRow, run: RunRow) -> ChunkOutcome:
    """The outcome of a chunk whose run ended before it: the tasks may have left memory."""
    failed = () if run.state is RunState.SUCCEEDED else chunk.partition_keys
    return ChunkOutcome(state=_chunk_state(run), failed=failed)


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


def _blame(
    state: State, chunk: BackfillChunkRow, run: RunRow, fates: dict[str | None, _Fate]
) -> None:
    """Let the failure of what is none of the chunk's partitions be that of some that are."""
    if run.state is RunState.SUCCEEDED or FAILED not in fates.values():
        return
    own = dict.fromkeys(chunk.partition_keys)
    tasks = state.tasks.rows
    names = state.index.run_tasks.get(run.run_id, {})
    for name in names:
        task = tasks[run.run_id, name]
        if _fate(task) is not FAILED or _partitions(task, own):
            continue
        above = [tasks[run.run_id, up] for up in _made_from(state, run.run_id, name)]
        for key in [key for up in above for key in _partitions(up, own)] or own:
            fates[key] = FAILED


def _partitions(task: TaskRow, own: dict[str, None]) -> list[str]:
    """The partitions of a task that are the chunk's."""
    return [key for key in (task.partition_key, *task.also_partitions) if key in own]


def _made_from(state: State, run_id: str, name: str) -> dict[str, None]:
    """Every task of a run that a task waited for, and those that these waited for."""
    above: dict[str, list[str]] = {}
    for _, up, down in state.index.run_edges.get(run_id, {}):
        above.setdefault(down, []).append(up)
    found: dict[str, None] = {}
    todo = [name]
    while todo:
        for up in above.get(todo.pop(), ()):
            if up not in found:
                found[up] = None
                todo.append(up)
    return found


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
