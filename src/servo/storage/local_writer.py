"""Durable files at a path: written in private, then made visible by one atomic call.

Who may interfere between writing and placing: a sweep that removed the folder (it is made again),
a writer that took the place (`Conflict`), a key that needs a folder where an object is, or the
other way round (`Invalid`). Each of them leaves the private file alone and the place as it was.
"""

import os
import stat
from collections.abc import Callable

from servo.errors import Conflict, Invalid, Unavailable
from servo.storage.local_errors import Disk
from servo.storage.local_files import Temporary, discard, write_temporary
from servo.storage.local_folders import Folder, Folders, remove_empty, status_of

_Install = Callable[[Temporary, Folder, str], None]

_TRIES = 16


def link(temporary: Temporary, folder: Folder, name: str) -> None:
    """Give the file its name, unless the name is taken."""
    os.link(temporary.name, name, src_dir_fd=temporary.folder.fd, dst_dir_fd=folder.fd)


def rename(temporary: Temporary, folder: Folder, name: str) -> None:
    """Give the file its name, whoever has it."""
    os.rename(temporary.name, name, src_dir_fd=temporary.folder.fd, dst_dir_fd=folder.fd)


class Writer:
    """Writes the files of one store."""

    def __init__(self, folders: Folders, disk: Disk) -> None:
        self._folders = folders
        self._disk = disk

    def write(self, path: str, data: bytes, place: _Install) -> os.stat_result:
        """Make a durable file of `data` at `path`; `Conflict` if `place` finds it taken."""
        temporary = self._temporary(path, data)
        try:
            folder = self._placed(path, temporary, place)
            with self._disk("flush the folder of", path, may_have_applied=True):
                folder.flush()
        finally:
            discard(temporary.folder, temporary.name)
        return temporary.status

    def _temporary(self, path: str, data: bytes) -> Temporary:
        with self._disk("write", path):
            try:
                return write_temporary(self._folders, data)
            except FileNotFoundError:  # somebody emptied the store under us
                self._folders.forget()
                return write_temporary(self._folders, data)

    def _placed(self, path: str, temporary: Temporary, place: _Install) -> Folder:
        """Put a finished file where readers look; the folder it is in then."""
        parent, _, name = path.rpartition("/")
        for _ in range(_TRIES):
            try:
                folder = self._folders.make(parent)
                place(temporary, folder, name)
            except FileNotFoundError:  # somebody swept the folder
                self._folders.forget()
            except NotADirectoryError as error:
                raise _nested(path) from error
            except (FileExistsError, IsADirectoryError):
                self._make_room(path)
            except OSError:
                with self._disk("write", path, may_have_applied=None):
                    raise
            else:
                return folder
        raise Unavailable(
            f"could not write {path!r}: its folder or its private file keeps disappearing",
            remedy="stop other programs that delete files in the store",
            may_have_applied=False,
        )

    def _make_room(self, path: str) -> None:
        """Decide what it means that something is at `path`; return to try once more."""
        parent, _, name = path.rpartition("/")
        with self._disk("write", path):
            folder = self._folders.make(parent)
            try:
                status = status_of(folder, name)
            except FileNotFoundError:
                return  # gone again
            if not stat.S_ISDIR(status.st_mode):
                folder.flush()
                raise Conflict(f"the object {path!r} exists", remedy="read it and decide again")
            if not remove_empty(folder, name):
                raise _nested(path)


def _nested(path: str) -> Invalid:
    return Invalid(
        f"{path!r} is, or lies under, the folder of another object",
        remedy="choose a key that is not the beginning of another's path",
    )
