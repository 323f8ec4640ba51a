"""The registry of this machine: which machine it is, and which code a leader has loaded."""

from pathlib import Path

import pytest

from servo.workspace.registry import loaded_by_leader, machine_id, tell_loaded


def test_a_leader_says_which_state_of_which_code_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    _ = machine_id()  # makes the folder, as whoever leads does
    assert loaded_by_leader("here", "a.py") == ""
    for state in ("one", "two"):
        tell_loaded("here", "a.py", state)
        assert loaded_by_leader("here", "a.py") == state
    assert loaded_by_leader("here", "b.py") == ""
    assert loaded_by_leader("elsewhere", "a.py") == ""


def test_a_machine_has_one_id_and_another_registry_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "a"))
    first = machine_id()
    assert machine_id() == first
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "b"))
    assert machine_id() != first
