"""Importing the current source of the user's code.

Python takes the compiled file in `__pycache__` for the source if that has the size and, in whole
seconds, the time of the one that was compiled. Code that is edited twice in a second, as editors,
formatters and tests do, may then run in its old form, while its code version is already that
of the new text. So in a project's folder, a source that has just changed is compiled again, and the
compiled file is not kept until the second of the change has passed.
"""

import sys
from collections.abc import Mapping
from importlib.abc import PathEntryFinder
from importlib.machinery import (
    BYTECODE_SUFFIXES,
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    SourceFileLoader,
    SourcelessFileLoader,
)
from pathlib import Path

from servo.workspace.composition import system_clock

# One second is what a compiled file cannot tell apart; file systems round the time by less.
UNSETTLED_SECONDS = 2

_roots: set[Path] = set()


class FreshSource(SourceFileLoader):
    """Loads a module and trusts its compiled form only when the source has been left alone."""

    def path_stats(self, path: str) -> Mapping[str, int]:
        """Size and time of the source; `OSError`, so nothing is compared, while it is new."""
        stats = super().path_stats(path)
        if system_clock().now().timestamp() - stats["mtime"] < UNSETTLED_SECONDS:
            raise OSError(f"{path} has just changed")
        return stats


def import_fresh(folder: Path) -> None:
    """From now on import what is below `folder` by `FreshSource`, in this process."""
    root = folder.resolve()
    if root in _roots:
        return
    if not _roots:
        sys.path_hooks.insert(0, _finder)
    _roots.add(root)
    for known in [path for path in sys.path_importer_cache if _below(Path(path), root)]:
        del sys.path_importer_cache[known]


def _finder(path: str) -> PathEntryFinder:
    place = Path(path or ".").resolve()
    if not any(_below(place, root) for root in _roots):
        raise ImportError(f"{path} is not in a project folder")
    return _find(path)


_find = FileFinder.path_hook(
    (ExtensionFileLoader, EXTENSION_SUFFIXES),
    (FreshSource, SOURCE_SUFFIXES),
    (SourcelessFileLoader, BYTECODE_SUFFIXES),
)


def _below(place: Path, root: Path) -> bool:
    return place.resolve().is_relative_to(root)
