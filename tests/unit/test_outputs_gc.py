"""Outputs expire, garbage is deleted, and nothing that somebody may still need."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from servo.config import Settings
from servo.core.events.assets import AssetDefinition, DefinitionsDeployed, OutputsExpired
from servo.core.events.codec import encode_batch
from servo.core.events.dispatch import LeaseExpired
from servo.core.events.tasks import CommittedOutput, TaskOutcome
from servo.core.manifest import encode, next_claim
from servo.core.retry import RetryRules
from servo.errors import Fenced, NotFound
from servo.execution.outputs.store import OutputStore
from servo.ports.object_store import ObjectStore
from servo.projection.read.cold import ColdRows
from servo.projection.upkeep.gc import GcReport
from servo.projection.upkeep.outputs import OutputCollector, claims_of, collect_outputs
from servo.projection.upkeep.verify import verify
from servo.storage.memory import MemoryStore
from servo.testing.builders import START, Story
from servo.testing.clock import ManualClock
from servo.testing.stored_outputs import save_output
from servo.testing.workspaces import StoredStory

SHORT = Settings(gc_min_age=timedelta(hours=2))
LARGE = "x" * 100_000  # more than a marker holds, so that an output is two objects


class Workspace(StoredStory):
    """A workspace in which executions store outputs."""

    def __init__(self, store: ObjectStore | None = None, **retention: Any) -> None:
        super().__init__(store)
        self.outputs = OutputStore(self.store, self.paths)
        self.saved: dict[str, CommittedOutput] = {}
        self.deploy(**retention)

    def deploy(self, *keys: str, **retention: Any) -> None:
        """Define ns/a with this retention, or these assets."""
        assets = tuple(AssetDefinition(asset_key=key, **retention) for key in keys or ("ns/a",))
        name = f"d{self.state.seq}"
        self.tell(DefinitionsDeployed(deployment_id=name, assets=assets))

    def begin(self, name: str, **fields: Any) -> None:
        """Let an execution of this name run and store something for ns/a."""
        self.plan({"a": ()}, f"run-{name}", retry=RetryRules(max_attempts=1), **fields)
        self.start("a", f"run-{name}", name)
        self.save(name)

    def save(self, name: str) -> None:
        self.saved[name] = save_output(self.outputs, "ns/a", name, f"{name}{LARGE}")

    def end(self, name: str, **fields: Any) -> None:
        """Let the execution report its output."""
        output = replace(self.saved[name], **fields)
        self.finish("a", run_id=f"run-{name}", output=output)

    def make(self, *names: str) -> None:
        """Materialize ns/a once for each name, an hour apart, and publish."""
        for name in names:
            self.begin(name)
            self.end(name)
            self.wait(hours=1)
            _ = self.publish()

    def collect(self, **options: Any) -> GcReport:
        """A round of what a leader does, in as many steps as it takes."""
        collector = OutputCollector(self.store, self.paths, SHORT, **options)
        report = self.step(collector)
        while report.more:
            report += self.step(collector)
        return report

    def step(self, collector: OutputCollector) -> GcReport:
        return collector.step(current=self.manifest, claims=claims_of(self.state), now=self.now)

    def expire(self, names: Sequence[str]) -> None:
        """Bring into the ledger what a round found, as a leader does."""
        self.hydrate(names)
        answer = self.tell(OutputsExpired(materialization_ids=tuple(names)))
        assert answer.applied, answer.reason
        _ = self.publish()

    def hydrate(self, names: Sequence[str]) -> None:
        rows = ColdRows(self.store).fetch(self.manifest, "materializations", names)
        self.state.hydrate("materializations", rows)

    def stored(self) -> list[str]:
        """The executions whose outputs are there, whole or in part."""
        keys = self.objects(self.paths.assets_prefix)
        return list(dict.fromkeys(key.split("/")[-2] for key in keys))

    def loads(self, name: str) -> bool:
        try:
            return self.outputs.load(self.paths.output("ns/a", name), "") == f"{name}{LARGE}"
        except NotFound:
            return False


# --- what expires ---------------------------------------------------------------------------------


def test_what_is_no_longer_kept_is_said_first_and_deleted_when_the_ledger_knows() -> None:
    workspace = Workspace(retention_versions=2)
    workspace.make("e1", "e2", "e3", "e4")
    report = workspace.collect()
    assert report == GcReport(expired=("e1", "e2"))
    assert workspace.stored() == ["e1", "e2", "e3", "e4"]
    workspace.expire(report.expired)
    report = workspace.collect()
    assert (report.outputs, report.expired, report.more) == (2, (), False)
    assert len(report.deleted) == 4
    assert workspace.stored() == ["e3", "e4"]
    assert workspace.loads("e3")
    assert workspace.collect() == GcReport()
    assert verify(workspace.store, workspace.paths).sound


def test_what_is_still_in_memory_counts() -> None:
    """What was made and what expired since the last publish is known without a file."""
    workspace = Workspace(retention_versions=1)
    workspace.make("e1")
    workspace.begin("e2")
    workspace.end("e2")
    workspace.wait(hours=3)
    assert workspace.collect().expired == ("e1",)
    workspace.hydrate(["e1"])
    workspace.tell(OutputsExpired(materialization_ids=("e1",)))
    assert workspace.collect() == GcReport()
    _ = workspace.publish()
    assert workspace.collect().outputs == 1
    assert workspace.loads("e2")


def test_a_row_that_was_changed_counts_as_it_is_now() -> None:
    """One file says that an output is kept, a later one that it expired; merged or not."""
    workspace = Workspace(retention_versions=1)
    workspace.make("e1", "e2", "e3", "e4")
    workspace.expire(["e1"])
    assert workspace.collect().expired == ("e2",)
    _ = workspace.merge()
    assert workspace.collect().expired == ("e2",)
    assert workspace.stored() == ["e2", "e3", "e4"]


def test_by_age_and_by_the_time_of_the_store() -> None:
    workspace = Workspace(retention_age_ms=3 * 3_600_000 + 1)
    workspace.make("e1", "e2", "e3", "e4")
    workspace.now += timedelta(days=300)  # a leader's clock that is ahead
    assert workspace.collect().expired == ("e1",)


def test_an_asset_that_is_not_defined_any_more_keeps_what_it_has() -> None:
    workspace = Workspace(retention_versions=1)
    workspace.make("e1", "e2", "e3", "e4")
    workspace.deploy("ns/other")
    assert workspace.collect() == GcReport()


def test_what_an_io_manager_stored_does_not_expire() -> None:
    workspace = Workspace(retention_versions=1)
    workspace.begin("e1")
    workspace.end("e1", uri="s3://elsewhere/a/")
    workspace.make("e2", "e3", "e4")
    assert workspace.collect().expired == ("e2",)


def test_nothing_expires_that_a_running_task_was_handed() -> None:
    workspace = Workspace(retention_versions=1)
    workspace.make("e1", "e2")
    workspace.begin("slow")
    workspace.make("e3", "e4", "e5", "e6")
    assert workspace.collect().expired == ("e1",)
    workspace.end("slow")
    assert workspace.collect().expired == ("e1", "e2", "e3", "e4")


def test_steps_say_a_bounded_part_and_together_all() -> None:
    workspace = Workspace(retention_versions=1)
    workspace.make(*(f"e{number}" for number in range(9)))
    collector = OutputCollector(workspace.store, workspace.paths, SHORT, limit=2)
    said: list[tuple[str, ...]] = []
    while (report := workspace.step(collector)).more:
        said.append(report.expired)
    assert said[0] == ("e0", "e1")
    assert workspace.collect().expired == sum((*said, report.expired), start=())


# --- what was never accepted ----------------------------------------------------------------------


def test_what_a_failed_execution_left_behind_is_deleted_when_it_is_old() -> None:
    workspace = Workspace()
    workspace.begin("failed")
    workspace.finish("a", TaskOutcome.FAILED, "run-failed")
    workspace.begin("killed")
    row = workspace.task("a", "run-killed")
    workspace.wait(minutes=10)
    workspace.tell(
        LeaseExpired(
            run_id=row.run_id, task_key=row.task_key, attempt_id=row.attempt_id, exec_id="killed"
        )
    )
    workspace.make("good")
    assert workspace.collect() == GcReport()
    workspace.wait(hours=2)
    assert workspace.collect().outputs == 2
    assert workspace.stored() == ["good"]


def test_the_data_of_a_half_written_output_is_deleted() -> None:
    workspace = Workspace()
    workspace.make("good")
    _ = workspace.store.put(f"{workspace.paths.output('ns/a', 'half')}data.parquet", b"rows")
    workspace.wait(hours=3)
    assert workspace.collect().outputs == 1
    assert workspace.stored() == ["good"]


def test_what_a_running_execution_stored_stays_however_old() -> None:
    workspace = Workspace()
    workspace.begin("slow")
    _ = workspace.publish()
    workspace.wait(days=30)
    assert workspace.collect() == GcReport()
    workspace.end("slow")
    assert workspace.collect() == GcReport()
    _ = workspace.publish()
    assert workspace.collect() == GcReport()
    assert workspace.loads("slow")


def test_what_is_accepted_while_a_round_goes_on_stays() -> None:
    """It ran when the files were read, and is published when its folder is looked at."""
    workspace = Workspace()
    for name in ("a1", "a2", "a3"):
        workspace.save(name)
    workspace.begin("slow")
    _ = workspace.publish()
    workspace.wait(hours=3)
    collector = OutputCollector(workspace.store, workspace.paths, SHORT, limit=2)
    assert workspace.step(collector).more
    workspace.end("slow")
    _ = workspace.publish()
    assert not workspace.state.materializations.rows
    while workspace.step(collector).more:
        pass
    assert workspace.stored() == ["slow"]
    assert workspace.loads("slow")


@pytest.mark.parametrize("where", ["inbox", "parked"])
def test_what_a_batch_on_its_way_into_the_ledger_names_stays(where: str) -> None:
    workspace = Workspace()
    workspace.make("good")
    workspace.save("early")
    workspace.save("gone")
    other = Story()
    other.plan({"a": ()}, "run-unknown")
    other.start("a", "run-unknown", "early")
    batch = workspace.batch(other.finished("a", run_id="run-unknown"), parkable=True)
    if where == "inbox":
        _ = workspace.store.put(workspace.paths.inbox_item("01"), encode_batch(batch))
    else:
        workspace.commit(batch)
        assert workspace.state.parked.rows
    workspace.wait(hours=3)
    assert workspace.collect().outputs == 1
    assert workspace.stored() == ["early", "good"]


def test_what_is_no_output_is_left_alone() -> None:
    workspace = Workspace()
    workspace.make("good")
    mine = f"{workspace.paths.assets_prefix}ns/a/e9/notes.txt"
    _ = workspace.store.put(mine, b"mine")
    workspace.wait(days=400)
    assert workspace.collect() == GcReport()
    assert mine in workspace.objects()


def test_outputs_of_one_execution_for_several_assets_are_all_accepted() -> None:
    """Only the first is named like its execution."""
    workspace = Workspace()
    workspace.begin("both", also_makes=("ns/b",))
    first = workspace.saved["both"]
    second = save_output(workspace.outputs, "ns/b", "both", LARGE)
    second = replace(second, materialization_id="both-1", asset_key="ns/b")
    workspace.finish("a", run_id="run-both", outputs=(first, second))
    _ = workspace.publish()
    workspace.wait(days=3)
    assert workspace.collect() == GcReport()


def test_an_output_that_two_materializations_name_stays_until_both_expired() -> None:
    workspace = Workspace(retention_versions=1)
    workspace.make("e1")
    uri = workspace.paths.output("ns/a", "e1")
    workspace.begin("e2")
    workspace.end("e2", uri=uri)
    _ = workspace.publish()
    workspace.wait(hours=3)
    workspace.expire(["e1"])
    assert workspace.collect().outputs == 1  # what e2 stored and did not name
    assert workspace.loads("e1")


# --- what could go wrong --------------------------------------------------------------------------


class Dying(MemoryStore):
    """A store whose user is killed at a delete."""

    def __init__(self) -> None:
        self.clock = ManualClock(START)
        super().__init__(self.clock)
        self.left: int | None = None

    def delete(self, key: str) -> None:
        if self.left == 0:
            raise KeyboardInterrupt
        self.left = None if self.left is None else self.left - 1
        super().delete(key)


class Mortal(Workspace):
    """A workspace in a store whose user can be killed."""

    def __init__(self, **retention: Any) -> None:
        self.mortal = Dying()
        super().__init__(self.mortal, **retention)
        self.clock = self.mortal.clock


@pytest.mark.parametrize("deletes", range(5))
def test_whoever_is_killed_between_the_event_and_a_delete_leaves_garbage_and_no_more(
    deletes: int,
) -> None:
    workspace = Mortal(retention_versions=2)
    workspace.make("e1", "e2", "e3", "e4")
    workspace.expire(workspace.collect().expired)
    workspace.mortal.left = deletes
    if deletes < 4:
        with pytest.raises(KeyboardInterrupt):
            _ = workspace.collect()
    else:
        assert len(workspace.collect().deleted) == 4
    assert len(workspace.objects(workspace.paths.assets_prefix)) == 8 - deletes
    workspace.mortal.left = None
    assert len(workspace.collect().deleted) == 4 - deletes
    assert workspace.stored() == ["e3", "e4"]
    assert workspace.loads("e3")
    assert workspace.loads("e4")


def test_the_marker_goes_first() -> None:
    workspace = Mortal(retention_versions=1)
    workspace.make("e1", "e2", "e3")
    workspace.expire(["e1"])
    workspace.mortal.left = 1
    with pytest.raises(KeyboardInterrupt):
        _ = workspace.collect()
    left = workspace.objects(workspace.paths.output("ns/a", "e1"))
    assert [key.rpartition("/")[2] for key in left] == ["data.text"]


def test_a_leader_that_was_replaced_deletes_nothing() -> None:
    workspace = Workspace()
    workspace.make("good")
    workspace.save("garbage")
    workspace.wait(hours=3)
    stolen = next_claim(workspace.manifest, owner="owner-2", nonce="n", ts=workspace.now)
    _ = workspace.manifests.create(encode(stolen)[1])
    with pytest.raises(Fenced, match="nothing was deleted"):
        _ = workspace.collect()
    assert "garbage" in workspace.stored()


def test_nothing_is_deleted_while_what_is_recorded_cannot_be_read() -> None:
    workspace = Workspace(retention_versions=1)
    workspace.make("e1", "e2", "e3")
    workspace.save("garbage")
    workspace.wait(hours=3)
    [key, *_] = workspace.objects(f"{workspace.paths.state_prefix}materializations/")
    _ = workspace.store.put(key, b"nothing")
    report = workspace.collect()
    assert report.expired == ()
    assert report.deleted == ()
    assert "is damaged" in report.problems[0]


def test_steps_delete_a_bounded_part_and_together_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("servo.projection.upkeep.outputs.ROWS_PER_STEP", 0)
    workspace = Workspace()
    workspace.make(*(f"e{number}" for number in range(6)))
    for number in range(6):
        workspace.save(f"g{number}")
    workspace.wait(hours=3)
    collector = OutputCollector(workspace.store, workspace.paths, SHORT, limit=5)
    steps: list[GcReport] = []
    while not steps or steps[-1].more:
        steps.append(workspace.step(collector))
    assert [len(step.deleted) for step in steps if step.deleted] == [5, 5, 2]
    assert len(steps) > 3  # a file at a time was read before
    assert workspace.stored() == [f"e{number}" for number in range(6)]


# --- without leading ------------------------------------------------------------------------------


def alone(workspace: Workspace, **options: Any) -> GcReport:
    return collect_outputs(
        workspace.store,
        workspace.paths,
        current=workspace.manifest,
        now=workspace.now,
        settings=SHORT,
        **options,
    )


def test_who_does_not_lead_knows_the_ledger_to_its_end() -> None:
    """The leader died before it published: what ran and what was accepted is in the ledger only."""
    workspace = Workspace(retention_versions=1)
    workspace.make("e1", "e2")
    workspace.begin("accepted")
    workspace.end("accepted")
    workspace.begin("running")
    workspace.save("garbage")
    workspace.wait(hours=3)
    assert alone(workspace, dry_run=True).outputs == 1
    assert "garbage" in workspace.stored()
    report = alone(workspace)
    assert (report.outputs, report.expired) == (1, ("e1", "e2"))
    assert workspace.stored() == ["accepted", "e1", "e2", "running"]


def test_who_cannot_read_the_ledger_deletes_nothing() -> None:
    workspace = Workspace()
    workspace.make("e1")
    workspace.save("garbage")
    workspace.begin("later")
    workspace.wait(hours=3)
    _ = workspace.store.put(workspace.paths.ledger_entry(workspace.state.seq), b"{")
    report = alone(workspace)
    assert report.problems
    assert "garbage" in workspace.stored()
