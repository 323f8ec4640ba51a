"""Finding out who does the work of a command: this process, or the one that leads.

A healthy leader is asked and never fenced. It can be asked if it has the code that is meant, in the
state that is here. One that stays (`servo dev`) is given a while to load an edit. One that does not
(another `servo materialize`) and has other code is waited for: it ends by itself. One that is
suspended is told as that and not waited for.
"""

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

import msgspec

from servo.code.setting import CodeLocation
from servo.core.declared import Declared
from servo.core.definitions import definitions_bytes, definitions_digest
from servo.core.state.rows.assets import AssetRow
from servo.errors import Conflict, NotFound
from servo.host.attached import AttachedHost
from servo.host.leading import LeadingHost
from servo.leader.lease import LeaderAdvert
from servo.projection.read.reader import Snapshot
from servo.workspace.answering import can_be_pinged, check_answers
from servo.workspace.leader_socket.messages import LeaderNotReady
from servo.workspace.leading import LedByAnother, described
from servo.workspace.registry import loaded_by_leader, machine_id
from servo.workspace.workspace import Workspace

LOOK_EVERY = 0.15
RELOADED_WITHIN = 20.0


class WantedCode(msgspec.Struct, frozen=True, kw_only=True):
    """The code that a host is to have: where it is, what it declares, and which state it is in."""

    location: CodeLocation
    declared: Declared
    fingerprint: Callable[[], str]


def open_leading_or_attached(
    codes: Sequence[WantedCode],
    workspace: Workspace,
    lead: Callable[[], LeadingHost],
    *,
    waiting: Callable[[LeaderAdvert], None],
    warn: Callable[[str], None],
) -> LeadingHost | AttachedHost:
    """A host that leads, or one that asks the leader; `waiting` is told once whom it waits for.

    `warn` is told what keeps a leader from going on that was asked.
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
    """Whether a leader has the code; `Conflict` if it stays and will not have it."""
    if not leader.pid:
        return False  # it says in a moment who it is
    name = code.location.name
    if name in leader.locations and _has_same(code, workspace, leader):
        return True
    if not leader.stays:
        return False
    if name not in leader.locations:
        raise Conflict(
            f"{described(leader)} leads this workspace and does not have {name}",
            remedy=f"start it with {name} as well, stop it, or use another --store or --workspace",
        )
    raise Conflict(
        f"{described(leader)} has not loaded {name} as it is here",
        remedy="look at its output for what is wrong with the code, or restart it",
    )


def _has_same(code: WantedCode, workspace: Workspace, leader: LeaderAdvert) -> bool:
    if leader.stays and leader.machine == machine_id():
        return _loads_in_time(code, workspace, leader)
    digest = definitions_digest(definitions_bytes(code.declared.assets))
    try:
        return workspace.read(lambda found: _deployed(found, code.location.name)) == {digest}
    except NotFound:
        return False


def _loads_in_time(code: WantedCode, workspace: Workspace, leader: LeaderAdvert) -> bool:
    """Whether a leader that follows edits has the code as it is, or has it soon."""
    clock, pause = workspace.clock, threading.Event()
    until = clock.monotonic() + RELOADED_WITHIN
    digest, name = workspace.address.digest, code.location.name
    while loaded_by_leader(digest, name) != code.fingerprint():
        if clock.monotonic() > until or workspace.leader() != leader:
            return False
        pause.wait(LOOK_EVERY)
    return True


def _deployed(snapshot: Snapshot, location: str) -> set[str]:
    rows = [row for row in snapshot.rows("assets") if isinstance(row, AssetRow)]
    return {row.deployment_id for row in rows if row.location == location and row.defined}
