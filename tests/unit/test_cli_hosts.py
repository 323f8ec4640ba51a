"""What is said of a command that is interrupted while it starts, works and ends."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from servo.cli import hosts
from servo.cli.hosts import AT_ONCE, EARLY, open_host
from servo.cli.options.workspace import Where
from servo.host.location_code import LocationCode
from servo.workspace.code_location import CodeLocation

WORKS = "interrupted; it goes on elsewhere"


class Interrupted:
    """A host that Ctrl-C reaches at one moment."""

    leads = False

    def __init__(self, moment: str) -> None:
        self._moment = moment

    @contextmanager
    def opened(self, *_: Any, **__: Any) -> Generator["Interrupted"]:
        self.reach("start")
        yield self
        self.reach("end")

    def start_triggers(self) -> None:
        pass

    def reach(self, moment: str) -> None:
        if moment == self._moment:
            raise KeyboardInterrupt

    def work(self) -> None:
        if self._moment in ("work", "drain"):
            raise KeyboardInterrupt

    def interrupt(self) -> str:
        self.reach("drain")
        return WORKS


@pytest.mark.parametrize(
    ("moment", "told"),
    [
        ("start", EARLY),
        ("work", WORKS),
        ("drain", AT_ONCE),
        ("end", AT_ONCE),
    ],
)
def test_ctrl_c_says_what_became_of_it_at_any_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str, told: str
) -> None:
    host = Interrupted(moment)
    monkeypatch.setattr(hosts, "_host", host.opened)
    location = CodeLocation(name="assets.py", code="assets.py", folder=str(tmp_path))
    code = LocationCode(location)
    where = Where(store=str(tmp_path / ".servo"), tenant="default", workspace="default")
    with pytest.raises(KeyboardInterrupt) as stopped, open_host(code, where, 1):
        host.work()
    assert str(stopped.value) == told
