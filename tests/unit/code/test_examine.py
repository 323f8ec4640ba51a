"""A process of its own imports user code, and tells what it defines."""

import subprocess
import sys
from pathlib import Path

from servo.code.examine import examine_each, finished, start_examining
from servo.workspace.code_location import CodeLocation

CODE = "from servo import asset\n\n@asset\ndef orders(): ...\n"


def location(folder: Path) -> CodeLocation:
    _ = (folder / "assets.py").write_text(CODE)
    return CodeLocation(name="assets.py", code="assets.py", folder=str(folder))


def test_what_a_location_defines_is_told(tmp_path: Path) -> None:
    here = location(tmp_path)
    (found,) = examine_each([here], ["orders", "nothing"])
    assert [asset.asset_key for asset in found.declared.assets] == ["orders"]
    assert found.selected == ("orders",)
    assert not finished(start_examining(here), here).error


def test_a_process_whose_caller_was_killed_ends_in_silence(tmp_path: Path) -> None:
    here = location(tmp_path)
    command = [sys.executable, "-m", "servo.code.examine", here.code, here.folder, "--"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as examining:
        assert examining.stdout is not None
        assert examining.stderr is not None
        examining.stdout.close()
        assert examining.stderr.read() == b""
        assert examining.wait() == 0


def test_a_process_that_was_killed_is_told_as_killed(tmp_path: Path) -> None:
    here = location(tmp_path)
    examining = start_examining(here)
    examining.kill()
    error = finished(examining, here).error
    assert "ended with SIGKILL; the system does that when memory runs out" in error
