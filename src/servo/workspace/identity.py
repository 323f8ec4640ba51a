"""The identity of this process: the user of the operating system and the machine.

The only place that asks the system for it. API tokens will have their own identities in the same
form, see `servo.core.actors`.
"""

import getpass
import re
import socket
from functools import cache

from servo.core.actors import ActorKind, actor

_ODD = re.compile(r"[^A-Za-z0-9._+-]+")


@cache
def this_process() -> str:
    """The actor of this process: `user:NAME@HOST`."""
    return user_at(_login(), socket.gethostname())


def user_at(login: str, host: str) -> str:
    """The actor of a user of a machine; what cannot be in an id is replaced."""
    return actor(ActorKind.USER, f"{_plain(login)}@{_plain(host)}")


def _login() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # a container may run as an id that has no name
        return "unknown"


def _plain(text: str) -> str:
    return _ODD.sub("-", text).strip(".-") or "unknown"
