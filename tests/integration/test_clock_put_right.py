"""A machine whose clock was a year ahead and is put right: everything goes on, in real processes.

The clock of a process is set by an environment variable, through a module that Python imports at
its start.
"""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from servo.testing.command_line import queried, servo

CODE = """
from pathlib import Path
from servo import (
    AutomationCondition, DefaultScheduleStatus, DefaultSensorStatus, RetryPolicy, RunRequest,
    ScheduleDefinition, asset, define_asset_job, sensor,
)

@asset
def ticked():
    return 1

@asset
def seen():
    return 2

@asset(automation_condition=AutomationCondition.cron_tick_passed("* * * * *"))
def by_condition():
    return 3

@asset(retry_policy=RetryPolicy(max_retries=1, delay=100))
def retried():
    if not Path("failed").exists():
        Path("failed").touch()
        raise ValueError("once")
    return 4

minutely = ScheduleDefinition(
    name="minutely",
    cron_schedule="* * * * *",
    job=define_asset_job("ticks", selection=[ticked]),
    default_status=DefaultScheduleStatus.RUNNING,
)

@sensor(target=[seen], minimum_interval_seconds=30, default_status=DefaultSensorStatus.RUNNING)
def looks(context):
    number = int(context.cursor or 0) + 1
    context.update_cursor(str(number))
    return RunRequest(run_key=str(number))

@sensor(target=[retried], minimum_interval_seconds=30, default_status=DefaultSensorStatus.RUNNING)
def looks_once(context):
    return RunRequest(run_key="once")
"""

SITE = """
import os
from datetime import timedelta

import servo.leader.skew as skew
import servo.workspace.system as system

true = system.SystemClock.now
ahead = timedelta(seconds=float(os.environ["CLOCK_AHEAD"]))
system.SystemClock.now = lambda self: true(self) + ahead
skew.measure = lambda *_: timedelta(0)  # the files of this machine have the same clock
"""

YEAR = timedelta(days=365)
MINUTE = timedelta(minutes=1)
ALL = {"by_condition", "seen", "ticked"}


class Machine:
    """A folder on a machine whose clock a test sets."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.site = folder / "site"
        self.site.mkdir()
        (self.site / "sitecustomize.py").write_text(SITE)
        (folder / "assets.py").write_text(CODE)

    def tick(self, ahead: timedelta) -> set[str]:
        """Make a pass with the clock so far ahead; the assets that its runs made."""
        environ = {"PYTHONPATH": str(self.site), "CLOCK_AHEAD": str(ahead.total_seconds())}
        done = servo(self.folder, "tick", "assets.py", "--json", **environ)
        assert done.returncode == 0, done.stderr
        report: dict[str, Any] = json.loads(done.stdout)
        runs = {run["run_id"] for run in report["runs"]}
        rows = queried(self.folder, "select run_id, asset_key from tasks")
        return {row["asset_key"] for row in rows if row["run_id"] in runs}


@pytest.mark.slow
def test_schedules_sensors_conditions_and_retries_go_on(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    _ = machine.tick(YEAR - MINUTE)
    assert machine.tick(YEAR) == ALL

    # The clock is right again. The first pass notices, and from then on everything is as ever.
    _ = machine.tick(timedelta(0))
    assert machine.tick(1 * MINUTE) == {*ALL, "retried"}
    assert machine.tick(2 * MINUTE) == ALL
    assert queried(tmp_path, "select run_id from runs where state = 'FAILED'") == []
