"""A disk with files, folders and locks, and what a power cut leaves of them.

It stands in for the module `os` where Servo writes files itself. What was written counts as durable
only after `fsync`: of a file for its bytes, of a folder for its names. `power_cut` takes the rest
away, or some of it.
"""

import errno
import os
import stat
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import PurePosixPath
from typing import Any, TypeVar

from simulation.kernel import START, Kernel, current_process, this_process

T = TypeVar("T")
FIRST_DESCRIPTOR = 1_000_000_000
"""Far from real ones, and never used again: whoever closes one late must not close another."""
_descriptors = count(FIRST_DESCRIPTOR)


def _nobody(path: str, data: bytes | None) -> None:
    del path, data


class Inode:
    """A file or a folder: what it is now, and what of it is durable."""

    def __init__(self, number: int, *, is_folder: bool, mtime_ns: int) -> None:
        self.number = number
        self.is_folder = is_folder
        self.mtime_ns = mtime_ns
        self.links = 0
        self.data = b""
        self.durable_data: bytes | None = None
        self.entries: dict[str, Inode] = {}
        self.durable_entries: dict[str, Inode] = {}
        self.locked_by: dict[OpenFile, bool] = {}

    def status(self) -> os.stat_result:
        kind = stat.S_IFDIR | 0o755 if self.is_folder else stat.S_IFREG | 0o644
        size = len(self.data)
        seconds = self.mtime_ns / 1e9
        shown = (kind, self.number, 1, self.links, 0, 0, size, seconds, seconds, seconds)
        return os.stat_result(shown, {"st_mtime_ns": self.mtime_ns, "st_mtime": seconds})


class OpenFile:
    """A descriptor of some process."""

    def __init__(self, inode: Inode, path: str) -> None:
        self.inode = inode
        self.path = path
        self.place = 0


