"""A leader that does not answer is told as that, soon if it is suspended, with a remedy."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from servo.leader.leases.lease import LeaderAdvert
from servo.testing.eventually import eventually
from servo.workspace import answering
from servo.workspace.address import Address
from servo.workspace.answering import LeaderSilent, check_answers, is_suspended, why_silent
from servo.workspace.composition import open_world
from servo.workspace.leader_connection import LeaderNotReady
from servo.workspace.leader_lock import leader_here
from servo.workspace.leading import try_to_lead
from servo.workspace.registry import machine_id

WAITS = "import sys; sys.stdin.read()"


@pytest.fixture(autouse=True)
def impatient(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(answering, "SUSPENDED_AFTER", 0.05)
    monkeypatch.setattr(answering, "SILENT_AFTER", 0.1)


@pytest.fixture
def suspended() -> Generator[int]:
    """A process that was stopped."""
    process = subprocess.Popen([sys.executable, "-c", WAITS], stdin=subprocess.PIPE)
    process.send_signal(signal.SIGSTOP)
    eventually(lambda: is_suspended(process.pid))
    yield process.pid
    process.kill()
    _ = process.communicate()


@pytest.fixture
def deaf(tmp_path: Path) -> Generator[str]:
    """A socket that takes connections and never says anything."""
    path = str(tmp_path / "deaf")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(path)
        listener.listen(1)
        yield path


def advert(pid: int, path: str) -> LeaderAdvert:
    return LeaderAdvert(pid=pid, machine=machine_id(), socket=path, command="dev")


def test_a_suspended_leader_is_told_with_what_to_do(suspended: int, deaf: str) -> None:
    leader = advert(suspended, deaf)
    for _ in range(5):  # so often that nobody more can wait for it
        with pytest.raises(LeaderSilent, match=f"process {suspended}.*is suspended") as told:
            check_answers(leader)
        assert f"kill -CONT {suspended}" in told.value.remedy
        assert not told.value.may_have_applied
    with pytest.raises(LeaderSilent, match="process the request if it continues") as told:
        check_answers(leader, sent=True)
    assert told.value.may_have_applied
    assert "is suspended" in why_silent(leader)


def test_a_leader_that_runs_and_does_not_answer_is_not_said_to_be_suspended(deaf: str) -> None:
    assert not is_suspended(os.getpid())
    with pytest.raises(LeaderSilent, match="has not answered") as told:
        check_answers(advert(os.getpid(), deaf))
    assert "CONT" not in told.value.remedy


def test_a_leader_that_answers_is_not_silent(tmp_path: Path) -> None:
    address = Address.of(str(tmp_path / "store"))
    led = try_to_lead(address, open_world(address.store))
    assert led is not None
    leader = leader_here(address)
    assert leader is not None
    check_answers(leader)
    assert why_silent(leader) == ""
    led.stop()
    with pytest.raises(LeaderNotReady):
        check_answers(leader)
    assert why_silent(leader) == "", "it has ended, so nobody has to do anything about it"


def test_nobody_can_tell_of_a_leader_elsewhere(deaf: str) -> None:
    assert why_silent(LeaderAdvert(pid=1, machine="elsewhere", socket=deaf)) == ""


def test_a_process_that_is_not_there_is_not_suspended() -> None:
    assert not is_suspended(2**22 + 1)
