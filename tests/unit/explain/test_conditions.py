"""What is told of the automation condition of an asset, and of the evaluation behind a run."""

from typing import Any

import msgspec
import pytest

from servo.core.automation.trees import Tree
from servo.core.declared import AUTOMATION_LABEL
from servo.core.events.assets import AssetDefinition, DefinitionsDeployed
from servo.core.events.automation import AutomationEvaluated, AutomationTicked
from servo.core.events.runs import AutomationSource
from servo.core.events.sensors import SensorPaused, SensorRemoved, SensorUpserted
from servo.core.explain.asked import asked
from servo.core.explain.conditions import MOST_PARTS, NO_NEWS, told_once
from servo.core.explain.finding import What
from servo.core.explain.records import Subject
from servo.core.explain.starters import starters
from servo.testing.builders import Story
from servo.testing.explaining import outline, records_of

AT = "2026-01-01 00:00:00Z"
NAME = "watch"
EAGER = f"its automation condition: eager, evaluated by {NAME}"
MISSING = Tree(
    label="eager",
    kind="and",
    of=1,
    asset="ns/a",
    children=(
        Tree(label="missing()", kind="missing", true=1, of=1),
        Tree(
            label="~any_deps_missing",
            kind="not",
            of=1,
            children=(
                Tree(
                    label="any_deps_missing",
                    kind="deps",
                    true=1,
                    of=1,
                    children=(Tree(label="missing()", kind="missing", true=1, of=1, asset="raw"),),
                ),
            ),
        ),
    ),
)
PARTS = [
    "    - eager of ns/a: false",
    "      - not any_deps_missing: false",
    "        + any_deps_missing (raw): true",
    "    - 2 parts did not decide; show them with --all",
]
ALL_PARTS = [
    PARTS[0],
    "      + missing: true",
    PARTS[1],
    "        + any_deps_missing: true",
    "          + missing of raw: true",
]
TRUE = Tree(
    label="eager",
    kind="and",
    true=1,
    of=1,
    children=(
        Tree(
            label="a",
            kind="or",
            true=1,
            of=1,
            children=(
                Tree(label="b", kind="b", of=1),
                Tree(label="c", kind="c", true=1, of=1),
            ),
        ),
        Tree(label="~d", kind="not", true=1, of=1, children=(Tree(label="d", kind="d", of=1),)),
    ),
)


def deployed(condition: str = "eager") -> Story:
    story = Story()
    asset = AssetDefinition(asset_key="ns/a", automation_condition=condition)
    story.tell(DefinitionsDeployed(deployment_id="d", location="assets.py", assets=(asset,)))
    return story


def sensor(story: Story, name: str = NAME, assets: tuple[str, ...] = ("ns/a",)) -> None:
    labels = {AUTOMATION_LABEL: "conditions"}
    event = SensorUpserted(sensor_id=name, asset_selection=assets, labels=labels)
    assert story.tell(event).applied


def evaluate(story: Story, number: int, *trees: tuple[str, Tree | None, int]) -> None:
    head = AutomationTicked(
        sensor_id=NAME,
        tick=number,
        eval_id=f"ev{number}",
        applied_seq=0,
        ticked_at=story.now,
        requested_count=sum(count for _, _, count in trees),
    )
    told = [
        AutomationEvaluated(
            sensor_id=NAME,
            tick=number,
            asset_key=key,
            requested_count=count,
            tree="" if tree is None else msgspec.json.encode(tree).decode(),
        )
        for key, tree, count in trees
    ]
    assert story.tell(head, *told).applied


def told(story: Story, **fields: Any) -> list[str]:
    return outline(*starters(records_of(story, **fields), Subject("ns/a"), ""))


def test_without_a_condition_there_is_nothing_to_tell() -> None:
    story = deployed("")
    sensor(story)
    [finding] = starters(records_of(story), Subject("ns/a"), "")
    assert finding.what is What.NOTHING, "a sensor of conditions is not a sensor of the asset"


