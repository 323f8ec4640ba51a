"""Executions in a pool: lanes share by weight, a lane keeps its order, every turn comes."""

from collections import Counter

from servo.leader.assignments import Assignment
from servo.workers.local_pool.fair_queue import FairQueue


def an(name: str, lane: str = "bulk", weight: int = 100) -> Assignment:
    return Assignment(
        worker_id="pool", exec_id=name, run_id="r", task_key=name, attempt=1, attempt_id=name,
        fencing_token=1, lane=lane, weight=weight,
    )  # fmt: skip


def bulk(count: int) -> list[Assignment]:
    return [an(f"b{n}") for n in range(count)]


def names(queue: FairQueue) -> list[str]:
    return [assignment.exec_id for assignment in queue]


def run_next(queue: FairQueue) -> str:
    assignment = next(iter(queue))
    queue.remove(assignment)
    queue.ended(assignment)
    return assignment.exec_id


def test_a_lane_keeps_the_order_in_which_it_came() -> None:
    queue = FairQueue()
    queue.extend(bulk(3))
    assert names(queue) == ["b0", "b1", "b2"]
    assert len(queue) == 3


def test_the_first_of_another_lane_goes_before_a_backlog() -> None:
    queue = FairQueue()
    queue.extend(bulk(200))
    assert [run_next(queue) for _ in range(3)] == ["b0", "b1", "b2"]
    queue.extend([an("mine", "interactive", 800)])
    assert run_next(queue) == "mine"
    assert run_next(queue) == "b3"


def test_lanes_share_by_weight_and_none_is_starved() -> None:
    queue = FairQueue()
    queue.extend(bulk(100))
    queue.extend(an(f"i{n}", "interactive", 800) for n in range(200))
    assert Counter(run_next(queue)[0] for _ in range(90)) == {"i": 80, "b": 10}


def test_a_lane_that_was_away_does_not_catch_up() -> None:
    queue = FairQueue()
    queue.extend([an("i", "interactive", 100), *bulk(50)])
    for _ in range(51):
        run_next(queue)
    queue.extend(an(f"i{n}", "interactive", 100) for n in range(20))
    queue.extend(an(f"c{n}", "other", 100) for n in range(20))
    assert Counter(run_next(queue)[0] for _ in range(10)) == {"i": 5, "c": 5}


def test_what_is_put_back_has_the_turn_it_had() -> None:
    queue = FairQueue()
    first, second, third = bulk(3)
    queue.extend([first, second, third])
    for assignment in (first, second):
        queue.remove(assignment)
        assert assignment not in queue
    queue.extend([second, first])
    assert names(queue) == ["b0", "b1", "b2"]
    assert queue.is_before(first, third)


def test_what_is_given_back_does_not_count_against_its_lane() -> None:
    queue = FairQueue()
    queue.extend([*bulk(100), an("x", "other")])
    for _ in range(99):
        queue.gone(queue.pop())
    assert names(queue) == ["b0", "x"]
    queue.extend([an("again")])
    assert run_next(queue) in ("b0", "x")
    queue.extend(an(f"y{n}", "other") for n in range(5))
    assert names(queue).index("again") <= 2


def test_nothing_is_remembered_of_lanes_once_all_is_over() -> None:
    queue = FairQueue()
    queue.extend(bulk(2))
    assert [run_next(queue), run_next(queue)] == ["b0", "b1"]
    queue.remove(an("never came"))
    queue.ended(an("never came"))
    queue.gone(an("never came"))
    assert (len(queue), queue.lanes) == (0, 0)
