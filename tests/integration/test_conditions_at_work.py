"""Conditions at work: to go on and to begin anew come to the same, and each run is made once."""

import logging
import random
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from servo import (
    AssetCheckResult,
    AssetSpec,
    AutomationCondition,
    DailyPartitionsDefinition,
    Definitions,
    DynamicPartitionsDefinition,
    ServoInstance,
    asset,
    asset_check,
    materialize,
)
from servo.code.evaluator.conditions import ConditionEvaluator
from servo.code.evaluator.loaded_location import EvaluatorEnvironment, LoadedLocation
from servo.code.evaluator.messages import ConditionsEvaluated
from servo.code.evaluator.plan_store import PlanStore
from servo.core.events.assets import (
    AssetObserved,
    AssetReported,
    AssetWiped,
    DynamicPartitionsChanged,
)
from servo.core.events.automation import AutomationEvaluated
from servo.core.events.envelope import Batch
from servo.core.events.runs import RunRequested
from servo.core.keys import TaskOperation
from servo.leader.service import Service
from servo.sdk.automation.graph import DEFAULT_SENSOR
from servo.testing.command_line import asked, listed, servo

WORDS = {"fails": False}
days = DailyPartitionsDefinition(start_date="2026-01-01", end_date="2026-01-06")


@asset
def raw() -> int:
    return 1


@asset(automation_condition=AutomationCondition.eager())
def mid(raw: int) -> int:
    if WORDS["fails"]:
        raise ValueError("not now")
    return raw


@asset_check(asset=mid, blocking=True)
def mid_is_good(mid: int) -> AssetCheckResult:
    return AssetCheckResult(passed=mid > 0)


@asset(
    automation_condition=AutomationCondition.all_deps_blocking_checks_passed()
    & AutomationCondition.any_deps_updated().since_last_handled()
)
def top(mid: int) -> int:
    return mid


@asset(partitions_def=days, automation_condition=AutomationCondition.missing().newly_true())
def daily() -> int:
    return 1


@asset(
    partitions_def=days,
    automation_condition=AutomationCondition.any_deps_updated().since_last_handled(),
)
def below(daily: int) -> int:
    return daily


customers = DynamicPartitionsDefinition(name="customers")


@asset(
    partitions_def=customers,
    automation_condition=AutomationCondition.missing().newly_true().since_last_handled(),
)
def account() -> int:
    return 1


@asset(
    deps=["outside"],
    automation_condition=AutomationCondition.any_deps_match(
        AutomationCondition.data_version_changed()
    ),
)
def follows() -> int:
    return 1


@asset_check(
    asset=raw,
    automation_condition=AutomationCondition.missing().newly_true().since_last_handled(),
)
def raw_is_good() -> AssetCheckResult:
    return AssetCheckResult(passed=True)


@asset_check(
    asset="outside",
    automation_condition=AutomationCondition.any_deps_updated().since_last_handled(),
)
def outside_is_good() -> AssetCheckResult:
    return AssetCheckResult(passed=True)


ASSETS = [raw, mid, top, daily, below, account, follows, AssetSpec("outside")]
CHECKS = [mid_is_good, raw_is_good, outside_is_good]


class Workspace:
    """A workspace in memory, whose conditions are judged by hand."""

    def __init__(self) -> None:
        self.instance = ServoInstance.ephemeral()
        self.project = Definitions(ASSETS, asset_checks=CHECKS).project()
        self.now = self.instance.world.clock.now() + timedelta(minutes=1)
        self._batches = 0

    def make(self, *assets: Any, key: str | None = None) -> None:
        _ = materialize(
            [*assets, mid_is_good] if mid in assets else list(assets),
            selection=None,
            instance=self.instance,
            partition_key=key,
            raise_on_error=False,
        )

    def asked(self, room: ConditionEvaluator) -> dict[str, str]:
        """What the next evaluation asks for; it is committed."""
        self.now += timedelta(minutes=1)
        found = room.judge(self.now)
        assert not found.ticked or self.commit(found.ticked)
        return {name: bits for name, (bits, _) in said(found).items() if bits}

    def wipe(self, name: str) -> None:
        self.commit([AssetWiped(asset_key=name)])

    def change(self, *, added: Sequence[str] = (), removed: Sequence[str] = ()) -> None:
        self.commit(
            [
                DynamicPartitionsChanged(
                    set_name="customers", added=tuple(added), removed=tuple(removed)
                )
            ]
        )

    def report(self, version: str, name: str = "outside", key: str | None = None) -> None:
        reported = AssetReported(
            asset_key=name,
            materialization_id=f"m{self._batches}",
            data_version=version,
            partition_key=None if key is None else customers.typed_key(key).canonical(),
        )
        self.commit([reported])

    def see(self, version: str) -> None:
        self.commit([AssetObserved(asset_key="outside", data_version=version)])

    def commit(self, events: Any) -> bool:
        self._batches += 1
        world, paths = self.instance.world, self.instance.paths
        with Service(world, paths) as service:
            answer = service.commit(Batch(id=f"judged-{self._batches}", events=tuple(events)))
        return answer.applied

    def room(self) -> ConditionEvaluator:
        world = self.instance.world
        records = PlanStore(store=world.store, paths=self.instance.paths, salt=bytes(32))
        around = EvaluatorEnvironment(
            clock=world.clock,
            entropy=world.entropy,
            log=logging.getLogger("test"),
            environ={},
            instance=lambda: self.instance,
        )
        return ConditionEvaluator(LoadedLocation(self.project, records, around), DEFAULT_SENSOR)


