"""Quarantine: outputs that a blocking check held back until somebody approves or rejects them."""

from collections.abc import Sequence

import msgspec
from msgspec.structs import asdict

from servo.core.events.assets import QuarantineDecided, Severity
from servo.core.events.tasks import Gate
from servo.core.state.rows.assets import CheckResultRow, MaterializationRow
from servo.errors import Conflict, NotFound
from servo.operations.interface.listing import Listing, Page, page_of
from servo.operations.interface.moments import PRESENT, AsOf
from servo.operations.interface.roles import operation
from servo.projection.read.lookup import Lookup
from servo.projection.read.reader import Snapshot
from servo.workspace.receipt import Receipt
from servo.workspace.workspace import Workspace

_HOLDING = (Severity.ERROR, Severity.CRITICAL)
_SEE = "see `servo quarantine list`"


class QuarantinedOutput(MaterializationRow, frozen=True, kw_only=True):
    """An output that waits for a decision, and the failed checks that hold it back."""

    failed_checks: list[CheckResultRow]


class QuarantineDecision(msgspec.Struct, frozen=True, kw_only=True):
    """The decision about an output, and the receipt.

    `is_latest` says whether the output became the latest of its asset or partition; None while the
    request is queued.
    """

    materialization_id: str
    asset_key: str
    partition_key: str | None
    approved: bool
    is_latest: bool | None
    receipt: Receipt


@operation
def list_quarantine(
    workspace: Workspace, page: Page, *, as_of: AsOf | None = None
) -> Listing[QuarantinedOutput]:
    """The outputs that wait for a decision, newest first."""
    return workspace.read(lambda snapshot: quarantined(snapshot, page), as_of=as_of)


@operation
def approve_output(workspace: Workspace, output: str, *, reason: str = "") -> QuarantineDecision:
    """Promote an output: it becomes the latest, unless a newer one was promoted meanwhile."""
    return _decide(workspace, output, approved=True, reason=reason)


@operation
def reject_output(workspace: Workspace, output: str, *, reason: str = "") -> QuarantineDecision:
    """Reject an output: it will never be promoted."""
    return _decide(workspace, output, approved=False, reason=reason)


def _decide(
    workspace: Workspace, output: str, *, approved: bool, reason: str
) -> QuarantineDecision:
    row = workspace.read(lambda snapshot: find_quarantined(snapshot, output), as_of=PRESENT)
    event = QuarantineDecided(
        materialization_id=row.materialization_id,
        approved=approved,
        decided_by=workspace.actor,
        reason=reason,
    )
    receipt = workspace.submit(event).checked()
    return QuarantineDecision(
        materialization_id=row.materialization_id,
        asset_key=row.asset_key,
        partition_key=row.partition_key,
        approved=approved,
        is_latest=None if receipt.queued else bool(receipt.data.get("latest")),
        receipt=receipt,
    )


# --- what a snapshot knows ------------------------------------------------------------------------


def quarantined(snapshot: Snapshot, page: Page) -> Listing[QuarantinedOutput]:
    """A page of the outputs that wait for a decision."""
    lookup = Lookup(snapshot)
    held = [row for row in _ever_held(lookup) if row.decided_at is None]
    held.sort(key=lambda row: row.created_seq, reverse=True)
    shown = page_of(held, page, lambda row: row.materialization_id)
    checks = _failed_checks(lookup, [row.materialization_id for row in shown.items])
    return Listing(
        items=[
            QuarantinedOutput(**asdict(row), failed_checks=checks.get(row.materialization_id, []))
            for row in shown.items
        ],
        next_cursor=shown.next_cursor,
    )


def find_quarantined(snapshot: Snapshot, output: str) -> MaterializationRow:
    """The output in quarantine whose id starts with this text."""
    found = [r for r in _ever_held(Lookup(snapshot)) if r.materialization_id.startswith(output)]
    exact = [row for row in found if row.materialization_id == output]
    waiting = [row for row in exact or found if row.decided_at is None]
    if len(waiting) == 1:
        return waiting[0]
    if waiting:
        raise Conflict(
            f"{output} matches {len(waiting)} outputs in quarantine",
            remedy="use more characters of the id",
        )
    if found:
        done = "approved" if found[0].promoted else "rejected"
        raise Conflict(f"{found[0].materialization_id} was already {done}", remedy=_SEE)
    raise NotFound(f"there is no output {output} in quarantine", remedy=_SEE)


def _ever_held(lookup: Lookup) -> list[MaterializationRow]:
    return lookup.all(MaterializationRow, gating_decision=Gate.QUARANTINED)


def _failed_checks(lookup: Lookup, outputs: Sequence[str]) -> dict[str, list[CheckResultRow]]:
    """The failed checks that are severe enough to hold an output back, by output and name."""
    if not outputs:
        return {}
    found: dict[str, list[CheckResultRow]] = {}
    for row in lookup.any(CheckResultRow, "materialization_id", outputs):
        if not row.passed and row.severity in _HOLDING:
            found.setdefault(row.materialization_id, []).append(row)
    return {name: sorted(rows, key=lambda row: row.check_name) for name, rows in found.items()}