def test_a_condition_that_no_sensor_evaluates() -> None:
    story = deployed()
    nobody = [
        "? its automation condition: eager",
        "  > no sensor evaluates it yet: start `servo dev` with the code that defines it",
    ]
    assert told(story) == nobody
    sensor(story)
    story.tell(SensorRemoved(sensor_id=NAME))
    assert told(story) == nobody


def test_a_condition_that_was_not_evaluated_yet() -> None:
    story = deployed()
    sensor(story)
    assert told(story) == [f"? {EAGER}, which has not evaluated it yet"]
    assert told(story, led=False) == [
        f"? {EAGER}, which has not evaluated it yet",
        "  > no leader is running in this workspace: `servo dev` evaluates it",
    ]


def test_the_newest_evaluation_with_every_part_and_what_is_lacking() -> None:
    story = deployed()
    sensor(story)
    evaluate(story, 1, ("ns/a", TRUE, 1))
    evaluate(story, 2, ("ns/a", MISSING, 0))
    lacking = "it will be requested when any_deps_missing is no longer true (raw)"
    assert told(story) == [
        f"- {EAGER}",
        f"  > {lacking}",
        f"  - ns/a, evaluation 2 at {AT}: requested nothing",
        *PARTS,
    ]
    assert told(story, whole=True)[3:] == ALL_PARTS
    nobody = "no leader is running in this workspace: `servo dev` evaluates it"
    assert told(story, led=False)[1] == f"  > {lacking}; {nobody}"


@pytest.mark.parametrize("first", [0, 1])
def test_a_first_evaluation_says_that_what_came_before_is_no_news(first: int) -> None:
    story = deployed()
    sensor(story)
    news = Tree(label="any_deps_updated", kind="deps", of=1)
    handled = Tree(label="initial_evaluation()", kind="initial_evaluation", true=first, of=1)
    since = Tree(label="since", kind="since", of=1, children=(news, handled))
    evaluate(story, 1, ("ns/a", Tree(label="eager", kind="and", of=1, children=(since,)), 0))
    when = "  > it will be requested when any_deps_updated becomes true"
    assert told(story)[1] == (f"{when}; {NO_NEWS}" if first else when)


def test_an_evaluation_that_asked_for_it() -> None:
    story = deployed()
    sensor(story)
    evaluate(story, 1, ("ns/a", TRUE, 1))
    assert told(story)[:3] == [
        f"- {EAGER}",
        f"  + ns/a, evaluation 1 at {AT}: requested a run",
        "    + eager: true",
    ]


def test_partitions_are_counted() -> None:
    story = deployed()
    sensor(story)
    evaluate(story, 1, ("ns/a", Tree(label="x", kind="x", true=2, of=3), 2))
    assert told(story)[1:] == [
        f"  + ns/a, evaluation 1 at {AT}: requested 2 partitions",
        "    + x: true of 2 of 3",
    ]


def test_an_evaluation_whose_tree_was_left_out() -> None:
    story = deployed()
    sensor(story)
    evaluate(story, 1, ("ns/a", None, 1))
    assert told(story)[1:] == [
        f"  + ns/a, evaluation 1 at {AT}: requested 1 partition; the reason was not kept"
    ]


def test_a_paused_sensor_says_how_to_resume_it() -> None:
    story = deployed()
    sensor(story)
    story.tell(SensorPaused(sensor_id=NAME))
    paused = [
        f"? {EAGER}, which is paused",
        "  > resume it",
        f"  $ servo automation resume {NAME}",
    ]
    assert told(story, led=False) == paused
    story = deployed()
    sensor(story)
    evaluate(story, 1, ("ns/a", MISSING, 0))
    story.tell(SensorPaused(sensor_id=NAME))
    assert told(story)[:4] == [
        *paused,
        f"  - ns/a, evaluation 1 at {AT}: requested nothing",
    ]


