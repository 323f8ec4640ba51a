"""Backfills: list them, show one, pause, resume and cancel it."""

import msgspec

from servo.code.backfills.chunks import frozen_partitions
from servo.code.backfills.view import (
    Backfill,
    ShownBackfill,
    in_tables,
    partition_states,
    shown,
)
from servo.core.events.backfills import BackfillState, BackfillStateChanged
from servo.core.partitions import shown_partition
from servo.core.state.rows.automation import BackfillChunkRow, BackfillRow
from servo.core.state.states import RunState
from servo.errors import Conflict, NotFound
from servo.operations.interface.listing import Listing, Page
from servo.operations.interface.moments import PRESENT, AsOf
from servo.operations.interface.roles import operation, step
from servo.operations.runs import RunDetail
from servo.projection.read.lookup import Lookup
from servo.projection.read.reader import Snapshot
from servo.workspace.receipt import Receipt
from servo.workspace.workspace import Workspace


class BackfillDetail(msgspec.Struct, frozen=True, kw_only=True):
    """A backfill, its chunks, the state of each partition, and the errors of its runs by run id."""

    backfill: ShownBackfill
    chunks: list[BackfillChunkRow]
    partitions: dict[str, str]
    errors: dict[str, str]


class BackfillFinished(msgspec.Struct, frozen=True, kw_only=True):
    """A backfill that somebody waited for, and the partitions that failed."""

    backfill: ShownBackfill
    failed: list[str]


class Resumed(Listing[RunDetail], frozen=True, kw_only=True):
    """Interrupted runs that were finished, and backfills that were waited for.

    A backfill that is paused stays paused, and is listed as such.
    """

    backfills: list[BackfillFinished]


class BackfillChanged(msgspec.Struct, frozen=True, kw_only=True):
    """A backfill that was paused, resumed or cancelled, and the receipt."""

    backfill: ShownBackfill
    receipt: Receipt


# --- reading --------------------------------------------------------------------------------------


@operation
def list_backfills(
    workspace: Workspace, page: Page, *, as_of: AsOf | None = None
) -> Listing[ShownBackfill]:
    """The newest backfills."""
    return workspace.read(lambda snapshot: newest_backfills(snapshot, page), as_of=as_of)


@operation
def get_backfill(
    workspace: Workspace, backfill_id: str, *, as_of: AsOf | None = None
) -> BackfillDetail:
    """One backfill with its chunks and partitions; the beginning of its id is enough."""

    def detail(snapshot: Snapshot) -> BackfillDetail:
        found = find_backfill(snapshot, backfill_id)
        keys = frozen_partitions(workspace.store, workspace.paths, found.row)
        states = partition_states(snapshot, found, keys)
        return BackfillDetail(
            backfill=shown(found.row),
            chunks=list(found.chunks),
            partitions={shown_partition(key) or "": state for key, state in states.items()},
            errors=errors_of(found),
        )

    return workspace.read(detail, as_of=as_of)


@step
def present_backfill(workspace: Workspace, backfill_id: str) -> Backfill:
    """A backfill as it is at the end of the ledger."""
    return workspace.read(lambda snapshot: find_backfill(snapshot, backfill_id), as_of=PRESENT)


# --- changing -------------------------------------------------------------------------------------


@operation
def pause_backfill(workspace: Workspace, backfill_id: str) -> BackfillChanged:
    """Pause a backfill: it starts no more runs, and running ones finish."""
    return _change(workspace, backfill_id, BackfillState.PAUSED)


@operation
def resume_backfill(workspace: Workspace, backfill_id: str) -> BackfillChanged:
    """Resume a paused backfill."""
    return _change(workspace, backfill_id, BackfillState.RUNNING)


@operation
def cancel_backfill(
    workspace: Workspace, backfill_id: str, *, force: bool = False
) -> BackfillChanged:
    """Cancel a backfill: it starts no more runs, and its running ones are cancelled.

    With `force` its runs end at once, even if workers do not respond.
    """
    return _change(workspace, backfill_id, BackfillState.CANCELLING, force=force)


_FROM = {
    BackfillState.PAUSED: (BackfillState.RUNNING,),
    BackfillState.RUNNING: (BackfillState.PAUSED,),
    BackfillState.CANCELLING: (BackfillState.RUNNING, BackfillState.PAUSED),
}
_DONE = {
    BackfillState.PAUSED: "paused",
    BackfillState.RUNNING: "resumed",
    BackfillState.CANCELLING: "cancelled",
}


def _change(
    workspace: Workspace, backfill_id: str, to: BackfillState, *, force: bool = False
) -> BackfillChanged:
    row = present_backfill(workspace, backfill_id).row
    if row.state not in _FROM[to] and not (force and row.state is to):
        raise Conflict(f"{row.backfill_id} is {row.state.value}", remedy=_remedy(row, to))
    event = BackfillStateChanged(
        backfill_id=row.backfill_id,
        to_state=to,
        expected_state_version=row.state_version,
        changed_by=workspace.actor,
        force=force,
    )
    receipt = workspace.submit(event).checked()
    if receipt.queued:
        return BackfillChanged(backfill=shown(row), receipt=receipt)
    changed = workspace.read(
        lambda snapshot: find_backfill(snapshot, row.backfill_id), min_seq=receipt.seq
    )
    return BackfillChanged(backfill=shown(changed.row), receipt=receipt)


def _remedy(row: BackfillRow, to: BackfillState) -> str:
    if row.state is to is BackfillState.CANCELLING:
        return "wait for its runs to stop, or end them at once with `servo backfill cancel --force`"
    allowed = " or ".join(state.value for state in _FROM[to])
    return f"only a backfill that is {allowed} can be {_DONE[to]}"


# --- what a snapshot knows ------------------------------------------------------------------------


def newest_backfills(snapshot: Snapshot, page: Page) -> Listing[ShownBackfill]:
    """A page of backfills, newest first."""
    found = Lookup(snapshot).page(BackfillRow, page, name="backfill_id", newest=("created_at",))
    return Listing(items=[shown(row) for row in found.rows], next_cursor=found.older)


def find_backfill(snapshot: Snapshot, backfill_id: str) -> Backfill:
    """The backfill whose id starts with this text."""
    found = Lookup(snapshot).beginning(BackfillRow, "backfill_id", backfill_id)
    exact = [row for row in found if row.backfill_id == backfill_id]
    if not found:
        raise NotFound(f"there is no backfill {backfill_id}", remedy="see `servo backfill list`")
    if len(found) > 1 and not exact:
        raise Conflict(
            f"{backfill_id} matches {len(found)} backfills", remedy="use more characters of the id"
        )
    return in_tables(snapshot, (exact or found)[0])


def is_idle(row: BackfillRow) -> bool:
    """Whether a backfill has finished, or is paused and none of its runs is active."""
    paused = row.state is BackfillState.PAUSED and not row.active_chunks
    return row.finished_at is not None or paused


def finished(found: Backfill) -> BackfillFinished:
    """How a backfill ended."""
    failed = [shown_partition(key) or "" for key in found.failed()]
    return BackfillFinished(backfill=shown(found.row), failed=failed)


def errors_of(found: Backfill) -> dict[str, str]:
    """Why runs of a backfill failed, by run id."""
    return {
        name: run.error
        for name, run in found.runs.items()
        if run.error and run.state is not RunState.SUCCEEDED
    }
