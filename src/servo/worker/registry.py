"""Which pools of this machine are alive.

A pool holds a lock on a file of its own as long as its process lives, and the operating system lets
go of it however the process ends. Whoever leads next can therefore tell at once, and not after a
lease of minutes, that what a dead pool was doing is lost. A file that is missing tells nothing: the
pool may be on another machine.
"""

import fcntl
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import IO

_SUFFIX = ".pool"


def registry_folder() -> Path:
    """Where the pools of this user on this machine are registered."""
    base = os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()
    return Path(base) / f"servo-{os.getuid()}"


class Registered:
    """A pool's place in the registry, held until the process ends or it is given up."""

    def __init__(self, folder: Path, name: str) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._path = folder / f"{name}{_SUFFIX}"
        self._file: IO[str] = self._path.open("w")
        fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._file.write(str(os.getpid()))
        self._file.flush()

    def release(self) -> None:
        """Say that this pool is gone for good and left nothing undone."""
        with suppress(FileNotFoundError):
            self._path.unlink()
        self._file.close()


def is_dead(folder: Path, name: str) -> bool:
    """Whether the pool of this name was on this machine and its process has ended."""
    try:
        with (folder / f"{name}{_SUFFIX}").open("r") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return False
    return True
