"""The registry of pools: who lives, who died, who works where."""

import os
import subprocess
import sys
from pathlib import Path

from servo.workspace.registry import (
    Member,
    Registered,
    at_work,
    forget,
    is_dead,
    loaded_by,
    tell_loaded,
)

DIES = """
import os, sys
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
    assert at_work(tmp_path, "here") == Member(pid=child.pid, workspace="here", name="other")
    assert at_work(tmp_path, "elsewhere") is None
    assert not is_dead(tmp_path, "other")
    child.kill()
    child.communicate()
    assert at_work(tmp_path, "here") is None
    assert is_dead(tmp_path, "other")
    forget(tmp_path, "other")
    forget(tmp_path, "other")
    assert not is_dead(tmp_path, "other")


def test_a_pool_that_leaves_is_not_dead_but_gone(tmp_path: Path) -> None:
    held = Registered(tmp_path, "me", "here")
    assert at_work(tmp_path, "here") == Member(pid=os.getpid(), workspace="here", name="me")
    held.release()
    assert at_work(tmp_path, "here") is None
    assert not is_dead(tmp_path, "me")


def test_what_cannot_be_read_is_nobody(tmp_path: Path) -> None:
    (tmp_path / "odd.pool").write_bytes(b"\xff")
    assert at_work(tmp_path, "here") is None
    assert at_work(tmp_path / "nowhere", "here") is None


def test_a_pool_that_stays_says_which_code_it_has(tmp_path: Path) -> None:
    held = Registered(tmp_path, "me", "here", code="/x/assets.py")
    found = at_work(tmp_path, "here")
    assert found is not None
    assert (found.code, loaded_by(tmp_path, found.name)) == ("/x/assets.py", "")
    for state in ("one", "two"):
        tell_loaded(tmp_path, found.name, state)
        assert loaded_by(tmp_path, found.name) == state
    held.release()
    assert list(tmp_path.iterdir()) == []