def said(found: ConditionsEvaluated) -> dict[str, tuple[str, str | None]]:
    """What an evaluation asked for and what it will remember, by asset.

    One that begins anew may have more to tell besides: it did not tell it before.
    """
    events = [event for event in found.ticked if isinstance(event, AutomationEvaluated)]
    kept = [event for event in events if event.requested or event.cursor is not None]
    return {event.asset_key: (event.requested, event.cursor) for event in kept}


def _turn(workspace: Workspace) -> None:
    del workspace
    WORDS["fails"] = not WORDS["fails"]


STEPS: tuple[Callable[[Workspace], None], ...] = (
    lambda w: w.make(raw),
    lambda w: w.make(raw, mid),
    lambda w: w.make(daily, key="2026-01-02"),
    lambda w: w.make(daily, below, key="2026-01-03"),
    lambda w: w.wipe("mid"),
    lambda w: w.wipe("daily"),
    _turn,
    lambda w: w.change(added=["acme", "bolt"]),
    lambda w: w.change(removed=["acme"]),
    lambda w: w.change(added=["coil"], removed=["bolt"]),
    lambda w: w.report("v1", "account", "coil"),
    lambda w: w.report("v1"),
    lambda w: w.report("v2"),
    lambda w: w.see("v2"),
    lambda w: w.see("v3"),
    lambda w: w.wipe("outside"),
)


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 16))]
)
def test_an_evaluation_that_goes_on_is_as_one_that_begins_anew(seed: int) -> None:
    WORDS["fails"] = False
    dice, workspace = random.Random(seed), Workspace()
    workspace.make(raw)
    goes_on = workspace.room()
    for _ in range(9):
        dice.choice(STEPS)(workspace)
        workspace.now += timedelta(minutes=dice.choice([1, 60]))
        found = goes_on.judge(workspace.now)
        anew = workspace.room().judge(workspace.now)
        assert said(found) == said(anew)
        assert [run.planned.tasks for run in found.runs] == [run.planned.tasks for run in anew.runs]
        if found.ticked:
            assert workspace.commit(found.ticked)


def test_of_two_evaluations_the_first_counts_and_the_other_begins_anew() -> None:
    workspace = Workspace()
    workspace.make(raw)
    one, other = workspace.room(), workspace.room()
    first, second = one.judge(workspace.now), other.judge(workspace.now)
    assert workspace.commit(first.ticked)
    assert not workspace.commit(second.ticked)
    other.forget()
    later = workspace.now + timedelta(minutes=1)
    assert said(other.judge(later)) == said(workspace.room().judge(later))


def test_everything_that_is_asked_for_at_once_is_one_run_in_its_order() -> None:
    workspace = Workspace()
    workspace.make(daily, key="2026-01-01")
    room = workspace.room()
    first = room.judge(workspace.now)
    assert workspace.commit(first.ticked)
    workspace.make(raw)
    found = room.judge(workspace.now + timedelta(minutes=1))
    [run] = found.runs
    assert isinstance(run.requested, RunRequested)
    assert [(task.asset_key, task.upstream) for task in run.planned.tasks][:2] == [
        ("mid", ()),
        ("top", (run.planned.tasks[0].task_key,)),
    ]


