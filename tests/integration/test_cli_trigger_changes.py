"""Pausing, resuming and telling triggers something takes effect before the command returns."""

import json
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from servo.cli.main import run
from servo.core.events.schedules import ScheduleUpserted
from servo.core.events.sensors import SensorMode, SensorUpserted
from servo.workspace import channels
from servo.workspace.address import Address
from servo.workspace.composition import open_world
from servo.workspace.leading import try_to_lead
from servo.workspace.workspace import Workspace, open_workspace

HOURLY = ScheduleUpserted(schedule_id="hourly", cron_expressions=("0 * * * *",), target="orders")


class Said(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))


@pytest.fixture
def address(tmp_path: Path) -> Address:
    (tmp_path / ".servo").mkdir()
    return Address.of(str(tmp_path / ".servo"))


@pytest.fixture
def workspace(address: Address) -> Workspace:
    return open_workspace(address)


def told(address: Address, *arguments: str) -> Said:
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = run([*arguments, "--store", address.store])
    return Said(code, out.getvalue(), err.getvalue())


def answered(address: Address, *arguments: str) -> Any:
    said = told(address, *arguments, "--json")
    assert said.out, said.err
    return json.loads(said.out)


# --- schedules ------------------------------------------------------------------------------------


def status(address: Address) -> str:
    return answered(address, "schedule", "show", "hourly")["schedule"]["state"]["status"]


def test_a_schedule_is_paused_when_the_command_returns_though_nobody_leads(
    address: Address, workspace: Workspace
) -> None:
    _ = workspace.submit(HOURLY).checked()
    assert told(address, "schedule", "pause", "hourly") == Said(0, "Paused hourly.\n", "")
    assert status(address) == "PAUSED"
    again = told(address, "schedule", "pause", "hourly")
    assert (again.code, "is already paused" in again.err) == (4, True)
    assert told(address, "schedule", "resume", "hourly").code == 0
    assert status(address) == "ACTIVE"


def test_a_request_that_the_leader_has_not_taken_is_told_as_queued(
    address: Address, workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _ = workspace.submit(HOURLY).checked()
    never_started = try_to_lead(address, open_world(address.store))
    assert never_started is not None
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setattr(channels, "ANSWER_WITHIN", 0.3)
    queued = told(address, "schedule", "pause", "hourly")
    assert (queued.code, queued.out.startswith("Queued: ")) == (8, True)
    assert answered(address, "schedule", "pause", "hourly")["receipt"]["status"] == "queued"
    assert status(address) == "ACTIVE"
    never_started.stop()


# --- sensors --------------------------------------------------------------------------------------


def test_changes_to_a_sensor_take_effect_though_nobody_leads(
    address: Address, workspace: Workspace
) -> None:
    _ = workspace.submit(
        SensorUpserted(sensor_id="files"), SensorUpserted(sensor_id="told", mode=SensorMode.PUSH)
    ).checked()
    assert told(address, "sensor", "pause", "files") == Said(0, "Paused files.\n", "")
    assert told(address, "sensor", "cursor", "files", "--set", "9").code == 0
    assert told(address, "sensor", "cursor", "files").out == "9\n"
    assert told(address, "sensor", "push", "told", "--message-id", "m1").code == 0
    again = told(address, "sensor", "push", "told", "--message-id", "m1")
    assert again.out == "Sent message m1 to told. (already requested earlier)\n"
    states = {
        row["definition"]["sensor_id"]: row["state"]
        for row in answered(address, "sensor", "list")["items"]
    }
    assert states["files"]["status"] == "PAUSED"
    assert states["told"]["messages_waiting"] == 1
    assert "PAUSED" not in told(address, "sensor", "list", "--as-of", "2").out
    assert told(address, "sensor", "cursor", "files", "--as-of", "2").out == "no cursor\n"
    both = told(address, "sensor", "cursor", "files", "--as-of", "2", "--reset")
    assert (both.code, "exclude each other" in both.err) == (2, True)
