"""Files of the local store: written whole before anyone can see them, read through a descriptor.

A file is written and flushed under a private name in `.tmp`; only then is it linked or renamed to
where a reader looks. What a crash leaves in `.tmp` is rubbish, found by its age.

**Versions** are the modification time in nanoseconds and the size. Kernels hand out times no finer
than a clock tick, and two writes in one tick must differ, so the last 24 bits (17 ms) are replaced
by a hash of what tells one write from another: inode, process and count. Copying a store keeps its
versions if it keeps times (`cp -a`, `rsync -a`, `tar`). The filesystem must store nanoseconds.
"""

import errno
import itertools
import os
import stat
import zlib
from datetime import UTC, datetime, timedelta

import msgspec

from servo.errors import Invalid
from servo.ports.object_store import ObjectMeta
from servo.storage.local_folders import Folder, Folders, durable

TEMPORARIES = ".tmp"

# O_NONBLOCK: opening a pipe that somebody put there must not wait for its other end.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_TICK = 0xFFFFFF
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_counter = itertools.count()


class Temporary(msgspec.Struct, frozen=True, kw_only=True):
    """A file that is durable and that nobody reads yet."""

    folder: Folder
    name: str
    status: os.stat_result


def write_temporary(folders: Folders, data: bytes) -> Temporary:
    """Write and flush a new file in `.tmp`."""
    folder = folders.make(TEMPORARIES)
    name, fd = _open_new(folder)
    try:
        _write_all(fd, data)
        status = _stamp(fd, name)
        durable(fd)
    except OSError:
        discard(folder, name)
        raise
    finally:
        os.close(fd)
    return Temporary(folder=folder, name=name, status=status)


def discard(folder: Folder, name: str) -> None:
    """Drop a private name. Failing to is not a failure: a sweep finds what is left."""
    try:
        os.unlink(name, dir_fd=folder.fd)
    except OSError:
        return


def open_file(folder: Folder, name: str) -> int | None:
    """A descriptor to read a regular file with; None for a folder or a device."""
    try:
        fd = os.open(name, _READ, dir_fd=folder.fd)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise Invalid(
            f"the object {name!r} in the store is a symbolic link",
            remedy="replace it with the file it points to; a store does not follow links",
        ) from error
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    return None


def read(fd: int, *, start: int, length: int) -> bytes:
    """Up to `length` bytes from `start`; fewer only at the end."""
    parts: list[bytes] = []
    while length > 0 and (part := os.pread(fd, min(length, 1 << 30), start)):
        parts.append(part)
        start += len(part)
        length -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def version_of(status: os.stat_result) -> str:
    return f"{status.st_mtime_ns:x}-{status.st_size:x}"


def meta_of(key: str, status: os.stat_result, version: str) -> ObjectMeta:
    # Through whole microseconds: a float second is not exact.
    modified = _EPOCH + timedelta(microseconds=status.st_mtime_ns // 1000)
    return ObjectMeta(key=key, size=status.st_size, modified=modified, version=version)


def _open_new(folder: Folder) -> tuple[str, int]:
    # O_EXCL decides, not the name: another host may well have the same process id.
    for count in _counter:
        name = f"{os.getpid():x}-{count:x}"
        try:
            return name, os.open(name, _WRITE, 0o666, dir_fd=folder.fd)
        except FileExistsError:
            continue
    raise AssertionError


def _write_all(fd: int, data: bytes) -> None:
    written = os.write(fd, data) if data else 0
    while written < len(data):
        written += os.write(fd, memoryview(data)[written:])


def _stamp(fd: int, name: str) -> os.stat_result:
    status = os.fstat(fd)
    unique = zlib.crc32(f"{status.st_ino:x}-{name}".encode())
    time = (status.st_mtime_ns & ~_TICK) | (unique & _TICK)
    os.utime(fd, ns=(time, time))
    return os.fstat(fd)
