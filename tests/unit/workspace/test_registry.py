"""The registry of this machine: which pools live, and which died."""

import subprocess
import sys
from pathlib import Path

import pytest

from servo.workspace.registry import (
    Registered,
    forget,
    is_dead,
    machine_id,
)

DIES = """
import sys
from pathlib import Path
from servo.workspace.registry import Registered
held = Registered(Path(sys.argv[1]), "other", "here")
print("up", flush=True)
sys.stdin.read()
"""


def test_a_pool_is_alive_as_long_as_its_process_is(tmp_path: Path) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", DIES, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert child.stdout is not None
    assert child.stdout.readline() == b"up\n"
    assert not is_dead(tmp_path, "other")
    child.kill()
    child.communicate()
    assert is_dead(tmp_path, "other")
    forget(tmp_path, "other")
    forget(tmp_path, "other")
    assert not is_dead(tmp_path, "other")


def test_a_pool_that_leaves_is_not_dead_but_gone(tmp_path: Path) -> None:
    held = Registered(tmp_path, "me", "here")
    assert not is_dead(tmp_path, "me")
    held.release()
    assert not is_dead(tmp_path, "me")
    assert list(tmp_path.iterdir()) == []


def test_a_pool_that_left_something_undone_counts_as_dead(tmp_path: Path) -> None:
    Registered(tmp_path, "me", "here").abandon()
    assert is_dead(tmp_path, "me")


def test_a_machine_has_one_id_and_another_registry_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "a"))
    first = machine_id()
    assert machine_id() == first
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "b"))
    assert machine_id() != first
