"""Whether a leader has the same version of the code as this folder, according to its advert.

This is for leaders that this process cannot ask. A permanent leader gets some time to load an edit,
if one was made lately.
"""

import threading
from collections.abc import Callable
from datetime import datetime, timedelta

from servo.code.finding import is_here
from servo.code.sources import difference, edited_since
from servo.errors import Conflict, Invalid
from servo.host.questions import answers_questions
from servo.leader.leases.lease import LeaderAdvert
from servo.workspace.code_location import CodeLocation
from servo.workspace.leading import described
from servo.workspace.workspace import Workspace

LOADED_WITHIN = 20.0
"""Seconds that a permanent leader gets to load an edit."""

RECENTLY = timedelta(seconds=LOADED_WITHIN)

LOOK_EVERY = 0.15


class NotLoadedYet(Conflict):
    """A permanent leader has not loaded the code of this folder, and may be about to."""

    def __init__(self, leader: LeaderAdvert, name: str, why: str) -> None:
        super().__init__(
            f"{described(leader)} leads this workspace with another version of {name}: {why}",
            remedy="use the same version in both folders, or stop that leader",
        )
        self.location = name
        self.waiting = f"waiting for {described(leader)} to load this version of {name}"


def not_loaded(location: str, error: str) -> Invalid:
    """Why the current version of a location cannot be used: its error, which has a remedy."""
    why, _, remedy = error.rpartition("; ")
    return Invalid(f"{location} is not loaded: {why}", remedy=remedy)


def difference_from(leader: LeaderAdvert, location: CodeLocation) -> str:
    """How the code of a leader differs from the code in this folder; empty if it is the same.

    `Invalid` if it is the same and the leader cannot import it. Code that is not in this folder
    differs from nothing.
    """
    loaded = leader.code.get(location.name)
    if loaded is None:
        return "it is starting"
    differs = difference(loaded, location.code, location.folder) if is_here(location) else ""
    if not differs and loaded.error:
        raise not_loaded(location.name, loaded.error)
    return differs


def may_still_load(leader: LeaderAdvert, location: CodeLocation, now: datetime) -> bool:
    """Whether it makes sense to wait until a leader has loaded the version of this folder."""
    loaded = leader.code.get(location.name)
    if loaded is None or not difference(loaded, location.code, location.folder):
        return True  # it starts, or has not published its definitions yet
    return edited_since(loaded, location.folder, now - RECENTLY)


def wait_for_version(
    workspace: Workspace, location: CodeLocation, warn: Callable[[str], None]
) -> None:
    """Wait until a permanent leader has the version of this folder; `NotLoadedYet` if not in time.

    A leader that can be asked compares the code itself, and one without the location runs none of
    it.
    """
    clock, pause, told = workspace.clock, threading.Event(), False
    until = clock.monotonic() + LOADED_WITHIN
    while (leader := workspace.awaited_leader()) is not None and leader.stays:
        if location.name not in leader.locations or answers_questions(leader):
            return
        why = difference_from(leader, location)
        if not why:
            return
        waits = clock.monotonic() < until and may_still_load(leader, location, clock.now())
        refused = NotLoadedYet(leader, location.name, why)
        if not waits:
            raise refused
        if not told:
            told = True
            warn(refused.waiting)
        _ = pause.wait(LOOK_EVERY)
