"""Which pools of this machine are alive.

A pool holds a lock on a file of its own as long as its process lives, and the operating system lets
go of it however the process ends. Whoever leads next can therefore tell at once, and not after a
lease of minutes, that what a dead pool was doing is lost; and whoever starts can tell that somebody
is at work already. A file that is missing tells nothing: the pool may be on another machine.

A pool that stays (see `servo dev`) says which code it has, so that others can ask it for runs; and,
in a file beside its own, which state of that code it has imported.
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
_LOADED = ".loaded"


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """A pool: its process, and the workspace it works for."""

    pid: int
    workspace: str
    name: str = ""
    code: str = ""


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

    def __init__(self, folder: Path, name: str, workspace: str, *, code: str = "") -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._path = folder / f"{name}{_SUFFIX}"
        self._file: IO[bytes] = self._path.open("wb")
        fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        member = Member(pid=os.getpid(), workspace=workspace, name=name, code=code)
        self._file.write(msgspec.json.encode(member))
        self._file.flush()

    def release(self) -> None:
        """Say that this pool is gone for good and left nothing undone."""
        with suppress(FileNotFoundError):
            self._path.with_suffix(_LOADED).unlink()
        with suppress(FileNotFoundError):
            self._path.unlink()
        self._file.close()

    def abandon(self) -> None:
        """Say that this pool is dead and left something undone, for the next one to find."""
        self._file.close()


def at_work(folder: Path, workspace: str) -> Member | None:
    """A living pool that works for a workspace, if there is one on this machine."""
    for path in sorted(folder.glob(f"*{_SUFFIX}")):
        member = _read(path)
        if member is not None and member.workspace == workspace and _is_locked(path):
            return member
    return None


def tell_loaded(folder: Path, name: str, fingerprint: str) -> None:
    """Say which state of the code a pool has imported."""
    path = folder / f"{name}{_LOADED}"
    draft = path.with_suffix(".draft")
    _ = draft.write_text(fingerprint)
    _ = draft.replace(path)


def loaded_by(folder: Path, name: str) -> str:
    """Which state of the code a pool has imported; empty if it does not say."""
    try:
        return (folder / f"{name}{_LOADED}").read_text()
    except FileNotFoundError:
        return ""


def is_dead(folder: Path, name: str) -> bool:
    """Whether the pool of this name was on this machine and its process has ended."""
    path = folder / f"{name}{_SUFFIX}"
    return path.exists() and not _is_locked(path)


def forget(folder: Path, name: str) -> None:
    """Remove a dead pool, once what it was doing is taken care of."""
    for suffix in (_SUFFIX, _LOADED):
        with suppress(FileNotFoundError):
            (folder / f"{name}{suffix}").unlink()


def _read(path: Path) -> Member | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Member)
    except (OSError, msgspec.MsgspecError):
        return None  # being written, or gone


def _is_locked(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False
    return False
