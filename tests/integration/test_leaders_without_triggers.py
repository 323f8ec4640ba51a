"""A leader that does not host triggers, or not those of a location, is not trusted with them."""

import signal
from pathlib import Path

import pytest

from servo.testing.machines import Gates, Machine

pytestmark = pytest.mark.slow

CONFLICT = 4

CODE = (
    Gates.CODE
    + """
from servo import DefaultScheduleStatus, ScheduleDefinition, StaticPartitionsDefinition, asset

@asset
def gated():
    pass_gate("gated")
    return 1

@asset
def quick():
    return 1

@asset(partitions_def=StaticPartitionsDefinition(["a", "b"]))
def parts(context):
    pass_gate("parts")
    if not (GATES / "mended").exists():
        raise ValueError("not mended")

every_second = ScheduleDefinition(
    name="every_second",
    cron_schedule="* * * * * *",
    target="quick",
    default_status=DefaultScheduleStatus.RUNNING,
)
"""
)
OTHER = """
from servo import asset

@asset
def other():
    return 1
"""


@pytest.fixture
def machine(tmp_path: Path, gates: Gates) -> Machine:
    return Machine(tmp_path / "here", ".servo", CODE, GATES=str(gates.folder))


def test_a_tick_beside_a_materialization_does_itself_what_is_due(
    machine: Machine, gates: Gates
) -> None:
    assert machine.servo("tick", "assets.py").code == 0
    with machine.start("materialize", "assets.py", "gated") as leader:
        gates.wait_for("gated")
        ticked = len(machine.listed("schedule", "ticks", "every_second"))
        with machine.start("tick", "assets.py") as waiting:
            waiting.says("waiting for `servo materialize`")
            gates.open("gated")
            assert leader.ended().code == 0
            said = waiting.ended()
    assert (said.code, "schedules are due: every_second; " in said.out) == (0, True), said
    assert len(machine.listed("schedule", "ticks", "every_second")) > ticked


def test_dev_begins_once_a_materialization_has_ended(machine: Machine, gates: Gates) -> None:
    with machine.start("materialize", "assets.py", "gated") as leader:
        gates.wait_for("gated")
        with machine.start("dev", "assets.py") as waiting:
            waiting.says("waiting for `servo materialize`")
            gates.open("gated")
            assert leader.ended().code == 0
            waiting.says("Ctrl-C stops")
            said = machine.servo("dev", "assets.py")
            assert (said.code, "`servo dev`" in said.err) == (CONFLICT, True), said
            waiting.send(signal.SIGINT)
            assert waiting.ended().code == 0


def test_a_tick_of_code_that_the_leader_does_not_have_says_that_nothing_was_done(
    machine: Machine,
) -> None:
    (machine.folder / "other.py").write_text(OTHER)
    with machine.start("dev", "assets.py") as leader:
        leader.says("Ctrl-C stops")
        said = machine.servo("tick", "other.py")
        assert (said.code, said.out) == (CONFLICT, ""), said
        assert "leads this workspace without other.py" in said.err
        told = machine.asked("tick", "assets.py")
        assert (told["why"], "`servo dev`" in told["left_to"]) == ("", True), told
        leader.send(signal.SIGINT)
        assert leader.ended().code == 0


def test_waiting_for_a_backfill_beside_a_materialization_continues_it_afterwards(
    machine: Machine, gates: Gates
) -> None:
    create = ("backfill", "create", "assets.py", "parts", "--all", "--chunk-size", "1")
    name = machine.asked(*create)["backfill_id"]
    gates.open("parts")
    (gates.folder / "mended").touch()
    with machine.start("materialize", "assets.py", "gated") as leader:
        gates.wait_for("gated")
        with machine.start("backfill", "wait", name) as waiting:
            waiting.says("does not continue backfills")
            gates.open("gated")
            assert leader.ended().code == 0
            said = waiting.ended()
    assert (said.code, "2 succeeded of 2 partitions" in said.out) == (0, True), said


@pytest.mark.parametrize("wait", [(), ("--wait",)])
def test_a_retry_of_a_backfill_names_its_cause_whether_or_not_somebody_waits(
    machine: Machine, gates: Gates, wait: tuple[str, ...]
) -> None:
    gates.open("parts")
    create = ("backfill", "create", "assets.py", "parts", "--all", "--wait")
    first = machine.asked(*create)["backfill"]
    (gates.folder / "mended").touch()
    assert machine.servo("backfill", "retry-failed", first["backfill_id"], *wait).code == 0
    (retried,) = (
        row
        for row in machine.listed("backfill", "list")
        if row["parent_backfill_id"] == first["backfill_id"]
    )
    assert retried["cause"]
    assert retried["correlation"] == first["correlation"]
