"""The user's code runs as it is written, however soon after the last edit."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from servo.code.loader import load_module
from servo.workspace.system import SystemClock

LONG_AGO = SystemClock().now().timestamp() - 3600


@pytest.fixture(autouse=True)
def compiled_files_are_kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    for name in ("edited", "helper_of_edited"):
        _ = sys.modules.pop(name, None)


def write(path: Path, text: str, changed: float) -> None:
    _ = path.write_text(text)
    os.utime(path, (changed, changed))


def value(folder: Path, target: str = "edited.py") -> object:
    for name in ("edited", "helper_of_edited"):
        _ = sys.modules.pop(name, None)
    return load_module(target, folder).VALUE


@pytest.mark.parametrize("target", ["edited.py", "edited"])
def test_a_file_edited_twice_in_a_second_runs_as_it_is(tmp_path: Path, target: str) -> None:
    changed = SystemClock().now().timestamp()
    write(tmp_path / "edited.py", "VALUE = 1\n", changed)
    assert value(tmp_path, target) == 1
    write(tmp_path / "edited.py", "VALUE = 2\n", changed)
    assert value(tmp_path, target) == 2


def test_a_module_it_imports_runs_as_it_is_too(tmp_path: Path) -> None:
    changed = SystemClock().now().timestamp()
    write(tmp_path / "edited.py", "from helper_of_edited import VALUE\n", LONG_AGO)
    write(tmp_path / "helper_of_edited.py", "VALUE = 1\n", changed)
    assert value(tmp_path) == 1
    write(tmp_path / "helper_of_edited.py", "VALUE = 2\n", changed)
    assert value(tmp_path) == 2


def test_what_has_been_left_alone_is_compiled_once(tmp_path: Path) -> None:
    write(tmp_path / "edited.py", "VALUE = 1\n", LONG_AGO)
    assert value(tmp_path) == 1
    write(tmp_path / "edited.py", "VALUE = 2\n", LONG_AGO)  # which no edit could do
    assert value(tmp_path) == 1


def test_a_file_that_is_not_python_is_refused_by_name(tmp_path: Path) -> None:
    write(tmp_path / "edited.txt", "VALUE = 1\n", LONG_AGO)
    with pytest.raises(Exception, match=r"edited\.txt is not a Python file"):
        _ = load_module("edited.txt", tmp_path)
