"""A request is decided by the end of the ledger, not by tables that a leader publishes later."""

import pytest

from servo.core.events.quotas import PoolLimitSet
from servo.core.events.runs import PlanCreated, RunRequested
from servo.core.state.states import RunState
from servo.errors import Conflict, NotFound
from servo.operations.interface.listing import Page
from servo.operations.quotas import list_pools, remove_pool_limit
from servo.operations.run_requests import run_to_retry
from servo.operations.runs import cancel_run, list_runs
from servo.testing.builders import specs
from servo.testing.operating import workspace_told
from servo.testing.workspaces import StoredStory
from servo.workspace.workspace import Workspace


def begun() -> StoredStory:
    """A run of one task that runs, and a pool with a limit; both are published."""
    story = StoredStory()
    request = RunRequested(run_id="run_1", run_key="one", request_fingerprint="fp")
    story.tell(request, PlanCreated(run_id="run_1", fingerprint="p", tasks=specs({"x": ()})))
    story.tell(PoolLimitSet(pool="warehouse", limit=2))
    story.publish()
    return story


def finished() -> Workspace:
    """The same after the run succeeded, which the leader has not published yet."""
    story = begun()
    story.execute("x", run_id="run_1")
    workspace = workspace_told(story)
    [row] = list_runs(workspace, Page(limit=10)).items
    assert row.state is RunState.RUNNING
    return workspace


def test_a_run_that_has_ended_cannot_be_cancelled_though_its_end_is_not_published() -> None:
    with pytest.raises(Conflict, match="run_1 has already ended: SUCCEEDED"):
        _ = cancel_run(finished(), "run_1")


def test_a_run_that_succeeded_is_not_retried_though_that_is_not_published() -> None:
    with pytest.raises(Conflict, match="every task of run_1 succeeded"):
        _ = run_to_retry(finished(), "run_1")


def test_a_run_that_is_not_published_can_be_retried() -> None:
    story = begun()
    request = RunRequested(run_id="run_2", run_key="two", request_fingerprint="fp")
    story.tell(request, PlanCreated(run_id="run_2", fingerprint="p", tasks=specs({"x": ()})))
    found = run_to_retry(workspace_told(story), "run_2")
    assert [task.asset_key for task in found.tasks] == ["ns/x"]


def test_a_limit_that_was_removed_cannot_be_removed_though_it_is_published() -> None:
    story = begun()
    story.tell(PoolLimitSet(pool="warehouse", limit=None))
    workspace = workspace_told(story)
    assert [row.name for row in list_pools(workspace).items] == ["warehouse"]
    with pytest.raises(NotFound, match="the pool warehouse has no limit"):
        _ = remove_pool_limit(workspace, "warehouse")
