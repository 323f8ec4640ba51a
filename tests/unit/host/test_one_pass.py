"""Whom a pass is left to: only a leader that hosts every trigger of these code locations."""

import threading
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from servo.errors import Conflict, Unavailable
from servo.host.leading import LeadingHost
from servo.host.location_code import LocationCode
from servo.host.one_pass import PassReport, do_what_is_due
from servo.leader.leases.lease import HostedTriggers, LeaderAdvert
from servo.workspace import answering
from servo.workspace.address import Address
from servo.workspace.leader_lock import Leader, LeaderLock, advert
from servo.workspace.leading import described
from servo.workspace.system import SystemClock
from servo.workspace.workspace import Workspace, open_workspace

ALL = HostedTriggers.ALL
CODE = "assets.py"


class Loaded(Exception):
    """The pass is not left to anybody: it has begun to import its code."""


def loads() -> Sequence[LocationCode]:
    raise Loaded


class Watcher:
    """Ends the leader as soon as it is waited for, if it is one that ends."""

    def __init__(self, ends: LeaderLock | None = None) -> None:
        self.waited_for: list[LeaderAdvert] = []
        self._ends = ends

    def waiting(self, leader: LeaderAdvert) -> None:
        self.waited_for.append(leader)
        if self._ends is not None:
            self._ends.release()

    def leading(self, host: LeadingHost) -> AbstractContextManager[LeadingHost]:
        raise AssertionError(host)


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return open_workspace(Address.of(str(tmp_path)))


@contextmanager
def led(
    workspace: Workspace, leader: Leader, socket: str = ""
) -> Generator[tuple[LeaderLock, LeaderAdvert]]:
    lock = LeaderLock(workspace.address)
    assert lock.acquire()
    found = advert(leader, since=SystemClock().now(), socket_path=socket)
    lock.advertise(found)
    try:
        yield lock, found
    finally:
        lock.release()


def attempt(workspace: Workspace, watcher: Watcher, seconds: float = 60) -> PassReport:
    return do_what_is_due(
        workspace, [CODE], loads, workers=1, watcher=watcher, wait_seconds=seconds
    )


@pytest.mark.parametrize("stays", [True, False])
def test_a_pass_is_left_to_a_leader_that_hosts_every_trigger(
    workspace: Workspace, stays: bool
) -> None:
    leader = Leader(command="dev", stays=stays, locations=(CODE, "b.py"), triggers=ALL)
    with led(workspace, leader) as (_, found):
        report = attempt(workspace, Watcher())
    assert report == PassReport(left_to=described(found), left_to_pass=not stays)


@pytest.mark.parametrize("ends", [True, False])
def test_a_leader_that_does_not_listen_is_trusted_only_if_it_does_not_end(
    workspace: Workspace, ends: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(answering, "REACHED_WITHIN", 0.5)
    leader = Leader(command="dev", stays=True, locations=(CODE,), triggers=ALL)
    with led(workspace, leader, socket=str(tmp_path / "deleted")) as (lock, found):
        if ends:
            threading.Timer(0.1, lock.release).start()
            with pytest.raises(Loaded):
                attempt(workspace, Watcher())
        else:
            assert attempt(workspace, Watcher()).left_to == described(found)


UNTRUSTED = [
    Leader(command="materialize", locations=(CODE,)),
    Leader(command="resume", locations=(CODE,), triggers=HostedTriggers.BACKFILLS),
    Leader(command="tick", locations=("b.py",), triggers=ALL),
    Leader(command=""),
]


@pytest.mark.parametrize("leader", UNTRUSTED)
def test_any_other_leader_is_waited_for(workspace: Workspace, leader: Leader) -> None:
    with led(workspace, leader) as (lock, found):
        watcher = Watcher(ends=lock)
        with pytest.raises(Loaded):
            attempt(workspace, watcher)
    assert watcher.waited_for == [found]


@pytest.mark.parametrize("leader", UNTRUSTED)
def test_a_leader_that_does_not_end_in_time_is_told(workspace: Workspace, leader: Leader) -> None:
    with led(workspace, leader) as (_, found), pytest.raises(Unavailable) as told:
        attempt(workspace, Watcher(), seconds=0)
    assert str(told.value) == (
        f"not done: {described(found)} leads this workspace and does not run what is due; "
        "try again when it has ended"
    )
    assert not told.value.may_have_applied


def test_a_leader_that_stays_and_lacks_the_code_is_not_waited_for(workspace: Workspace) -> None:
    leader = Leader(command="dev", stays=True, locations=("b.py",), triggers=ALL)
    with (
        led(workspace, leader),
        pytest.raises(Conflict, match="leads this workspace without assets"),
    ):
        attempt(workspace, Watcher())


def test_a_leader_that_has_not_said_who_it_is_is_not_trusted(workspace: Workspace) -> None:
    lock = LeaderLock(workspace.address)
    assert lock.acquire()
    try:
        with pytest.raises(Unavailable, match="not done: another process leads"):
            attempt(workspace, Watcher(), seconds=0)
    finally:
        lock.release()
