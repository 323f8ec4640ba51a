"""Choosing the host of a command: this process, or the leader.

A healthy leader gets the request and is never fenced. It needs the same code as this process: see
`servo.code.sources`. A permanent leader (`servo dev`) gets some time to load an edit. A temporary
one (another `servo materialize`) with other code ends by itself, so this process waits for it. A
suspended leader is reported and not waited for.

All this is the same wherever the leader is. One that can be asked compares the code itself; what
any other has loaded is read from its advert.
"""

import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeVar

from servo.core.declared import Declared
from servo.core.state.rows.assets import AssetRow
from servo.errors import Conflict, NotFound, Unavailable
from servo.host.attached import AttachedHost
from servo.host.host import Host
from servo.host.questions import EvaluatorOfLeader, answers_questions
from servo.host.same_code import LOADED_WITHIN, NotLoadedYet, difference_from, may_still_load
from servo.leader.leases.lease import HostedTriggers, LeaderAdvert
from servo.planning.deployment import is_deployed
from servo.projection.read.reader import Snapshot
from servo.workspace.answering import Unreached, responds
from servo.workspace.code_location import CodeLocation
from servo.workspace.leading import LedByAnother, described
from servo.workspace.workspace import Workspace

LOOK_EVERY = 0.15
OTHER_CODE = "which leads this workspace with other code"
NAMELESS = "which leads this workspace and does not say which process it is"

T = TypeVar("T")


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
    lead: Callable[[], Host],
    *,
    warn: Callable[[str], None],
    triggers: HostedTriggers = HostedTriggers.NONE,
    plans: bool = True,
) -> Host:
    """A host that leads, or a client of the leader.

    `warn` is called with the reason for waiting, once, and if the leader cannot continue, or does
    not host the wanted `triggers`. A caller that `plans` nothing can also be a client of a leader
    with other code.
    """
    can_be_asked = _can_be_asked if plans else _can_be_followed
    clock, pause = workspace.clock, threading.Event()
    unreached, until, told = Unreached(clock), clock.monotonic() + LOADED_WITHIN, False
    while True:
        leader = workspace.awaited_leader()
        if leader is None:
            try:
                return lead()
            except LedByAnother as other:
                leader = other.leader
        reached = responds(leader)
        if reached or unreached.is_lost(leader):
            found = _SeenLeader(leader, workspace, reached=reached)
            why = f"waiting for {described(leader)}, {OTHER_CODE if leader.pid else NAMELESS}"
            try:
                if all(can_be_asked(code, found) for code in codes):
                    return _attached(codes, found, lead, warn, triggers)
            except NotLoadedYet as error:
                if clock.monotonic() >= until:
                    raise
                why = error.waiting
            if not told:
                told = True
                warn(why)
        pause.wait(LOOK_EVERY)


def lead_once_free(lead: Callable[[], T], workspace: Workspace, warn: Callable[[str], None]) -> T:
    """Lead, as soon as a temporary leader has ended; `LedByAnother` if the leader is permanent.

    A leader that ended without a word on another machine is found out first. `warn` is called with
    the reason for waiting, once.
    """
    pause, told = threading.Event(), False
    while True:
        try:
            return lead()
        except LedByAnother as other:
            if workspace.is_led() and other.leader.stays:
                raise
            # A suspended one is reported, and not waited for.
            if responds(other.leader) and not told:
                told = True
                warn(f"waiting for {described(other.leader)}, which leads this workspace")
        pause.wait(LOOK_EVERY)


class _SeenLeader(NamedTuple):
    """The leader of a workspace, and whether it was reached."""

    leader: LeaderAdvert
    workspace: Workspace
    reached: bool


def _attached(
    codes: Sequence[WantedCode],
    found: _SeenLeader,
    lead: Callable[[], Host],
    warn: Callable[[str], None],
    triggers: HostedTriggers,
) -> Host:
    leader, names = found.leader, tuple(code.location.name for code in codes)
    if not leader.hosts(triggers, *names):
        warn(
            f"waiting for {described(leader)}, which leads this workspace "
            "and does not continue backfills"
        )
    return AttachedHost(found.workspace, names, leader, lead=lead, warn=warn)


def refuse_missing(leader: LeaderAdvert, name: str) -> None:
    """`Conflict` if a leader is permanent and does not have a code location."""
    if leader.stays and name not in leader.locations:
        raise Conflict(
            f"{described(leader)} leads this workspace without {name}",
            remedy=f"restart it with {name} as well, stop it, or use another store or workspace",
        )


def _can_be_followed(code: WantedCode, found: _SeenLeader) -> bool:
    """Whether a leader works for a code location, with whatever code it has."""
    refuse_missing(found.leader, code.location.name)
    return code.location.name in found.leader.locations


def _can_be_asked(code: WantedCode, found: _SeenLeader) -> bool:
    """Whether a leader has the code; `Conflict` if it is permanent and does not load it."""
    leader = found.leader
    if not leader.pid:
        return False  # it says in a moment who it is
    refuse_missing(leader, code.location.name)
    if found.reached and answers_questions(leader):
        return _has_loaded(code, leader)
    why = _not_loaded(code, found)
    if why and leader.stays:
        refused = NotLoadedYet(leader, code.location.name, why)
        if may_still_load(leader, code.location, found.workspace.now()):
            raise refused
        raise Conflict(refused.message, remedy=refused.remedy)
    return not why


def _has_loaded(code: WantedCode, leader: LeaderAdvert) -> bool:
    """Whether a leader that can be asked has the current code; False if it has just ended."""
    try:
        EvaluatorOfLeader(leader, code.location, here=bool(code.place)).check()
    except Conflict as error:
        raise Conflict(f"{described(leader)}: {error.message}", remedy=error.remedy) from None
    except Unavailable:
        return False
    return True


def _not_loaded(code: WantedCode, found: _SeenLeader) -> str:
    """Why a leader that cannot be asked does not have the code of this folder; empty if it has.

    `Invalid` if it cannot be imported there, as a leader that can be asked answers.
    """
    if differs := difference_from(found.leader, code.location):
        return differs
    return "" if _has_same(code, found.workspace) else "it has not deployed the same definitions"


def _has_same(code: WantedCode, workspace: Workspace) -> bool:
    try:
        rows = workspace.read(_assets)
    except NotFound:
        return False
    return is_deployed(rows, code.location.name, code.declared.assets)


def _assets(snapshot: Snapshot) -> dict[str, AssetRow]:
    rows = snapshot.rows("assets")
    return {row.asset_key: row for row in rows if isinstance(row, AssetRow)}
