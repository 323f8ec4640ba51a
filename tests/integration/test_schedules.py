"""Schedules on real processes: `servo dev` and `servo tick` make their runs, once each."""

import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from servo.host.one_pass import MOST_ROUNDS
from servo.testing import command_line
from servo.testing.command_line import asked, listed, queried, servo
from servo.testing.eventually import eventually

CODE = """
import os
import time
from pathlib import Path
from servo import DefaultScheduleStatus, RunRequest, ScheduleDefinition, SkipReason, asset, schedule

RUNNING = DefaultScheduleStatus.RUNNING

@asset
def orders():
    return 1

@asset
def total(orders):
    return orders

@asset
def other():
    return 2

plain = ScheduleDefinition(
    name="plain", cron_schedule="* * * * * *", target="orders+", default_status=RUNNING
)
stopped = ScheduleDefinition(name="stopped", cron_schedule="* * * * * *", target="other")

@schedule(cron_schedule="* * * * * *", target="other", default_status=RUNNING)
def raises(context):
    raise ValueError("not today")

@schedule(cron_schedule="* * * * * *", target="other", default_status=RUNNING)
def ends(context):
    os._exit(7)

@schedule(cron_schedule="* * * * * *", target="other", default_status=RUNNING)
def once(context):
    return RunRequest(run_key="the only one")
"""


def ticks_of(folder: Path, name: str) -> list[dict[str, Any]]:
    return listed(folder, "schedule", "ticks", name, "--limit", "500")


class Dev(command_line.Dev):
    def has_ticked(self, name: str, times: int, status: str = "TRIGGERED") -> bool:
        if not (self.folder / ".servo").is_dir():
            return False
        done = servo(self.folder, "schedule", "ticks", name, "--json")
        return done.stdout.count(f'"{status}"') >= times


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "assets.py").write_text(CODE)
    return tmp_path


@pytest.mark.slow
def test_each_schedule_ticks_whatever_the_code_of_others_does(folder: Path) -> None:
    dev = Dev(folder)
    dev.until(lambda: dev.has_ticked("plain", 3))
    dev.until(lambda: dev.has_ticked("raises", 1, "FAILED"))
    dev.until(lambda: dev.has_ticked("ends", 1, "FAILED"))
    dev.until(lambda: dev.has_ticked("once", 2))
    dev.stop()
    assert {tick["message"] for tick in ticks_of(folder, "raises") if tick["status"] == "FAILED"}
    [told] = {tick["message"] for tick in ticks_of(folder, "ends") if tick["status"] == "FAILED"}
    assert told == "the evaluator process ended with 7"
    assert ticks_of(folder, "stopped") == []
    runs = {run["run_id"]: run for run in listed(folder, "run", "list", "--limit", "500")}
    for tick in ticks_of(folder, "plain"):
        if tick["status"] == "TRIGGERED":
            assert runs[tick["run_id"]]["labels"]["servo/schedule"] == "plain"
    only = [run for run in runs.values() if run["run_key"] == "sched:once:key:the only one"]
    assert len(only) == 1, "the same key asks for the same run"
    assert {run["state"] for run in runs.values()} <= {"SUCCEEDED", "RUNNING"}


@pytest.mark.slow
def test_a_tick_and_its_runs_survive_a_kill_whole(folder: Path) -> None:
    for _ in range(3):
        dev = Dev(folder)
        dev.until(lambda dev=dev: dev.has_ticked("plain", 1))
        dev.kill()
    assert servo(folder, "resume").returncode == 0
    triggered = [tick for tick in ticks_of(folder, "plain") if tick["status"] == "TRIGGERED"]
    runs = Counter(
        run["run_id"]
        for run in listed(folder, "run", "list", "--limit", "500")
        if run["labels"].get("servo/schedule") == "plain"
    )
    assert Counter(tick["run_id"] for tick in triggered) == runs
    assert len({tick["scheduled_for"] for tick in triggered}) == len(triggered)


@pytest.mark.slow
def test_one_pass_does_what_is_due_and_an_idle_one_writes_nothing(folder: Path) -> None:
    assert "new" in servo(folder, "tick").stdout
    for name in ("plain", "raises", "ends", "once"):
        assert servo(folder, "schedule", "pause", name).returncode == 0
    before = files(folder)
    idle = asked(folder, "tick")
    assert (idle["why"], idle["next_due"], idle["runs"]) == ("", None, [])
    assert files(folder) == before
    assert servo(folder, "schedule", "resume", "plain").returncode == 0
    due = eventually(lambda: (told := asked(folder, "tick"))["why"] and told)
    assert due["why"] == "schedules are due: plain"
    assert {run["state"] for run in due["runs"]} == {"SUCCEEDED"}
    skipped = [tick for tick in ticks_of(folder, "plain") if tick["message"] == "paused"]
    assert len(skipped) == 1, "what a pause costs is on record"


def files(folder: Path) -> dict[str, int]:
    store = folder / ".servo"
    return {str(path): path.stat().st_mtime_ns for path in store.rglob("*") if path.is_file()}


