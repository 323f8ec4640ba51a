"""Bugs in how backfills are planned and counted."""
# ruff: noqa: SLF001 - what is private is exactly what is broken here
# pyright: reportPrivateUsage=false

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from msgspec.structs import replace

from servo.core.events.backfills import BackfillState
from servo.core.fold import backfills
from servo.core.state.state import State
from simulation.planting import Bug, swap


def _any_turn(state: State, row: Any, event: Any) -> None:
    """A chunk is planned whatever state its backfill is in."""
    running = replace(row, state=BackfillState.RUNNING, state_version=event.expected_state_version)
    _check_turn(state, running, event)


_check_turn = backfills._check_turn


def _counted_twice(state: State, run: Any, ctx: Any) -> None:
    """A chunk that has ended is settled again by the end of its run."""
    _on_run_ended(state, run, ctx)
    for chunk in list(state.chunks.rows.values()):
        if chunk.run_id == run.run_id and chunk.failed_partition_keys:
            row = state.backfills.rows[chunk.backfill_id]
            failed = row.partitions_failed + len(chunk.failed_partition_keys)
            state.backfills.put(row.backfill_id, replace(row, partitions_failed=failed))


_on_run_ended = backfills.on_run_ended


def _others_too(state: State, chunk: Any, run: Any) -> Any:
    """A failed task fails its whole chunk, and what succeeded is made again."""
    outcome = _outcome(state, chunk, run)
    return replace(outcome, failed=chunk.partition_keys) if outcome.failed else outcome


_outcome = backfills.outcome_by_tasks


BUGS: Mapping[str, Bug] = MappingProxyType(
    {
        "planned_while_paused": Bug(
            what="a chunk is planned although its backfill is not running",
            plant=swap((backfills, "_check_turn", _any_turn)),
            seed=6,
            world="backfills",
        ),
        "progress_counted_twice": Bug(
            what="the failures of a chunk are counted twice",
            plant=swap((backfills, "on_run_ended", _counted_twice)),
            seed=0,
            world="backfills",
        ),
        "chunk_fails_as_a_whole": Bug(
            what="one failed partition fails its whole chunk",
            plant=swap((backfills, "outcome_by_tasks", _others_too)),
            seed=0,
            world="backfills",
        ),
    }
)
