"""What a recorded tree says in words: which part is true, and what the whole of it lacks."""

from datetime import UTC, datetime

import msgspec
import pytest

from servo.core.automation.assets import Asset, Dependency, Graph
from servo.core.automation.condition import AutomationCondition as A
from servo.core.automation.evaluating import Evaluator
from servo.core.automation.telling import (
    SAME_PARTITION,
    count,
    deciding,
    lacking,
    named,
    read_tree,
    title,
    truth,
)
from servo.core.automation.trees import Tree


def leaf(label: str, true: int = 0, of: int = 1, asset: str = "") -> Tree:
    return Tree(label=label, kind=label, true=true, of=of, asset=asset)


def node(kind: str, *parts: Tree, true: int = 0, of: int = 1) -> Tree:
    return Tree(label=kind, kind=kind, true=true, of=of, children=parts)


@pytest.mark.parametrize("text", ["", "no json", '{"label":1}'])
def test_a_tree_that_was_left_out_or_cannot_be_read_is_none(text: str) -> None:
    assert read_tree(text) is None


def test_a_tree_is_read_as_it_was_recorded() -> None:
    tree = node("and", leaf("missing", 1, asset="raw"))
    assert read_tree(msgspec.json.encode(tree).decode()) == tree


def test_a_part_is_named_with_what_it_is_about() -> None:
    assert named(leaf("missing")) == "missing"
    assert named(leaf("missing", asset="raw")) == "missing of raw"
    check = Tree(label="check_passed", kind="check_passed", check="positive", asset="raw")
    assert named(check) == "check_passed at its check positive of raw"


@pytest.mark.parametrize(
    ("true", "of", "told"),
    [
        (0, 0, "there are no partitions"),
        (0, 1, "false"),
        (1, 1, "true"),
        (0, 1000, "false of all 1,000"),
        (1000, 1000, "true of all 1,000"),
        (2, 1000, "true of 2 of 1,000"),
    ],
)
def test_whether_a_part_is_true(true: int, of: int, told: str) -> None:
    assert truth(leaf("x", true, of)) == told


def test_of_which_partitions_a_part_is_true() -> None:
    tree = Tree(label="x", kind="x", true=2, of=9, partitions="3-4")
    assert truth(tree) == "true of 2 of 9, number 3-4"


def test_partitions_are_named_by_their_keys() -> None:
    tree = Tree(label="x", kind="x", true=2, of=9, keys="2025-01-01…2025-01-02")
    assert truth(tree) == "true of 2 of 9: 2025-01-01…2025-01-02"


# --- what decided it ------------------------------------------------------------------------------

AT = datetime(2025, 1, 1, tzinfo=UTC)


def lines(tree: Tree, depth: int = 0) -> list[str]:
    own = f"{'  ' * depth}{'+' if tree.true else '-'} {named(tree)}"
    return [own, *(line for part in tree.children for line in lines(part, depth + 1))]


def evaluated(condition: A, *made: str) -> Tree:
    """The second evaluation of a condition of an asset that is made from two others."""
    deps = (Dependency(key="raw"), Dependency(key="rates"))
    graph = Graph([Asset(key="mart", deps=deps, condition=condition)], lambda _, __: True)
    evaluator = Evaluator(graph)
    evaluator.world.made("mart", 1, AT)
    for name in ("raw", "rates"):
        if "missing" not in made:
            evaluator.world.made(name, 1, AT)
    _ = evaluator.tick(AT)
    for name in made:
        if name != "missing":
            evaluator.world.made(name, 1, AT)
    _ = evaluator.tick(AT)
    return evaluator.tree("mart")


def test_nothing_happened_so_eager_waits() -> None:
    tree = evaluated(A.eager())
    assert lines(deciding(tree)) == [
        "- eager of mart",
        "  - newly_missing or any_deps_updated, since handled",
    ]
    assert count(tree) > 20


def test_by_what_eager_is_true() -> None:
    assert lines(deciding(evaluated(A.eager(), "raw"))) == [
        "+ eager of mart",
        "  + in_latest_time_window",
        "  + newly_missing or any_deps_updated, since handled",
        "    + any_deps_updated (raw)",
        "  + not any_deps_missing",
        "  + not any_deps_in_progress",
        "  + not in_progress",
    ]


def test_what_stands_in_the_way_of_eager() -> None:
    found = lines(deciding(evaluated(A.eager(), "missing", "raw")))
    assert found == [
        "- eager of mart",
        "  - not any_deps_missing",
        "    + any_deps_missing (rates)",
    ]


def test_which_dependencies_a_cron_waits_for() -> None:
    hourly = A.on_cron("0 * * * *")
    assert lines(deciding(evaluated(hourly))) == [
        "- on_cron(0 * * * *, UTC) of mart",
        "  - cron_tick_passed(0 * * * *, UTC), since handled",
        "  - all_deps_updated_since_cron(0 * * * *, UTC) (rates, raw)",
    ]


def test_of_dependencies_that_must_all_be_so_those_that_are_not_decide() -> None:
    tree = evaluated(A.all_deps_match(A.newly_updated()), "raw")
    assert lines(deciding(tree)) == [
        "- all_deps_match(newly_updated()) of mart",
        "  - newly_updated of rates",
    ]
    both = evaluated(A.all_deps_match(A.newly_updated()), "raw", "rates")
    assert lines(deciding(both)) == ["+ all_deps_match(newly_updated()) of mart"]
    none = evaluated(A.any_deps_match(A.newly_updated()))
    assert lines(deciding(none)) == ["- any_deps_match(newly_updated()) of mart"]


