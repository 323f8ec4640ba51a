"""How many executions a pool takes: a moment's worth, and no more than it runs if they are long."""

import pytest

from servo.workers.local_pool.slots import DEEPEST, LONG_SECONDS, MAX_BACKLOG, Slots
from servo.workspace.system import SystemEntropy


def short_places(size: int = 2) -> Slots:
    places = Slots(size, SystemEntropy())
    for _ in range(100):
        places.took(0.000_01)
    return places


def test_at_first_as_many_as_there_are_processes() -> None:
    places = Slots(2, SystemEntropy())
    assert len(places.free(0)) == 2
    assert places.depth == 1
    assert places.too_many(2) == 0


def test_more_while_they_are_short() -> None:
    places = short_places()
    assert len(places.free(0)) == 2 + MAX_BACKLOG
    assert len(places.free(100)) == 2 + MAX_BACKLOG - 100
    assert places.depth == DEEPEST
    assert places.too_many(2 + MAX_BACKLOG) == 0


def test_no_more_than_there_are_processes_once_all_of_them_seem_to_be_long() -> None:
    places = short_places()
    places.take_long()
    assert len(places.free(0)) == 2
    assert places.depth == 1
    assert places.too_many(66) == 64


def test_one_long_one_among_many_gives_nothing_back() -> None:
    places = short_places()
    for _ in range(10):
        for _ in range(99):
            places.took(0.000_1)
        held = len(places.free(0))
        assert held == 2 + MAX_BACKLOG
        places.took(3600)
        assert places.too_many(held) == 0


@pytest.mark.parametrize("seconds", [0.1, 0.2])
def test_those_that_would_wait_for_long_are_given_back_when_they_turn_out_long(
    seconds: float,
) -> None:
    places = short_places()
    for _ in range(10):
        places.took(seconds)
    assert places.too_many(258) > 240
    assert places.too_many(2) == 0


def test_one_that_took_an_hour_is_soon_forgotten() -> None:
    places = short_places()
    places.took(3600)
    for _ in range(10):
        places.took(LONG_SECONDS / 1000)
    assert places.short


def test_an_id_is_offered_until_it_is_used() -> None:
    places = Slots(3, SystemEntropy())
    first = places.free(0)
    places.take(first[:2])
    assert places.free(0)[0] == first[2]
    assert not {*first[:2]} & {*places.free(0)}
    places.forget()
    assert first[2] not in places.free(0)
