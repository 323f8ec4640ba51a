"""How much an evaluation looks at, what it keeps, and what it tells."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from servo.core import bitmaps
from servo.core.automation import recording
from servo.core.automation.assets import Asset, Check, Dependency, Graph
from servo.core.automation.condition import AutomationCondition
from servo.core.automation.evaluating import EvaluationOutcome, Evaluator
from servo.core.automation.recording import EvaluationPoint, Recording
from servo.core.automation.spaces import EVERYTHING, Listed
from servo.core.automation.states import packed, read, unpacked
from servo.core.automation.trees import Tree
from servo.core.events.automation import AutomationEvaluated, AutomationTicked
from servo.errors import Corrupt

A = AutomationCondition
START = datetime(2025, 3, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
HERE = EvaluationPoint(sensor_id="auto", tick=7, eval_id="e7", applied_seq=40)


def evaluator(*assets: Asset) -> Evaluator:
    return Evaluator(Graph(assets, lambda selection, key: key in selection))


def fan(count: int) -> list[Asset]:
    """Many eager assets, each made from one of its own."""
    return [
        Asset(key=f"m{n:04}", deps=(Dependency(key=f"r{n:04}"),), condition=A.eager())
        for n in range(count)
    ]


# --- work -----------------------------------------------------------------------------------------


def test_the_work_follows_what_changed_and_not_what_there_is() -> None:
    work: dict[int, list[int]] = {}
    for count in (100, 1_000):
        found = evaluator(*fan(count))
        first = found.tick(START)
        assert (first.assets, first.nodes) == (count, count * 28)
        quiet = found.tick(START + MINUTE)  # what was initial is not any more
        assert quiet.assets == count
        ticks = [found.tick(START + 2 * MINUTE)]
        for n in range(10):
            found.world.made(f"r{n:04}", 1, START)
        ticks += [found.tick(START + (3 + n) * MINUTE) for n in range(3)]
        assert [len(tick.requested) for tick in ticks] == [0, 10, 0, 0]
        assert [tick.assets for tick in ticks] == [0, 10, 10, 10]
        work[count] = [tick.nodes for tick in ticks]
    assert work[100] == work[1_000]
    assert max(work[100]) <= 10 * 28


def test_of_many_dependencies_only_the_changed_one_is_looked_at() -> None:
    deps = tuple(Dependency(key=f"r{n:04}") for n in range(1_000))
    found = evaluator(Asset(key="m", deps=deps, condition=A.eager()))
    for dep in deps:
        found.world.made(dep.key, 1, START)
    found.begin()
    _ = [found.tick(START + n * MINUTE) for n in range(3)]
    found.world.made("r0500", 1, START + 3 * MINUTE)
    tick = found.tick(START + 3 * MINUTE)
    assert tick.requested == {"m": 1}
    assert tick.nodes <= 16


def test_nothing_to_look_at_is_nothing_to_write() -> None:
    found = evaluator(*fan(3))
    _ = [found.tick(START + n * MINUTE) for n in range(2)]
    assert found.tick(START + 2 * MINUTE) == EvaluationOutcome(
        at=START + 2 * MINUTE,
        requested={},
        states={},
        told=(),
        durable=False,
        assets=0,
        nodes=0,
    )


# --- what is told ---------------------------------------------------------------------------------


def test_what_is_over_is_not_told_again() -> None:
    found = evaluator(*fan(2))
    assert found.tick(START).told == ("m0000", "m0001")
    assert found.tick(START + MINUTE).told == ()
    found.world.made("r0000", 1, START)
    assert found.tick(START + 2 * MINUTE).told == ("m0000",)
    found.world.running("m0000", 1)
    assert found.tick(START + 3 * MINUTE).told == ("m0000",)
    assert found.tick(START + 4 * MINUTE).told == ()


def test_a_process_that_starts_has_nothing_to_tell() -> None:
    first = evaluator(*fan(2))
    states = {**first.tick(START).states}
    again = Evaluator(first.graph, states=states, last=START)
    tick = again.tick(START + MINUTE)
    assert (tick.assets, tick.told, tick.durable) == (2, (), False)


def test_a_tree_says_what_every_part_is_true_of() -> None:
    condition = (A.missing() | A.any_deps_match(A.missing())).with_label("mine")
    space = Listed(9, "nine")
    found = evaluator(
        Asset(key="a", space=space),
        Asset(key="b", space=space, deps=(Dependency(key="a"),), condition=condition),
    )
    found.world.made("b", 0b1111, START)
    found.world.made("a", bitmaps.span(0, 9), START)
    _ = found.tick(START)
    assert found.tree("b") == Tree(
        label="mine",
        kind="or",
        true=5,
        of=9,
        asset="b",
        partitions="4-8",
        children=(
            Tree(label="missing()", kind="missing", true=5, of=9, partitions="4-8"),
            Tree(
                label="any_deps_match(missing())",
                kind="deps",
                of=9,
                children=(Tree(label="missing()", kind="missing", of=9, asset="a"),),
            ),
        ),
    )


@pytest.mark.parametrize(
    "ranges",
    [
        "3-8999",
        "0-8999,9999",
        "0,4000-4999",
        "0,10000,20000,30000,40000,50000,60000",
        "0,10000,20000,30000,40000,50000,60000,70000,80000",
        "0,2,4,6,8,10,12,14,16",
    ],
)
def test_a_tree_shows_the_first_partitions_of_however_many(ranges: str) -> None:
    found = evaluator(Asset(key="m", space=Listed(100_000, "many"), condition=~A.missing()))
    found.world.made("m", bitmaps.from_text(ranges), START)
    _ = found.tick(START)
    parts = ranges.split(",")
    assert found.tree("m").partitions == ",".join([*parts[:8], *(["…"] if parts[8:] else [])])


def test_a_tree_is_bounded() -> None:
    deps = tuple(Dependency(key=f"r{n:04}") for n in range(500))
    found = evaluator(
        Asset(
            key="m",
            space=Listed(1_000, "many"),
            deps=deps,
            condition=A.any_deps_match(A.missing()) | A.missing(),
        )
    )
    found.world.made("m", bitmaps.bitmap(range(0, 1_000, 3)), START)
    _ = found.tick(START)
    around = found.tree("m").children[0]
    assert (len(around.children) + around.more, around.more) == (500, 352)
    assert found.tree("m").more == 1
    scattered = found.tree("m").partitions
    assert scattered.startswith("0-2,4-5,7-8,")
    assert scattered.endswith(",…")
    assert len(scattered) < 80


def test_an_evaluation_becomes_events_that_head_a_batch() -> None:
    found = evaluator(*fan(2))
    _ = found.tick(START)
    found.world.made("r0001", 1, START)
    tick = found.tick(START + MINUTE)
    head, *rest = Recording(found, tick, HERE).last(("k",))
    assert head == AutomationTicked(
        sensor_id="auto",
        tick=7,
        eval_id="e7",
        applied_seq=40,
        ticked_at=tick.at,
        requested_count=1,
        run_keys=("k",),
    )
    assert len(rest) == 1
    event = rest[0]
    assert isinstance(event, AutomationEvaluated)
    assert (event.asset_key, event.requested, event.requested_count) == ("m0001", "0", 1)
    assert event.cursor == tick.states["m0001"]
    tree = msgspec.json.decode(event.tree, type=Tree)
    assert (tree.label, tree.true) == ("eager", 1)


def test_there_is_room_for_some_trees_and_those_that_ask_come_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = evaluator(*fan(5))
    first = found.tick(START)
    one = len(msgspec.json.encode(found.tree("m0000")))
    monkeypatch.setattr(recording, "MOST_TREES", 2 * one + 40)
    asking = msgspec.structs.replace(first, requested={"m0004": 1})
    told = Recording(found, asking, HERE).last()[1:]
    with_tree = [e.asset_key for e in told if isinstance(e, AutomationEvaluated) and e.tree]
    assert with_tree == ["m0000", "m0004"]
    assert len(told) == 5


def test_what_is_asked_for_again_and_again_keeps_its_state() -> None:
    found = evaluator(Asset(key="a", condition=A.missing()))
    _ = found.tick(START)
    tick = found.tick(START + MINUTE)
    event = Recording(found, tick, HERE).last()[1]
    assert isinstance(event, AutomationEvaluated)
    assert (event.cursor, event.requested, event.tree) == (None, "0", "")


# --- what is stored -------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [1, 2, 400])
def test_a_set_survives_being_stored_however_torn_it_is(step: int) -> None:
    bits = bitmaps.bitmap(range(0, 100_000, step))
    text = packed(bits)
    assert unpacked(text) == bits
    assert len(text) < 25_000
    assert text.startswith("z:") == (step == 2)


@pytest.mark.parametrize("text", ["z:???", "z:", "z:00000", "1-x", "-"])
def test_a_set_that_cannot_be_read_is_corrupt(text: str) -> None:
    with pytest.raises(Corrupt):
        _ = unpacked(text)


def test_a_state_that_cannot_be_read_is_corrupt() -> None:
    with pytest.raises(Corrupt, match="cannot be read"):
        _ = read("{")


def test_news_of_a_partition_that_does_not_exist_yet_is_none_when_it_does() -> None:
    few = Listed(2, "growing")
    watching = Asset(key="m", space=few, condition=A.newly_updated())
    blind = Asset(key="n", space=few, condition=A.missing().newly_true())
    found = evaluator(watching, blind)
    assert [found.tick(START).durable for _ in range(3)] == [True, True, False]
    found.world.made("n", 0b100, START)
    assert not found.tick(START).durable
    found.world.made("m", 0b100, START)
    assert found.tick(START).durable


def test_what_is_remembered_of_partitions_that_mean_something_else_is_not_read() -> None:
    condition = A.any_deps_match(A.missing().newly_true().since(A.newly_updated()))

    def graph(above: Listed) -> Graph:
        dep = Dependency(key="r", mapping=EVERYTHING)
        raw = Asset(key="r", space=above)
        return Graph([raw, Asset(key="m", deps=(dep,), condition=condition)], lambda _, __: True)

    before = Evaluator(graph(Listed(2, "two")))
    states = before.tick(START).states
    assert before.tick(START).requested == {"m": 1}
    same = Evaluator(graph(Listed(2, "two")), states=states, last=START)
    assert same.tick(START).requested == {"m": 1}
    other = Evaluator(graph(Listed(2, "other")), states=states, last=START)
    assert other.tick(START).requested == {}


def test_the_condition_of_a_check_is_evaluated_after_that_of_its_asset() -> None:
    check = Check(name="good", condition=A.any_deps_match(A.will_be_requested()))
    found = evaluator(Asset(key="m", condition=A.missing(), checks=(check, Check(name="plain"))))
    assert found.tick(START).requested == {"m": 1, "m:good": 1}
    assert list(found.plans) == ["m", "m:good"]


def test_a_check_that_runs_alone_is_in_progress_and_its_asset_is_not() -> None:
    check = Check(name="good", condition=A.in_progress())
    found = evaluator(Asset(key="m", condition=A.in_progress(), checks=(check,)))
    _ = found.tick(START)
    found.world.running("m", 1, check="good")
    assert found.tick(START).requested == {"m:good": 1}
    found.world.running("m", 0, check="good")
    assert found.tick(START).requested == {}
    found.world.running("m", 1)
    assert found.tick(START).requested == {"m": 1, "m:good": 1}
