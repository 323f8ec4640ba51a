"""The garbage collector of a process that leads."""

import gc
from collections.abc import Generator

import pytest

from servo.leader.memory import OFTEN_ENOUGH, look_for_cycles_less_often


@pytest.fixture(autouse=True)
def thresholds() -> Generator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


@pytest.mark.parametrize(
    ("given", "then"),
    [
        ((700, 10, 10), OFTEN_ENOUGH),
        ((100_000, 5, 5), (100_000, 5, 5)),
        ((0, 10, 10), (0, 10, 10)),
    ],
)
def test_it_looks_less_often_and_never_more_often_than_it_was_told(
    given: tuple[int, int, int], then: tuple[int, int, int]
) -> None:
    gc.set_threshold(*given)
    look_for_cycles_less_often()
    assert gc.get_threshold() == then
