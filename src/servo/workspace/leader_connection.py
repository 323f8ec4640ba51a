"""What every transport to a leader offers, and how a request to it can fail.

A transport is a class with these methods and its line in `servo.workspace.connecting`. Whatever it
runs over, a request has one of four ends: its answer, the error that the leader raised,
`LeaderNotReady` if nothing was applied, and `AnswerOverdue` if nobody knows.
"""

from typing import Protocol, Self

import msgspec

from servo.core.events.envelope import Answer, Batch
from servo.errors import Unavailable


class AskCode(msgspec.Struct, frozen=True, kw_only=True, tag="ask"):
    """Answer this with the code of a location, as its files are now.

    `place` is where the caller finds that code, empty if it does not: the file or module `code` in
    a `folder`. Another version of the code is refused. An empty question only asks whether the code
    is loaded.
    """

    location: str
    place: str = ""
    code: str = ""
    folder: str = ""
    question: bytes = b""
    timeout_ms: int = 60_000


class LeaderConnection(Protocol):
    """An open connection to a leader; one request at a time."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def ping(self) -> int:
        """The process id of the leader."""
        ...

    def commit(self, batch: Batch, *, timeout: float, lease: str | None = None) -> Answer:
        """The fold's answer to a batch; raises the leader's error if there is none.

        `lease` is the holder that the lease in the caller's store names. The leader refuses the
        batch if that is not itself: the caller means another store.
        """
        ...

    def ask(self, question: AskCode) -> bytes:
        """An evaluator's answer to a question; raises the leader's error if there is none."""
        ...


class LeaderNotReady(Unavailable):
    """The process does not lead yet, or no longer: nothing was applied, so try again."""

    def __init__(self) -> None:
        super().__init__(
            "the leader is starting or stopping", remedy="try again", may_have_applied=False
        )


class NobodyListens(LeaderNotReady):
    """Nobody takes connections for the leader: it has just ended, or its socket was deleted."""


class LeadsAnotherStore(LeaderNotReady):
    """The leader was reached under the caller's URL, but the lease in that store is not its own."""

    def __init__(self) -> None:
        Unavailable.__init__(
            self,
            "the leader on this machine does not hold the lease in this store",
            remedy="try again; if that does not help, the leader has another server behind the "
            "same URL: name the server with ?endpoint= in the URL of the store",
            may_have_applied=False,
        )


class AnswerOverdue(Unavailable):
    """The leader did not answer in time: the outcome of the request is unknown."""

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"the leader did not answer within {seconds:g} s",
            remedy="retry with the same request id: nothing is applied twice",
        )
