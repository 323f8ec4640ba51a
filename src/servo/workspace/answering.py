"""Whether the leader on this machine responds, or only holds its lock.

A process that was suspended (Ctrl-Z, SIGSTOP, a debugger) keeps its lock and its socket, and the
operating system takes connections for it. It is not replaced: the user who
suspended it expects it to continue. But no command waits for it in silence, and each request is
preceded by a ping: what was not sent cannot be executed hours later.
"""

import subprocess
from contextlib import suppress
from pathlib import Path

from servo.errors import Unavailable
from servo.leader.leases.lease import LeaderAdvert
from servo.ports.clock import Clock
from servo.workspace.connecting import can_connect, connect
from servo.workspace.leader_connection import AnswerOverdue, LeaderNotReady
from servo.workspace.leading import described

SUSPENDED_AFTER = 1.0
SILENT_AFTER = 10.0
"""A process that runs may be slow to answer; one that is suspended is known to be."""

REACHED_WITHIN = 3.0
"""A leader that lost its socket has a new one by then."""

_PROCESSES = Path("/proc")


class LeaderSilent(Unavailable):
    """The leader does not respond: it is suspended, or hangs."""

    def __init__(self, leader: LeaderAdvert, *, suspended: bool, sent: bool) -> None:
        why = "is suspended" if suspended else f"has not answered for {SILENT_AFTER:g} s"
        then = "; it will process the request if it continues" if sent else ""
        go_on = f"continue it with `fg` in its terminal or `kill -CONT {leader.pid}`, or "
        super().__init__(
            f"{described(leader)} leads this workspace and {why}{then}",
            remedy=f"{go_on if suspended else ''}end it with `kill -9 {leader.pid}`: "
            "committed work is kept, and the next command continues from there",
            may_have_applied=sent,
        )


def check_answers(leader: LeaderAdvert, *, sent: bool = False) -> None:
    """`LeaderSilent` if a leader that can be reached does not answer; `LeaderNotReady` if it ended.

    `sent` says that a request was sent before, which it may still execute.
    """
    for seconds in (SUSPENDED_AFTER, SILENT_AFTER - SUSPENDED_AFTER):
        try:
            with connect(leader, timeout=seconds) as connection:
                _ = connection.ping()
        except AnswerOverdue:
            if is_suspended(leader.pid):
                raise LeaderSilent(leader, suspended=True, sent=sent) from None
        else:
            return
    raise LeaderSilent(leader, suspended=False, sent=sent)


def responds(leader: LeaderAdvert) -> bool:
    """Whether a leader takes requests; `LeaderSilent` if it is there and does not answer.

    False if nobody listens, or it ends at this moment. A leader that this process cannot connect
    to takes requests through the store.
    """
    if not can_connect(leader):
        return bool(leader.pid)
    try:
        check_answers(leader)
    except LeaderNotReady:
        return False
    return True


def is_same(one: LeaderAdvert | None, other: LeaderAdvert | None) -> bool:
    """Whether two adverts are of one leader, which may have loaded other code meanwhile."""
    return _identity(one) == _identity(other)


def _identity(leader: LeaderAdvert | None) -> tuple[object, ...]:
    return () if leader is None else (leader.pid, leader.machine, leader.since)


class Unreached:
    """For how long a leader has not been reached, for a caller that tries again and again.

    A leader that ends releases its lock soon. One whose socket or advert was deleted puts it back
    within seconds. If neither happens, only the store is left.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._leader: LeaderAdvert | None = None
        self._since = 0.0

    def is_lost(self, leader: LeaderAdvert) -> bool:
        """Note that a leader was not reached; whether that has lasted too long to go on trying."""
        if not is_same(leader, self._leader):
            self._leader, self._since = leader, self._clock.monotonic()
        return self._clock.monotonic() - self._since >= REACHED_WITHIN


def why_silent(leader: LeaderAdvert) -> str:
    """Why a leader does not respond, with the remedy; empty if it responds or is elsewhere."""
    try:
        _ = responds(leader)
    except LeaderSilent as silent:
        return str(silent)
    except Unavailable:
        return ""  # it ends at this moment
    return ""


def is_suspended(pid: int) -> bool:
    """Whether a process of this machine is stopped, by a signal or by a debugger."""
    if (_PROCESSES / "self").exists():
        with suppress(OSError):
            # The name of the program comes before it, in parentheses, and may hold anything.
            return (_PROCESSES / str(pid) / "stat").read_text().rpartition(")")[2].split()[
                0
            ] in "Tt"
        return False
    asked = subprocess.run(  # noqa: S603 - our own arguments
        ["ps", "-o", "state=", "-p", str(pid)],  # noqa: S607 - wherever the system has it
        capture_output=True,
        text=True,
        check=False,
    )
    return asked.stdout.strip()[:1] == "T"
