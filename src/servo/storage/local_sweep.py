"""Clearing away what crashes left in the local store.

Three kinds of rubbish, each taken only when older than an age that no writer outlives: private
files that were never linked, swaps of a base that is gone, and folders that hold nothing. Nothing
an object consists of is ever touched, so a sweep may run beside any number of writers.
"""

import os
from collections.abc import Callable

from servo.storage.local_files import TEMPORARIES
from servo.storage.local_folders import Folder, Folders, entries_of, remove_empty, status_of
from servo.storage.local_swaps import SWAPS


def sweep(folders: Folders, base_of: Callable[[str], str], *, older_than: float) -> int:
    """Remove rubbish last written before `older_than` (seconds since 1970); count the files."""
    removed = 0
    temporaries = folders.find(TEMPORARIES)
    if temporaries is not None:
        removed += _remove_files(temporaries, lambda _: True, older_than=older_than)
    swaps = folders.find(SWAPS)
    if swaps is not None:
        removed += _sweep_swaps(folders, base_of, older_than=older_than)
        _remove_empty_below(swaps, older_than=older_than)
    root = folders.find("")
    if root is not None:
        _remove_empty_below(root, older_than=older_than)
    return removed


def _sweep_swaps(folders: Folders, base_of: Callable[[str], str], *, older_than: float) -> int:
    removed, waiting = 0, [""]
    while waiting:
        key = waiting.pop()
        folder = folders.find(f"{SWAPS}/{key}" if key else SWAPS)
        if folder is None:
            continue
        live = f"{base_of(key)}@" if key else ""
        removed += _remove_files(
            folder, lambda name, live=live: not name.startswith(live), older_than=older_than
        )
        below = (name for name, is_dir in entries_of(folder) if is_dir)
        waiting += [f"{key}/{name}" if key else name for name in below]
    return removed


def _remove_files(folder: Folder, rubbish: Callable[[str], bool], *, older_than: float) -> int:
    removed = 0
    for name, is_dir in entries_of(folder):
        try:
            if not is_dir and rubbish(name) and status_of(folder, name).st_mtime < older_than:
                os.unlink(name, dir_fd=folder.fd)
                removed += 1
        except FileNotFoundError:
            continue  # its writer dropped it, or another sweep was first
    return removed


def _remove_empty_below(folder: Folder, *, older_than: float) -> None:
    for name, is_dir in entries_of(folder):
        if is_dir and name not in {TEMPORARIES, SWAPS}:
            remove_empty(folder, name, older_than=older_than)
