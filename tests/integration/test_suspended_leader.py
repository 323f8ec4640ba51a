"""A suspended leader of a folder: every command reports it at once, and continuing it works."""

import signal
from pathlib import Path

import pytest

from servo.testing.eventually import eventually
from servo.testing.machines import Gates, Machine, RunningCommand
from servo.workspace.system import SystemClock

pytestmark = [pytest.mark.slow, pytest.mark.kill]

UNAVAILABLE = 6
SECONDS = 8.0
"""A command takes about two, of which it waits one for an answer."""

CODE = (
    Gates.CODE
    + """
from servo import DefaultScheduleStatus, ScheduleDefinition, asset

@asset
def gated():
    pass_gate("gated")
    return 1

yearly = ScheduleDefinition(
    name="yearly",
    cron_schedule="0 0 1 1 *",
    target="gated",
    default_status=DefaultScheduleStatus.RUNNING,
)
"""
)
COMMANDS = [
    ("schedule", "pause", "yearly"),
    ("materialize", "assets.py"),
    ("resume", "assets.py"),
    ("tick", "assets.py"),
]


@pytest.fixture
def machine(tmp_path: Path, gates: Gates) -> Machine:
    return Machine(tmp_path / "here", ".servo", CODE, GATES=str(gates.folder))


def test_every_command_reports_a_suspended_leader_at_once_with_the_remedy(machine: Machine) -> None:
    with machine.start("dev") as leader:
        leader.says("Ctrl-C stops")
        eventually(lambda: machine.listed("schedule", "list"))
        leader.send_to_all(signal.SIGSTOP)
        clock, pid = SystemClock(), leader.process.pid
        for command in COMMANDS:
            began = clock.monotonic()
            said = machine.servo(*command)
            assert clock.monotonic() - began < SECONDS
            assert (said.code, said.out) == (UNAVAILABLE, ""), said
            assert f"`servo dev` (process {pid}) leads this workspace and is suspended" in said.err
            assert f"kill -CONT {pid}" in said.err
        assert f"kill -9 {pid}" in machine.asked("status")["leader_silent"]
        leader.send_to_all(signal.SIGCONT)
        (row,) = machine.listed("schedule", "list")
        assert row["state"]["status"] == "ACTIVE", "what was refused is not done later"
        assert machine.asked("status")["leader_silent"] == ""
        assert machine.servo("schedule", "pause", "yearly").code == 0
        leader.send(signal.SIGINT)
        assert leader.ended().code == 0


def suspended_at_work(machine: Machine, gates: Gates, leader: RunningCommand) -> RunningCommand:
    """A client whose leader was suspended in the middle of its run, and that said so."""
    client = machine.start("materialize", "assets.py")
    gates.wait_for("gated")
    leader.send_to_all(signal.SIGSTOP)
    client.says("is suspended")
    return client


@pytest.mark.parametrize(("what_happens", "executions"), [("continued", 1), ("killed", 2)])
def test_the_run_of_a_suspended_leader_finishes_once_the_leader_is_continued_or_killed(
    what_happens: str, executions: int, machine: Machine, gates: Gates
) -> None:
    with machine.start("dev") as leader:
        leader.says("Ctrl-C stops")
        client = suspended_at_work(machine, gates, leader)
        gates.open("gated")
        if what_happens == "continued":
            leader.send_to_all(signal.SIGCONT)
        else:
            leader.send(signal.SIGKILL)
        with client:
            assert client.ended().code == 0
    assert gates.begun("gated") == executions
