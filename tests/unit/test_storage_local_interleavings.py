"""One call of the local store, with another process acting between any two of its system calls.

Threads that race hit the moments that matter once in a while. Here every moment is hit: the call
is repeated with the other's action before its first system call, its second, and so on, until it
makes fewer calls than that. Both are real stores on one folder; only `os` is in between.
"""

import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from servo.errors import Conflict, NotFound, Unavailable
from servo.storage.local import LocalStore
from servo.storage.local_swaps import KEEP

CALLS = (
    "open", "close", "fstat", "stat", "scandir", "link", "rename", "unlink", "mkdir", "rmdir",
    "fsync", "write", "pread", "utime",
)  # fmt: skip

WON, LOST, UNKNOWN, FAILED = "won", "lost", "unknown", "failed"


def _no_flush(_: int) -> None:
    """The power stays on here."""


class Moment:
    """Runs an action before the `at`-th system call of this thread from now on.

    Other threads of the process, left by other tests, make system calls too.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._left = -1
        self._thread = threading.get_ident()
        self._action: Callable[[], object] = lambda: None
        monkeypatch.setattr(os, "fsync", _no_flush)
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
            if self._left >= 0 and threading.get_ident() == self._thread:
                self._left -= 1
                if self._left < 0:
                    self._action()
            return call(*args, **kwargs)

        return called


@pytest.fixture
def moment(monkeypatch: pytest.MonkeyPatch) -> Moment:
    return Moment(monkeypatch)


def outcome(write: Callable[[], object]) -> str:
    try:
        write()
    except Conflict:
        return LOST
    except Unavailable as unknown:
        return UNKNOWN if unknown.may_have_applied else FAILED
    return WON


def contents(store: LocalStore, key: str) -> bytes | None:
    try:
        return store.get(key).data
    except NotFound:
        return None


def at_every_moment(
    tmp_path: Path, moment: Moment, scene: Callable[[LocalStore, LocalStore, Path], "Scene"]
) -> set[str]:
    """Play the scene for every moment; the outcomes of the call that was interrupted."""
    outcomes: set[str] = set()
    for at in range(500):
        root = tmp_path / str(at)
        call, action, check = scene(LocalStore(root), LocalStore(root), root)
        moment.arm(at, action)
        result = outcome(call)
        if not moment.passed():
            return outcomes
        check(result)
        outcomes.add(result)
    raise AssertionError("the call never ends")


Scene = tuple[Callable[[], object], Callable[[], object], Callable[[str], None]]


def test_of_two_creators_one_wins_whenever_the_other_comes(tmp_path: Path, moment: Moment) -> None:
    def scene(mine: LocalStore, other: LocalStore, _: Path) -> Scene:
        theirs: list[str] = []

        def check(result: str) -> None:
            assert {result, *theirs} == {WON, LOST}
            assert contents(mine, "f/k") == (b"mine" if result == WON else b"theirs")

        return (
            lambda: mine.create("f/k", b"mine"),
            lambda: theirs.append(outcome(lambda: other.create("f/k", b"theirs"))),
            check,
        )

    assert at_every_moment(tmp_path, moment, scene) == {WON, LOST}


def test_a_create_succeeds_whenever_somebody_removes_the_empty_folder(
    tmp_path: Path, moment: Moment
) -> None:
    def scene(mine: LocalStore, other: LocalStore, root: Path) -> Scene:
        mine.create("f/g/old", b"x")
        other.delete("f/g/old")

        def remove() -> None:
            for folder in (root / "f/g", root / "f"):
                if folder.exists() and not list(folder.iterdir()):
                    folder.rmdir()

        def check(result: str) -> None:
            assert result == WON
            assert contents(other, "f/g/k") == b"mine"

        return lambda: mine.create("f/g/k", b"mine"), remove, check

    assert at_every_moment(tmp_path, moment, scene) == {WON}


def test_of_two_replacers_one_wins_whenever_the_other_comes(tmp_path: Path, moment: Moment) -> None:
    def scene(mine: LocalStore, other: LocalStore, _: Path) -> Scene:
        version = mine.create("f/k", b"at first").version
        theirs: list[str] = []

        def replace() -> None:
            theirs.append(outcome(lambda: other.replace_if("f/k", b"theirs", version=version)))

        def check(result: str) -> None:
            assert {result, *theirs} == {WON, LOST}
            assert contents(mine, "f/k") == (b"mine" if result == WON else b"theirs")

        return lambda: mine.replace_if("f/k", b"mine", version=version), replace, check

    assert at_every_moment(tmp_path, moment, scene) == {WON, LOST}


@pytest.mark.parametrize("many", [1, 2, KEEP - 1, KEEP, KEEP + 1, KEEP + 2, 2 * KEEP])
def test_a_replacer_that_slept_through_many_others_does_not_win(
    tmp_path: Path, moment: Moment, many: int
) -> None:
    def scene(mine: LocalStore, other: LocalStore, _: Path) -> Scene:
        version = mine.create("f/k", b"at first").version
        first: list[str] = []

        def replace_often() -> None:
            theirs = other.get("f/k")
            first.append(WON if theirs.data == b"at first" else LOST)
            current = theirs.meta.version
            for number in range(many):
                current = other.replace_if("f/k", b"%d" % number, version=current).version

        def check(result: str) -> None:
            # They started from the same version as I: then I cannot have had it too.
            assert (result, first) != (WON, [WON])
            # I was first: I may have been so late to look that I cannot tell.
            assert (result, first) != (LOST, [LOST])
            assert contents(mine, "f/k") == b"%d" % (many - 1)

        return lambda: mine.replace_if("f/k", b"mine", version=version), replace_often, check

    unknown = {UNKNOWN} if many >= KEEP else set[str]()
    assert at_every_moment(tmp_path, moment, scene) == {WON, LOST} | unknown


def test_a_replacer_does_not_win_over_one_whose_traces_were_put_over_and_swept(
    tmp_path: Path, moment: Moment
) -> None:
    def scene(mine: LocalStore, other: LocalStore, root: Path) -> Scene:
        version = mine.create("f/k", b"at first").version
        theirs: list[str] = []

        def replace_put_and_sweep() -> None:
            theirs.append(outcome(lambda: other.replace_if("f/k", b"theirs", version=version)))
            other.put("f/k", b"put")
            shutil.rmtree(root / ".swaps", ignore_errors=True)

        def check(result: str) -> None:
            assert [result, *theirs].count(WON) <= 1
            assert contents(mine, "f/k") == b"put"

        return (
            lambda: mine.replace_if("f/k", b"mine", version=version),
            replace_put_and_sweep,
            check,
        )

    assert UNKNOWN in at_every_moment(tmp_path, moment, scene)


@pytest.mark.parametrize("final", [b"put", None, b"created"])
def test_a_replacer_never_covers_a_later_put_delete_or_create(
    tmp_path: Path, moment: Moment, final: bytes | None
) -> None:
    def scene(mine: LocalStore, other: LocalStore, _: Path) -> Scene:
        version = mine.create("f/k", b"at first").version

        def overwrite() -> None:
            if final == b"put":
                other.put("f/k", final)
            else:
                other.delete("f/k")
            if final == b"created":
                other.create("f/k", final)

        def check(_: str) -> None:
            assert contents(mine, "f/k") == final
            assert [meta.key for meta in mine.list_after("")] == ([] if final is None else ["f/k"])

        return lambda: mine.replace_if("f/k", b"mine", version=version), overwrite, check

    assert LOST in at_every_moment(tmp_path, moment, scene)


@pytest.mark.parametrize("how", ["get", "get_range", "list_after"])
def test_a_reader_sees_the_object_before_or_after_but_never_what_it_was_long_ago(
    tmp_path: Path, moment: Moment, how: str
) -> None:
    def scene(mine: LocalStore, other: LocalStore, root: Path) -> Scene:
        version = mine.create("f/k", b"1").version
        mine.replace_if("f/k", b"22", version=version)
        seen: list[int] = []

        def put_and_sweep() -> None:
            other.put("f/k", b"333")
            shutil.rmtree(root / ".swaps", ignore_errors=True)

        def read() -> None:
            if how == "get":
                seen.append(len(mine.get("f/k").data))
            elif how == "get_range":
                seen.append(len(mine.get_range("f/k", start=0, length=9)))
            else:
                seen.extend(meta.size for meta in mine.list_after("f/"))

        def check(result: str) -> None:
            assert result == WON
            assert seen in ([2], [3])

        return read, put_and_sweep, check

    at_every_moment(tmp_path, moment, scene)


def test_a_reader_finds_the_newest_however_many_swaps_pass_it(
    tmp_path: Path, moment: Moment
) -> None:
    def scene(mine: LocalStore, other: LocalStore, _: Path) -> Scene:
        version = mine.create("f/k", b"at first").version
        seen: list[bytes] = []

        def replace_often() -> None:
            current = version
            for number in range(2 * KEEP):
                current = other.replace_if("f/k", b"%d" % number, version=current).version

        def check(result: str) -> None:
            assert result == WON
            assert seen in ([b"at first"], [b"%d" % (2 * KEEP - 1)])

        return lambda: seen.append(mine.get("f/k").data), replace_often, check

    at_every_moment(tmp_path, moment, scene)
