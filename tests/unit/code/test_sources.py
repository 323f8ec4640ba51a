"""Two folders have the same version of some code if its source files have the same content."""

import os
from datetime import timedelta
from pathlib import Path

import pytest

from servo.code.sources import difference, edited_since, loaded_code
from servo.leader.loaded_code import LoadedCode
from servo.workspace.code_location import CodeLocation
from servo.workspace.system import SystemClock

FILES = {"shop.py": "import orders.raw", "orders/raw.py": "x = 1", "notes.md": "not imported"}


def project(folder: Path) -> CodeLocation:
    (folder / "orders").mkdir(parents=True)
    for name, text in FILES.items():
        _ = (folder / name).write_text(text)
    return CodeLocation(name="shop.py", code="shop.py", folder=str(folder))


def loaded(location: CodeLocation) -> LoadedCode:
    folder = Path(location.folder).resolve()
    return loaded_code(location, [str(folder / "orders" / "raw.py"), "/elsewhere/x.py"])


def test_a_copy_is_the_same_version_wherever_it_is(tmp_path: Path) -> None:
    here, there = project(tmp_path / "here"), project(tmp_path / "there")
    _ = (tmp_path / "there" / "notes.md").write_text("other notes")
    found = loaded(here)
    assert sorted(found.files) == ["orders/raw.py", "shop.py"]
    assert found == loaded(there)
    assert difference(found, there.code, there.folder) == ""


@pytest.mark.parametrize("name", ["shop.py", "orders/raw.py"])
def test_an_edited_or_missing_file_is_named(tmp_path: Path, name: str) -> None:
    found, there = loaded(project(tmp_path / "here")), project(tmp_path / "there")
    edited = Path(there.folder, name)
    _ = edited.write_text("x = 2")
    assert difference(found, there.code, there.folder) == f"{name} differs"
    edited.unlink()
    assert difference(found, there.code, there.folder) == f"{name} is not in {there.folder}"


def test_another_file_under_the_same_name_of_a_location_differs(tmp_path: Path) -> None:
    here = project(tmp_path)
    assert difference(loaded(here), "orders/raw.py", here.folder) != ""


def test_only_a_recent_edit_may_still_be_loaded(tmp_path: Path) -> None:
    here = project(tmp_path)
    found, now = loaded(here), SystemClock().now()
    for path in (tmp_path, tmp_path / "orders", *(tmp_path / name for name in FILES)):
        os.utime(path, (now.timestamp() - 100, now.timestamp() - 100))
    since = now - timedelta(seconds=20)
    assert not edited_since(found, here.folder, since)
    _ = (tmp_path / "notes.md").write_text("not of the code")
    os.utime(tmp_path, (now.timestamp() - 100, now.timestamp() - 100))
    assert not edited_since(found, here.folder, since)
    (tmp_path / "orders" / "raw.py").unlink()
    assert edited_since(found, here.folder, since)
