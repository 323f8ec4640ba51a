"""Finding the assets in a file or a module, and saying what is wrong there."""

import os
import re
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from servo.code.loader import load_module
from servo.errors import Invalid


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("raise ValueError('no')", "ValueError: no"),
        ("raise SystemExit(2)", "SystemExit: 2"),
        ("import os; os._exit(3)", r"SystemExit: it calls os._exit\(3\)"),
        ("raise type('Own', (BaseException,), {})('not an Exception')", "Own: not an Exception"),
        ("import nothing_of_this_name", "ModuleNotFoundError: "),
    ],
)
@pytest.mark.parametrize("dotted", [False, True])
def test_whatever_a_file_raises_is_told_with_its_line(
    tmp_path: Path, line: str, told: str, dotted: bool
) -> None:
    name = f"rough_{abs(hash((line, dotted)))}"
    file = tmp_path / f"{name}.py"
    file.write_text(f"x = 1\n{line}\n")
    target = name if dotted else file.name
    place = re.escape(f"({file}:2)")
    try:
        with pytest.raises(Invalid, match=f"{target} cannot be imported: {told}.*{place}"):
            load_module(target, tmp_path)
        assert name not in sys.modules
    finally:
        sys.path.remove(str(tmp_path))


def test_ctrl_c_while_a_file_is_imported_is_ctrl_c(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text("raise KeyboardInterrupt\n")
    try:
        with pytest.raises(KeyboardInterrupt):
            load_module("slow.py", tmp_path)
    finally:
        sys.path.remove(str(tmp_path))


def test_only_who_imports_is_kept_from_ending_without_a_word(tmp_path: Path) -> None:
    code = """
        import os
        child = os.fork()
        if child == 0:
            os._exit(5)
        CODE = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        end = os._exit
        """
    (tmp_path / "forks.py").write_text(dedent(code))
    before = os._exit
    try:
        module = load_module("forks.py", tmp_path)
    finally:
        sys.path.remove(str(tmp_path))
    assert module.CODE == 5
    assert os._exit is before
    child = os.fork()
    if child == 0:
        module.end(6)  # kept by the code, and called when nothing is imported any more
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 6


def test_a_file_that_would_stand_in_for_a_module_of_python_is_refused(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("from servo import asset\n@asset\ndef a(): ...\n")
    before = sys.modules["json"]
    try:
        with pytest.raises(Invalid, match=r"json.py has the name of a standard library module"):
            load_module("json.py", tmp_path)
        assert sys.modules["json"] is before
    finally:
        if str(tmp_path) in sys.path:
            sys.path.remove(str(tmp_path))
