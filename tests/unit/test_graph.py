"""Topological order, cycles and reachability."""

from collections.abc import Sequence
from itertools import permutations

import pytest

from servo.core.graph import downstream_of, reachable, topological_order
from servo.errors import Internal, Invalid

DIAMOND = {"d": ["b", "c"], "b": ["a"], "c": ["a"], "a": []}
MANY = 100_000


def test_the_order_does_not_depend_on_how_the_nodes_came_in() -> None:
    orders = [topological_order(nodes, DIAMOND, key=str) for nodes in permutations(DIAMOND)]
    assert orders == [["a", "b", "c", "d"]] * 24


def test_of_the_nodes_that_could_come_next_the_least_key_comes_first() -> None:
    upstream = {"a": ["z"], "b": [], "m": [], "z": []}
    assert topological_order(upstream, upstream, key=str) == ["b", "m", "z", "a"]
    assert topological_order(upstream, upstream, key=lambda n: -ord(n)) == ["z", "m", "b", "a"]


def test_a_node_without_an_entry_depends_on_nothing() -> None:
    assert topological_order(["b", "a"], {"a": ["b"]}, key=str) == ["b", "a"]


def test_repeated_nodes_and_dependencies_count_once() -> None:
    assert topological_order(["a", "b", "a"], {"a": ["b", "b"]}, key=str) == ["b", "a"]


def test_an_empty_graph_has_an_empty_order() -> None:
    assert topological_order([], {}, key=str) == []


@pytest.mark.parametrize(
    ("upstream", "path"),
    [
        ({"a": ["a"]}, "a → a"),
        ({"a": ["b"], "b": ["a"]}, "a → b → a"),
        ({"b": ["a"], "c": ["b"], "a": ["c"]}, "a → b → c → a"),
        ({"x": [], "z": ["y", "x"], "y": ["z"], "a": ["z"]}, "y → z → y"),
    ],
)
def test_a_cycle_is_refused_with_its_whole_path_in_the_direction_of_the_data(
    upstream: dict[str, Sequence[str]], path: str
) -> None:
    for nodes in permutations(upstream):
        with pytest.raises(Invalid) as caught:
            topological_order(nodes, upstream, key=str)
        assert caught.value.message == f"dependencies form a cycle: {path}"


def test_of_several_cycles_the_same_one_is_shown_whatever_the_order_of_dependencies() -> None:
    for parents in permutations("bcd"):
        with pytest.raises(Invalid, match="cycle: a → b → a;"):
            topological_order("abcd", {"a": parents, "b": "a", "c": "a", "d": "a"}, key=str)


def test_a_long_cycle_is_shown_by_both_its_ends() -> None:
    names = [f"n{number:03}" for number in range(500)]
    upstream = {name: [names[index - 1]] for index, name in enumerate(names)}
    with pytest.raises(Invalid) as caught:
        topological_order(names, upstream, key=str)
    shown = caught.value.message.removeprefix("dependencies form a cycle: ").split(" → ")
    assert (shown[0], shown[50], shown[-2:]) == ("n000", "(401 more)", ["n499", "n000"])
    assert len(shown) == 101


def test_unknown_dependencies_are_named_with_the_node_that_has_them() -> None:
    with pytest.raises(Invalid, match=r"^b depends on x, y, which does not exist; define it"):
        topological_order(["a", "b"], {"b": ["y", "a", "x", "y"]}, key=str)


def test_a_key_that_cannot_tell_two_nodes_apart_is_a_bug() -> None:
    with pytest.raises(Internal, match="same sort key"):
        topological_order(["a", "b"], {}, key=len)


def test_a_chain_of_a_hundred_thousand_nodes_is_an_ordinary_graph() -> None:
    upstream = {number: [number - 1] if number else [] for number in range(MANY)}
    assert topological_order(reversed(range(MANY)), upstream, key=int) == list(range(MANY))
    assert list(reachable([MANY - 1], upstream)) == list(reversed(range(MANY)))


def test_a_cycle_of_a_hundred_thousand_nodes_is_found() -> None:
    upstream = {number: [(number - 1) % MANY] for number in range(MANY)}
    with pytest.raises(Invalid, match="0 → 1 → 2"):
        topological_order(range(MANY), upstream, key=int)


def test_the_edges_can_be_seen_from_the_other_end() -> None:
    assert downstream_of({"c": ["a", "b", "a"], "b": ["a"]}) == {
        "c": [],
        "b": ["c"],
        "a": ["c", "b"],
    }


def test_ancestors_and_descendants_come_with_their_distance_nearest_first() -> None:
    assert list(reachable(["d"], DIAMOND).items()) == [("d", 0), ("b", 1), ("c", 1), ("a", 2)]
    assert reachable(["a"], downstream_of(DIAMOND)) == {"a": 0, "d": 2, "b": 1, "c": 1}


def test_reach_can_be_limited() -> None:
    assert reachable(["d"], DIAMOND, depth=1) == {"d": 0, "b": 1, "c": 1}
    assert reachable(["d"], DIAMOND, depth=0) == {"d": 0}
    assert reachable([], DIAMOND) == {}


def test_reach_ends_in_a_graph_with_a_cycle() -> None:
    assert reachable(["a"], {"a": ["b"], "b": ["a"]}) == {"a": 0, "b": 1}
