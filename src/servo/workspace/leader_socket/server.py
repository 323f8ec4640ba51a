"""The socket through which other processes on this machine reach the leader.

A client that disconnects loses only its answer: its batch is committed or not like any other, and
sending it again with the same key tells which.

The socket is in a folder that only its user can enter: a process that can connect has the rights of
the user. The folder may be one that is cleaned from time to time, such as /tmp. A leader whose
socket file was deleted creates it again within a second.
"""

import contextlib
import os
import socket
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

import msgspec

from servo.core.events.codec import decode_batch
from servo.core.events.envelope import Answer, Batch
from servo.errors import Internal, Invalid, ServoError
from servo.processes.frames import Frames, framed
from servo.workspace.address import Address
from servo.workspace.leader_connection import AnswerOverdue, AskCode, LeaderNotReady
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
    failed_with,
    to_leader,
)
from servo.workspace.registry import made_registry_folder

LONGEST_PATH = 100
LOOK_EVERY = 1.0
"""Seconds after which a leader that nobody connects to looks for its socket."""
BACKLOG = 64
SHORT_FOLDER = "/tmp"  # noqa: S108 - a folder of its own is made there, which only its user enters
SOCKET_ALONE = "leader.sock"
"""The name of a socket in a folder of its own, where the registry's path is too long for one."""


class LeaderServer:
    """Takes batches from other processes of this machine until it is closed.

    `submit` gets each batch with the lease that its sender sees: see `SubmitBatch`.
    `answer_question` is set by a leader that has user code and stays, as soon as it can answer.
    """

    def __init__(
        self, address: Address, submit: Callable[[Batch, str | None], "Future[Answer]"]
    ) -> None:
        self.path = _socket_path(address)
        self.answer_question: Callable[[AskCode], bytes] = _not_yet
        self._submit = submit
        self._closing = threading.Lock()
        self._closed = False
        with contextlib.suppress(FileNotFoundError):
            Path(self.path).unlink()  # of a process that was killed: whoever leads holds the lock
        self._listener = _listening_at(self.path)
        self._thread = threading.Thread(target=self._accept, name="servo-socket", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Take no more requests."""
        with self._closing:
            self._closed = True
            with contextlib.suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            with contextlib.suppress(FileNotFoundError):
                Path(self.path).unlink()
        if Path(self.path).name == SOCKET_ALONE:
            with contextlib.suppress(OSError):
                Path(self.path).parent.rmdir()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except TimeoutError:
                self._listen_again_if_deleted()
                continue
            except OSError:
                return  # closed
            threading.Thread(
                target=self._serve, args=(connection,), name="servo-caller", daemon=True
            ).start()

    def _listen_again_if_deleted(self) -> None:
        """Create the socket again if its file was deleted, which nobody can connect to any more."""
        with self._closing, contextlib.suppress(OSError):  # if it cannot be done now, then later
            if self._closed or Path(self.path).exists():
                return
            folder = Path(self.path).parent
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if folder.stat().st_uid == os.getuid():  # another user may have been faster in /tmp
                old, self._listener = self._listener, _listening_at(self.path)
                old.close()

    def _serve(self, connection: socket.socket) -> None:
        frames = Frames(to_leader)
        with connection, contextlib.suppress(OSError):
            while data := connection.recv(RECEIVE_BYTES):
                for message in _whole(frames, data):
                    connection.sendall(framed(encoder.encode(self._answer(message))))

    def _answer(self, message: ToLeader | Failed) -> FromLeader:
        match message:
            case Failed():
                return message
            case Ping():
                return Pong(pid=os.getpid())
            case SubmitBatch():
                return _told(lambda: self._commit(message), message.timeout_ms)
            case AskCode():
                return _told(lambda: self._ask(message), message.timeout_ms)

    def _commit(self, message: SubmitBatch) -> FromLeader:
        batch = decode_batch(message.batch)
        future = self._submit(batch, message.lease)
        return Answered(answer=future.result(message.timeout_ms / 1000))

    def _ask(self, message: AskCode) -> FromLeader:
        return CodeAnswered(answer=self.answer_question(message))


def _told(answer: Callable[[], FromLeader], timeout_ms: int) -> FromLeader:
    """An answer, or the leader's error: the client must always get one."""
    try:
        return answer()
    except TimeoutError:
        return failed_with(AnswerOverdue(timeout_ms / 1000))
    except ServoError as error:
        return failed_with(error)
    except Exception as error:  # noqa: BLE001 - see above
        told = f"{type(error).__name__}: {error}"
        return failed_with(Internal(told, remedy="report this as a bug"))


def _listening_at(path: str) -> socket.socket:
    """A socket that takes connections of this user only."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(path)
        Path(path).chmod(0o600)
        listener.listen(BACKLOG)
    except BaseException:
        listener.close()
        raise
    listener.settimeout(LOOK_EVERY)
    return listener


def _not_yet(asked: AskCode) -> bytes:
    """The answer of a leader that is still starting."""
    del asked
    raise LeaderNotReady


def _whole(frames: Frames, data: bytes) -> list[ToLeader | Failed]:
    """The messages that these bytes complete, or what to answer to bytes that are none."""
    try:
        return list(frames.feed(data))
    except msgspec.MsgspecError as error:
        wrong = Invalid(f"invalid request: {error}", remedy="use the same version of Servo")
        return [failed_with(wrong)]


def _socket_path(address: Address) -> str:
    """A path that is short enough for a socket, in a folder that only this user can enter."""
    path = str(made_registry_folder() / f"{address.digest}.{os.getpid()}.sock")
    if len(os.fsencode(path)) <= LONGEST_PATH:
        return path
    made = tempfile.mkdtemp(prefix="servo-", dir=SHORT_FOLDER)
    return f"{made}/{SOCKET_ALONE}"
