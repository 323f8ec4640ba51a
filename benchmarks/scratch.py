"""Folders to measure in, and workspaces with history, built once and copied on demand."""

import os
import shutil
from itertools import count
from pathlib import Path

from benchmarks.history import write_history
from servo.ports.clock import Clock
from servo.storage.local import LocalStore
from servo.storage.memory import MemoryStore


class Scratch:
    """Everything under one folder, which somebody else removes."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._numbers = count()
        self._histories: dict[tuple[int, int], Path] = {}

    def folder(self) -> Path:
        """A new folder."""
        path = self._root / f"{next(self._numbers):04d}"
        path.mkdir()
        return path

    def history(self, tasks: int, partitions: int = 0) -> Path:
        """A workspace with so many closed tasks and partitions, for the caller alone."""
        past = tasks, partitions
        if past not in self._histories:
            built = self.folder()
            write_history(LocalStore(built), tasks, partitions)
            self._histories[past] = built
        # Nothing in a store is ever changed in place, so the copies can share their files.
        copy = self.folder() / "store"
        return Path(shutil.copytree(self._histories[past], copy, copy_function=os.link))

    def history_in_memory(self, tasks: int, clock: Clock) -> MemoryStore:
        """The same in memory."""
        source, store = LocalStore(self.history(tasks)), MemoryStore(clock)
        for meta in source.list_after(""):
            _ = store.create(meta.key, source.get(meta.key).data)
        return store
