"""Choose the chunks of backfills to plan next.

A running backfill gets as many runs as it may have at once, within the limit of the workspace for
all backfills; backfills with a higher priority come first, then older ones. The chunks of a
backfill are planned in order and without gaps, so the next ones always start at the smallest
missing chunk. Chunks that were sent but are not folded yet count as planned, so asking twice
returns nothing the second time.
"""

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from servo.core.events.backfills import BackfillState
from servo.core.fold.backfills import has_failed_enough
from servo.core.locations import HasLocation, any_location
from servo.core.state.rows.automation import BackfillRow
from servo.core.state.state import State

NOTHING_SENT: Mapping[str, int] = MappingProxyType({})


class NextChunks(msgspec.Struct, frozen=True, kw_only=True):
    """The chunks of a backfill that may be planned now, from `first` to before `stop`."""

    backfill: BackfillRow
    first: int
    stop: int


def reconcile(
    state: State, sent: Mapping[str, int] = NOTHING_SENT, has: HasLocation = any_location
) -> list[NextChunks]:
    """The chunks that may be planned now, most urgent first.

    `sent` returns the chunk of a backfill up to which, not included, everything was sent. A
    backfill whose code is not available here gets nothing, and takes no slot from another.
    """
    rows = [state.backfills.rows[key] for key in list(state.index.backfills_open)]
    left = _workspace_slots(state, rows, sent)
    found: list[NextChunks] = []
    for row in sorted((row for row in rows if has(row.location)), key=_urgency):
        first = _first(row, sent)
        count = min(_free(row, first), left)
        if count > 0:
            found.append(NextChunks(backfill=row, first=first, stop=first + count))
            left -= count
    return found


def ahead(row: BackfillRow, first: int, count: int) -> range:
    """The chunks from `first` on that will be planned next, at most `count`."""
    if row.state is not BackfillState.RUNNING or has_failed_enough(row):
        return range(0)
    return range(first, min(first + count, row.total_chunks))


def chunk_slice(row: BackfillRow, index: int) -> slice:
    """The slice of the frozen partition list for a chunk."""
    start = index * row.chunk_size
    return slice(start, min(start + row.chunk_size, row.total_partitions))


def _urgency(row: BackfillRow) -> tuple[int, object, str]:
    return (-row.priority, row.created_at, row.backfill_id)


def _first(row: BackfillRow, sent: Mapping[str, int]) -> int:
    """The first chunk of a backfill that is neither planned nor sent."""
    return max(row.planned_chunks, sent.get(row.backfill_id, 0))


def _active(row: BackfillRow, first: int) -> int:
    return row.active_chunks + first - row.planned_chunks


def _free(row: BackfillRow, first: int) -> int:
    """How many more chunks a backfill may have."""
    slots = row.max_concurrent_runs - _active(row, first)
    return min(slots, len(ahead(row, first, slots)))


def _workspace_slots(state: State, rows: list[BackfillRow], sent: Mapping[str, int]) -> int:
    """How many more chunks all backfills together may have."""
    quota = state.index.workspace_quota
    if quota is None or quota.max_backfill_concurrency is None:
        return sum(row.max_concurrent_runs for row in rows)
    active = sum(_active(row, _first(row, sent)) for row in rows)
    return quota.max_backfill_concurrency - active
