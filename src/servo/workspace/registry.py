"""The registry of one user on one machine, through which its processes find each other.

It is a folder that other machines do not see, with the id of the machine and the locks and sockets
of leaders.
"""

import os
import tempfile
from contextlib import suppress
from pathlib import Path

from servo.workspace.composition import system_entropy


def registry_folder() -> Path:
    """Where the processes of this user on this machine find each other."""
    base = os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()
    return Path(base) / f"servo-{os.getuid()}"


def machine_id() -> str:
    """What tells this machine's registry from every other one."""
    folder = registry_folder()
    path = folder / "machine"
    with suppress(FileNotFoundError):
        return path.read_text()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = folder / f"machine.{os.getpid()}"
    _ = draft.write_text(system_entropy().token_bytes(12).hex())
    with suppress(FileExistsError):
        path.hardlink_to(draft)  # whoever was first is the one everybody reads
    draft.unlink()
    return path.read_text()
