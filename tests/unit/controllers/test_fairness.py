"""Deficit round-robin: shares by weight, nobody starves, nothing is taken twice."""

from collections import Counter

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
