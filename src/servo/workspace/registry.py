"""What processes of one user on one machine know of each other.

It lies in a folder that other machines do not see: the id of the machine, the locks and sockets of
leaders, and which state of its code a leader has imported. A leader that stays (see `servo dev`)
says the last, so that others ask it for runs only when it has the code that they have.
"""

import os
import tempfile
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from servo.workspace.system import SystemEntropy

_LOADED = ".loaded"


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
    _ = draft.write_text(SystemEntropy().token_bytes(12).hex())
    with suppress(FileExistsError):
        path.hardlink_to(draft)  # whoever was first is the one everybody reads
    draft.unlink()
    return path.read_text()


def tell_loaded(workspace: str, location: str, fingerprint: str) -> None:
    """Say which state of the code of a location the leader of a workspace has imported."""
    path = _loaded_path(workspace, location)
    draft = path.with_suffix(".draft")
    _ = draft.write_text(fingerprint)
    _ = draft.replace(path)


def loaded_by_leader(workspace: str, location: str) -> str:
    """Which state of its code the leader of a workspace has imported; empty if it never said."""
    try:
        return _loaded_path(workspace, location).read_text()
    except FileNotFoundError:
        return ""


def _loaded_path(workspace: str, location: str) -> Path:
    name = sha256(location.encode()).hexdigest()[:12]
    return registry_folder() / f"{workspace}.{name}{_LOADED}"