def test_what_became_true_before_has_nothing_to_show_now() -> None:
    tree = node("since", leaf("a"), leaf("reset"), true=1)
    assert lines(deciding(tree)) == ["+ since"]
    newly = node("newly_true", leaf("a", 1), true=1)
    assert lines(deciding(newly)) == ["+ newly_true"]


def test_a_trigger_that_is_one_thing_is_shown_as_it_is() -> None:
    assert lines(deciding(node("since", leaf("a"), leaf("reset")))) == ["- since", "  - a"]
    labelled = node("or", leaf("a"), leaf("b"))
    shown = lines(deciding(node("since", labelled, leaf("reset"))))
    assert shown == ["- since", "  - or", "    - a", "    - b"]


def test_a_single_trigger_that_is_true_needs_no_line_of_its_own() -> None:
    tree = evaluated(A.newly_updated().since(A.missing()), "mart")
    assert lines(deciding(tree)) == ["+ newly_updated, since missing of mart"]


def test_parts_that_are_true_of_different_partitions_are_all_shown() -> None:
    tree = node("and", leaf("a", 1, 2), leaf("b", 1, 2), leaf("c", 2, 2), of=2)
    assert lines(deciding(tree)) == ["- and", "  + a", "  + b"]


def test_parts_that_were_not_recorded_are_counted_where_others_are_shown() -> None:
    shown = deciding(msgspec.structs.replace(node("or", leaf("a")), more=3))
    assert (shown.more, count(shown)) == (3, 5)
    hidden = deciding(msgspec.structs.replace(node("newly_true", leaf("a")), more=3))
    assert (hidden.more, count(hidden)) == (0, 1)


@pytest.mark.parametrize(
    ("condition", "told"),
    [
        (A.missing(), "missing"),
        (~A.missing(), "not missing"),
        (A.missing() & A.in_progress(), "missing and in_progress"),
        (~(A.missing() | A.in_progress()), "not (missing or in_progress)"),
        (A.missing().newly_true(), "missing newly true"),
        ((A.missing() | A.in_progress()).newly_true(), "(missing or in_progress) newly true"),
        (A.missing().since(A.in_progress()), "missing, since in_progress"),
        (A.missing() & A.missing().since(~A.missing()), "missing and (missing, since not missing)"),
        ((A.missing() | A.in_progress()).with_label("mine"), "mine"),
        (A.missing() & A.any_deps_match(A.missing()), "missing and any_deps_match(missing())"),
    ],
)
def test_a_part_without_a_label_is_called_by_what_it_is_made_of(condition: A, told: str) -> None:
    assert title(evaluated(condition)) == told


def test_what_is_too_long_to_be_called_by_its_parts_says_how_they_are_joined() -> None:
    parts = [A.missing().with_label(f"part-{n:02}-{'x' * 20}") for n in range(4)]
    every, some = parts[0], parts[0]
    for part in parts[1:]:
        every, some = every & part, some | part
    assert title(evaluated(every)) == "all of"
    assert title(evaluated(some)) == "any of"
    assert title(evaluated(~every)) == "not (all of)"
    long = A.missing().with_label("y" * 90)
    assert title(evaluated(~long)) == f"~{'y' * 90}"


# --- what it lacks --------------------------------------------------------------------------------


def test_a_true_condition_lacks_nothing() -> None:
    assert lacking(node("and", leaf("a", 1), true=1)) == []


def test_what_has_no_partitions_lacks_one() -> None:
    assert lacking(leaf("a", of=0)) == ["there is a partition of it"]


def test_of_several_that_all_count_the_false_ones_are_lacking() -> None:
    tree = node("and", leaf("a", 1), leaf("b"), node("and", leaf("c"), leaf("d", 1)))
    assert lacking(tree) == ["b becomes true", "c becomes true"]


def test_what_is_denied_has_to_end_and_the_assets_of_which_it_is_true_are_named() -> None:
    missing = node("deps", leaf("m", 1, asset="raw"), leaf("m", asset="b"), true=1)
    tree = node("and", node("not", missing), node("not", leaf("busy"), true=1))
    assert lacking(tree) == ["deps is no longer true (raw)"]
    assert lacking(node("not", leaf("busy", 1))) == ["busy is no longer true"]
    assert lacking(node("not", node("not", leaf("a"), true=1))) == ["a becomes true"]


def test_what_is_denied_of_several_together_is_told_as_one() -> None:
    both = node("and", leaf("a", 1), leaf("b", 1), true=1)
    assert lacking(node("not", both)) == ["and is no longer true"]


def test_one_of_several_is_told_as_a_whole() -> None:
    assert lacking(node("or", leaf("a"), leaf("b"))) == ["or becomes true"]


def test_what_is_true_since_something_lacks_what_makes_it_true() -> None:
    reset = leaf("handled", 1)
    assert lacking(node("since", leaf("a"), reset)) == ["a becomes true"]
    assert lacking(node("since", leaf("a", 1), reset)) == ["since becomes true"]


def test_parts_that_are_true_of_different_partitions_lack_a_common_one() -> None:
    tree = node("and", leaf("a", 1, 2), leaf("b", 1, 2), of=2)
    assert lacking(tree) == [SAME_PARTITION]
