"""What is told of a workspace, from its rows: what was so, and what is new."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import servo
from servo.code.conditions.facts import WorkspaceFacts
from servo.core.automation.assets import Asset, Check, Dependency, Graph
from servo.core.automation.condition import AutomationCondition
from servo.core.automation.evaluating import Evaluator
from servo.core.automation.spaces import EVERYTHING
from servo.core.events.assets import (
    AssetDefinition,
    AssetObserved,
    AssetReported,
    AssetWiped,
    CheckEvaluated,
    DefinitionsDeployed,
)
from servo.core.events.backfills import BackfillState
from servo.core.events.backfills import BackfillStateChanged as StateChanged
from servo.core.events.freshness import FreshnessChanged
from servo.core.events.tasks import TaskOutcome
from servo.core.freshness import FreshnessState
from servo.core.retry import RetryRules
from servo.core.state import derived
from servo.core.state.tables import TABLES
from servo.ledger.paths import Paths
from servo.projection.files.parquet import to_table
from servo.sdk.automation.spaces import KeySpace
from servo.testing.backfills import backfill_created
from servo.testing.builders import Story

A = AutomationCondition
COLOURS = servo.StaticPartitionsDefinition(["red", "green", "blue"])
NOW = datetime(2026, 1, 1, tzinfo=UTC)
SPACE = KeySpace(COLOURS, NOW, None)
RED, GREEN = (COLOURS.typed_key(key).canonical() for key in ("red", "green"))
ONCE = RetryRules(max_attempts=1)


class Snapshot:
    """The rows of a story, as a reader has them."""

    def __init__(self, story: Story) -> None:
        self.state = story.state
        self.read: list[str] = []

    def table(self, name: str, *, only: Sequence[str]) -> Any:
        self.read.append(name)
        rows = list(derived.rows(self.state, name))
        return to_table(TABLES[name], rows, (), Paths("acme", "prod")).select(list(only))


def told(
    story: Story, since: int = 0, condition: AutomationCondition | None = None, reads: bool = True
) -> Evaluator:
    own = condition or A.missing()
    assets = [
        Asset(key="ns/a", space=SPACE, condition=own, checks=(Check(name="good"),)),
        Asset(key="ns/b", deps=(Dependency(key="ns/a", mapping=EVERYTHING),), condition=own),
    ]
    evaluator = Evaluator(Graph(assets, lambda selection, key: key in selection))
    snapshot = Snapshot(story)
    WorkspaceFacts(snapshot, {"ns/a": SPACE}, evaluator).tell(since)
    assert reads or snapshot.read == ["partition_status"]
    return evaluator


def make(story: Story, run_id: str, partition: str) -> None:
    story.plan({"a": ()}, run_id, partition=partition)
    story.start("a", run_id, f"exec-{run_id}")
    story.finish("a", run_id=run_id)


def test_attempts_and_what_is_being_made() -> None:
    story = Story()
    story.plan({"a": ()}, "run_1", partition=RED, retry=ONCE)
    story.execute("a", TaskOutcome.FAILED, "run_1")
    story.plan({"a": ()}, "run_2", partition=GREEN)
    story.start("a", "run_2")
    story.plan({"b": ()}, "run_3", retry=ONCE)
    story.execute("b", TaskOutcome.FAILED, "run_3")
    story.plan({"other": ()}, "run_4")
    facts = told(story).world.facts
    assert (facts["ns/a", ""].failed, facts["ns/a", ""].running) == (0b001, 0b010)
    assert (facts["ns/b", ""].failed, facts["ns/b", ""].running) == (1, 0)


def test_backfills_that_are_not_over() -> None:
    story = Story()
    assert story.tell(backfill_created(RED, GREEN, name="bf_1")).applied
    assert told(story).world.facts["ns/a", ""].backfilling == 0b011
    story.tell(StateChanged(backfill_id="bf_1", to_state=BackfillState.CANCELLED))
    over = story.state.backfills.rows["bf_1"].state
    assert over in (BackfillState.CANCELLED, BackfillState.CANCELLING)


def test_what_came_after_the_last_evaluation_is_new() -> None:
    story = Story()
    make(story, "run_1", RED)
    since = story.state.seq
    make(story, "run_2", GREEN)
    facts = told(story, since).world.facts["ns/a", ""]
    assert (facts.made, facts.updated) == (0b011, 0b010)
    story.tell(AssetWiped(asset_key="ns/a", partition_keys=(GREEN,)))
    assert told(story, since).world.facts["ns/a", ""].made == 0b001


def test_a_wipe_of_the_whole_asset_reaches_partitions_that_it_did_not_write() -> None:
    story = Story()
    make(story, "run_1", RED)
    story.tell(AssetWiped(asset_key="ns/a"))
    make(story, "run_2", GREEN)
    assert told(story).world.facts["ns/a", ""].made == 0b010


def report(story: Story, name: str, version: str, partition: str = RED) -> None:
    reported = AssetReported(
        asset_key="ns/a", materialization_id=name, data_version=version, partition_key=partition
    )
    assert story.tell(reported).applied


def test_data_of_the_version_that_was_there_is_made_and_has_not_changed() -> None:
    story = Story()
    report(story, "m1", "v1")
    report(story, "m2", "v1", GREEN)
    since = story.state.seq
    report(story, "m3", "v1")
    report(story, "m4", "v2", GREEN)
    facts = told(story, since).world.facts["ns/a", ""]
    assert (facts.updated, facts.changed) == (0b011, 0b010)


def test_only_what_conditions_look_at_is_read() -> None:
    story = Story()
    make(story, "run_1", RED)
    _ = told(story, reads=False)


def test_which_run_made_it_last_is_told_of_old_data_too() -> None:
    story = Story()
    story.plan({"a": (), "b": ("a",)}, "run_1", partition=RED)
    story.execute("a", run_id="run_1")
    make(story, "run_2", GREEN)
    with_root = A.any_deps_match(A.executed_with_root_target())
    facts = told(story, story.state.seq, with_root).world.facts["ns/a", ""]
    assert (facts.made, facts.updated, facts.with_root) == (0b011, 0, {"ns/b": 0b001})


def test_tags_of_the_run_that_made_it_last() -> None:
    story = Story()
    make(story, "run_1", RED)
    tagged = A.any_deps_match(A.executed_with_tags(tag_keys=["team"]))
    facts = told(story, story.state.seq, tagged).world.facts["ns/a", ""]
    assert list(facts.tagged.values()) == [0]


def test_results_of_checks_are_those_of_the_data_there_is() -> None:
    story = Story()
    make_checked(story, "run_1", RED)
    make_checked(story, "run_2", GREEN)
    since = story.state.seq
    looks = A.any_checks_match(A.check_passed())
    assert told(story, since, looks).world.facts["ns/a", "good"].passed == 0b011
    make(story, "run_3", GREEN)
    old = told(story, story.state.seq, looks).world.facts["ns/a", "good"]
    assert (old.passed, old.updated) == (0b001, 0)
    new = told(story, since - 1, looks).world.facts["ns/a", "good"]
    assert (new.passed, new.updated) == (0b001, 0b010)


def make_checked(story: Story, run_id: str, partition: str) -> None:
    story.plan({"a": ()}, run_id, partition=partition)
    story.start("a", run_id, f"exec-{run_id}")
    task = story.task("a", run_id)
    found = CheckEvaluated(
        run_id=run_id,
        task_key=task.task_key,
        attempt_id=task.attempt_id,
        exec_id=task.exec_id,
        asset_key="ns/a",
        check_name="good",
        passed=True,
        partition_key=partition,
    )
    assert story.tell(found, story.finished("a", run_id=run_id)).applied


def test_an_observation_is_new_once() -> None:
    story = Story()
    story.tell(AssetObserved(asset_key="ns/b", data_version="1"))
    first = told(story).world.facts["ns/b", ""]
    assert (first.made, first.updated) == (1, 1)
    since = story.state.seq
    story.tell(DefinitionsDeployed(deployment_id="d", assets=(AssetDefinition(asset_key="ns/b"),)))
    later = told(story, since).world.facts["ns/b", ""]
    assert (later.made, later.updated) == (1, 0)
    story.wait(minutes=1)
    story.tell(AssetObserved(asset_key="ns/b", data_version="1"))
    assert told(story, since).world.facts["ns/b", ""].updated == 0
    story.tell(AssetObserved(asset_key="ns/b", data_version="2"))
    assert told(story, since).world.facts["ns/b", ""].updated == 1


def test_partitions_that_were_only_seen_are_there() -> None:
    story = Story()
    story.tell(AssetObserved(asset_key="ns/a", partition_key=RED, data_version="1"))
    since = story.state.seq
    story.tell(AssetObserved(asset_key="ns/a", partition_key=GREEN, data_version="1"))
    facts = told(story, since).world.facts["ns/a", ""]
    assert (facts.made, facts.updated, facts.changed) == (0b011, 0b010, 0b010)


def test_a_wipe_of_what_was_seen_counts() -> None:
    story = Story()
    story.tell(AssetObserved(asset_key="ns/b", data_version="1"))
    story.tell(AssetWiped(asset_key="ns/b"))
    assert told(story).world.facts["ns/b", ""].made == 0


def test_freshness_as_it_is_recorded() -> None:
    story = Story()
    for name in ("b", "other"):
        story.plan({name: ()}, f"run_{name}")
        story.execute(name, run_id=f"run_{name}")
        changed = FreshnessChanged(
            asset_key=f"ns/{name}",
            state=FreshnessState.FAIL,
            materialization_seq=story.state.assets.rows[f"ns/{name}"].last_materialization_seq,
            changed_at=story.now,
        )
        assert story.tell(changed).applied
    assert told(story).world.facts["ns/b", ""].freshness == "FAIL"
