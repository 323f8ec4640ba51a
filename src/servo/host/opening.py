"""Choosing the host of a command: this process, or the leader.

A healthy leader gets the request and is never fenced. It needs the same code as this process. A
permanent leader (`servo dev`) gets some time to load an edit. A temporary one (another `servo
materialize`) with other code ends by itself, so this process waits for it. A suspended leader is
reported and not waited for.
"""

import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from servo.core.declared import Declared
from servo.core.state.rows.assets import AssetRow
from servo.errors import Conflict, NotFound, Unavailable
from servo.host.attached import AttachedHost
from servo.host.host import Host
from servo.host.questions import EvaluatorOfLeader, answers_questions
from servo.leader.lease import HostedTriggers, LeaderAdvert
from servo.planning.deployment import is_deployed
from servo.projection.read.reader import Snapshot
from servo.workspace.answering import refuse_silent
from servo.workspace.code_location import CodeLocation
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


def open_leading_or_attached(  # noqa: PLR0913 - what is wanted, and who is told
    codes: Sequence[WantedCode],
    workspace: Workspace,
    lead: Callable[[], Host],
    *,
    waiting: Callable[[LeaderAdvert], None],
    warn: Callable[[str], None],
    triggers: HostedTriggers = HostedTriggers.NONE,
    plans: bool = True,
) -> Host:
    """A host that leads, or a client of the leader.

    `waiting` is called once with the leader that it waits for, `warn` with the reason if the leader
    cannot continue, or does not host the wanted `triggers`. A caller that `plans` nothing can also
    be a client of a leader with other code.
    """
    can_be_asked = _can_be_asked if plans else _can_be_followed
    told, pause = False, threading.Event()
    while True:
        leader = workspace.leader()
        if leader is None:
            try:
                return lead()
            except LedByAnother as other:
                leader = other.leader
        refuse_silent(leader)
        if all(can_be_asked(code, workspace, leader) for code in codes):
            names = tuple(code.location.name for code in codes)
            if not leader.hosts(triggers, *names):
                warn(
                    f"waiting for {described(leader)}, which leads this workspace "
                    "and does not continue backfills"
                )
            return AttachedHost(workspace, names, leader, lead=lead, warn=warn)
        if not told:
            told = True
            waiting(leader)
        pause.wait(LOOK_EVERY)


def refuse_missing(leader: LeaderAdvert, name: str) -> None:
    """`Conflict` if a leader is permanent and does not have a code location."""
    if leader.stays and name not in leader.locations:
        raise Conflict(
            f"{described(leader)} leads this workspace without {name}",
            remedy=f"restart it with {name} as well, stop it, or use another store or workspace",
        )


def _can_be_followed(code: WantedCode, workspace: Workspace, leader: LeaderAdvert) -> bool:
    """Whether a leader works for a code location, with whatever code it has."""
    del workspace
    refuse_missing(leader, code.location.name)
    return code.location.name in leader.locations


def _can_be_asked(code: WantedCode, workspace: Workspace, leader: LeaderAdvert) -> bool:
    """Whether a leader has the code; `Conflict` if it is permanent and does not load it."""
    if not leader.pid:
        return False  # it says in a moment who it is
    name = code.location.name
    refuse_missing(leader, name)
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
