"""New backfills: preview one, create it, or create one that retries what failed in another."""

from collections.abc import Sequence

import msgspec

from servo.code.backfills.requests import Asked, Choice, Outline, Which, again, created
from servo.code.evaluator.messages import (
    BackfillPlanned,
    PlanBackfill,
)
from servo.core.events.backfills import DEFAULT_CONCURRENT_RUNS, BackfillCreated
from servo.core.ids import check_text
from servo.core.state.rows.automation import BackfillRow
from servo.core.tags import request_tags
from servo.errors import Conflict
from servo.operations.backfills import present_backfill
from servo.operations.interface.evaluating import Evaluates, answer_from
from servo.operations.interface.moments import PRESENT
from servo.operations.interface.roles import operation, step
from servo.projection.read.lookup import Lookup
from servo.projection.read.reader import Snapshot
from servo.workspace.receipt import Receipt
from servo.workspace.workspace import Workspace

__all__ = [
    "DEFAULT_CONCURRENT_RUNS",
    "Asked",
    "BackfillBegun",
    "BackfillPreview",
    "Choice",
    "Which",
    "begin_backfill",
    "check_request",
    "create_backfill",
    "new_retry",
    "prepare_backfill",
    "preview_backfill",
    "retry_backfill",
]


class BackfillPreview(msgspec.Struct, frozen=True, kw_only=True):
    """What a backfill will do: its partitions, their present state, and the runs it will have.

    `typed` are the partitions as they are stored. With `linked` its runs run one after another,
    because later partitions depend on earlier ones.
    """

    assets: tuple[str, ...]
    partitions: tuple[str, ...]
    typed: tuple[str, ...]
    chunk_size: int
    chunks: int
    concurrency: int
    linked: bool
    materialized: int
    missing: int
    failed: int


class BackfillBegun(msgspec.Struct, frozen=True, kw_only=True):
    """A backfill that was created, its size, and the receipt."""

    backfill_id: str
    partitions: int
    runs: int
    receipt: Receipt


@operation
def preview_backfill(
    workspace: Workspace, evaluates: Evaluates, asked: Asked, select: Sequence[str] = ()
) -> BackfillPreview:
    """Preview a backfill. Without a selection, it covers every asset that has partitions."""
    del workspace  # the evaluator reads it
    found = _outline(evaluates, with_tags(asked), select)
    return BackfillPreview(chunks=found.chunks, **msgspec.structs.asdict(found))


@operation
def create_backfill(
    workspace: Workspace, evaluates: Evaluates, asked: Asked, select: Sequence[str] = ()
) -> BackfillBegun | None:
    """Create a backfill; None if there is nothing to do. The leader starts its runs."""
    event = prepare_backfill(workspace, evaluates, asked, select)
    return None if event is None else begin_backfill(workspace, event)


@operation
def retry_backfill(
    workspace: Workspace, backfill_id: str, *, request_id: str | None = None
) -> BackfillBegun:
    """Create a backfill of the partitions of another that failed."""
    return begin_backfill(workspace, new_retry(workspace, backfill_id, request_id=request_id))


# --- in steps, for whoever also waits -------------------------------------------------------------


@step
def prepare_backfill(
    workspace: Workspace, evaluates: Evaluates, asked: Asked, select: Sequence[str] = ()
) -> BackfillCreated | None:
    """The event that creates a backfill, None if there is nothing to do; stores a long list."""
    asked = with_tags(asked)
    found = _outline(evaluates, asked, select)
    return created(workspace.store, workspace.paths, asked, found) if found.typed else None


def with_tags(asked: Asked) -> Asked:
    """The request with the tags that its backfill will have."""
    tags = request_tags(asked.labels, defaults=asked.default_tags, location=asked.location)
    return msgspec.structs.replace(asked, labels=tags, default_tags={})


@step
def new_retry(
    workspace: Workspace, backfill_id: str, *, request_id: str | None = None
) -> BackfillCreated:
    """The event that creates a backfill of the partitions that failed in another one."""
    found = present_backfill(workspace, backfill_id)
    if found.row.finished_at is None:
        raise Conflict(
            f"{found.row.backfill_id} has not finished",
            remedy=f"wait for it with `servo backfill wait {found.row.backfill_id}`, "
            "or cancel it first",
        )
    name = workspace.token() if request_id is None else check_text(request_id, "request id")
    return again(workspace.store, workspace.paths, found.row, found.failed(), name)


@step
def begin_backfill(workspace: Workspace, event: BackfillCreated) -> BackfillBegun:
    """Submit the event that creates a backfill."""
    check_request(workspace, event)
    parent = event.parent_backfill_id
    cause = None if parent is None else present_backfill(workspace, parent).row
    receipt = workspace.submit(event, cause=cause).checked()
    return BackfillBegun(
        backfill_id=event.backfill_id,
        partitions=event.total_partitions,
        runs=-(-event.total_partitions // event.chunk_size),
        receipt=receipt,
    )


@step
def check_request(workspace: Workspace, event: BackfillCreated) -> None:
    """`Conflict` if the idempotency key was used for something else."""

    def known(snapshot: Snapshot) -> list[BackfillRow]:
        return Lookup(snapshot).all(BackfillRow, backfill_id=event.backfill_id)

    for row in workspace.read(known, as_of=PRESENT):
        if row.request_fingerprint != event.request_fingerprint:
            raise Conflict(
                f"the request id {event.client_request_id!r} was used for {row.backfill_id}, "
                "with other options",
                remedy="use another request id, or none",
            )


def _outline(evaluates: Evaluates, asked: Asked, select: Sequence[str]) -> Outline:
    question = PlanBackfill(asked=asked, select=tuple(select))
    return answer_from(evaluates, question, BackfillPlanned).outline
