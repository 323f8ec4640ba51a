"""The events that request a run: which assets they name."""

from servo.core.ids import TaskKeyStr
from servo.core.plan import Plan, TaskSpec
from servo.workspace.run_requests import MOST_ASSETS, assets_of


def plan(*names: str) -> Plan:
    return Plan(
        tasks=tuple(
            TaskSpec(task_key=TaskKeyStr(f"{name}:materialize"), asset_key=name) for name in names
        )
    )


def test_too_many_assets_are_not_told_by_name() -> None:
    names = [f"a{n}" for n in range(MOST_ASSETS + 1)]
    assert len(assets_of(plan(*names[:-1]))) == MOST_ASSETS
    assert assets_of(plan(*names)) == ()
    assert assets_of(plan(*(f"{n:03d}" + "x" * 900 for n in range(100)))) == ()


def test_tasks_of_no_asset_and_of_the_same_one_are_told_once() -> None:
    assert assets_of(plan("", "a", "a")) == ("a",)
