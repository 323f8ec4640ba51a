"""Which process of this machine leads a workspace, and how to reach it.

The leader holds a lock on a file for as long as it lives; the operating system releases it however
the process ends. The file says which process leads and where its socket is. For a folder the lock
is in the folder itself, so that processes with different registries (other users, containers
that share a volume) see it too. For a bucket it is in the registry of this machine, and the
lease object covers other machines.

A bucket can be spelled in ways that nobody can list (a name and an IP address of one server), and
each has a lock of its own. The lease therefore names the lock of its holder, and only that lock
tells whether the holder lives.

A file that was deleted is no longer found, although it stays locked. The leader looks for its lock
file every second and makes a new one if it is gone.

The lock decides which process *should* lead. The ledger keeps two leaders from both writing.
"""

import fcntl
import os
import socket
import threading
from contextlib import suppress
from datetime import datetime
from enum import Enum, auto
from pathlib import Path

import msgspec

from servo.errors import Corrupt, ServoError, Unavailable
from servo.leader.leases.lease import HostedTriggers, LeaderAdvert
from servo.leader.loaded_code import LoadedCode
from servo.workspace.address import Address
from servo.workspace.registry import NO_FOLDER, machine_id, made_registry_folder, registry_folder

_LOCKS = ".locks"
_TRIES = 5
_LOOK_TAKES = 0.01


class LockState(Enum):
    """What a leader finds when it looks for its lock file."""

    KEPT = auto()
    RESTORED = auto()
    """It was gone, and there is a new one, which this process holds."""
    TAKEN = auto()
    """Another process holds a new file of the same name."""


class LeaderLock:
    """The right to lead one workspace on this machine; `acquire` it, `release` it in the end."""

    def __init__(self, address: Address) -> None:
        self._path = _lock_path(address)
        # A folder can be moved while it is led, and its lock with it.
        self._store = Path(address.store) if address.is_local else None
        self._store_fd: int | None = None
        self._fd: int | None = None
        self._replaced: list[int] = []
        self._advert: LeaderAdvert | None = None

    @property
    def name(self) -> str:
        """The name of its file."""
        return self._path.name

    @property
    def inode(self) -> int:
        """What tells its file from others that have the same name sooner or later."""
        return 0 if self._fd is None else os.fstat(self._fd).st_ino

    def acquire(self) -> bool:
        """Take the lock if it is free; whether this process holds it now."""
        if self._fd is not None:
            return True
        if self._store is None:
            _ = made_registry_folder()
        try:
            if self._store is not None:
                self._path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
                self._store_fd = os.open(self._store, os.O_RDONLY | os.O_DIRECTORY)
            self._fd = self._locked_file()
        except OSError as error:
            self.release()
            raise _closed(self._path, error) from None
        if self._fd is None:
            self.release()
        return self._fd is not None

    def advertise(self, advert: LeaderAdvert) -> None:
        """Write into the lock file who leads and how to reach it."""
        if self._fd is None:
            return
        self._advert = advert
        data = msgspec.json.encode(advert)
        # Longer first, so that a reader never sees the end of an older text behind a newer one.
        os.pwrite(self._fd, data, 0)
        os.ftruncate(self._fd, len(data))

    def mend_advert(self, advert: LeaderAdvert) -> None:
        """Write again who leads if somebody has changed the text of the lock file."""
        data = msgspec.json.encode(advert)
        if self._fd is not None and os.pread(self._fd, len(data) + 1, 0) != data:
            self.advertise(advert)

    def keep(self) -> LockState:
        """Make a new lock file if somebody has deleted ours, and hold that.

        Whoever makes one first holds it: the other process if a command came before us. `Corrupt`
        if the whole folder of the store was deleted: nothing can be written or read there again.
        """
        self._check_store()
        with suppress(OSError, ServoError):  # if no file can be made here, nobody else can either
            if self._fd is None or self._is_found(self._fd):
                return LockState.KEPT
            self._make_folder()
            new = self._locked_file()
            if new is None:
                return LockState.TAKEN if self._names_another() else LockState.KEPT
            # It stays open: no other file gets its number while a lease may still name it.
            self._replaced.append(self._fd)
            self._fd = new
            return LockState.RESTORED
        return LockState.KEPT

    def _check_store(self) -> None:
        if self._store_fd is not None and os.fstat(self._store_fd).st_nlink == 0:
            raise Corrupt(
                f"the folder {self._store} of the store was deleted while it was in use",
                remedy="restore it from a backup, then start again",
            )

    def _names_another(self) -> bool:
        """Whether the file that is found says that another process leads.

        It may be ours, on a network file system that does not keep the numbers of files, or belong
        to a process that is only about to lead.
        """
        fd = os.open(self._name(), os.O_RDONLY, dir_fd=self._store_fd)
        with os.fdopen(fd, "rb") as file:
            found = _advert_in(file.read())
        return found.pid != 0 and found != self._advert

    def was_held_by(self, leader: LeaderAdvert) -> bool:
        """Whether this is the lock that a leader held, so that it has ended if we hold it."""
        return (leader.lock, leader.lock_inode) == (self.name, self.inode)

    def release(self) -> None:
        """Release the lock, so that another process can lead."""
        if self._fd is not None:
            with suppress(OSError):
                os.ftruncate(self._fd, 0)
        for fd in (self._fd, self._store_fd, *self._replaced):
            if fd is not None:
                os.close(fd)
        self._fd, self._store_fd, self._replaced = None, None, []

    def _locked_file(self) -> int | None:
        """The lock file, made if it is missing, locked and empty; None if another holds it."""
        for tries_left in reversed(range(_TRIES)):
            fd = os.open(self._name(), os.O_RDWR | os.O_CREAT, 0o666, dir_fd=self._store_fd)
            try:
                if not _locked(fd):
                    os.close(fd)
                    return None
                if self._is_found(fd) or not tries_left:
                    os.ftruncate(fd, 0)  # what whoever was killed left there
                    return fd
            except BaseException:
                os.close(fd)
                raise
            os.close(fd)  # it was deleted before we had locked it
        return None

    def _is_found(self, fd: int) -> bool:
        """Whether an open file is the one that other processes find under the name of the lock."""
        try:
            found = os.stat(self._name(), dir_fd=self._store_fd)
        except FileNotFoundError:
            return False
        return os.path.samestat(found, os.fstat(fd))

    def _make_folder(self) -> None:
        if self._store_fd is None:
            _ = made_registry_folder()
            return
        with suppress(FileExistsError):
            os.mkdir(_LOCKS, 0o755, dir_fd=self._store_fd)

    def _name(self) -> str:
        """The path of the file, as seen from the folder that is held open, if one is."""
        return str(self._path) if self._store_fd is None else f"{_LOCKS}/{self.name}"


