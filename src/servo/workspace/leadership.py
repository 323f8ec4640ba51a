"""Who leads a workspace, in words, and leading it for upkeep that only a leader may do.

A healthy leader is never replaced: whoever asks is told who leads and what to do about it.
"""

from collections.abc import Generator
from contextlib import contextmanager

from servo.errors import Conflict
from servo.leader.lease import LeaderAdvert
from servo.workspace.leading import Led
from servo.workspace.registry import machine_id
from servo.workspace.workspace import Workspace

NOBODY_KNOWN = LeaderAdvert(pid=0)


def describe_leader(leader: LeaderAdvert) -> str:
    """A leader as people find it: its command, its process, its machine."""
    if not leader.pid:
        return "another process"
    place = f"process {leader.pid}{f' on {leader.host}' if leader.host else ''}"
    return f"`{leader.command}` ({place})" if leader.command else place


def check_not_led(workspace: Workspace, command: str) -> None:
    """`Conflict` if somebody leads, so that `command` cannot."""
    leader = workspace.leader()
    if leader is not None:
        raise _led_by(workspace, leader, command)


@contextmanager
def leading(workspace: Workspace, command: str) -> Generator[Led]:
    """Be the leader of a workspace, without starting one; `Conflict` if somebody leads it."""
    led = workspace.try_to_lead(command=command)
    if led is None:
        raise _led_by(workspace, workspace.leader() or NOBODY_KNOWN, command)
    try:
        yield led
    finally:
        led.stop()


def _led_by(workspace: Workspace, leader: LeaderAdvert, command: str) -> Conflict:
    return Conflict(
        f"{describe_leader(leader)} leads this workspace",
        remedy=f"{_way_out(workspace, leader)}, then run `{command}` again",
    )


def _way_out(workspace: Workspace, leader: LeaderAdvert) -> str:
    """How whoever leads is made to stop; a leader elsewhere may be gone for good."""
    if not leader.pid or leader.machine == machine_id():
        return "stop it with Ctrl-C or SIGTERM" if leader.pid else "wait until it has ended"
    until = workspace.free_at()
    gone = "" if until is None else f", or wait until its lease ends at {until:%H:%M:%SZ}"
    return f"stop it on {leader.host or 'its machine'}{gone}"
