"""Deficit round-robin: shares by weight, nobody starves, nothing is taken twice."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servo.controllers.fairness import Fairness, share


def lanes(**counts: int) -> dict[str, list[str]]:
    return {name: [f"{name}{n}" for n in range(count)] for name, count in counts.items()}


def take(
    waiting: dict[str, list[str]], room: int, weights: dict[str, int], before: Fairness
) -> tuple[list[str], Fairness]:
    return share(
        {name: iter(items) for name, items in waiting.items()},
        room=room,
        weight=lambda lane: weights.get(lane, 100),
        before=before,
    )


def test_equal_lanes_share_equally() -> None:
    taken, _ = take(lanes(a=1000, b=1000), 10, {}, Fairness())
    assert Counter(item[0] for item in taken) == {"a": 5, "b": 5}


def test_a_lane_with_twice_the_weight_gets_twice_as_much() -> None:
    taken, _ = take(lanes(a=1000, b=1000), 30, {"a": 200}, Fairness())
    assert Counter(item[0] for item in taken) == {"a": 20, "b": 10}


def test_a_lane_with_little_weight_is_served_all_the_same() -> None:
    taken, _ = take(lanes(a=1000, b=1000), 110, {"b": 10}, Fairness())
    assert Counter(item[0] for item in taken) == {"a": 100, "b": 10}


def test_a_crowded_lane_does_not_delay_a_single_task() -> None:
    taken, _ = take(lanes(crowd=10_000, one=1), 2, {}, Fairness())
    assert "one0" in taken


def test_rounds_of_one_go_around() -> None:
    waiting = lanes(a=10, b=10, c=10)
    order: list[str] = []
    fairness = Fairness()
    for _ in range(6):
        (item,), fairness = take(waiting, 1, {}, fairness)
        waiting[item[0]].remove(item)
        order.append(item[0])
    assert Counter(order) == {"a": 2, "b": 2, "c": 2}


@pytest.mark.parametrize("room", [1, 2, 3, 7, 30])
def test_shares_are_the_same_however_little_room_there_is_at_a_time(room: int) -> None:
    waiting = lanes(a=1000, b=1000, c=1000)
    got: Counter[str] = Counter()
    fairness = Fairness()
    while got.total() < 420:
        taken, fairness = take(waiting, room, {"a": 800, "b": 50, "c": 200}, fairness)
        for item in taken:
            waiting[item[0]].remove(item)
            got[item[0]] += 1
    assert abs(got["a"] - 320) <= 8
    assert abs(got["b"] - 20) <= 1
    assert abs(got["c"] - 80) <= 2


def test_a_lane_that_is_new_waits_for_one_round_of_the_others() -> None:
    waiting = lanes(a=100, c=100)
    fairness = Fairness()
    for _ in range(5):
        (item,), fairness = take(waiting, 1, {"a": 400, "c": 200}, fairness)
        waiting[item[0]].remove(item)
    waiting |= lanes(b=1)
    order: list[str] = []
    while "b" not in order:
        (item,), fairness = take(waiting, 1, {"a": 400, "c": 200}, fairness)
        waiting[item[0]].remove(item)
        order.append(item[0])
    assert len(order) <= 1 + 4 + 2


def test_a_turn_does_not_go_on_for_a_lane_that_has_nothing_left() -> None:
    _, fairness = take(lanes(a=1, b=1), 1, {"a": 800}, Fairness())
    assert fairness.interrupted == "a"
    taken, fairness = take(lanes(b=1), 1, {"a": 800}, fairness)
    assert (taken, fairness.interrupted) == (["b0"], None)


def test_what_one_lane_cannot_use_goes_to_the_others() -> None:
    taken, _ = take(lanes(a=1, b=100), 10, {}, Fairness())
    assert Counter(item[0] for item in taken) == {"a": 1, "b": 9}


def test_no_room_and_no_lanes_take_nothing() -> None:
    assert take(lanes(a=3), 0, {}, Fairness())[0] == []
    assert take({}, 3, {}, Fairness())[0] == []


@given(
    st.dictionaries(st.sampled_from("abcde"), st.integers(0, 30)),
    st.dictionaries(st.sampled_from("abcde"), st.integers(1, 500)),
    st.integers(0, 60),
)
def test_all_room_is_used_and_nothing_is_taken_twice(
    counts: dict[str, int], weights: dict[str, int], room: int
) -> None:
    waiting = lanes(**counts)
    taken, _ = take(waiting, room, weights, Fairness())
    assert len(taken) == min(room, sum(counts.values()))
    assert len(set(taken)) == len(taken)
