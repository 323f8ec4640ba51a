"""Who this process is, as the ledger is told: a person at a machine.

user:ada@laptop
"""

import getpass
import socket


def this_process() -> str:
    """The person whose account runs this process, and the machine."""
    return f"user:{_user()}@{socket.gethostname()}"


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # an account without a name, as in many containers
        return "unknown"
