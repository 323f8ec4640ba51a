"""What executions used is recorded."""

from pathlib import Path

import msgspec
import pytest

from servo.code.loader import load_project
from servo.core.events.tasks import TaskCost
from servo.core.state.rows.execution import TaskCostRow
from servo.execution import metering
from servo.execution.metering import Meter
from servo.host.leading import LeadingHost
from servo.planning.assets import plan_assets
from servo.projection.read.reader import Reader
from servo.sdk.triggers.resolution import declared
from servo.storage.from_url import store_from_url
from servo.testing.planned_runs import start_plan
from servo.testing.process_setups import setup_for
from servo.workspace.system import SystemClock

CODE = """
import subprocess
import sys
import time
from servo import asset

@asset
def nothing(): ...

@asset
def sleeps():
    time.sleep(0.3)
    with open("written", "wb") as file:
        file.write(b"x" * 5_000_000)
    with open("written", "rb") as file:
        file.read()

@asset
def computes():
    until = time.process_time() + 0.3
    while time.process_time() < until:
        pass

@asset
def has_others_compute():
    code = "import time\\nwhile time.process_time() < 0.3: pass"
    subprocess.run([sys.executable, "-c", code], check=True)

@asset(deps=[sleeps, computes, has_others_compute])
def holds_much():
    held = b"x" * 400_000_000
    time.sleep(0.01)
    return len(held)

@asset(deps=[holds_much])
def holds_little():
    time.sleep(0.01)
"""


@pytest.mark.slow
def test_time_processor_and_memory_of_an_execution_are_recorded(tmp_path: Path) -> None:
    (tmp_path / "assets.py").write_text(CODE)
    project = load_project("assets.py", tmp_path)
    setup = setup_for("assets.py", tmp_path, str(tmp_path / "store"))
    with LeadingHost(setup, workers=1) as session:
        session.deploy("assets.py", declared(project))
        run = start_plan(session, plan_assets(project, project.order), "one")
        ended = session.wait(run, 60)
        assert ended is not None
        assert ended.tasks_succeeded == 6
    reader = Reader(store_from_url(setup.address.store, clock=SystemClock()), session.paths)
    rows = reader.snapshot().rows("task_costs")
    costs = [row for row in rows if isinstance(row, TaskCostRow)]
    found = {row.task_key.partition(":")[0]: row for row in costs}
    assert found["sleeps"].wall_ms >= 300
    assert found["sleeps"].cpu_ms < 200
    assert 5_000_000 <= (found["sleeps"].bytes_written or 0) < 6_000_000
    assert 5_000_000 <= (found["sleeps"].bytes_read or 0) < 6_000_000
    assert found["computes"].cpu_ms >= 290
    assert found["has_others_compute"].cpu_ms >= 290
    assert found["holds_much"].peak_memory_bytes > 400_000_000
    assert 10_000_000 < found["holds_little"].peak_memory_bytes < 400_000_000


def test_what_cannot_be_measured_is_not_told() -> None:
    class Still(SystemClock):
        def monotonic(self) -> float:
            return 0.0

    costs = [Meter(Still()).cost() for _ in range(20)]
    assert None in costs
    assert all(cost is None or isinstance(cost, TaskCost) for cost in costs)


def test_bytes_that_the_system_does_not_count_are_none_and_not_zero(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unreadable() -> int:
        raise PermissionError

    class Passing(SystemClock):
        now_at = 0.0

        def monotonic(self) -> float:
            self.now_at += 1.0
            return self.now_at

    counted = Meter(Passing()).cost()
    assert counted is not None
    assert counted.bytes_read is not None
    monkeypatch.setattr(metering, "_own_io", unreadable)
    unknown = Meter(Passing()).cost()
    assert unknown is not None
    assert (unknown.bytes_read, unknown.bytes_written) == (None, None)
    assert b'"bytes_read":null' in msgspec.json.encode(unknown)
