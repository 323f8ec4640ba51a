"""A clock that is off is noticed before its machine leads."""

import logging
from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from servo.errors import Invalid
from servo.leader.skew import check_clock, measure
from servo.ports.object_store import Blob, ObjectMeta
from servo.storage.memory import MemoryStore
from servo.testing.clock import ManualClock
from servo.workspace.system import SystemEntropy

NOW = datetime(2026, 3, 1, 12, 0, 0, 250_000, tzinfo=UTC)


class Elsewhere(MemoryStore):
    """A store with a clock of its own that tells whole seconds, if asked to, like HTTP."""

    def __init__(self, ahead: timedelta, *, coarse: bool = False) -> None:
        super().__init__(ManualClock(NOW + ahead))
        self._coarse = coarse

    def get(self, key: str) -> Blob:
        blob = super().get(key)
        if not self._coarse:
            return blob
        whole = blob.meta.modified.replace(microsecond=0)
        return replace(blob, meta=replace(blob.meta, modified=whole))


def off(ahead: float, *, coarse: bool = False) -> timedelta:
    store = Elsewhere(timedelta(seconds=ahead), coarse=coarse)
    found = check_clock(store, ManualClock(NOW), SystemEntropy())
    assert not store.list_after("")
    return found


@pytest.mark.parametrize("ahead", [0, 0.5, -0.5, 29, -29])
def test_what_is_off_is_measured(ahead: float) -> None:
    assert off(ahead) == timedelta(seconds=ahead)


@pytest.mark.parametrize("ahead", [31, -31, 86_400])
def test_a_clock_that_is_far_off_may_not_lead(ahead: float) -> None:
    told = "behind" if ahead > 0 else "ahead"
    with pytest.raises(Invalid, match=told) as refused:
        off(ahead)
    assert "NTP" in str(refused.value.remedy)


@pytest.mark.parametrize("ahead", [0, 0.7, -0.2])
def test_whole_seconds_are_no_skew(ahead: float) -> None:
    assert off(ahead, coarse=True) == timedelta(0)


def test_a_clock_that_is_a_little_off_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        _ = off(0.9)
        assert not caplog.records
        _ = off(2.5)
    assert "2.5 s behind" in caplog.text


def test_a_slow_store_is_not_a_wrong_clock() -> None:
    clock = ManualClock(NOW)

    class Slow(MemoryStore):
        def create(self, key: str, data: bytes) -> ObjectMeta:
            clock.advance(timedelta(seconds=20))
            made = super().create(key, data)
            clock.advance(timedelta(seconds=20))
            return made

    assert measure(Slow(clock), clock, SystemEntropy()) == timedelta(0)
