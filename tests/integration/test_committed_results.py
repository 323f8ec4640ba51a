"""What an execution has committed is never executed again, however its leader ended."""

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from servo.testing.eventually import eventually
from servo.testing.machines import Gates, Machine

pytestmark = [pytest.mark.slow, pytest.mark.kill]

# A success hook runs after the commit of the output and before the report to the leader.
CODE = (
    Gates.CODE
    + """
from servo import asset, asset_check, AssetCheckResult, MaterializeResult, success_hook

@success_hook
def between_commit_and_report(context):
    pass_gate("hook")

@asset(hooks=[between_commit_and_report])
def made(context):
    pass_gate("made")
    context.add_output_metadata({"rows": 3})
    return [1, 2, 3]

@asset_check(asset=made)
def is_long(made):
    return AssetCheckResult(passed=len(made) == 3)

@asset
def below(made):
    return sum(made)
"""
)


@pytest.fixture
def machine(tmp_path: Path, gates: Gates) -> Machine:
    return Machine(tmp_path / "here", ".servo", CODE, GATES=str(gates.folder))


def test_a_result_that_was_committed_before_the_kill_is_adopted(
    machine: Machine, gates: Gates
) -> None:
    gates.open("made")
    with machine.start("materialize", "assets.py") as leader:
        gates.wait_for("hook")
        leader.send_to_all(signal.SIGKILL)
        leader.process.wait()
    said = machine.servo("resume", "assets.py")
    assert said.code == 0, said
    (run,) = machine.listed("run", "list")
    assert run["state"] == "SUCCEEDED"
    assert (gates.begun("made"), gates.begun("hook")) == (1, 1)
    (check,) = machine.asked("sql", "select check_name, passed from check_results")["rows"]
    assert check == ["is_long", True]
    rows = machine.asked("sql", "select asset_key, metadata from materializations order by 1")[
        "rows"
    ]
    assert [asset for asset, _ in rows] == ["below", "made"]
    assert '"rows"' in rows[1][1]


def test_what_was_not_committed_is_executed_again(machine: Machine, gates: Gates) -> None:
    with machine.start("materialize", "assets.py") as leader:
        gates.wait_for("made")
        leader.send_to_all(signal.SIGKILL)
        leader.process.wait()
    gates.open("made", "hook")
    assert machine.servo("resume", "assets.py").code == 0
    assert gates.begun("made") == 2


BIG = """
import logging
import os
from servo import asset

logging.getLogger().addHandler(logging.FileHandler(os.environ["LOG"]))

@asset
def big():
    return b"x" * (3 << 20)
"""


@pytest.fixture
def small_disk(mount_disk: Callable[[str], Path]) -> Path:
    """A filesystem of six MiB, of which four are taken."""
    disk = mount_disk("size=6m")
    (disk / "ballast").write_bytes(b"x" * (4 << 20))
    return disk


def test_an_output_that_the_disk_has_no_space_for_waits_for_it(
    tmp_path: Path, small_disk: Path
) -> None:
    log = tmp_path / "log"
    machine = Machine(tmp_path / "here", str(small_disk / "store"), BIG, LOG=str(log))
    with machine.start("materialize", "assets.py") as command:
        eventually(lambda: log.exists() and "trying again" in log.read_text(), 60)
        (small_disk / "ballast").unlink()
        said = command.ended()
    assert said.code == 0, said
    (task,) = machine.asked("sql", "select attempt, user_failures, infra_losses from tasks")["rows"]
    assert task == [1, 0, 0]
