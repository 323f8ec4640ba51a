"""`ObjectStore` in a folder: the default, and the only store that is entirely ours.

A key is the path of a file below the root. Two folders of the root hold no objects and are never
listed: `.tmp` (files being written) and `.swaps` (see `local_swaps`).

**Create**: write and flush a private file; link it to the key's path, which is atomic and fails if
anything is there; flush the folder; drop the private name. Simpler ways fail: rename overwrites,
and opening with O_EXCL shows a file that is still being written. What a crash leaves behind,

- before the link: a private file, swept some day; the object does not exist;
- between link and flush: an object that readers see and a power cut may take away again, but that
  nobody was told of. Before `Conflict` is answered the folder is flushed, so that whoever is told
  that an object exists can rely on it;
- after the flush: the object, and perhaps its private name.

**Put** does the same with rename. **Delete** unlinks and flushes. **replace_if** is argued in
`local_swaps`.

An error before link or rename says `may_have_applied=False`, one after it `True`. No object may be
a folder of another: `a` and `a/b` cannot both exist here, and the second is refused with `Invalid`.
Any number of processes may share a root, on any filesystem with hard links, on which a link is
exclusive for all of them (local ones; NFS with care: a lost reply reads as `Conflict`).
"""

import os
import stat
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from servo.errors import Conflict, Invalid, NotFound, Unavailable
from servo.ports.object_store import Blob, ObjectMeta
from servo.storage.keys import check_key, check_prefix, is_key
from servo.storage.local_errors import Disk
from servo.storage.local_files import TEMPORARIES, meta_of, open_file, read, version_of
from servo.storage.local_folders import Folder, Folders, status_of
from servo.storage.local_swaps import (
    KEEP,
    SWAPS,
    any_swaps,
    clear,
    highest,
    prune,
    swap_folder,
    swap_names,
    swapped,
)
from servo.storage.local_sweep import sweep
from servo.storage.local_walk import keys_after
from servo.storage.local_writer import Writer, link, rename
from servo.storage.requests import check_limit, check_range

T = TypeVar("T")

_HIDDEN = frozenset({TEMPORARIES, SWAPS})

# Each is one lost race, against a writer that pruned the swap that was to be read.
_TRIES = 16


