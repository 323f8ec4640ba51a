"""One call of the local store, with another process acting between any two of its system calls.

Threads that race hit the moments that matter once in a while. Here every moment is hit: the call
is repeated with the other's action before its first system call, its second, and so on, until it
makes fewer calls than that. Both are real stores on one folder; only `os` is in between.
"""

import os
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from servo.errors import Conflict, NotFound, Unavailable
from servo.runtime.system import SystemClock
from servo.storage.local import LocalStore
from servo.storage.local_swaps import KEEP

CALLS = (
    "open", "close", "fstat", "stat", "scandir", "link", "rename", "unlink", "mkdir", "rmdir",
    "fsync", "write", "pread", "utime",
)  # fmt: skip

WON, LOST, UNKNOWN = "won", "lost", "unknown"


class Moment:
    """Runs an action before the `at`-th system call from now on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._left = -1
        self._action: Callable[[], object] = lambda: None
        for name in CALLS:
            monkeypatch.setattr(os, name, self._before(getattr(os, name)))

    def arm(self, at: int, action: Callable[[], object]) -> None:
        self._left = at
        self._action = action

    def passed(self) -> bool:
        """Whether the moment came; if not, the call was over before it."""
        came, self._left = self._left < 0, -1
        return came

    def _before(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any, **kwargs: Any) -> Any:
            if self._left >= 0:
                self._left -= 1
                if self._left < 0:
                    self._action()
            return call(*args, **kwargs)

        return called


@pytest.fixture
def moment(monkeypatch: pytest.MonkeyPatch) -> Moment:
    return Moment(monkeypatch)


def stores(tmp_path: Path, at: int) -> tuple[LocalStore, LocalStore]:
    root = tmp_path / str(at)
    return LocalStore(root), LocalStore(root)


def moments() -> Iterator[int]:
    """Enough of them; a test stops at the first that does not come."""
    return iter(range(500))


def outcome(write: Callable[[], object]) -> str:
    try:
        write()
    except Conflict:
        return LOST
    except Unavailable as unknown:
        assert unknown.may_have_applied  # noqa: PT017 - one of three outcomes
        return UNKNOWN
    return WON


def contents(store: LocalStore, key: str) -> bytes | None:
    try:
        return store.get(key).data
    except NotFound:
        return None


def sweep(store: LocalStore) -> None:
    """Take all rubbish but what the other is still writing."""
    for folder in (".tmp",):
        for path in (Path(store.root) / folder).glob("*"):
            os.utime(path, None)
    store.sweep_temporaries(SystemClock().now() - timedelta(seconds=0))