class Disk:
    """The files of one machine."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._numbers = 1
        self._open: dict[int, OpenFile] = {}
        self.root = self._new(is_folder=True)
        self.root.links = 1
        self.slow = False
        """Whether a call takes time, so that others do something meanwhile."""
        self.became_durable: Callable[[str, bytes | None], None] = _nobody

    # --- what a power cut leaves ----------------------------------------------------------------

    def power_cut(self) -> None:
        """Take away what is not durable; some of it may have reached the disk all the same."""
        self._open.clear()
        self._cut(self.root, "")

    def _cut(self, folder: Inode, path: str) -> None:
        lucky = self._kernel.random.random() < 0.3
        kept = folder.entries if lucky else folder.durable_entries
        folder.entries, folder.durable_entries = dict(kept), dict(kept)
        for name in sorted(folder.entries):
            inode, below = folder.entries[name], f"{path}/{name}"
            inode.links = 1
            inode.locked_by.clear()
            if inode.is_folder:
                self._cut(inode, below)
            elif inode.durable_data is None:
                whole = self._kernel.random.random() < 0.3
                length = len(inode.data) if whole else self._kernel.random.randint(0, 64)
                inode.data = inode.durable_data = inode.data[:length]
            else:
                inode.data = inode.durable_data
        if lucky:
            self._tell(folder, path)

    def _tell(self, folder: Inode, path: str) -> None:
        for name, inode in sorted(folder.durable_entries.items()):
            if not inode.is_folder and inode.durable_data is not None:
                self.became_durable(f"{path}/{name}", inode.durable_data)

    def _flush(self, file: OpenFile) -> None:
        inode = file.inode
        if not inode.is_folder:
            inode.durable_data = inode.data
            return
        before, inode.durable_entries = inode.durable_entries, dict(inode.entries)
        for name in sorted({*before, *inode.entries}):
            old, new = before.get(name), inode.entries.get(name)
            if old is new or (old or new or inode).is_folder:
                continue
            self.became_durable(f"{file.path}/{name}", None if new is None else new.durable_data)

    # --- in place of the module os --------------------------------------------------------------

    def open(self, path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        del mode
        return self._do(lambda: self._opened(str(path), flags, dir_fd))

    def _opened(self, path: str, flags: int, dir_fd: int | None) -> int:
        folder, name, full = self._place(path, dir_fd)
        inode = folder.entries.get(name) if name else folder
        if inode is None:
            if not flags & os.O_CREAT:
                raise _error(errno.ENOENT, path)
            if not folder.links:
                raise _error(errno.ENOENT, path)
            inode = self._new(is_folder=False)
            inode.links = 1
            folder.entries[name] = inode
        elif flags & os.O_CREAT and flags & os.O_EXCL:
            raise _error(errno.EEXIST, path)
        elif flags & os.O_DIRECTORY and not inode.is_folder:
            raise _error(errno.ENOTDIR, path)
        return self._descriptor(inode, full)

    def close(self, fd: int) -> None:
        file = self._open.pop(fd, None)
        if file is None:
            raise _error(errno.EBADF, str(fd))
        file.inode.locked_by.pop(file, None)

    def fstat(self, fd: int) -> os.stat_result:
        return self._file(fd).inode.status()

    def stat(
        self, path: str, *, dir_fd: int | None = None, follow_symlinks: bool = True
    ) -> os.stat_result:
        del follow_symlinks
        return self._do(lambda: self._found(str(path), dir_fd).status())

    def write(self, fd: int, data: Any) -> int:
        return self._do(lambda: self._written(self._file(fd), bytes(data), None))

    def pwrite(self, fd: int, data: bytes, offset: int) -> int:
        return self._do(lambda: self._written(self._file(fd), data, offset))

    def _written(self, file: OpenFile, data: bytes, offset: int | None) -> int:
        at = file.place if offset is None else offset
        held = file.inode.data.ljust(at, b"\0")
        file.inode.data = held[:at] + data + held[at + len(data) :]
        file.inode.mtime_ns = self._now_ns()
        if offset is None:
            file.place = at + len(data)
        return len(data)

    def pread(self, fd: int, length: int, offset: int) -> bytes:
        return self._do(lambda: self._file(fd).inode.data[offset : offset + length])

    def ftruncate(self, fd: int, length: int) -> None:
        def cut() -> None:
            inode = self._file(fd).inode
            inode.data = inode.data[:length].ljust(length, b"\0")

        self._do(cut)

    def utime(self, fd: int, *, ns: tuple[int, int]) -> None:
        self._file(fd).inode.mtime_ns = ns[1]

    def fsync(self, fd: int) -> None:
        self._do(lambda: self._flush(self._file(fd)), longest_ms=6)

    def mkdir(self, path: str, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        del mode
        self._do(lambda: self._made(str(path), dir_fd))

    def _made(self, path: str, dir_fd: int | None) -> None:
        folder, name, _ = self._place(path, dir_fd)
        if name in folder.entries:
            raise _error(errno.EEXIST, path)
        if not folder.links:
            raise _error(errno.ENOENT, path)
        made = self._new(is_folder=True)
        made.links = 1
        folder.entries[name] = made

    def rmdir(self, path: str, *, dir_fd: int | None = None) -> None:
        def remove() -> None:
            folder, name, _ = self._place(str(path), dir_fd)
            if self._found(str(path), dir_fd).entries:
                raise _error(errno.ENOTEMPTY, str(path))
            folder.entries.pop(name).links = 0

        self._do(remove)

    def unlink(self, path: str, *, dir_fd: int | None = None) -> None:
        def remove() -> None:
            folder, name, _ = self._place(str(path), dir_fd)
            self._found(str(path), dir_fd).links -= 1
            del folder.entries[name]

        self._do(remove)

    def link(self, src: str, dst: str, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        self._do(lambda: self._moved(src, dst, (src_dir_fd, dst_dir_fd), keep=True))

    def rename(self, src: str, dst: str, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        self._do(lambda: self._moved(src, dst, (src_dir_fd, dst_dir_fd), keep=False))

    def _moved(self, src: str, dst: str, folders: tuple[int, int], *, keep: bool) -> None:
        inode = self._found(src, folders[0])
        target, name, _ = self._place(dst, folders[1])
        there = target.entries.get(name)
        if not target.links:
            raise _error(errno.ENOENT, dst)
        if there is not None and keep:
            raise _error(errno.EEXIST, dst)
        if there is not None and there.is_folder:
            raise _error(errno.EISDIR, dst)
        target.entries[name] = inode
        inode.links += 1
        if not keep:
            source, old, _ = self._place(src, folders[0])
            del source.entries[old]
            inode.links -= 1

    @contextmanager
    def scandir(self, fd: int) -> Generator[Iterator["_Entry"]]:
        entries = self._do(lambda: dict(self._file(fd).inode.entries))
        yield iter([_Entry(name, inode) for name, inode in entries.items()])

    def flock(self, fd: int, how: int) -> None:
        """In place of `fcntl.flock`."""
        file = self._file(fd)
        holders = file.inode.locked_by
        if how & _LOCK_UN:
            holders.pop(file, None)
            return
        alone = bool(how & _LOCK_EX)
        if any(other is not file and (alone or held) for other, held in holders.items()):
            raise BlockingIOError(errno.EWOULDBLOCK, "locked")
        holders[file] = alone

    # --- how it works ---------------------------------------------------------------------------

    def _do(self, action: Callable[[], T], longest_ms: float = 0.3) -> T:
        process = current_process()
        if process is None:
            return action()
        process.check_alive()
        if not self.slow:
            return action()
        wait = self._kernel.random.uniform(0.01, longest_ms)
        return process.call(wait, lambda: action() if process.alive else None)

    def _new(self, *, is_folder: bool) -> Inode:
        self._numbers += 1
        return Inode(self._numbers, is_folder=is_folder, mtime_ns=self._now_ns())

    def _now_ns(self) -> int:
        return int(START.timestamp()) * 1_000_000_000 + self._kernel.now * 1000

    def _descriptor(self, inode: Inode, path: str) -> int:
        fd = next(_descriptors)
        self._open[fd] = OpenFile(inode, path)
        process = current_process()
        if process is not None:
            process.at_end.append(lambda: self._close_quietly(fd))
        return fd

    def _close_quietly(self, fd: int) -> None:
        if fd in self._open:
            self.close(fd)

    def _file(self, fd: int) -> OpenFile:
        if fd not in self._open:
            raise _error(errno.EBADF, str(fd))
        return self._open[fd]

    def _place(self, path: str, dir_fd: int | None) -> tuple[Inode, str, str]:
        """The folder and the name that a path means, and the whole path."""
        if dir_fd is None:
            folder, base = self.root, ""
        else:
            file = self._file(dir_fd)
            folder, base = file.inode, file.path
        *above, name = [part for part in path.split("/") if part] or [""]
        for part in above:
            found = folder.entries.get(part)
            if found is None:
                raise _error(errno.ENOENT, path)
            if not found.is_folder:
                raise _error(errno.ENOTDIR, path)
            folder, base = found, f"{base}/{part}"
        if not folder.is_folder:
            raise _error(errno.ENOTDIR, path)
        return folder, name, f"{base}/{name}" if name else base

    def _found(self, path: str, dir_fd: int | None = None) -> Inode:
        folder, name, _ = self._place(path, dir_fd)
        inode = folder.entries.get(name) if name else folder
        if inode is None:
            raise _error(errno.ENOENT, path)
        return inode

    def make_folders(self, path: str) -> None:
        """Make a folder and those above it, all of them durable."""
        folder = self.root
        for part in path.strip("/").split("/"):
            if part not in folder.entries:
                folder.entries[part] = self._new(is_folder=True)
                folder.entries[part].links = 1
            folder.durable_entries[part] = folder.entries[part]
            folder = folder.entries[part]

    def read_whole(self, path: str) -> bytes:
        """The bytes of a file."""
        return self._found(path).data


_LOCK_EX, _LOCK_UN = 2, 8


class _Entry:
    def __init__(self, name: str, inode: Inode) -> None:
        self.name = name
        self._inode = inode

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        del follow_symlinks
        return self._inode.is_folder

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        del follow_symlinks
        return not self._inode.is_folder


def _error(number: int, path: str) -> OSError:
    return OSError(number, os.strerror(number), path)


class System:
    """In place of the module `os`: that of the machine on which the calling process runs."""

    path = os.path
    stat_result = os.stat_result
    strerror = staticmethod(os.strerror)
    fsencode = staticmethod(os.fsencode)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("O_"):
            return getattr(os, name)
        process = current_process()
        if process is None:
            # Whatever is closed late, outside of all processes, is gone anyway.
            raise _error(errno.EBADF, name)
        return getattr(process.machine.disk, name)

    @staticmethod
    def getpid() -> int:
        return this_process().pid

    @staticmethod
    def getuid() -> int:
        return 1000

    @staticmethod
    def fdopen(fd: int, mode: str) -> "OpenedFile":
        del mode
        return OpenedFile(fd)


class OpenedFile:
    """A file that is open for reading, as `Path.open` gives it."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._disk: Disk = this_process().machine.disk

    def fileno(self) -> int:
        return self._fd

    def read(self) -> bytes:
        return self._disk.pread(self._fd, 1 << 30, 0)

    def __enter__(self) -> "OpenedFile":
        return self

    def __exit__(self, *_: object) -> None:
        self._disk.close(self._fd)


