"""What time alone makes due, in one pass of real processes: nothing happened but a tick."""

import logging
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from servo.code.evaluator.conditions import ConditionEvaluator
from servo.code.evaluator.loaded_location import EvaluatorEnvironment, LoadedLocation
from servo.code.evaluator.plan_store import PlanStore
from servo.code.loader import load_project
from servo.core.events.envelope import Batch
from servo.leader.service import Service
from servo.ledger.paths import Paths
from servo.ports.world import World
from servo.sdk.automation.graph import DEFAULT_SENSOR
from servo.storage.local import LocalStore
from servo.testing.command_line import asked, listed, servo
from servo.workspace.instance.instance import ServoInstance
from servo.workspace.system import SystemClock, SystemEntropy

CODE = """
from servo import AssetCheckResult, AutomationCondition, asset, asset_check

cron = AutomationCondition.on_cron("{cron}")

@asset(automation_condition=cron)
def report():
    return 1

@asset
def orders():
    return 2

@asset_check(asset=orders, automation_condition=AutomationCondition.cron_tick_passed("{cron}"))
def orders_are_good(orders):
    return AssetCheckResult(passed=orders > 1)
"""


def evaluate_at(folder: Path, at: datetime) -> None:
    """Evaluate the conditions of a workspace as somebody did who came by then."""
    store, paths = LocalStore(folder / ".servo"), Paths("default", "default")
    project = load_project("assets.py", folder)
    around = EvaluatorEnvironment(
        clock=SystemClock(),
        entropy=SystemEntropy(),
        log=logging.getLogger("test"),
        environ={},
        instance=ServoInstance.ephemeral,
    )
    loaded = LoadedLocation(project, PlanStore(store=store, paths=paths, salt=bytes(32)), around)
    judged = ConditionEvaluator(loaded, DEFAULT_SENSOR).judge(at)
    assert not judged.runs
    with Service(World(store, SystemClock(), SystemEntropy()), paths) as service:
        assert service.commit(Batch(id="then", events=judged.ticked)).applied


@pytest.mark.slow
def test_a_pass_makes_and_checks_what_a_tick_of_a_cron_asks_for_once(tmp_path: Path) -> None:
    now = SystemClock().now()
    tick = now - timedelta(minutes=30)
    cron = f"{tick.minute} {tick.hour} * * *"
    (tmp_path / "assets.py").write_text(CODE.format(cron=cron))
    assert servo(tmp_path, "materialize", "orders").returncode == 0
    evaluate_at(tmp_path, now - timedelta(hours=2))
    first = asked(tmp_path, "tick")
    assert [run["state"] for run in first["runs"]] == ["SUCCEEDED"]
    [newest, _] = sorted(listed(tmp_path, "run", "list"), key=lambda run: run["created_at"])[::-1]
    tasks = asked(tmp_path, "run", "show", newest["run_id"])["tasks"]
    assert sorted(task["task_key"] for task in tasks) == ["orders:check", "report:materialize"]
    assert asked(tmp_path, "tick")["runs"] == []
    conditions = {row["asset_key"]: row for row in listed(tmp_path, "automation", "list")}
    assert conditions["orders:orders_are_good"]["last_requested_at"] is not None
    shown = asked(tmp_path, "automation", "show", "orders:orders_are_good")
    assert shown["asset"]["condition"].startswith("cron_tick_passed")


def test_a_pass_before_the_tick_makes_nothing(tmp_path: Path) -> None:
    later = SystemClock().now() + timedelta(hours=3)
    (tmp_path / "assets.py").write_text(CODE.format(cron=f"{later.minute} {later.hour} * * *"))
    assert servo(tmp_path, "materialize", "orders").returncode == 0
    evaluate_at(tmp_path, later - timedelta(hours=5))
    assert asked(tmp_path, "tick")["runs"] == []
