"""Runs as operations answer them: a page with those that wait, and what became of one."""

import pytest

from servo import AssetCheckResult, AssetCheckSeverity, asset, asset_check, materialize
from servo.core.events.runs import PlanCreated, RunRequested
from servo.errors import NotFound
from servo.operations.interface.listing import Page
from servo.operations.runs import get_run, get_run_outcome, list_runs
from servo.testing.builders import specs
from servo.testing.operating import workspace_of, workspace_told
from servo.testing.workspaces import StoredStory
from servo.workspace.instance.instance import ServoInstance


@asset
def raw() -> int:
    return 1


@asset
def orders(raw: int) -> int:
    return raw


@asset_check(asset=orders)
def is_large(orders: int) -> AssetCheckResult:
    return AssetCheckResult(passed=orders > 10, severity=AssetCheckSeverity.WARN)


def story_of_runs() -> StoredStory:
    """Runs of two locations: `busy` is at work, `idle` is ready, and `over` has ended."""
    story = StoredStory()
    for run, location in (("over", "a.py"), ("busy", "a.py"), ("idle", "b.py")):
        story.wait(minutes=1)
        request = RunRequested(run_id=run, run_key=run, request_fingerprint="fp", location=location)
        tasks = specs({"x": (), "y": ("x",)})
        story.tell(request, PlanCreated(run_id=run, fingerprint="plan", tasks=tasks))
    for name in "xy":
        story.execute(name, run_id="over")
    story.start("x", "busy")
    story.publish()
    return story


def test_a_page_of_runs_names_those_that_nobody_can_go_on_with() -> None:
    workspace = workspace_told(story_of_runs())
    found = list_runs(workspace, Page(limit=10))
    assert [row.run_id for row in found.items] == ["idle", "busy", "over"]
    assert found.waiting == ["idle"]
    older = list_runs(workspace, Page(limit=2, before="idle"))
    assert ([row.run_id for row in older.items], older.waiting) == (["busy", "over"], [])
    assert list_runs(workspace, Page(limit=1)).next_cursor == "idle"


def test_what_became_of_a_run_is_its_outputs_and_the_checks_that_failed() -> None:
    instance = ServoInstance.ephemeral()
    done = materialize([raw, orders, is_large], instance=instance)
    workspace = workspace_of(instance)
    found = get_run_outcome(workspace, done.run_id[:12])
    assert found.run == get_run(workspace, done.run_id).run
    assert [row.asset_key for row in found.materializations] == ["raw", "orders"]
    assert [(row.asset_key, row.check_name) for row in found.failed_checks] == [
        ("orders", "is_large")
    ]
    before = get_run_outcome(workspace, done.run_id, as_of=found.materializations[0].created_seq)
    assert (len(before.materializations), before.failed_checks) == (1, [])
    with pytest.raises(NotFound, match="there is no run run_none"):
        _ = get_run_outcome(workspace, "run_none")
