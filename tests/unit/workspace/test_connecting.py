"""A leader is reached by the transport that it advertises, or not at all."""

import os
import socket
import threading
from collections.abc import Generator
from pathlib import Path

import pytest

from servo.errors import Internal, Invalid, ServoError, Unavailable
from servo.leader.leases.lease import LeaderAdvert
from servo.processes.frames import framed
from servo.workspace.connecting import can_connect, connect
from servo.workspace.leader_connection import AskCode, LeaderNotReady
from servo.workspace.leader_socket.messages import (
    CodeAnswered,
    FromLeader,
    Pong,
    encoder,
    failed_with,
)
from servo.workspace.registry import machine_id


@pytest.fixture(autouse=True)
def own_registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "leader")


@pytest.fixture
def listener(path: str) -> Generator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(path)
        listening.listen(1)
        yield listening


def leader_at(path: str, machine: str = "") -> LeaderAdvert:
    return LeaderAdvert(
        pid=os.getpid(), machine=machine or machine_id(), socket=path, command="dev"
    )


def reply_once(listener: socket.socket, reply: FromLeader) -> None:
    """Answer the next request with this, whatever it was."""

    def answer() -> None:
        connection, _ = listener.accept()
        with connection:
            _ = connection.recv(1 << 16)
            connection.sendall(framed(encoder.encode(reply)))

    threading.Thread(target=answer, daemon=True).start()


def test_a_leader_on_this_machine_with_a_socket_can_be_reached(path: str) -> None:
    assert can_connect(leader_at(path))
    assert not can_connect(leader_at(""))
    assert not can_connect(leader_at(path, machine="elsewhere"))


def test_a_leader_is_asked_over_its_socket(path: str, listener: socket.socket) -> None:
    reply_once(listener, Pong(pid=17))
    with connect(leader_at(path), timeout=5) as connection:
        assert connection.ping() == 17


def test_a_leader_that_cannot_be_reached_is_described(path: str) -> None:
    with pytest.raises(Unavailable, match=r"`servo dev` \(process .*cannot be reached") as told:
        _ = connect(leader_at(path, machine="elsewhere"), timeout=1)
    assert not told.value.may_have_applied


def test_a_socket_that_nobody_listens_to_is_a_leader_that_starts_or_ends(path: str) -> None:
    with pytest.raises(LeaderNotReady):
        _ = connect(leader_at(path), timeout=1)


@pytest.mark.parametrize("request_", ["ping", "question"])
def test_a_leader_that_ends_during_a_request_that_changes_nothing_is_not_ready(
    path: str, listener: socket.socket, request_: str
) -> None:
    def end() -> None:
        connection, _ = listener.accept()
        connection.close()

    threading.Thread(target=end, daemon=True).start()
    with connect(leader_at(path), timeout=5) as connection, pytest.raises(LeaderNotReady):
        _ = connection.ping() if request_ == "ping" else connection.ask(AskCode(location="a.py"))


@pytest.mark.parametrize(
    ("reply", "raised"),
    [
        (failed_with(Invalid("no such thing", remedy="name another")), Invalid),
        (CodeAnswered(answer=b""), Internal),
    ],
)
def test_a_reply_that_is_not_the_answer_is_raised(
    path: str, listener: socket.socket, reply: FromLeader, raised: type[ServoError]
) -> None:
    reply_once(listener, reply)
    with (
        connect(leader_at(path), timeout=5) as connection,
        pytest.raises(raised, match=r"no such thing|in reply to Ping"),
    ):
        _ = connection.ping()
