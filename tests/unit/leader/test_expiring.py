"""A leader lets outputs expire: first in the ledger, then in the store, whenever it dies."""

from datetime import timedelta
from typing import Any

import pytest

from servo.config import Settings
from servo.core.events.assets import AssetDefinition, DefinitionsDeployed
from servo.core.events.envelope import Answer
from servo.core.events.runs import PlanCreated, RunRequested
from servo.core.events.tasks import TaskFinished, TaskOutcome, TaskStarted
from servo.core.state.rows.assets import MaterializationRow
from servo.execution.outputs.store import OutputStore
from servo.ledger.paths import Paths
from servo.projection.read.reader import Reader
from servo.storage.memory import MemoryStore
from servo.testing.builders import specs, task_key
from servo.testing.clock import ManualClock
from servo.testing.leader import HandLeader
from servo.testing.stored_outputs import save_output

SETTINGS = Settings(
    gc_min_age=timedelta(hours=2),
    outputs_every=timedelta(minutes=10),
    stall_after=timedelta(days=30),  # a test steps seldom, and that is no stall
)
MINUTE = timedelta(minutes=1)


class Killed(BaseException):
    """The process is no more."""


class Store(MemoryStore):
    """A store that can kill its user at the deletion of an output."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self.deadly = False

    def delete(self, key: str) -> None:
        if self.deadly and "/assets/" in key:
            raise Killed
        super().delete(key)


class Workspace:
    """A store, a leader that can be replaced, and executions that store outputs of ns/a."""

    def __init__(self, **retention: Any) -> None:
        self.clock = ManualClock()
        self.store = Store(self.clock)
        self.paths = Paths("acme", "prod")
        self.outputs = OutputStore(self.store, self.paths)
        self.seed = 0
        self.leader = self.lead()
        asset = AssetDefinition(asset_key="ns/a", **retention)
        self.leader.tell(DefinitionsDeployed(deployment_id="d", assets=(asset,)))

    def lead(self) -> HandLeader:
        self.seed += 1
        self.leader = HandLeader(self.store, settings=SETTINGS, clock=self.clock, seed=self.seed)
        return self.leader

    def begin(self, name: str) -> dict[str, Any]:
        run_id = f"run-{name}"
        plan = PlanCreated(run_id=run_id, fingerprint="p", tasks=specs({"a": ()}))
        asked = RunRequested(run_id=run_id, run_key=run_id, request_fingerprint="f")
        self.tell(asked, plan)
        row = self.leader.engine.state.tasks.rows[run_id, task_key("a")]
        held: dict[str, Any] = {
            "run_id": run_id,
            "task_key": row.task_key,
            "attempt_id": row.attempt_id,
        }
        self.tell(TaskStarted(**held, exec_id=name))
        _ = save_output(self.outputs, "ns/a", name, name)
        return {**held, "exec_id": name}

    def make(self, *names: str) -> None:
        for name in names:
            held = self.begin(name)
            output = save_output(self.outputs, "ns/a", name, name)
            self.tell(TaskFinished(**held, outcome=TaskOutcome.SUCCEEDED, output=output))
            self.leader.run_for(10 * MINUTE, step=MINUTE)

    def tell(self, *events: RunRequested | PlanCreated | TaskStarted | TaskFinished) -> None:
        answer = self.leader.tell(*events)
        assert isinstance(answer, Answer), answer
        assert answer.applied, answer.reason

    def stored(self) -> list[str]:
        keys = [meta.key for meta in self.store.list_after(self.paths.assets_prefix)]
        return [key.split("/")[-2] for key in keys]

    def expired(self) -> list[str]:
        rows = Reader(self.store, self.paths).snapshot().rows("materializations")
        made = [row for row in rows if isinstance(row, MaterializationRow)]
        return sorted(row.materialization_id for row in made if row.expired_at is not None)


def test_a_leader_deletes_what_is_no_longer_kept_and_says_so_first() -> None:
    workspace = Workspace(retention_versions=2)
    workspace.make("e1", "e2", "e3", "e4")
    assert (workspace.expired(), workspace.stored()) == ([], ["e1", "e2", "e3", "e4"])
    workspace.leader.run_for(timedelta(hours=3), step=MINUTE)
    assert workspace.expired() == ["e1", "e2"]
    assert workspace.stored() == ["e3", "e4"]
    assert workspace.leader.engine.maintenance.problems == ()


def test_a_leader_keeps_everything_of_an_asset_without_a_retention() -> None:
    workspace = Workspace()
    workspace.make("e1", "e2")
    workspace.leader.run_for(timedelta(days=3), step=timedelta(hours=1))
    assert (workspace.expired(), workspace.stored()) == ([], ["e1", "e2"])


def test_a_leader_that_is_killed_before_it_deletes_leaves_it_to_its_successor() -> None:
    workspace = Workspace(retention_versions=1)
    workspace.make("e1", "e2")
    workspace.store.deadly = True
    with pytest.raises(Killed):
        workspace.leader.run_for(timedelta(hours=3), step=MINUTE)
    assert workspace.stored() == ["e1", "e2"]
    workspace.store.deadly = False
    successor = workspace.lead()
    assert workspace.expired() == ["e1"]
    successor.run_for(timedelta(hours=1), step=MINUTE)
    assert workspace.expired() == ["e1"]
    assert workspace.stored() == ["e2"]


def test_what_nobody_reported_goes_once_its_task_was_given_up() -> None:
    workspace = Workspace()
    workspace.make("good")
    held = workspace.begin("killed")
    workspace.leader.run_for(timedelta(hours=3), step=MINUTE)
    row = workspace.leader.engine.state.tasks.rows.get((held["run_id"], held["task_key"]))
    assert row is None or row.exec_id != "killed" or row.state.value != "RUNNING"
    assert workspace.stored() == ["good"]


def test_a_workspace_where_nothing_happens_is_not_looked_through_for_ever() -> None:
    workspace = Workspace(retention_versions=1)
    workspace.make("e1")
    workspace.leader.run_for(timedelta(hours=4), step=MINUTE)
    before = workspace.store.list_after("")
    workspace.leader.run_for(timedelta(days=3), step=timedelta(hours=1))
    assert workspace.store.list_after("") == before


def test_what_is_kept_by_age_goes_although_nothing_happens() -> None:
    workspace = Workspace(retention_age_ms=2 * 24 * 3_600_000)
    workspace.make("e1", "e2")
    workspace.leader.run_for(timedelta(days=1), step=timedelta(hours=1))
    assert workspace.stored() == ["e1", "e2"]
    workspace.leader.run_for(timedelta(days=2), step=timedelta(hours=1))
    assert (workspace.expired(), workspace.stored()) == (["e1"], ["e2"])