class SimPath(PurePosixPath):
    """In place of `pathlib.Path`: a path on the machine of the calling process."""

    def open(self, mode: str) -> OpenedFile:
        del mode
        return OpenedFile(_disk().open(str(self), os.O_RDONLY))

    def stat(self) -> os.stat_result:
        return _disk().stat(str(self))

    def exists(self) -> bool:
        try:
            _ = self.stat()
        except OSError:
            return False
        return True

    def unlink(self) -> None:
        _disk().unlink(str(self))

    def chmod(self, mode: int) -> None:
        del mode

    def mkdir(self, mode: int = 0o777, *, parents: bool = False, exist_ok: bool = False) -> None:
        del mode, parents, exist_ok
        _disk().make_folders(str(self))

    def rmdir(self) -> None:
        _disk().rmdir(str(self))

    def absolute(self) -> "SimPath":
        return self


def _disk() -> Disk:
    process = this_process()
    process.check_alive()
    return process.machine.disk


class Locks:
    """In place of the module `fcntl`."""

    LOCK_SH, LOCK_EX, LOCK_NB, LOCK_UN = 1, _LOCK_EX, 4, _LOCK_UN

    @staticmethod
    def flock(fd: int, how: int) -> None:
        process = this_process()
        process.check_alive()
        process.machine.disk.flock(fd, how)
