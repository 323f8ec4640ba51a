"""`servo admin verify` finds every damage to outputs and logs, and says when it did not look."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from servo.testing.machines import Machine

pytestmark = pytest.mark.slow

CORRUPT = 7
CODE = """
from servo import AssetExecutionContext, StaticPartitionsDefinition, asset

@asset
def small(context: AssetExecutionContext) -> int:
    print("said by small")
    return 1

@asset
def large(context: AssetExecutionContext) -> bytes:
    context.log.info("said by large")
    return b"x" * 200_000

@asset
def silent() -> None: ...
"""


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    machine = Machine(tmp_path_factory.mktemp("original") / "here", ".servo", CODE)
    said = machine.servo("materialize", "assets.py")
    assert said.code == 0, said
    return machine


@pytest.fixture
def machine(original: Machine, tmp_path: Path) -> Machine:
    """A machine with a copy of the store."""
    machine = Machine(tmp_path / "here", ".servo", CODE)
    _ = shutil.copytree(original.folder / ".servo", machine.folder / ".servo", symlinks=True)
    return machine


def root(machine: Machine) -> Path:
    return machine.folder / ".servo" / "default" / "default"


def stored(machine: Machine, pattern: str) -> Path:
    (found,) = root(machine).glob(pattern)
    return found


def verified(machine: Machine, *options: str) -> tuple[int, Any]:
    """The exit code of a verification, and its report."""
    said = machine.servo("admin", "verify", *options, "--json")
    return said.code, json.loads(said.out)


def test_an_undamaged_workspace_is_sound_and_says_what_was_looked_at(machine: Machine) -> None:
    code, report = verified(machine)
    assert (code, report["problems"]) == (0, [])
    assert (report["outputs"], report["logs"]) == (2, 2)


def test_a_quick_verification_says_that_it_left_them_out(machine: Machine) -> None:
    stored(machine, "assets/large/*/data.bytes").unlink()
    code, report = verified(machine, "--quick")
    assert (code, report["outputs"], report["logs"]) == (0, None, None)
    said = machine.servo("admin", "verify", "--quick")
    assert (said.code, said.out.count("not verified")) == (0, 2)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def change(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:10] + bytes([data[10] ^ 1]) + data[11:])


DAMAGES: dict[str, Callable[[Path], None]] = {"cut": cut, "changed": change, "gone": Path.unlink}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize(
    ("part", "pattern"),
    [
        ("outputs", "assets/large/*/data.bytes"),
        ("outputs", "assets/large/*/_commit.json"),
        ("outputs", "assets/small/*/_commit.json"),
        ("logs", "logs/*/small*/*/*.txt"),
        ("logs", "logs/*/large*/*/*.txt"),
    ],
)
def test_every_damage_is_found(machine: Machine, part: str, pattern: str, damage: str) -> None:
    path = stored(machine, pattern)
    DAMAGES[damage](path)
    code, report = verified(machine)
    assert code == CORRUPT, report
    (problem,) = report["problems"]
    folder = str(path.parent.relative_to(machine.folder / ".servo"))
    assert (problem["part"], folder in problem["what"]) == (part, True), problem
    assert "backup" in problem["remedy"]


def test_an_output_that_was_swapped_for_another_is_found(machine: Machine) -> None:
    _ = shutil.copy(
        stored(machine, "assets/large/*/_commit.json"),
        stored(machine, "assets/small/*/_commit.json"),
    )
    _, report = verified(machine)
    (problem,) = report["problems"]
    assert "is the marker of another output: large of execution" in problem["what"]
