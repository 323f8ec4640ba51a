"""Which process of this machine leads a workspace, and how to reach it.

The leader holds a lock on a file for as long as it lives; the operating system releases it however
the process ends. The file says which process leads and where its socket is. For a folder the lock
is in the folder itself, so that processes with different registries (other users, containers
that share a volume) see it too. For a bucket it is in the registry of this machine, and the
lease object covers other machines.

The lock decides which process *should* lead. The ledger keeps two leaders from both writing.
"""

import fcntl
import os
import socket
import threading
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import IO

import msgspec

from servo.errors import Unavailable
from servo.leader.lease import HostedTriggers, LeaderAdvert
from servo.workspace.address import Address
from servo.workspace.registry import NO_FOLDER, machine_id, made_registry_folder, registry_folder

_LOCKS = ".locks"
_TRIES = 5
_LOOK_TAKES = 0.01


class LeaderLock:
    """The right to lead one workspace on this machine; `acquire` it, `release` it in the end."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._path = _lock_path(address)
        self._file: IO[bytes] | None = None

    def acquire(self) -> bool:
        """Take the lock if it is free; whether this process holds it now."""
        if self._file is not None:
            return True
        if not self._address.is_local:
            _ = made_registry_folder()
        try:
            self._path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            file = self._path.open("a+b")
        except OSError as error:
            raise _closed(self._path, error) from None
        if not _locked(file):
            file.close()
            return False
        os.ftruncate(file.fileno(), 0)  # what whoever was killed left there
        self._file = file
        return True

    def advertise(self, advert: LeaderAdvert) -> None:
        """Write into the lock file who leads and how to reach it."""
        if self._file is None:
            return
        data = msgspec.json.encode(advert)
        # Longer first, so that a reader never sees the end of an older text behind a newer one.
        os.pwrite(self._file.fileno(), data, 0)
        os.ftruncate(self._file.fileno(), len(data))

    def release(self) -> None:
        """Release the lock, so that another process can lead."""
        if self._file is None:
            return
        with suppress(OSError):
            os.ftruncate(self._file.fileno(), 0)
        self._file.close()
        self._file = None


def _locked(file: IO[bytes]) -> bool:
    """Lock a file; False if another process holds it for longer than a quick check takes."""
    pause = threading.Event()
    for _ in range(_TRIES):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pause.wait(_LOOK_TAKES)
        else:
            return True
    return False


def leader_here(address: Address) -> LeaderAdvert | None:
    """The living process that holds the lock of a workspace, if there is one."""
    path = _lock_path(address)
    try:
        with path.open("rb") as file:
            if not _is_held(file):
                return None
            data = file.read()
    except OSError as error:
        if error.errno in NO_FOLDER:
            return None
        raise _closed(path, error) from None
    try:
        return msgspec.json.decode(data, type=LeaderAdvert)
    except msgspec.MsgspecError:
        return LeaderAdvert(pid=0)  # it has the lock, and is about to say who it is


def runs_here(leader: LeaderAdvert) -> bool:
    """Whether a leader is a process of this machine, with the same registry."""
    return leader.machine == machine_id()


class Leader(msgspec.Struct, frozen=True, kw_only=True):
    """How a leading process describes itself: see `LeaderAdvert`."""

    stays: bool = False
    command: str = ""
    locations: tuple[str, ...] = ()
    triggers: HostedTriggers = HostedTriggers.NONE


def advert(leader: Leader, *, since: datetime, socket_path: str) -> LeaderAdvert:
    """The description of this process as the leader."""
    return LeaderAdvert(
        pid=os.getpid(),
        host=socket.gethostname(),
        machine=machine_id(),
        socket=socket_path,
        stays=leader.stays,
        command=leader.command,
        locations=leader.locations,
        triggers=leader.triggers,
        since=since,
    )


def _closed(path: Path, error: OSError) -> Unavailable:
    return Unavailable(
        f"the lock {path} cannot be opened: {error.strerror}",
        remedy="make its folder writable for this user",
        may_have_applied=False,
    )


def _is_held(file: IO[bytes]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    fcntl.flock(file, fcntl.LOCK_UN)
    return False


def _lock_path(address: Address) -> Path:
    if address.is_local:
        return Path(address.store) / _LOCKS / f"{address.tenant}.{address.workspace}.leader"
    return registry_folder() / f"{address.digest}.leader"
