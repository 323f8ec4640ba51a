"""The registry of this machine: which machine it is."""

from pathlib import Path

import pytest

from servo.errors import Corrupt, Invalid
from servo.workspace.address import Address
from servo.workspace.leader_lock import LeaderLock, leader_here
from servo.workspace.registry import machine_id, made_registry_folder, registry_folder

BUCKET = Address.of("s3://bucket/prefix")


def test_a_machine_has_one_id_and_another_registry_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "a"))
    first = machine_id()
    assert machine_id() == first
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "b"))
    assert machine_id() != first


@pytest.mark.parametrize("place", ["file", "file/below", "/proc/1/nope", "x" * 300, "loop"])
def test_a_folder_that_cannot_be_is_told_with_the_variable_that_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / place))
    for asked in (machine_id, made_registry_folder, LeaderLock(BUCKET).acquire):
        with pytest.raises(Invalid, match=r"set \$XDG_RUNTIME_DIR to a folder"):
            asked()
    assert leader_here(BUCKET) is None


def test_only_its_user_enters_the_registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    lock = LeaderLock(BUCKET)
    assert lock.acquire()
    lock.release()
    assert registry_folder().stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"x" * 1000, b"0" * 24 + b"\n", None])
def test_a_damaged_machine_id_is_told_and_written_again_once_it_is_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    path = made_registry_folder() / "machine"
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content)
    with pytest.raises(Corrupt, match=f"the machine id in {path}.*; delete it"):
        machine_id()
    if content is None:
        path.rmdir()
    else:
        path.unlink()
    assert len(machine_id()) == 24