@pytest.mark.slow
def test_a_person_can_have_a_schedule_tick(folder: Path) -> None:
    made = asked(folder, "schedule", "trigger", "stopped", "--at", "2025-01-15T06:00")
    assert [run["state"] for run in made["runs"]] == ["SUCCEEDED"]
    [tick] = ticks_of(folder, "stopped")
    assert tick["scheduled_for"] == "2025-01-15T06:00:00Z"
    assert tick["run_id"] == made["runs"][0]["run_id"]
    dry = servo(folder, "schedule", "trigger", "stopped", "--dry-run")
    assert "Would start a run of 1 task" in dry.stdout
    assert len(ticks_of(folder, "stopped")) == 1
    failed = servo(folder, "schedule", "trigger", "raises")
    assert failed.returncode == 2
    assert "ValueError: not today (assets.py:" in failed.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("show", "nobody"), "there is no schedule nobody"),
        (("pause", "nobody"), "there is no schedule nobody"),
        (("resume", "plain"), "schedule plain is not paused"),
        (("trigger", "plian"), "did you mean plain?"),
        (("trigger", "plain", "--at", "soon"), "'soon' is not a time"),
    ],
)
def test_mistakes_are_told_with_their_remedy(
    folder: Path, arguments: tuple[str, ...], words: str
) -> None:
    _ = servo(folder, "tick")
    done = servo(folder, "schedule", *arguments)
    assert done.returncode != 0
    assert words in done.stderr


@pytest.mark.slow
def test_a_schedule_that_left_the_code_is_removed_and_one_that_comes_back_begins_anew(
    folder: Path,
) -> None:
    _ = servo(folder, "tick")
    (folder / "assets.py").write_text(CODE.replace('name="stopped"', 'name="renamed"'))
    assert asked(folder, "tick")["why"] == "the definitions in the code changed"
    names = [row["definition"]["schedule_id"] for row in listed(folder, "schedule", "list")]
    assert names == ["ends", "once", "plain", "raises", "renamed"]
    (folder / "assets.py").write_text(CODE.partition("plain =")[0].replace("return 2", "return 3"))
    assert asked(folder, "tick")["why"] == "the definitions in the code changed"
    assert asked(folder, "tick")["why"] == "", "whatever was removed or left as it was"


CONSEQUENCES = """
from pathlib import Path
from servo import (
    AutomationCondition, DefaultScheduleStatus, DefaultSensorStatus, RunRequest, RunStatus,
    ScheduleDefinition, asset, asset_sensor, define_asset_job, run_status_sensor
)

@asset
def orders():
    return 1

@asset(automation_condition=AutomationCondition.eager())
def total(orders):
    return orders

@asset
def letter():
    return 2

@asset
def again():
    return 3

nightly = define_asset_job("nightly", "orders")
every = ScheduleDefinition(
    job=nightly, cron_schedule="* * * * * *", default_status=DefaultScheduleStatus.RUNNING
)

@run_status_sensor(
    RunStatus.SUCCESS,
    monitored_jobs=[nightly],
    target="letter",
    minimum_interval_seconds=0,
    default_status=DefaultSensorStatus.RUNNING,
)
def done(context):
    return RunRequest(run_key=context.run.run_id)

@asset_sensor(
    "again",
    target="again",
    minimum_interval_seconds=0,
    default_status=DefaultSensorStatus.RUNNING,
)
def circle(context, event):
    return RunRequest()
"""


@pytest.mark.slow
def test_what_comes_of_a_pass_is_done_in_it_and_what_goes_in_circles_ends(tmp_path: Path) -> None:
    (tmp_path / "assets.py").write_text(CONSEQUENCES)
    _ = servo(tmp_path, "tick")
    _ = servo(tmp_path, "sensor", "pause", "circle")
    done = eventually(lambda: (told := asked(tmp_path, "tick"))["runs"] and told)
    assert {run["state"] for run in done["runs"]} == {"SUCCEEDED"}
    query = "select distinct asset_key from materializations order by 1"
    made = [row["asset_key"] for row in queried(tmp_path, query)]
    assert made == ["letter", "orders", "total"]
    for name in ("nightly_schedule", "done"):
        kind = "sensor" if name == "done" else "schedule"
        _ = servo(tmp_path, kind, "pause", name)
    _ = servo(tmp_path, "sensor", "resume", "circle")
    assert servo(tmp_path, "materialize", "again").returncode == 0
    round_ = asked(tmp_path, "tick")
    assert 1 < len(round_["runs"]) <= MOST_ROUNDS + 1


HANGING = """
import time
from servo import DefaultScheduleStatus, ScheduleDefinition, asset, schedule

RUNNING = DefaultScheduleStatus.RUNNING

@asset
def orders():
    return 1

plain = ScheduleDefinition(
    name="plain", cron_schedule="* * * * * *", target="orders", default_status=RUNNING
)

def hangs(context):
    time.sleep(1000)

hanging = [
    schedule(cron_schedule="* * * * * *", target="orders", default_status=RUNNING, name=name)(hangs)
    for name in ("one", "two", "three")
]
one, two, three = hanging
"""


@pytest.mark.slow
def test_schedules_that_hang_keep_no_plain_one_waiting(tmp_path: Path) -> None:
    (tmp_path / "assets.py").write_text(HANGING)
    dev = Dev(tmp_path)
    with dev:
        dev.until(lambda: dev.has_ticked("plain", 8))
        began = time.monotonic()
        dev.stop()
        assert time.monotonic() - began < 15, "what hangs holds up no end"
