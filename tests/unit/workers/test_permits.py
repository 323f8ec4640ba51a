"""What is begun and what is taken back: every execution is one or the other, and never both."""

import os
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servo.workers.local_pool.permits import Drawing, Permits, new_permits


@pytest.fixture
def pipe() -> Iterator[tuple[Permits, Drawing]]:
    draw, put = new_permits()
    permits = Permits(draw, put)
    yield permits, Drawing(draw)
    permits.close()


def test_what_was_sent_may_be_begun_in_its_order(pipe: tuple[Permits, Drawing]) -> None:
    permits, drawing = pipe
    permits.put([1, 2])
    permits.put([3])
    assert [drawing.may_begin() for _ in range(3)] == [True] * 3
    assert permits.take_back() == 0


def test_what_was_taken_back_is_passed_over(pipe: tuple[Permits, Drawing]) -> None:
    permits, drawing = pipe
    permits.put([1, 2, 3])
    assert drawing.may_begin()
    assert permits.take_back() == 2
    permits.put([4])
    assert [drawing.may_begin() for _ in range(3)] == [False, False, True]


def test_all_of_it_can_be_taken_back_before_the_first_is_begun(
    pipe: tuple[Permits, Drawing],
) -> None:
    permits, drawing = pipe
    permits.put([1, 2])
    assert permits.take_back() == 2
    assert [drawing.may_begin() for _ in range(2)] == [False, False]
    permits.put([3])
    assert drawing.may_begin()


@given(st.lists(st.sampled_from(["send", "begin", "take back"]), max_size=60))
def test_whatever_the_order_each_is_begun_or_taken_back(steps: list[str]) -> None:
    draw, put = new_permits()
    permits, drawing = Permits(draw, put), Drawing(draw)
    sent = arrived = 0
    waiting: list[int] = []
    begun: list[int] = []
    taken: list[int] = []
    for step in [*steps, *["begin"] * 60]:
        if step == "send":
            sent += 1
            permits.put([sent])
            waiting.append(sent)
        elif step == "begin" and arrived < sent:
            arrived += 1
            if drawing.may_begin():
                begun.append(arrived)
                waiting.remove(arrived)
        elif step == "take back" and (count := permits.take_back()):
            taken += waiting[-count:]
            del waiting[-count:]
    permits.close()
    assert not waiting
    assert sorted(begun + taken) == list(range(1, sent + 1))
    assert begun == sorted(begun)


def test_two_that_race_never_get_the_same(pipe: tuple[Permits, Drawing]) -> None:
    permits, drawing = pipe
    count = 20_000
    sent, begun, over = threading.Semaphore(0), [0], threading.Event()

    def process() -> None:
        for _ in range(count):
            sent.acquire()
            begun[0] += drawing.may_begin()
        over.set()

    thread = threading.Thread(target=process)
    thread.start()
    taken = 0
    for number in range(1, count + 1):
        permits.put([number])
        sent.release()
        if number % 3 == 0:
            taken += permits.take_back()
            os.sched_yield()
    thread.join()
    assert over.is_set()
    assert begun[0] + taken == count
    assert begun[0]
    assert taken
