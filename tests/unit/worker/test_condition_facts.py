"""What is told of a workspace, from its rows: what was so, and what is new."""

from datetime import UTC, datetime
from typing import Any

import servo
from servo.core.automation.assets import Asset, Graph
from servo.core.automation.condition import AutomationCondition as A
from servo.core.automation.evaluating import Evaluator
from servo.core.events.assets import (
    AssetDefinition,
    AssetObserved,
    AssetWiped,
    DefinitionsDeployed,
)
from servo.core.events.backfills import BackfillCreated, BackfillState, ExplicitSelector
from servo.core.events.backfills import BackfillStateChanged as StateChanged
from servo.core.events.freshness import FreshnessChanged
from servo.core.events.tasks import TaskOutcome
from servo.core.freshness import FreshnessState
from servo.core.retry import RetryPolicy
from servo.sdk.condition_spaces import KeySpace
from servo.testing.builders import Story
from servo.worker.condition_facts import Facts

COLOURS = servo.StaticPartitionsDefinition(["red", "green", "blue"])
NOW = datetime(2026, 1, 1, tzinfo=UTC)
SPACE = KeySpace(COLOURS, NOW, None, ())
RED, GREEN = (COLOURS.typed_key(key).canonical() for key in ("red", "green"))
ONCE = RetryPolicy(max_attempts=1)


class Snapshot:
    """The rows of a story, as a reader has them."""

    def __init__(self, story: Story) -> None:
        self._story = story

    def rows(self, table: str) -> list[Any]:
        return list(self._story.state.tables[table].values())


def told(story: Story, since: int = 0, last: datetime | None = None) -> Evaluator:
    assets = [Asset(key="ns/a", space=SPACE, condition=A.missing()), Asset(key="ns/b")]
    evaluator = Evaluator(Graph(assets, lambda selection, key: key in selection))
    Facts(Snapshot(story), {"ns/a": SPACE}).tell(evaluator, since, last)
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
    created = BackfillCreated(
        backfill_id="bf_1",
        client_request_id="r1",
        request_fingerprint="f",
        asset_selection=("ns/a",),
        selector=ExplicitSelector(count=2),
        partition_keys=(RED, GREEN),
        total_partitions=2,
        chunk_size=2,
    )
    assert story.tell(created).applied
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


def test_an_observation_is_new_once() -> None:
    story = Story()
    story.tell(AssetObserved(asset_key="ns/b", data_version="1"))
    first = told(story).world.facts["ns/b", ""]
    assert (first.made, first.updated) == (1, 1)
    since, last = story.state.seq, story.state.ts
    story.tell(DefinitionsDeployed(deployment_id="d", assets=(AssetDefinition(asset_key="ns/b"),)))
    later = told(story, since, last).world.facts["ns/b", ""]
    assert (later.made, later.updated) == (1, 0)
    story.wait(minutes=1)
    story.tell(AssetObserved(asset_key="ns/b", data_version="2"))
    assert told(story, since, last).world.facts["ns/b", ""].updated == 1


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
