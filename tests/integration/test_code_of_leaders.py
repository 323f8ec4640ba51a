"""A leader runs the code of whoever asks it, or refuses: the same here and on another machine."""

import json
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from servo.testing.eventually import eventually
from servo.testing.machines import Machine

pytestmark = [pytest.mark.slow]

CODE = """
from servo import asset

@asset
def first():
    return 1
"""
MATERIALIZE = ("materialize", "assets.py", "first", "--json")


class Machines:
    """The machine of a leader, and another one that shares nothing but the store with it."""

    def __init__(self, folder: Path) -> None:
        self.here = Machine(folder / "here", str(folder / "store"), CODE)
        self.there = Machine(folder / "there", str(folder / "store"), CODE)

    def of(self, where: str) -> Machine:
        return self.here if where == "here" else self.there

    def edit(self, code: str) -> None:
        """Write other code on both."""
        for machine in (self.here, self.there):
            _ = (machine.folder / "assets.py").write_text(code)


@pytest.fixture
def machines(tmp_path: Path) -> Machines:
    (tmp_path / "store").mkdir()
    return Machines(tmp_path)


def lock_file(folder: Path) -> Path:
    return folder / "store" / ".locks" / "default.default.leader"


def advert(folder: Path) -> Any:
    """How the leader describes itself."""
    return json.loads(lock_file(folder).read_text())


@pytest.mark.parametrize("where", ["here", "there"])
def test_an_edit_is_waited_for_and_a_broken_one_is_refused(machines: Machines, where: str) -> None:
    asking = machines.of(where)
    with machines.here.start("dev") as leader:
        leader.says("Ctrl-C stops")
        machines.edit(CODE.replace("return 1", "return 2"))
        assert asking.servo(*MATERIALIZE).code == 0
        assert "loaded assets.py" in leader.said().out
        machines.edit(CODE + "\n@asset\ndef second(first):\n    return first\n")
        assert asking.servo("materialize", "assets.py", "second", "--json").code == 0
        machines.edit(CODE + "\nthis is no Python\n")
        refused = asking.servo(*MATERIALIZE)
        assert refused.code == 2, refused
        assert "assets.py is not loaded" in refused.err, refused
        assert "SyntaxError" in machines.there.asked("status")["not_loaded"]["assets.py"]
        assert "not loaded: assets.py cannot be imported" in asking.servo("status").out
        leader.send(signal.SIGINT)
        assert leader.ended().code == 0


@pytest.mark.parametrize("where", ["here", "there"])
def test_other_code_under_the_same_definitions_is_refused(
    machines: Machines, where: str, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    with machines.here.start("dev") as leader:
        leader.says("Ctrl-C stops")
        asking = machines.of(where).in_folder(other, CODE)
        assert asking.servo(*MATERIALIZE).code == 0, "the same code in another folder"
        asking = machines.of(where).in_folder(other, CODE.replace("return 1", "return 999"))
        refused = asking.servo(*MATERIALIZE)
        assert refused.code == 4, refused
        assert "another version of assets.py" in refused.err, refused
        assert "assets.py differs; use the same version" in refused.err, refused
        leader.send(signal.SIGINT)
        assert leader.ended().code == 0


@pytest.mark.parametrize("lost", ["socket", "registry", "advert"])
def test_a_leader_that_lost_what_others_reach_it_by_still_works_for_them(
    machines: Machines, lost: str, tmp_path: Path
) -> None:
    here = machines.here
    with here.start("dev") as leader:
        leader.says("Ctrl-C stops")
        match lost:
            case "socket":
                Path(advert(tmp_path)["socket"]).unlink()
            case "registry":
                shutil.rmtree(here.registry)
            case _:
                _ = lock_file(tmp_path).write_text("garbage")
        said = here.servo(*MATERIALIZE)
        assert said.code == 0, said
        assert "other code" not in said.err
        assert here.servo("admin", "quota", "--max-parallel", "3").code == 0
        assert "`servo dev`" in here.asked("tick", "assets.py")["left_to"]
        leader.send(signal.SIGINT)
        assert leader.ended().code == 0


def test_a_pass_takes_over_from_a_leader_that_dies_while_it_is_pinged(
    machines: Machines, tmp_path: Path
) -> None:
    here = machines.here
    with here.start("dev") as leader:
        leader.says("Ctrl-C stops")
        leader.send(signal.SIGSTOP)
        with here.start("tick", "assets.py", "--json") as tick:
            _wait_for_client(advert(tmp_path)["socket"])
            leader.kill()
            said = tick.ended()
    assert said.code == 0, said
    assert json.loads(said.out)["left_to"] == ""


def _wait_for_client(path: str) -> None:
    """Wait until a process has connected to the socket of the leader."""

    def connected() -> bool:
        lines = Path("/proc/net/unix").read_text().splitlines()
        return sum(line.endswith(path) for line in lines) > 1

    eventually(connected)
