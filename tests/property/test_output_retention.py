"""What retention keeps, on generated histories of one asset."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from servo.core.events.tasks import Gate
from servo.core.retention import Bounds, RetentionRule, Version, expired, rule_of

START = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
NOW = START + 100 * HOUR
NOTHING = timedelta(0)


def made(
    seq: int, *, partition: str | None = None, gate: Gate = Gate.PROMOTED, **fields: Any
) -> Version:
    """A materialization of entry `seq`, that many hours after the start."""
    promoted = gate is not Gate.QUARANTINED
    values: dict[str, Any] = {"promoted": promoted, "gate": gate, **fields}
    return Version(
        materialization_id=f"m{seq}{partition or ''}",
        partition_key=partition,
        created_at=START + seq * HOUR,
        created_seq=seq,
        **values,
    )


def at(
    present: datetime = NOW, least_age: timedelta = NOTHING, since: datetime | None = None
) -> Bounds:
    return Bounds(present=present, least_age=least_age, handed_since=since)


# --- cases ----------------------------------------------------------------------------------------


def test_the_last_versions_are_kept_and_the_others_are_not() -> None:
    history = [made(seq) for seq in (3, 1, 4, 2)]
    assert expired(history, RetentionRule(versions=2), at()) == ["m1", "m2"]


def test_what_is_younger_than_the_age_is_kept() -> None:
    history = [made(seq) for seq in range(1, 6)]
    present = START + 6 * HOUR
    assert expired(history, RetentionRule(age=3 * HOUR), at(present)) == ["m1", "m2", "m3"]


def test_with_both_it_is_enough_that_one_of_them_keeps_it() -> None:
    history = [made(seq) for seq in range(1, 6)]
    present = START + 6 * HOUR
    assert expired(history, RetentionRule(versions=4, age=HOUR), at(present)) == ["m1"]
    assert expired(history, RetentionRule(versions=1, age=5 * HOUR), at(present)) == ["m1"]


def test_without_a_rule_everything_is_kept() -> None:
    assert rule_of(None, None) is None
    assert expired([made(1), made(2)], RetentionRule(), at()) == []


def test_a_rule_is_read_from_a_row() -> None:
    assert rule_of(3, None) == RetentionRule(versions=3)
    assert rule_of(None, 3_600_000) == RetentionRule(age=HOUR)
    assert rule_of(1, 1) == RetentionRule(versions=1, age=timedelta(milliseconds=1))


def test_every_partition_has_its_own_last_versions() -> None:
    history = [made(seq, partition=p) for seq, p in ((1, "a"), (2, "a"), (3, "b"), (4, None))]
    assert expired(history, RetentionRule(versions=1), at()) == ["m1a"]


def test_the_latest_is_kept_however_old() -> None:
    assert expired([made(1)], RetentionRule(age=HOUR), at()) == []


def test_what_waits_in_quarantine_is_kept_until_somebody_decides() -> None:
    held = made(1, gate=Gate.QUARANTINED)
    history = [held, made(2)]
    assert expired(history, RetentionRule(versions=1), at()) == []
    decided = replace(held, decided_at=START + 5 * HOUR)
    assert expired([decided, made(2)], RetentionRule(versions=1), at()) == ["m1"]


def test_what_was_refused_in_quarantine_is_no_version() -> None:
    refused = made(9, gate=Gate.QUARANTINED, decided_at=START + 10 * HOUR)
    assert expired([made(1), made(2), refused], RetentionRule(versions=2), at()) == ["m9"]
    assert expired([refused], RetentionRule(versions=2), at()) == ["m9"]


def test_the_least_age_counts_from_the_decision() -> None:
    refused = made(1, gate=Gate.QUARANTINED, decided_at=START + 99 * HOUR)
    assert expired([refused, made(2)], RetentionRule(versions=1), at(least_age=2 * HOUR)) == []
    assert expired([refused, made(2)], RetentionRule(versions=1), at(least_age=HOUR)) == ["m1"]


def test_data_that_lies_elsewhere_never_expires_and_counts_as_a_version() -> None:
    history = [made(1), made(2, stored=False), made(3, stored=False), made(4)]
    assert expired(history, RetentionRule(versions=2), at()) == ["m1"]


def test_what_has_expired_does_not_count() -> None:
    history = [made(1), made(2), made(3, expired=True), made(4)]
    assert expired(history, RetentionRule(versions=2), at()) == ["m1"]


def test_a_running_task_keeps_what_was_the_latest_since_it_was_dispatched() -> None:
    history = [made(seq) for seq in range(1, 7)]
    dispatched = START + 3 * HOUR + timedelta(minutes=1)
    assert expired(history, RetentionRule(versions=1), at(since=dispatched)) == ["m1", "m2"]
    same_entry = START + 3 * HOUR  # either of two may have been the latest when it was handed over
    assert expired(history, RetentionRule(versions=1), at(since=same_entry)) == ["m1"]
    before_all = START
    assert expired(history, RetentionRule(versions=1), at(since=before_all)) == []


def test_what_left_quarantine_after_the_dispatch_does_not_hide_what_was_handed() -> None:
    """At the dispatch `m2` was held back, so the task was handed `m1`."""
    released = made(2, gate=Gate.QUARANTINED, decided_at=START + 9 * HOUR, promoted=True)
    history = [made(1), released, made(10)]
    assert expired(history, RetentionRule(versions=1), at(since=START + 5 * HOUR)) == []


def test_versions_of_one_entry_are_kept_together() -> None:
    one = made(2)
    twins = [made(1), one, replace(one, materialization_id="twin"), made(3)]
    assert expired(twins, RetentionRule(versions=2), at()) == ["m1"]


# --- laws -----------------------------------------------------------------------------------------

partitions = st.sampled_from([None, "a", "b"])
gates = st.sampled_from([Gate.PROMOTED, Gate.WARNED, Gate.QUARANTINED])
hours = st.integers(0, 30)


@st.composite
def histories(draw: st.DrawFn) -> list[Version]:
    """Up to twelve materializations; those in quarantine may have been decided about since."""
    versions: list[Version] = []
    for seq in range(1, draw(st.integers(1, 12)) + 1):
        version = made(
            seq, partition=draw(partitions), gate=draw(gates), stored=draw(st.booleans())
        )
        if version.gate is Gate.QUARANTINED and draw(st.booleans()):
            decided_at = version.created_at + draw(st.integers(1, 10)) * HOUR
            version = replace(version, decided_at=decided_at, promoted=draw(st.booleans()))
        versions.append(replace(version, expired=draw(st.integers(0, 5)) == 0))
    return draw(st.permutations(versions))


rules = st.builds(
    RetentionRule,
    versions=st.none() | st.integers(1, 5),
    age=st.none() | st.integers(1, 20).map(lambda count: count * HOUR),
)
bounds = st.builds(
    Bounds,
    present=hours.map(lambda count: START + (12 + count) * HOUR),
    least_age=st.integers(0, 5).map(lambda count: count * HOUR),
    handed_since=st.none() | hours.map(lambda count: START + count * HOUR),
)


@given(histories(), rules, bounds)
def test_what_must_be_there_never_expires(
    history: list[Version], rule: RetentionRule, now: Bounds
) -> None:
    gone = set(expired(history, rule, now))
    for version in history:
        if version.materialization_id not in gone:
            continue
        beside = [v for v in history if v.partition_key == version.partition_key and v.promoted]
        later = [v for v in beside if v.created_seq > version.created_seq and not v.expired]
        assert version.stored
        assert not version.expired
        assert not version.undecided
        assert now.present - version.created_at >= now.least_age
        assert rule.age is None or now.present - version.created_at >= rule.age
        assert not version.promoted or len(later) >= (rule.versions or 1)


@given(histories(), rules, bounds, st.integers(0, 12))
def test_what_a_running_task_was_handed_never_expires(
    history: list[Version], rule: RetentionRule, now: Bounds, hour: int
) -> None:
    """Whatever the fold would have made the latest at the dispatch is still there."""
    dispatched = START + hour * HOUR
    gone = set(expired(history, rule, replace(now, handed_since=dispatched)))
    for partition in (None, "a", "b"):
        latest: Version | None = None
        for version in sorted(history, key=_became_known):
            if version.partition_key != partition or not version.promoted or version.expired:
                continue
            if _became_known(version) > dispatched:
                break
            if latest is None or version.created_seq > latest.created_seq:
                latest = version
        assert latest is None or latest.materialization_id not in gone


def _became_known(version: Version) -> datetime:
    return version.settled_at


@given(histories(), rules, bounds)
def test_expiring_again_finds_nothing(
    history: list[Version], rule: RetentionRule, now: Bounds
) -> None:
    gone = set(expired(history, rule, now))
    after = [replace(v, expired=v.expired or v.materialization_id in gone) for v in history]
    assert expired(after, rule, now) == []


@given(histories(), rules, bounds, hours)
def test_time_only_lets_more_expire(
    history: list[Version], rule: RetentionRule, now: Bounds, later: int
) -> None:
    then = replace(now, present=now.present + later * HOUR)
    assert set(expired(history, rule, now)) <= set(expired(history, rule, then))


@given(histories(), rules, rules, bounds)
def test_both_rules_keep_what_either_keeps(
    history: list[Version], first: RetentionRule, second: RetentionRule, now: Bounds
) -> None:
    counted, aged = (
        RetentionRule(versions=first.versions or 1),
        RetentionRule(age=second.age or HOUR),
    )
    both = RetentionRule(versions=counted.versions, age=aged.age)
    alone = set(expired(history, counted, now)) & set(expired(history, aged, now))
    assert set(expired(history, both, now)) == alone


@given(histories(), rules, bounds)
def test_the_order_in_which_they_are_told_does_not_matter(
    history: list[Version], rule: RetentionRule, now: Bounds
) -> None:
    assert expired(history, rule, now) == expired(history[::-1], rule, now)


@given(histories(), rules, bounds)
def test_one_partition_does_not_touch_another(
    history: list[Version], rule: RetentionRule, now: Bounds
) -> None:
    alone = [
        name
        for partition in (None, "a", "b")
        for name in expired([v for v in history if v.partition_key == partition], rule, now)
    ]
    assert sorted(alone) == sorted(expired(history, rule, now))


@pytest.mark.parametrize("count", [1, 3])
def test_a_history_that_is_known_in_part_lets_nothing_more_expire(count: int) -> None:
    """Whoever knows fewer versions keeps more of them."""
    history = [made(seq) for seq in range(1, 10)]
    whole = set(expired(history, RetentionRule(versions=count), at()))
    for missing in history:
        known = [version for version in history if version != missing]
        assert set(expired(known, RetentionRule(versions=count), at())) <= whole
