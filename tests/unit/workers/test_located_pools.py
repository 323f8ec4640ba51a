"""Pools of several code locations."""

import threading
from datetime import timedelta
from typing import Any

import pytest

from servo.workers.located_pools import LocatedPools


class Draining:
    """A pool whose drain waits until it may end, or is interrupted."""

    def __init__(self, name: str, *, interrupted: bool = False) -> None:
        self.name = name
        self._interrupted = interrupted
        self.begun, self.may_end = threading.Event(), threading.Event()
        self.drained = False

    def drain(self, limit: timedelta) -> None:
        self.begun.set()
        if self._interrupted:
            raise KeyboardInterrupt
        _ = self.may_end.wait(limit.total_seconds())
        self.drained = True


def pools_of(*pools: Any) -> LocatedPools:
    return LocatedPools({pool.name: pool for pool in pools})


def test_pools_are_drained_at_the_same_time() -> None:
    one, other = Draining("one"), Draining("other")
    pools = pools_of(one, other)
    whole = threading.Thread(target=pools.drain)
    whole.start()
    assert one.begun.wait(10)
    assert other.begun.wait(10)
    for pool in (one, other):
        pool.may_end.set()
    whole.join(10)
    assert (one.drained, other.drained) == (True, True)


def test_a_second_ctrl_c_does_not_wait_until_other_pools_are_drained() -> None:
    stubborn = Draining("stubborn")
    with pytest.raises(KeyboardInterrupt):
        pools_of(Draining("first", interrupted=True), stubborn).drain(timedelta(seconds=5))
    assert stubborn.begun.wait(10)
    assert not stubborn.drained
    stubborn.may_end.set()
