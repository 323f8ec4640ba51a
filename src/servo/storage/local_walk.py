"""The keys of the local store in order, without looking at what nobody asked for.

Keys are ordered by their bytes, and '/' (0x2f) sorts between '.' and '0': `a-b` and `a.b` come
before `a/x`, `a0` after it. Reading folder by folder in the order of names gives `a/x` first. So
within a folder a sub-folder is compared as its name with the '/' that follows in every key under
it; names hold no '/' themselves, so this decides as the whole keys would.

One folder is read at a time, and only the sub-folders that can hold a wanted key are opened.
Whether an entry is a folder is known from the listing; no file is looked at here. A folder that
disappears meanwhile held nothing that had to be listed.
"""

import os
from collections.abc import Iterator

from servo.storage.keys import folder_of
from servo.storage.local_folders import Folder, Folders, open_folder


def keys_after(
    folders: Folders, prefix: str, after: str, *, hidden: frozenset[str]
) -> Iterator[tuple[Folder, str]]:
    """Every key that begins with `prefix` and sorts after `after`, in order, with its folder.

    `hidden` names folders of the root that hold no objects.
    """
    base = folder_of(prefix)
    try:
        top = folders.find(base.removesuffix("/"))
    except NotADirectoryError:  # the prefix leads through an object
        top = None
    if top is None or base.partition("/")[0] in hidden:
        return
    open_now = [(top, _entries(top, base, prefix=prefix, after=after))]
    while open_now:
        folder, names = open_now[-1]
        name = next(names, None)
        if name is None:
            open_now.pop()
        elif not name.endswith("/"):
            yield folder, name
        elif name.removesuffix("/") not in hidden and (below := _below(folder, name)) is not None:
            open_now.append((below, _entries(below, name, prefix=name, after=after)))


def _entries(folder: Folder, base: str, *, prefix: str, after: str) -> Iterator[str]:
    """The entries that are or hold wanted keys, as keys; folders end with '/'."""
    wanted: list[str] = []
    with os.scandir(folder.fd) as entries:
        for entry in entries:
            key = base + entry.name
            if entry.is_dir(follow_symlinks=False):
                key += "/"
                if key <= after and not after.startswith(key):
                    continue
            elif key <= after or not entry.is_file(follow_symlinks=False):
                continue
            if key.startswith(prefix):
                wanted.append(key)
    wanted.sort()
    return iter(wanted)


def _below(folder: Folder, key: str) -> Folder | None:
    try:
        return open_folder(folder, key.rstrip("/").rpartition("/")[2])
    except (FileNotFoundError, NotADirectoryError):
        return None
