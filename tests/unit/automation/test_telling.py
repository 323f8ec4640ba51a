"""What a recorded tree says in words: which part is true, and what the whole of it lacks."""

import msgspec
import pytest

from servo.core.automation.telling import SAME_PARTITION, lacking, named, read_tree, truth
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