@pytest.mark.parametrize("assets", [("ns/a",), ()])
def test_the_sensor_is_known_by_what_it_names_or_evaluated(assets: tuple[str, ...]) -> None:
    story = deployed()
    sensor(story, "another", ("ns/b",))
    sensor(story, NAME, assets)
    evaluate(story, 1, ("ns/a", MISSING, 0))
    assert told(story)[0] == f"- {EAGER}"


def test_the_only_sensor_evaluates_what_it_does_not_name_and_one_of_several_is_not_guessed() -> (
    None
):
    story = deployed()
    sensor(story, NAME, ())
    assert told(story) == [f"? {EAGER}, which has not evaluated it yet"]
    sensor(story, "another", ())
    assert told(story)[0] == "? its automation condition: eager"


def test_very_many_parts_are_counted() -> None:
    leaves = tuple(Tree(label=f"p{i}", kind="p", of=1) for i in range(MOST_PARTS + 5))
    story = deployed()
    sensor(story)
    evaluate(story, 1, ("ns/a", Tree(label="all", kind="and", of=1, children=leaves, more=4), 0))
    lines = told(story)
    assert lines[-2:] == [f"      - p{MOST_PARTS - 2}: false", "      - and 10 more parts"]


# --- runs -----------------------------------------------------------------------------------------


def test_a_run_is_told_with_the_parts_that_were_true() -> None:
    story = deployed()
    sensor(story)
    evaluate(story, 1, ("ns/a", TRUE, 1), ("ns/b", MISSING, 0))
    evaluate(story, 2, ("ns/a", TRUE, 1))
    source = AutomationSource(evaluation_id="ev1", sensor_id=NAME, tick=1)
    story.request("run_1", source=source)
    records = records_of(story)
    run = records.run("run_1")
    assert run is not None
    assert outline(*asked(records, run)) == [
        f"- an automation condition was true: evaluation 1 of {NAME}; {AT}",
        f"  + ns/a, evaluation 1 at {AT}: requested a run",
        "    + eager: true",
        "      + a: true",
        "        + c: true",
        "      + not d: true",
        "    - 2 parts did not decide; show them with --all",
    ]


def test_of_very_many_assets_of_a_run_some_are_told() -> None:
    story = deployed()
    sensor(story)
    evaluate(story, 1, *((f"ns/{i}", None, 1) for i in range(5)))
    source = AutomationSource(evaluation_id="ev1", sensor_id=NAME, tick=1)
    story.request("run_1", source=source)
    records = records_of(story)
    run = records.run("run_1")
    assert run is not None
    lines = outline(*asked(records, run))
    assert lines[1:2] == [
        f"  + ns/0, evaluation 1 at {AT}: requested 1 partition; the reason was not kept"
    ]
    assert lines[-1] == "  - and 2 more assets"


def test_an_evaluation_is_told_once() -> None:
    story = deployed()
    sensor(story)
    evaluate(story, 1, ("ns/a", TRUE, 1))
    findings = starters(records_of(story), Subject("ns/a"), "")
    twice = outline(*told_once([*findings, *findings]))
    half = len(twice) - 2
    assert twice[:half] == told(story)
    assert twice[half:] == [
        f"- {EAGER}",
        f"  + ns/a, evaluation 1 at {AT}: requested a run, as shown above",
    ]


def test_the_condition_of_a_check_is_told_with_its_asset() -> None:
    story = Story()
    asset = AssetDefinition(asset_key="ns/a", check_conditions={"good": "on_cron(0 6 * * *, UTC)"})
    story.tell(DefinitionsDeployed(deployment_id="d", location="assets.py", assets=(asset,)))
    sensor(story, assets=("ns/a:good",))
    head = (
        f"the automation condition of its check good: on_cron(0 6 * * *, UTC), evaluated by {NAME}"
    )
    assert told(story) == [f"? {head}, which has not evaluated it yet"]
    evaluate(story, 1, ("ns/a:good", Tree(label="on_cron", kind="and", of=1), 0))
    assert told(story)[0] == f"- {head}"
    assert told(story)[2] == f"  - ns/a:good, evaluation 1 at {AT}: requested nothing"
