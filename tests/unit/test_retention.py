"""Which versions are kept: all of a day, the last of an hour for a month, of a day for a year."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from servo.config import Settings
from servo.projection.upkeep.retention import (
    StoredManifest,
    VersionRetention,
    current_at,
    retained,
    retention,
)
from servo.testing.builders import START

RULE = retention(Settings())
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


def every(step: timedelta, *, over: timedelta) -> list[StoredManifest]:
    """Versions written in regular steps, up to START."""
    count = over // step
    first = START - (count - 1) * step
    return [StoredManifest(v=1 + n, modified=first + n * step) for n in range(count)]


def ages(versions: Sequence[StoredManifest], kept: Sequence[int], now: datetime) -> list[timedelta]:
    return [now - version.modified for version in versions if version.v in kept]


# --- what the documents promise -------------------------------------------------------------------


def test_the_settings_keep_a_day_a_month_and_a_year() -> None:
    assert VersionRetention(all_for=DAY, hourly_for=30 * DAY, daily_for=365 * DAY) == RULE


def test_everything_of_the_last_day_is_kept() -> None:
    versions = every(MINUTE, over=3 * DAY)
    kept = retained(versions, RULE, now=START)
    young = [version.v for version in versions if START - version.modified < DAY]
    assert [v for v in kept if v >= young[0]] == young


def test_older_than_a_day_one_an_hour_is_kept() -> None:
    versions = every(MINUTE, over=10 * DAY)
    kept = retained(versions, RULE, now=START)
    old = [version for version in versions if version.v in kept and version.v < 9 * 24 * 60]
    assert len(old) in {9 * 24, 9 * 24 + 1}
    assert [version.modified.minute for version in old[:-1]] == [59] * (len(old) - 1)


def test_older_than_a_month_one_a_day_is_kept() -> None:
    versions = every(HOUR, over=100 * DAY)
    kept = retained(versions, RULE, now=START)
    old = [v.modified for v in versions if v.v in kept and START - v.modified > 30 * DAY]
    assert len(old) in {70, 71}
    assert {modified.hour for modified in old} == {23}


def test_nothing_is_kept_for_more_than_a_year_but_the_last_two() -> None:
    versions = every(DAY, over=500 * DAY)
    assert len(retained(versions, RULE, now=START)) == 365
    much_later = START + 1000 * DAY
    assert retained(versions, RULE, now=much_later) == [499, 500]


def test_a_pinned_version_is_kept_however_old_and_a_pin_of_nothing_keeps_nothing() -> None:
    versions = every(DAY, over=500 * DAY)
    kept = retained(versions, RULE, now=START + 1000 * DAY, pinned=[7, 9_999])
    assert kept == [7, 499, 500]


def test_the_version_that_was_current_when_the_last_day_began_is_kept() -> None:
    versions = [
        StoredManifest(v=1, modified=START - 3 * DAY),
        StoredManifest(v=2, modified=START - 2 * DAY - MINUTE),
        StoredManifest(v=3, modified=START - 2 * DAY),
        StoredManifest(v=4, modified=START - HOUR),
        StoredManifest(v=5, modified=START),
    ]
    none = VersionRetention(all_for=DAY, hourly_for=DAY, daily_for=DAY)
    assert retained(versions, none, now=START) == [3, 4, 5]
    assert current_at(versions, START - DAY) == versions[2]
    assert current_at(versions, START - 9 * DAY) is None


def test_an_empty_workspace_keeps_nothing() -> None:
    assert retained([], RULE, now=START) == []


# --- latecomers -----------------------------------------------------------------------------------


def test_a_latecomer_takes_no_hour_and_no_day() -> None:
    regular = every(HOUR, over=5 * DAY)
    late = StoredManifest(v=1, modified=START - 2 * DAY + 59 * MINUTE + timedelta(seconds=30))
    without = [version for version in regular if version.v != 1]
    kept = retained([late, *without], RULE, now=START)
    assert kept == retained(without, RULE, now=START)


def test_a_latecomer_is_kept_like_everything_of_the_last_day() -> None:
    regular = every(HOUR, over=5 * DAY)[1:]
    late = StoredManifest(v=1, modified=START - HOUR)
    assert 1 in retained([late, *regular], RULE, now=START)


# --- laws -----------------------------------------------------------------------------------------


@st.composite
def histories(draw: st.DrawFn) -> list[StoredManifest]:
    """Versions in order, give or take the seconds by which a store may be off."""
    gaps = draw(
        st.lists(
            st.sampled_from([1, 20, 600, 3_000, 40_000, 86_400, 900_000, 5_000_000]), max_size=40
        )
    )
    numbers = draw(st.lists(st.integers(1, 3), min_size=len(gaps), max_size=len(gaps)))
    jitter = draw(st.lists(st.integers(-20, 20), min_size=len(gaps), max_size=len(gaps)))
    found: list[StoredManifest] = []
    at, v = START, 0
    for gap, number, off in zip(gaps, numbers, jitter, strict=True):
        at, v = at + timedelta(seconds=gap), v + number
        found.append(StoredManifest(v=v, modified=at + timedelta(seconds=off)))
    return found


moments = st.integers(0, 60_000_000).map(lambda seconds: START + timedelta(seconds=seconds))


@given(histories(), moments, moments)
def test_collecting_often_keeps_what_collecting_once_would(
    versions: list[StoredManifest], one: datetime, other: datetime
) -> None:
    early, late = sorted((one, other))
    kept = retained(versions, RULE, now=early)
    left = [version for version in versions if version.v in kept]
    assert retained(left, RULE, now=late) == retained(versions, RULE, now=late)


@given(histories(), moments)
def test_keeping_is_done_after_one_pass(versions: list[StoredManifest], now: datetime) -> None:
    kept = retained(versions, RULE, now=now)
    left = [version for version in versions if version.v in kept]
    assert retained(left, RULE, now=now) == kept


@given(histories(), moments, st.data())
def test_the_order_in_which_versions_are_listed_does_not_matter(
    versions: list[StoredManifest], now: datetime, data: st.DataObject
) -> None:
    shuffled = data.draw(st.permutations(versions))
    assert retained(shuffled, RULE, now=now) == retained(versions, RULE, now=now)


@given(histories(), moments, st.sets(st.integers(1, 120)))
def test_more_pins_keep_exactly_what_they_name_besides(
    versions: list[StoredManifest], now: datetime, pinned: set[int]
) -> None:
    without = set(retained(versions, RULE, now=now))
    named = pinned & {version.v for version in versions}
    assert set(retained(versions, RULE, now=now, pinned=sorted(pinned))) == without | named


@given(histories(), moments, moments)
def test_every_instant_of_the_last_day_can_be_read(
    versions: list[StoredManifest], now: datetime, asked: datetime
) -> None:
    """What was current at any instant of the last day is kept."""
    wanted = current_at(versions, max(now - DAY, min(asked, now)))
    if wanted is not None:
        assert wanted.v in retained(versions, RULE, now=now)
