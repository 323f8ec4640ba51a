"""Choosing the host of a command: this process, or the leader.

A healthy leader gets the request and is never fenced. It needs the same code as this process. A
permanent leader (`servo dev`) gets some time to load an edit. A temporary one (another `servo
materialize`) with other code ends by itself, so this process waits for it. A suspended leader is
reported and not waited for.
"""

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol

from servo.core.declared import Declared
from servo.core.state.rows.assets import AssetRow
from servo.errors import Conflict, NotFound, Unavailable
from servo.host.attached import AttachedHost
from servo.host.leading import LeadingHost
from servo.host.questions import EvaluatorOfLeader, answers_questions
from servo.leader.lease import LeaderAdvert
from servo.planning.deployment import is_deployed
from servo.projection.read.reader import Snapshot
from servo.workspace.answering import can_be_pinged, check_answers
from servo.workspace.code_location import CodeLocation
from servo.workspace.leader_socket.messages import LeaderNotReady
from servo.workspace.leading import LedByAnother, described
from servo.workspace.workspace import Workspace

LOOK_EVERY = 0.15


class WantedCode(Protocol):
    """The code that a host needs. It is imported to find its definitions."""

    @property
    def location(self) -> CodeLocation: ...
    @property
    def place(self) -> str:
        """Where the code is; empty if it is not here."""
        ...

    @property
    def declared(self) -> Declared: ...


def open_leading_or_attached(
    codes: Sequence[WantedCode],
    workspace: Workspace,
    lead: Callable[[], LeadingHost],
    *,
    waiting: Callable[[LeaderAdvert], None],
    warn: Callable[[str], None],
) -> LeadingHost | AttachedHost:
    """A host that leads, or a client of the leader.

    `waiting` is called once with the leader that it waits for, `warn` with the reason if the leader
    cannot continue.
    """
    told, pause = False, threading.Event()
    while True:
        leader = workspace.leader()
        if leader is None:
            try:
                return lead()
            except LedByAnother as other:
                leader = other.leader
        if can_be_pinged(leader):
            with suppress(LeaderNotReady):
                check_answers(leader)
        if all(_can_be_asked(code, workspace, leader) for code in codes):
            names = tuple(code.location.name for code in codes)
            return AttachedHost(workspace, names, leader, lead=lead, warn=warn)
        if not told:
            told = True
            waiting(leader)
        pause.wait(LOOK_EVERY)


def _can_be_asked(code: WantedCode, workspace: Workspace, leader: LeaderAdvert) -> bool:
    """Whether a leader has the code; `Conflict` if it is permanent and does not load it."""
    if not leader.pid:
        return False  # it says in a moment who it is
    name = code.location.name
    if leader.stays and name not in leader.locations:
        raise Conflict(
            f"{described(leader)} leads this workspace without {name}",
            remedy=f"restart it with {name} as well, stop it, or use another store or workspace",
        )
    if answers_questions(leader):
        return _has_loaded(code, leader)
    if name in leader.locations and _has_same(code, workspace):
        return True
    if not leader.stays:
        return False
    raise Conflict(
        f"{described(leader)} has not loaded the current version of {name}",
        remedy="fix the error that it printed, or restart it",
    )


def _has_loaded(code: WantedCode, leader: LeaderAdvert) -> bool:
    """Whether a leader on this machine has the current code; False if it has just ended."""
    try:
        EvaluatorOfLeader(leader, code.location.name, code.place).check()
    except Conflict as error:
        raise Conflict(f"{described(leader)}: {error.message}", remedy=error.remedy) from None
    except Unavailable:
        return False
    return True


def _has_same(code: WantedCode, workspace: Workspace) -> bool:
    try:
        rows = workspace.read(_assets)
    except NotFound:
        return False
    return is_deployed(rows, code.location.name, code.declared.assets)


def _assets(snapshot: Snapshot) -> dict[str, AssetRow]:
    rows = snapshot.rows("assets")
    return {row.asset_key: row for row in rows if isinstance(row, AssetRow)}
