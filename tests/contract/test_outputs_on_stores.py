"""Outputs expire and garbage goes, on every store that has folders or none."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from servo.config import Settings
from servo.core.events.assets import AssetDefinition, DefinitionsDeployed, OutputsExpired
from servo.core.events.tasks import TaskOutcome
from servo.core.retry import RetryRules
from servo.core.state.rows.row import Row
from servo.execution.outputs.store import OutputStore
from servo.ports.object_store import ObjectStore
from servo.projection.read.reader import Snapshot
from servo.projection.upkeep.outputs import OutputCollector, claims_of
from servo.storage.local import LocalStore
from servo.testing.seaweed import Seaweed
from servo.testing.stored_outputs import save_output
from servo.testing.workspaces import StoredStory
from servo.workspace.system import SystemClock

AT_ONCE = Settings(gc_min_age=timedelta(0))
ONCE = RetryRules(max_attempts=1)


@pytest.fixture(params=["local", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    make: dict[str, Callable[[], ObjectStore]] = {
        "local": lambda: LocalStore(tmp_path),
        "s3": lambda: _server(request).store("outputs", clock=SystemClock()),
    }
    return make[request.param]()


def _server(request: pytest.FixtureRequest) -> Seaweed:
    return request.getfixturevalue("seaweed_server")


def test_what_expired_and_what_nobody_accepted_is_deleted(store: ObjectStore) -> None:
    _ = store.put("made", b"")  # a bucket is made by its first object
    story = StoredStory(store)
    outputs = OutputStore(store, story.paths)
    kept = AssetDefinition(asset_key="ns/a", retention_versions=1)
    story.tell(DefinitionsDeployed(deployment_id="d", assets=(kept,)))
    for name in ("e1", "e2", "bad", "e3"):
        story.plan({"a": ()}, f"run-{name}", retry=ONCE)
        story.start("a", f"run-{name}", name)
        output = save_output(outputs, "ns/a", name, name * 50_000)
        if name == "bad":
            story.finish("a", TaskOutcome.FAILED, f"run-{name}")
        else:
            story.finish("a", run_id=f"run-{name}", output=output)
    _ = story.publish()
    collector = OutputCollector(store, story.paths, AT_ONCE)
    claims = claims_of(story.state)
    report = collector.step(current=story.manifest, claims=claims, now=SystemClock().now())
    assert (report.outputs, report.expired) == (1, ("e1", "e2"))
    story.state.hydrate("materializations", _published(story))
    assert story.tell(OutputsExpired(materialization_ids=report.expired)).applied
    _ = story.publish()
    claims = claims_of(story.state)
    report = collector.step(current=story.manifest, claims=claims, now=SystemClock().now())
    assert (report.outputs, len(report.deleted)) == (2, 4)
    stored = story.objects(story.paths.assets_prefix)
    assert {key.split("/")[-2] for key in stored} == {"e3"}
    assert outputs.load(story.paths.output("ns/a", "e3"), "") == "e3" * 50_000


def _published(story: StoredStory) -> list[Row]:
    return Snapshot(story.store, story.manifest).rows("materializations")
