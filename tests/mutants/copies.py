"""Copies of the checkout, in which sources are changed and tests run."""

import os
import shutil
import subprocess
from pathlib import Path

PACKAGES = ("ledger", "leader", "projection", "storage", "workers", "execution")
"""The packages of servo that are mutated."""


def copy_checkout(checkout: Path, to: Path) -> None:
    """Copy every file that git knows or would add."""
    shutil.rmtree(to, ignore_errors=True)
    listing = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(listing, cwd=checkout, capture_output=True, check=True).stdout
    for name in listed.decode().split("\0"):
        source = checkout / name
        if name and source.is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            _ = shutil.copyfile(source, to / name)


class ChangedCopy:
    """A copy of the checkout with at most one changed file."""

    def __init__(self, checkout: Path, folder: Path) -> None:
        copy_checkout(checkout, folder)
        self.folder = folder
        self._changes = 0

    def read(self, path: str) -> str:
        """A source file."""
        return (self.folder / "src" / "servo" / path).read_text()

    def write(self, path: str, source: str) -> None:
        """Replace a source file.

        Compiled files are recognised by size and whole seconds, so each change gets a second of its
        own; otherwise the mutant before could run once more.
        """
        file = self.folder / "src" / "servo" / path
        self._changes += 1
        _ = file.write_text(source)
        os.utime(file, (self._changes, self._changes))