def test_data_of_the_same_version_asks_for_nothing_in_a_room_that_goes_on() -> None:
    workspace = Workspace()
    workspace.report("v1")
    room = workspace.room()
    assert "follows" not in workspace.asked(room)
    workspace.report("v1")
    assert "follows" not in workspace.asked(room)
    workspace.see("v1")
    assert "follows" not in workspace.asked(room)
    workspace.report("v2")
    assert "follows" in workspace.asked(room)
    workspace.see("v3")
    assert "follows" in workspace.asked(room)
    assert "follows" not in workspace.asked(room)


@pytest.mark.parametrize("restarts", [False, True])
def test_what_is_remembered_of_dynamic_partitions_stays_with_their_keys(restarts: bool) -> None:
    workspace = Workspace()
    workspace.change(added=["acme", "bolt"])
    room = workspace.room()
    assert "account" not in workspace.asked(room)
    workspace.change(added=["coil"])
    room = workspace.room() if restarts else room
    assert workspace.asked(room)["account"] == "2"
    # Numbers 0 and 2 stay where they are when 1 goes, and one that comes back is a new one.
    workspace.change(removed=["bolt"])
    room = workspace.room() if restarts else room
    assert "account" not in workspace.asked(room)
    workspace.change(added=["bolt"])
    room = workspace.room() if restarts else room
    assert workspace.asked(room)["account"] == "3"


def test_the_condition_of_a_check_has_the_check_run_alone() -> None:
    workspace = Workspace()
    workspace.report("v1")
    room = workspace.room()
    _ = workspace.asked(room)
    workspace.report("v2")
    workspace.now += timedelta(minutes=1)
    found = room.judge(workspace.now)
    assert said(found)["outside:outside_is_good"][0] == "0"
    [run] = found.runs
    [task] = [task for task in run.planned.tasks if task.asset_key == "outside"]
    assert task.operation is TaskOperation.CHECK
    assert workspace.commit([*found.ticked, run.requested, run.planned])
    assert "outside:outside_is_good" not in workspace.asked(room)


def test_a_check_that_is_asked_for_with_its_asset_is_run_in_its_task() -> None:
    workspace = Workspace()
    both = Definitions([source, checked], asset_checks=[checked_is_good])
    workspace.project = both.project()
    workspace.make(source)
    room = workspace.room()
    _ = workspace.asked(room)
    workspace.make(source)
    found = room.judge(workspace.now + timedelta(minutes=1))
    assert {name for name, (bits, _) in said(found).items() if bits} == {
        "checked",
        "checked:checked_is_good",
    }
    [run] = found.runs
    assert [task.operation for task in run.planned.tasks] == [TaskOperation.MATERIALIZE]


@asset
def source() -> int:
    return 1


@asset(automation_condition=AutomationCondition.any_deps_updated().since_last_handled())
def checked(source: int) -> int:
    return source


@asset_check(asset=checked, automation_condition=AutomationCondition.eager())
def checked_is_good() -> AssetCheckResult:
    return AssetCheckResult(passed=True)


# --- on real processes --------------------------------------------------------------------------

CODE = """
from servo import AutomationCondition, asset

@asset
def raw():
    return 1

@asset(automation_condition=AutomationCondition.eager())
def mid(raw):
    return raw

@asset(automation_condition=AutomationCondition.eager())
def top(mid):
    return mid
"""


@pytest.mark.slow
def test_a_pass_makes_what_conditions_ask_for_once(tmp_path: Path) -> None:
    (tmp_path / "assets.py").write_text(CODE)
    assert servo(tmp_path, "tick").returncode == 0
    assert servo(tmp_path, "materialize", "raw").returncode == 0
    first = asked(tmp_path, "tick")
    assert [run["state"] for run in first["runs"]] == ["SUCCEEDED"]
    for _ in range(2):
        assert asked(tmp_path, "tick")["runs"] == []
    runs = listed(tmp_path, "run", "list")
    assert sorted(run["tasks_succeeded"] for run in runs) == [1, 2]
    assert datetime.fromisoformat(runs[0]["created_at"]).tzinfo is not None


@pytest.mark.slow
def test_a_pass_does_not_lead_for_conditions_that_are_paused(tmp_path: Path) -> None:
    (tmp_path / "assets.py").write_text(CODE)
    assert servo(tmp_path, "tick").returncode == 0
    assert servo(tmp_path, "automation", "pause").returncode == 0
    assert servo(tmp_path, "materialize", "raw").returncode == 0
    assert asked(tmp_path, "tick")["why"] == ""
