"""The registry of one user on one machine, through which its processes find each other.

It is a folder that other machines do not see, with the id of the machine and the locks and sockets
of leaders.
"""

import errno
import os
import re
import tempfile
from contextlib import suppress
from pathlib import Path

from servo.errors import Corrupt, Invalid, Unavailable
from servo.workspace.composition import system_entropy

VARIABLE = "XDG_RUNTIME_DIR"

_ID_BYTES = 12
_ID = re.compile(rb"[0-9a-f]{%d}" % (2 * _ID_BYTES))
NO_FOLDER = (errno.ENOTDIR, errno.EEXIST, errno.ENOENT, errno.ENAMETOOLONG, errno.ELOOP)
"""What the system says of a path that can be no folder; anything else may pass."""


def registry_folder() -> Path:
    """Where the processes of this user on this machine find each other."""
    base = os.environ.get(VARIABLE) or tempfile.gettempdir()
    return Path(base) / f"servo-{os.getuid()}"


def made_registry_folder() -> Path:
    """The same folder, created if there is none."""
    folder = registry_folder()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise _unusable(folder, error) from None
    return folder


def machine_id() -> str:
    """What tells this machine's registry from every other one."""
    with suppress(OSError):  # creating it tells what is wrong, if anything is
        return _read_id(registry_folder() / "machine")
    folder = made_registry_folder()
    try:
        return _read_id(_write_id(folder))
    except OSError as error:
        raise _unusable(folder, error) from None


def _write_id(folder: Path) -> Path:
    path, draft = folder / "machine", folder / f"machine.{os.getpid()}"
    _ = draft.write_text(system_entropy().token_bytes(_ID_BYTES).hex())
    with suppress(FileExistsError):
        path.hardlink_to(draft)  # whoever was first is the one everybody reads
    draft.unlink()
    return path


def _read_id(path: Path) -> str:
    try:
        data = path.read_bytes()
    except IsADirectoryError as error:
        raise _damaged(path, str(error.strerror)) from None
    if not _ID.fullmatch(data):
        raise _damaged(path, f"it is not {2 * _ID_BYTES} hexadecimal digits")
    return data.decode()


def _unusable(folder: Path, error: OSError) -> Invalid | Unavailable:
    told = f"the folder {folder} cannot be used: {error.strerror}"
    remedy = f"set ${VARIABLE} to a folder that this user can write to"
    if error.errno in NO_FOLDER:
        return Invalid(told, remedy=remedy)
    return Unavailable(told, remedy=remedy, may_have_applied=False)


def _damaged(path: Path, why: str) -> Corrupt:
    return Corrupt(
        f"the machine id in {path} cannot be read: {why}",
        remedy="delete it: the next command writes a new one",
    )
