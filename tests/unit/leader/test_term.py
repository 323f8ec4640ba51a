"""The time of a term: it runs on, and what jumps is noticed."""

from datetime import UTC, datetime, timedelta

import pytest

from servo.leader.term import TermClock
from servo.testing.clock import ManualClock

FENCE = datetime(2026, 3, 1, 12, tzinfo=UTC)
TOLERANCE = timedelta(seconds=2.5)
SECOND = timedelta(seconds=1)


def term(wall: datetime) -> tuple[ManualClock, TermClock]:
    clock = ManualClock(wall)
    return clock, TermClock(clock, FENCE, TOLERANCE, fenced_at=clock.monotonic())


def test_time_runs_on_from_the_fence() -> None:
    clock, own = term(FENCE)
    clock.advance(SECOND)
    assert own.now() - FENCE > SECOND
    assert own.now() - FENCE < SECOND * 1.01
    assert not own.jumped


@pytest.mark.parametrize("back", [SECOND, SECOND * 3600])
def test_a_clock_that_is_set_back_changes_nothing(back: timedelta) -> None:
    clock, own = term(FENCE)
    clock.jump(-back)
    clock.advance(SECOND)
    assert own.now() > FENCE
    assert not own.jumped


def test_a_clock_that_jumps_ahead_is_followed_and_that_is_a_stall() -> None:
    clock, own = term(FENCE)
    before = own.now()
    clock.jump(SECOND * 60)
    assert own.now() == clock.now() > before
    assert own.jumped


def test_a_clock_that_jumped_between_the_fence_and_the_first_look_is_a_stall() -> None:
    clock = ManualClock(FENCE - SECOND * 10)
    fenced_at = clock.monotonic()
    clock.jump(SECOND * 20)
    own = TermClock(clock, FENCE, TOLERANCE, fenced_at=fenced_at)
    assert own.now() == FENCE + SECOND * 10
    assert own.jumped
