"""Folders of the local store, opened once and kept open.

A folder is reached from the root one segment at a time, never through a symbolic link, so nothing
in the root can lead a key outside it. What is done to a folder is done through its descriptor: no
path is resolved twice, and none can be swapped in between.

A folder made here is *anchored*: its entry in its parent was flushed, by this process, after it
was seen. Whoever made it may have died before flushing, and an object in a folder that a power
cut takes away is not durable.

A descriptor outlives the folder it names. Linking into a folder that somebody has removed fails
with ENOENT, and then the caller says `forget` and asks again.
"""

import os
import stat
import threading
from collections import OrderedDict
from contextlib import suppress
from math import inf
from pathlib import Path

from servo.errors import Corrupt, Invalid

try:
    from fcntl import F_FULLFSYNC, fcntl
except ImportError:  # anything but macOS, whose fsync stops at the drive's cache

    def durable(fd: int) -> None:
        """Return when what was written to `fd` survives a power cut."""
        os.fsync(fd)

else:

    def durable(fd: int) -> None:
        """Return when what was written to `fd` survives a power cut."""
        fcntl(fd, F_FULLFSYNC)


_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Folder:
    """An open folder, closed when its last user lets go.

    The cache may drop a folder while another thread links into it. Closing it then would let its
    number be given to some other file, and the link would go there. So keep a name for the folder
    while using its descriptor.
    """

    __slots__ = ("fd",)

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def flush(self) -> None:
        """Return when the entries of the folder survive a power cut."""
        durable(self.fd)

    def __del__(self) -> None:
        with suppress(OSError):
            os.close(self.fd)


class Folders:
    """The folders under one root, by their path without leading or final '/'."""

    def __init__(self, root: str, *, keep_open: int = 128) -> None:
        make_root(Path(root))
        self._path = root
        self._root = _open_root(root)
        self._keep_open = keep_open
        self._lock = threading.Lock()
        self._anchored: OrderedDict[str, Folder] = OrderedDict()

    def anchored(self, path: str) -> Folder | None:
        """The folder, if it is open already; it may have been removed since."""
        if not path:
            return self._root
        with self._lock:
            folder = self._anchored.get(path)
            if folder is not None:
                self._anchored.move_to_end(path)
            return folder

    def make(self, path: str) -> Folder:
        """The folder, made and anchored as far as necessary."""
        folder = self.anchored(path)
        if folder is not None:
            return folder
        folder, done = self._root, ""
        for name in path.split("/"):
            done = f"{done}/{name}" if done else name
            folder = self.anchored(done) or self._make_one(folder, name, done)
        return folder

    def find(self, path: str) -> Folder | None:
        """The folder as it is now, or None."""
        folder = self._root
        for name in path.split("/") if path else ():
            try:
                folder = open_folder(folder, name)
            except FileNotFoundError:
                return None
        return folder

    def forget(self) -> None:
        """Open every folder anew: one of them was not there any more.

        `Corrupt` if it was the root. A new folder of the same name is another store, and a writer
        that went on there would leave its history behind.
        """
        if os.fstat(self._root.fd).st_nlink == 0:
            raise Corrupt(
                f"the folder {self._path} of the store was deleted while it was in use",
                remedy="restore it from a backup, then start again",
            )
        with self._lock:
            self._anchored.clear()

    def _make_one(self, parent: Folder, name: str, path: str) -> Folder:
        with suppress(FileExistsError):
            os.mkdir(name, dir_fd=parent.fd)
        folder = open_folder(parent, name)
        parent.flush()
        with self._lock:
            self._anchored[path] = folder
            if len(self._anchored) > self._keep_open:
                self._anchored.popitem(last=False)
        return folder


def open_folder(parent: Folder, name: str) -> Folder:
    """Open a folder in `parent`; an object in its place is `NotADirectoryError`."""
    try:
        return Folder(os.open(name, _FOLDER, dir_fd=parent.fd))
    except OSError as error:
        if isinstance(error, FileNotFoundError) or not _is_link(parent, name):
            raise
        raise Invalid(
            f"the folder {name!r} in the store is a symbolic link",
            remedy="replace it with the folder it points to; a store does not follow links",
        ) from error


def status_of(folder: Folder, name: str) -> os.stat_result:
    """What is known about an entry itself, not about what it may link to."""
    return os.stat(name, dir_fd=folder.fd, follow_symlinks=False)


def entries_of(folder: Folder) -> list[tuple[str, bool]]:
    """The names in a folder and whether each is a folder."""
    with os.scandir(folder.fd) as entries:
        return [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]


def _is_link(parent: Folder, name: str) -> bool:
    try:
        return stat.S_ISLNK(status_of(parent, name).st_mode)
    except FileNotFoundError:
        return False


def remove_empty(parent: Folder, name: str, *, older_than: float = inf) -> bool:
    """Remove the empty folders at and below `name`; say whether it is gone itself.

    Safe beside writers: rmdir refuses a folder that holds anything, and one who would have linked
    into a folder that was removed gets ENOENT and makes it again.
    """
    try:
        folder = open_folder(parent, name)
        old = os.fstat(folder.fd).st_mtime < older_than
        gone = [
            is_dir and remove_empty(folder, child, older_than=older_than)
            for child, is_dir in entries_of(folder)
        ]
        if not old or not all(gone):
            return False
        os.rmdir(name, dir_fd=parent.fd)
    except FileNotFoundError:
        return True
    except (OSError, Invalid):
        return False
    return True


def make_root(root: Path) -> None:
    """Make the root and what leads to it, each anchored in its parent."""
    missing = [path for path in (root, *root.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(exist_ok=True)
        _open_root(str(path.parent)).flush()


def _open_root(path: str) -> Folder:
    """The root itself may be reached through links: that is the user's choice."""
    return Folder(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
