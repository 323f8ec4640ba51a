"""Receipts: the outcome of a request to a workspace.

Every request ends in one of these: applied, refused with the fold's reason, or queued because no
leader processed it in time. "Unknown" is not among them: a request with an unknown outcome
raises `Unavailable` with `may_have_applied`.
"""

from enum import StrEnum

import msgspec

from servo.core.events.envelope import Answer, Status
from servo.errors import Conflict

_REFRESH = "check the current state, correct the request and send it again"
_QUOTA = "request less, retry later, or raise the limit with `servo admin quota`"


class ReceiptStatus(StrEnum):
    """How a request ended."""

    APPLIED = "applied"
    REJECTED = "rejected"
    CONFLICT = "conflict"
    PARKED = "parked"
    QUARANTINED = "quarantined"
    QUEUED = "queued"


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to one request.

    `seq` is the ledger entry that holds it, or that the refusal was decided on; 0 while it is
    queued. `data` holds what the caller needs to go on, such as a run id. `repeated` says that the
    same request was applied before, and that this is the answer given then. `accepted_event_id` is
    the position of its first event (`servo.core.positions`), empty if it is not in the ledger.
    """

    status: ReceiptStatus
    request_id: str
    seq: int = 0
    reason: str = ""
    data: dict[str, str | int] = {}
    repeated: bool = False
    accepted_event_id: str = ""

    @property
    def applied(self) -> bool:
        return self.status is ReceiptStatus.APPLIED

    @property
    def queued(self) -> bool:
        return self.status is ReceiptStatus.QUEUED

    def checked(self) -> "Receipt":
        """This receipt, if the request was applied or is queued; `Conflict` if it was refused."""
        if self.applied or self.queued:
            return self
        raise Conflict(
            f"the workspace refused the request: {self.reason or self.status.value}",
            remedy=_QUOTA if self.reason.startswith("quota:") else _REFRESH,
        )


def receipt_of(request_id: str, answer: Answer) -> Receipt:
    """The receipt for the fold's answer."""
    return Receipt(
        status=_STATUS[answer.status],
        request_id=request_id,
        seq=answer.seq,
        reason=answer.reason,
        data=dict(answer.data),
        repeated=answer.repeated,
        accepted_event_id="" if answer.position is None else str(answer.position),
    )


def queued(request_id: str, reason: str) -> Receipt:
    """The receipt for a request that waits in the inbox for a leader."""
    return Receipt(status=ReceiptStatus.QUEUED, request_id=request_id, reason=reason)


_STATUS = {
    Status.APPLIED: ReceiptStatus.APPLIED,
    Status.REJECTED: ReceiptStatus.REJECTED,
    Status.CONFLICT: ReceiptStatus.CONFLICT,
    Status.PARKED: ReceiptStatus.PARKED,
    Status.QUARANTINED: ReceiptStatus.QUARANTINED,
}
