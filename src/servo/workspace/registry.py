"""Which pools of this machine are alive.

A pool holds a lock on a file of its own as long as its process lives, and the operating system lets
go of it however the process ends. Whoever leads next can therefore tell at once, and not after a
lease of minutes, that what a dead pool was doing is lost. A file that is missing tells nothing: the
pool may be on another machine.
"""

import fcntl
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import IO

import msgspec

from servo.workspace.system import SystemEntropy

_SUFFIX = ".pool"


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """A pool: its process, and the workspace it works for."""

    pid: int
    workspace: str
    name: str = ""


def registry_folder() -> Path:
    """Where the pools of this user on this machine are registered."""
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


class Registered:
    """A pool's place in the registry, held until the process ends or it is given up."""

    def __init__(self, folder: Path, name: str, workspace: str) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._path = folder / f"{name}{_SUFFIX}"
        self._file: IO[bytes] = self._path.open("wb")
        fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        member = Member(pid=os.getpid(), workspace=workspace, name=name)
        self._file.write(msgspec.json.encode(member))
        self._file.flush()

    def release(self) -> None:
        """Say that this pool is gone for good and left nothing undone."""
        with suppress(FileNotFoundError):
            self._path.unlink()
        self._file.close()

    def abandon(self) -> None:
        """Say that this pool is dead and left something undone, for the next one to find."""
        self._file.close()


def is_dead(folder: Path, name: str) -> bool:
    """Whether the pool of this name was on this machine and its process has ended."""
    path = folder / f"{name}{_SUFFIX}"
    return path.exists() and not _is_locked(path)


def forget(folder: Path, name: str) -> None:
    """Remove a dead pool, once what it was doing is taken care of."""
    with suppress(FileNotFoundError):
        (folder / f"{name}{_SUFFIX}").unlink()


def _is_locked(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False
    return False