class LocalStore:
    """Objects as files under `root`, which is made if it is missing."""

    def __init__(self, root: str | Path) -> None:
        path = str(Path(root).absolute())
        self._disk = Disk(path)
        with self._disk("open the store in", path):
            self._folders = Folders(path)
        self._writer = Writer(self._folders, self._disk)

    def get(self, key: str) -> Blob:
        fd, meta = self._open(key)
        try:
            with self._disk("read", key):
                return Blob(data=read(fd, start=0, length=meta.size), meta=meta)
        finally:
            os.close(fd)

    def get_range(self, key: str, *, start: int, length: int) -> bytes:
        check_range(start=start, length=length)
        fd, _ = self._open(key)
        try:
            with self._disk("read", key):
                return read(fd, start=start, length=length)
        finally:
            os.close(fd)

    def put(self, key: str, data: bytes) -> ObjectMeta:
        _check(key)
        status = self._writer.write(key, data, rename)
        return meta_of(key, status, version_of(status))

    def create(self, key: str, data: bytes) -> ObjectMeta:
        _check(key)
        status = self._writer.write(key, data, link)
        return meta_of(key, status, version_of(status))

    def replace_if(self, key: str, data: bytes, *, version: str) -> ObjectMeta:
        _check(key)
        with self._disk("read", key):
            base, number = self._present(key)
        if not base or version != swapped(base, number):
            raise _changed(key, version)
        mine = swapped(base, number + 1)
        try:
            status = self._writer.write(f"{swap_folder(key)}/{mine}", data, link)
        except Conflict:
            raise _changed(key, version) from None
        self._confirm(key, base, number + 1)
        return meta_of(key, status, mine)

    def list_after(
        self, prefix: str, *, after: str = "", limit: int | None = None
    ) -> list[ObjectMeta]:
        check_prefix(prefix)
        check_prefix(after)
        check_limit(limit)
        found: list[ObjectMeta] = []
        with self._disk("list", prefix):
            swapping = any_swaps(self._folders)
            for folder, key in keys_after(self._folders, prefix, after, hidden=_HIDDEN):
                if limit is not None and len(found) >= limit:
                    break
                meta = self._meta(folder, key, swapping=swapping) if is_key(key) else None
                if meta is not None:
                    found.append(meta)
        return found

    def delete(self, key: str) -> None:
        _check(key)
        name = key.rpartition("/")[2]
        with self._disk("delete", key):
            found = self._found(key, lambda folder, name: (folder, status_of(folder, name)))
            if found is None or stat.S_ISDIR(found[1].st_mode):
                return
        folder, status = found
        with self._disk("delete", key, may_have_applied=None), suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folder.fd)
        with self._disk("flush the folder of", key, may_have_applied=True):
            folder.flush()
            if swap_names(self._folders, key):
                clear(self._folders, key, version_of(status))

    def sweep_temporaries(self, older_than: datetime) -> int:
        """Remove what crashes left behind before `older_than`; return how many files.

        The age must exceed the longest that a write can take: a writer that is only slow finds
        its file gone and fails, having written nothing. Empty folders of that age go as well.
        """
        with self._disk("sweep", TEMPORARIES):
            return sweep(
                self._folders, lambda key: self._present(key)[0], older_than=older_than.timestamp()
            )

    def _open(self, key: str) -> tuple[int, ObjectMeta]:
        """A descriptor of the file that is the object now, and what is known about it."""
        _check(key)
        with self._disk("read", key):
            for _ in range(_TRIES):
                names = swap_names(self._folders, key)
                fd = self._found(key, open_file)
                if fd is None:
                    raise NotFound(f"there is no object {key!r}", remedy="check the key")
                base = version_of(os.fstat(fd))
                version = swapped(base, highest(names, base))
                if version != base:
                    os.close(fd)
                    fd = self._found(f"{swap_folder(key)}/{version}", open_file)
                if fd is not None:
                    return fd, meta_of(key, os.fstat(fd), version)
        raise Unavailable(
            f"{key!r} changes faster than it can be read", remedy="retry", may_have_applied=False
        )

    def _present(self, key: str) -> tuple[str, int]:
        """The version of the key's base, '' if there is none, and the number of its newest swap."""
        names = swap_names(self._folders, key)
        status = self._found(key, status_of)
        base = version_of(status) if status is not None and stat.S_ISREG(status.st_mode) else ""
        return base, highest(names, base)

    def _found(self, key: str, look: Callable[[Folder, str], T]) -> T | None:
        """What `look` makes of the key's folder and name; None if there is no such entry."""
        path, _, name = key.rpartition("/")
        # A folder that was open already may have been removed and made again: look twice.
        for find in (self._folders.anchored, self._folders.find):
            with suppress(FileNotFoundError, NotADirectoryError):
                folder = find(path)
                if folder is not None:
                    return look(folder, name)
        return None

    def _meta(self, folder: Folder, key: str, *, swapping: bool) -> ObjectMeta | None:
        try:
            if swapping and swap_names(self._folders, key):
                fd, meta = self._open(key)
                os.close(fd)
                return meta
            status = status_of(folder, key.rpartition("/")[2])
        except (FileNotFoundError, NotFound):
            return None  # deleted since the folder was read
        return meta_of(key, status, version_of(status))

    def _confirm(self, key: str, base: str, number: int) -> None:
        """Make sure that a swap that was linked is one that readers see."""
        with self._disk("read back", key, may_have_applied=True):
            base_now, newest = self._present(key)
            if base_now != base or newest >= number + KEEP:
                raise Unavailable(
                    f"{key!r} was overwritten while it was replaced",
                    remedy="read it to see which version it has",
                )
            with suppress(OSError):
                prune(self._folders.make(swap_folder(key)), base, newest=newest)


def _check(key: str) -> None:
    check_key(key)
    if key[0] == "." and key.partition("/")[0] in _HIDDEN:
        raise Invalid(f"the key {key!r} is reserved by the local store", remedy="choose another")


def _changed(key: str, version: str) -> Conflict:
    return Conflict(f"the object {key!r} does not have version {version!r}", remedy="read it again")
