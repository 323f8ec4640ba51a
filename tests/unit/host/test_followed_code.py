"""Code that a leader follows: what callers hear while an edit is being loaded."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from servo.code.examine import examine_each
from servo.code.process_setup import ProcessSetup
from servo.errors import Conflict, Invalid
from servo.host import followed_code
from servo.host.followed_code import FollowedCode
from servo.workspace.address import Address
from servo.workspace.code_location import CodeLocation


class Nobody:
    """A session and a listener in one: takes everything and does nothing."""

    triggers = None

    def __getattr__(self, name: str) -> Any:
        def nothing(*_: object, **__: object) -> SimpleNamespace:
            return SimpleNamespace(broken=None, size=1)

        return nothing

    @property
    def pool(self) -> Any:
        return self


def followed(folder: Path) -> FollowedCode:
    location = CodeLocation(name="shop", code="shop.py", folder=str(folder))
    setup = ProcessSetup(location=location, address=Address.of(str(folder / ".servo")))
    (examined,) = examine_each([location])
    nobody: Any = Nobody()
    found = FollowedCode(nobody, setup, examined, nobody, workers=1)
    found.begin([])
    return found


def test_the_error_of_one_version_is_not_told_of_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop.py").write_text("NAME = (\n")
    code = followed(tmp_path)
    with pytest.raises(Invalid, match=r"shop is not loaded: .*never closed"):
        code.wait_until_loaded()

    asked: list[str] = []

    def ask_meanwhile(*_: object) -> Any:
        with pytest.raises(Conflict, match="still being loaded") as refused:
            code.wait_until_loaded()
        asked.append(str(refused.value))
        return SimpleNamespace(poll=lambda: None)

    monkeypatch.setattr(followed_code, "LOADED_WITHIN", 0)
    monkeypatch.setattr(followed_code, "start_examining", ask_meanwhile)
    (tmp_path / "shop.py").write_text("NAME = 'mended'\n")
    code.look()
    assert asked