def _locked(fd: int) -> bool:
    """Lock a file; False if another process holds it for longer than a quick check takes."""
    pause = threading.Event()
    for _ in range(_TRIES):
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pause.wait(_LOOK_TAKES)
        else:
            return True
    return False


def leader_here(address: Address) -> LeaderAdvert | None:
    """The living process that holds the lock of a workspace, if there is one."""
    return holder_of(_lock_path(address))


def holder_of(lock: Path) -> LeaderAdvert | None:
    """The living process that holds a lock, if there is one."""
    try:
        with lock.open("rb") as file:
            if not _is_held(file.fileno()):
                return None
            data = file.read()
    except OSError as error:
        if error.errno in NO_FOLDER:
            return None
        raise _closed(lock, error) from None
    return _advert_in(data)


def _advert_in(data: bytes) -> LeaderAdvert:
    try:
        return msgspec.json.decode(data, type=LeaderAdvert)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return LeaderAdvert(pid=0)  # it has the lock, and is about to say who it is


def runs_here(leader: LeaderAdvert) -> bool:
    """Whether a leader is a process of this machine, with the same registry."""
    return leader.machine == machine_id()


def lock_of(leader: LeaderAdvert) -> Path | None:
    """The lock that a leader of this machine holds while it lives.

    None if its file is gone, so that nobody can tell from it.
    """
    if not leader.lock or Path(leader.lock).name != leader.lock or not runs_here(leader):
        return None
    path = registry_folder() / leader.lock
    try:
        return path if path.stat().st_ino == leader.lock_inode else None
    except OSError:
        return None


class Leader(msgspec.Struct, frozen=True, kw_only=True):
    """How a leading process describes itself: see `LeaderAdvert`."""

    stays: bool = False
    command: str = ""
    locations: tuple[str, ...] = ()
    triggers: HostedTriggers = HostedTriggers.NONE
    code: dict[str, LoadedCode] = {}


def advert(
    leader: Leader, *, since: datetime, socket_path: str, lock: LeaderLock | None = None
) -> LeaderAdvert:
    """The description of this process as the leader; with its lock if that is in the registry."""
    return LeaderAdvert(
        pid=os.getpid(),
        host=socket.gethostname(),
        machine=machine_id(),
        lock="" if lock is None else lock.name,
        lock_inode=0 if lock is None else lock.inode,
        socket=socket_path,
        stays=leader.stays,
        command=leader.command,
        locations=leader.locations,
        triggers=leader.triggers,
        code=leader.code,
        since=since,
    )


def _closed(path: Path, error: OSError) -> Unavailable:
    return Unavailable(
        f"the lock {path} cannot be opened: {error.strerror}",
        remedy="make its folder writable for this user",
        may_have_applied=False,
    )


def _is_held(file: int) -> bool:
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
