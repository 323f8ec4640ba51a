"""The real clock and randomness keep the promises of their ports."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servo.errors import Invalid
from servo.ports.clock import Clock
from servo.ports.entropy import Entropy
from servo.workspace.system import SystemClock, SystemEntropy


def real_clock() -> Clock:
    """The return type makes the checker compare the class with the whole port."""
    return SystemClock()


def real_entropy() -> Entropy:
    return SystemEntropy()


def test_now_is_aware_and_in_utc() -> None:
    now = real_clock().now()
    assert now.tzinfo is UTC
    assert now.utcoffset() == timedelta(0)


def test_now_is_the_time_at_which_a_file_is_written(tmp_path: Path) -> None:
    clock = real_clock()
    before = clock.now()
    written = tmp_path / "written"
    written.touch()
    modified = datetime.fromtimestamp(written.stat().st_mtime, UTC)
    # File systems keep coarser time than the clock, so the bounds are loose; a wrong epoch, a
    # local time taken for UTC or a frozen clock is off by far more.
    assert before - timedelta(seconds=5) <= modified <= clock.now() + timedelta(seconds=5)


def test_monotonic_never_goes_back() -> None:
    clock = real_clock()
    readings = [clock.monotonic() for _ in range(1000)]
    assert readings == sorted(readings)


def test_monotonic_moves() -> None:
    clock = real_clock()
    start = clock.monotonic()
    assert any(clock.monotonic() > start for _ in range(1_000_000))


@given(count=st.integers(min_value=1, max_value=1024))
def test_a_token_has_the_length_asked_for(count: int) -> None:
    assert len(real_entropy().token_bytes(count)) == count


def test_tokens_do_not_repeat() -> None:
    entropy = real_entropy()
    assert len({entropy.token_bytes(16) for _ in range(1000)}) == 1000


@given(count=st.integers(max_value=0))
def test_a_token_of_no_bytes_is_refused(count: int) -> None:
    with pytest.raises(Invalid, match="use at least one byte"):
        real_entropy().token_bytes(count)
