"""How this process reaches a leader. Only this module chooses a transport.

A leader advertises how it can be reached. Today that is a unix socket, which only processes of the
same machine can use. Everyone who sends something to a leader asks `can_connect` and `connect`, so
a new transport is one more line in `_transport`.
"""

from collections.abc import Callable

from servo.errors import Unavailable
from servo.leader.leases.lease import LeaderAdvert
from servo.workspace.leader_connection import LeaderConnection
from servo.workspace.leader_lock import runs_here
from servo.workspace.leader_socket.connection import SocketConnection
from servo.workspace.leading import described


def can_connect(leader: LeaderAdvert) -> bool:
    """Whether this process can reach a leader directly, and not only through the store."""
    return _transport(leader) is not None


def connect(leader: LeaderAdvert, *, timeout: float) -> LeaderConnection:
    """A connection to a leader; `LeaderNotReady` if it starts or ends at this moment."""
    opens = _transport(leader)
    if opens is None:
        raise Unavailable(
            f"{described(leader)} leads this workspace and cannot be reached from here",
            remedy="run the command on its machine",
            may_have_applied=False,
        )
    return opens(timeout)


def _transport(leader: LeaderAdvert) -> Callable[[float], LeaderConnection] | None:
    """What opens a connection to a leader; None if it cannot be reached from here."""
    if leader.socket and runs_here(leader):
        return lambda timeout: SocketConnection(leader.socket, timeout=timeout)
    return None
