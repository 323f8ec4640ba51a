"""Compare-and-swap on a filesystem that has none, without locks.

POSIX can create exclusively (link) and overwrite blindly (rename), but not overwrite only what is
still there. A lock file does not help: its owner may be dead, or only slow, and whoever breaks the
lock of one that is slow gives the key two owners. So a swap never overwrites; it creates.

**State of a key.** The file at the key's path is its *base*; the base's version is unique in time.
The *swaps* of a base are the files `.swaps/{key}/{base version}@{n}`, n = 1, 2, 3 … The object is
the highest swap of the present base, or the base itself where there are none. No base: no object.

**Each write is one atomic call.** create links the base, put renames over it, delete unlinks it;
the old base's swaps are rubbish from then on, for they carry a version that never comes back.
replace_if links swap n+1 of the base whose swap n it read. Of those who race for n+1, link
lets one pass. There is no state in between, so a crash anywhere blocks nobody.

**What a late writer can do.** Between reading n and linking n+1 anything may happen:

- The base changed, so the link has no effect. It is found by reading the base once more: a base
  still there was there when the link was made, since versions never come back. A base that changed
  may have done so before the link or after, so the outcome is unknown, and that is said.
- Others swapped n+1: the link fails. To keep the folder small, swaps `KEEP` or more below the
  highest are removed, so a writer that slept through `KEEP` swaps could link a number that was
  used and removed. It then sees a swap at least `KEEP` above its own, which the winner of a number
  sees only if as many followed before it looked: unknown again. Below that distance its number
  was never removed, hence never used before.

**Readers** list the swaps first and open the base afterwards. In the other order the base they
opened could be replaced and its swaps cleared away before the listing, and the first value of an
object would come back long after it was overwritten.
"""

import os
from collections.abc import Iterable
from contextlib import suppress

from servo.storage.local_folders import Folder, Folders, entries_of

SWAPS = ".swaps"
KEEP = 16


def swap_folder(key: str) -> str:
    return f"{SWAPS}/{key}"


def swap_names(folders: Folders, key: str) -> list[str]:
    """The swaps of every base the key has had, as far as they are still there."""
    try:
        folder = folders.find(swap_folder(key))
    except NotADirectoryError:
        return []
    return [] if folder is None else _names(folder)


def any_swaps(folders: Folders) -> bool:
    """Whether any key was ever swapped: mostly none was, and then nothing need be looked up."""
    folder = folders.find(SWAPS)
    return folder is not None and bool(entries_of(folder))


def highest(names: Iterable[str], base: str) -> int:
    """The number of the newest swap of a base; 0 is the base itself."""
    return max(_numbers(names, base), default=0)


def swapped(base: str, number: int) -> str:
    """The version, and the file's name, of a swap."""
    return f"{base}@{number}" if number else base


def prune(folder: Folder, base: str, *, newest: int) -> None:
    """Remove the swaps nobody reads any more."""
    for number in sorted(_numbers(_names(folder), base)):
        if number > newest - KEEP:
            return
        _remove(folder, swapped(base, number))


def clear(folders: Folders, key: str, base: str) -> None:
    """Remove the swaps of a base that is gone: it does not come back, whatever their age."""
    parent, _, name = swap_folder(key).rpartition("/")
    folder, above = folders.find(swap_folder(key)), folders.find(parent)
    if folder is None or above is None:
        return
    for number in _numbers(_names(folder), base):
        _remove(folder, swapped(base, number))
    with suppress(OSError):  # it may hold swaps of another base, or folders
        os.rmdir(name, dir_fd=above.fd)


def _names(folder: Folder) -> list[str]:
    return [name for name, is_dir in entries_of(folder) if not is_dir]


def _numbers(names: Iterable[str], base: str) -> list[int]:
    start = f"{base}@"
    tails = (name.removeprefix(start) for name in names if name.startswith(start))
    return [int(tail) for tail in tails if tail.isdecimal()]


def _remove(folder: Folder, name: str) -> None:
    try:
        os.unlink(name, dir_fd=folder.fd)
    except FileNotFoundError:
        return  # another writer prunes too
