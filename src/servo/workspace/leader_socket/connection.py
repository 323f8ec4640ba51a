"""The client side of the socket to the leader on this machine."""

import socket
from typing import TypeVar

from servo.core.events.codec import encode_batch
from servo.core.events.envelope import Answer, Batch
from servo.errors import Internal, Unavailable
from servo.processes.frames import Frames, framed
from servo.workspace.leader_connection import (
    AnswerOverdue,
    AskCode,
    LeaderNotReady,
    NobodyListens,
)
from servo.workspace.leader_socket.messages import (
    RECEIVE_BYTES,
    Answered,
    CodeAnswered,
    Failed,
    FromLeader,
    Ping,
    Pong,
    SubmitBatch,
    ToLeader,
    encoder,
    from_leader,
    raised_by,
)

_Reply = TypeVar("_Reply", Answered, CodeAnswered, Pong)


class SocketConnection:
    """A `LeaderConnection` to a leader of this machine."""

    def __init__(self, path: str, *, timeout: float) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(timeout)
        self._frames = Frames(from_leader)
        try:
            self._socket.connect(path)
        except BlockingIOError:  # as many wait for it as may: it has taken none for a while
            self._socket.close()
            raise AnswerOverdue(timeout) from None
        except OSError:
            self._socket.close()
            raise NobodyListens from None

    def __enter__(self) -> "SocketConnection":
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def ping(self) -> int:
        """The process id of the leader."""
        return self._expect(Pong, Ping()).pid

    def commit(self, batch: Batch, *, timeout: float, lease: str | None = None) -> Answer:
        """The fold's answer to a batch; raises the leader's error if there is none."""
        self._socket.settimeout(timeout)
        message = SubmitBatch(
            batch=encode_batch(batch), timeout_ms=int(timeout * 1000), lease=lease
        )
        return self._expect(Answered, message).answer

    def ask(self, question: AskCode) -> bytes:
        """An evaluator's answer to a question; raises the leader's error if there is none."""
        return self._expect(CodeAnswered, question).answer

    def _expect(self, kind: type[_Reply], message: ToLeader) -> _Reply:
        """The reply to a message, which is of this kind or the leader's error."""
        reply = self._ask(message)
        if isinstance(reply, Failed):
            raise raised_by(reply)
        if not isinstance(reply, kind):
            asked = type(message).__name__
            raise Internal(f"{reply} in reply to {asked}", remedy="report this as a bug")
        return reply

    def _ask(self, message: ToLeader) -> FromLeader:
        try:
            self._socket.sendall(framed(encoder.encode(message)))
            while data := self._socket.recv(RECEIVE_BYTES):
                for answer in self._frames.feed(data):
                    return answer
        except TimeoutError:
            raise AnswerOverdue(self._socket.gettimeout() or 0) from None
        except OSError as error:
            raise _hung_up(message, error.strerror or str(error)) from None
        raise _hung_up(message, "the connection was closed")


def _hung_up(message: ToLeader, why: str) -> Unavailable:
    if not isinstance(message, SubmitBatch):
        return LeaderNotReady()  # it changes nothing, so nothing can have been applied
    return Unavailable(
        f"the leader did not answer: {why}",
        remedy="retry with the same request id: nothing is applied twice",
    )
