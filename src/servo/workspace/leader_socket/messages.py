"""The messages between a leader and its clients over a unix socket.

Messages are framed MessagePack (see `servo.processes.frames`). A batch goes in as the bytes that
the ledger would hold; the fold's answer comes back once it is durable. A question goes in as it
would go to an evaluator of user code, and the leader's evaluators answer it: the client needs no
user code.
"""

import msgspec

from servo.core.events.envelope import Answer
from servo.errors import (
    Conflict,
    Corrupt,
    Fenced,
    Internal,
    Invalid,
    NeedsUpgrade,
    NotFound,
    ServoError,
    Unavailable,
)
from servo.workspace.leader_connection import (
    AnswerOverdue,
    AskCode,
    LeaderNotReady,
    LeadsAnotherStore,
)

RECEIVE_BYTES = 1 << 16


class SubmitBatch(msgspec.Struct, frozen=True, kw_only=True, tag="submit"):
    """Commit this batch, encoded as in the ledger.

    `lease` is the holder that the lease in the caller's store names; None if it has no leases.
    """

    batch: bytes
    timeout_ms: int = 30_000
    lease: str | None = None


class Ping(msgspec.Struct, frozen=True, kw_only=True, tag="ping"):
    """Is anybody there?"""


class Answered(msgspec.Struct, frozen=True, kw_only=True, tag="answered"):
    """The fold's answer, durable."""

    answer: Answer


class CodeAnswered(msgspec.Struct, frozen=True, kw_only=True, tag="code"):
    """What the evaluator answered."""

    answer: bytes


class Failed(msgspec.Struct, frozen=True, kw_only=True, tag="failed"):
    """The request was not accepted, or its outcome is unknown."""

    kind: str
    message: str
    remedy: str = ""
    may_have_applied: bool = True


class Pong(msgspec.Struct, frozen=True, kw_only=True, tag="pong"):
    """Somebody is there."""

    pid: int


ToLeader = SubmitBatch | AskCode | Ping
FromLeader = Answered | CodeAnswered | Failed | Pong

encoder = msgspec.msgpack.Encoder()
to_leader = msgspec.msgpack.Decoder(ToLeader)
from_leader = msgspec.msgpack.Decoder(FromLeader)


_KINDS: dict[str, type[ServoError]] = {
    kind.__name__: kind
    for kind in (Invalid, NotFound, Conflict, Fenced, Unavailable, Corrupt, NeedsUpgrade, Internal)
}


def failed_with(error: ServoError) -> Failed:
    """An error as it is sent."""
    may = error.may_have_applied if isinstance(error, Unavailable) else False
    kind = Unavailable if isinstance(error, AnswerOverdue) else type(error)
    return Failed(
        kind=kind.__name__,
        message=error.message,
        remedy=error.remedy,
        may_have_applied=may,
    )


def raised_by(failed: Failed) -> ServoError:
    """The error that was sent."""
    for kind in (LeaderNotReady, LeadsAnotherStore):
        if failed.kind == kind.__name__:
            return kind()
    kind = _KINDS.get(failed.kind, Internal)
    if kind is Unavailable:
        return Unavailable(
            failed.message, remedy=failed.remedy, may_have_applied=failed.may_have_applied
        )
    return kind(failed.message, remedy=failed.remedy)
