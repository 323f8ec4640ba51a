"""Paths as people type them.

The methods of `Path` raise for a text that can be no path, such as a name that is too long or a
folder that this user may not enter. Here such a path simply does not exist, as for the rest of the
command: whoever asked says what is missing.
"""

import os
from pathlib import Path


def is_file(path: Path) -> bool:
    """Whether there is a file."""
    return os.path.isfile(path)  # noqa: PTH113 - it never raises


def is_folder(path: Path) -> bool:
    """Whether there is a folder."""
    return os.path.isdir(path)  # noqa: PTH112 - it never raises


def exists(path: Path) -> bool:
    """Whether there is anything."""
    return os.path.exists(path)  # noqa: PTH110 - it never raises
