"""The registry of this machine: which machine it is."""

from pathlib import Path

import pytest

from servo.workspace.registry import machine_id


def test_a_machine_has_one_id_and_another_registry_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "a"))
    first = machine_id()
    assert machine_id() == first
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "b"))
    assert machine_id() != first
