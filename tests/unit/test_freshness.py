"""How fresh an asset is, and when that next changes."""

from datetime import UTC, datetime, timedelta

import pytest

from servo.core.freshness import (
    UNJUDGED,
    CronDeadline,
    FreshnessState,
    Judgement,
    MaxAge,
    StoredPolicy,
    fresh_since,
    judge,
    policy_text,
    read_policy,
)
from servo.errors import Invalid

MADE = datetime(2025, 1, 6, 8, 30, tzinfo=UTC)
HOUR = timedelta(hours=1)
TICK = timedelta(microseconds=1)
HOUR_MS = 3_600_000
PASS, WARN, FAIL = FreshnessState.PASS, FreshnessState.WARN, FreshnessState.FAIL


def test_what_was_never_made_is_unknown() -> None:
    for policy in (MaxAge(fail_ms=1), CronDeadline(deadline_cron="@daily", lower_bound_ms=1)):
        assert judge(policy, None, MADE) == UNJUDGED


def test_a_window_warns_and_then_fails() -> None:
    policy = MaxAge(fail_ms=2 * HOUR_MS, warn_ms=HOUR_MS)
    warns, fails = MADE + HOUR + TICK, MADE + 2 * HOUR + TICK
    assert judge(policy, MADE, MADE) == Judgement(state=PASS, since=MADE, next_due=warns)
    assert judge(policy, MADE, MADE + HOUR).state is PASS
    assert judge(policy, MADE, warns) == Judgement(state=WARN, since=warns, next_due=fails)
    assert judge(policy, MADE, MADE + 2 * HOUR).state is WARN
    assert judge(policy, MADE, fails) == Judgement(state=FAIL, since=fails)
    assert judge(policy, MADE, fails + 9 * HOUR) == Judgement(state=FAIL, since=fails)


def test_a_window_without_a_warning_fails_at_once() -> None:
    fails = MADE + HOUR + TICK
    policy = MaxAge(fail_ms=HOUR_MS)
    assert judge(policy, MADE, MADE) == Judgement(state=PASS, since=MADE, next_due=fails)
    assert judge(policy, MADE, fails).state is FAIL


def test_a_deadline_asks_for_what_was_made_shortly_before_or_since() -> None:
    policy = CronDeadline(deadline_cron="0 9 * * *", lower_bound_ms=HOUR_MS)
    today, tomorrow = MADE.replace(hour=9, minute=0), MADE.replace(day=7, hour=9, minute=0)
    in_time = judge(policy, MADE, today)
    assert in_time == Judgement(state=PASS, since=MADE, next_due=tomorrow)
    assert judge(policy, MADE, tomorrow - TICK).state is PASS
    assert judge(policy, MADE, tomorrow) == Judgement(state=FAIL, since=tomorrow)
    early = MADE - 2 * HOUR
    assert judge(policy, early, today - TICK).state is PASS
    assert judge(policy, early, today) == Judgement(state=FAIL, since=today)
    late = today + HOUR
    assert judge(policy, late, late).state is PASS


def test_deadlines_are_in_their_time_zone() -> None:
    policy = CronDeadline(
        deadline_cron="0 9 * * *", lower_bound_ms=HOUR_MS, timezone="America/New_York"
    )
    nine = datetime(2025, 1, 6, 14, tzinfo=UTC)
    assert judge(policy, MADE, nine - TICK).state is PASS
    assert judge(policy, MADE, nine) == Judgement(state=FAIL, since=nine)


def test_a_policy_survives_being_stored() -> None:
    window = MaxAge(fail_ms=86_400_000, warn_ms=43_200_000)
    assert policy_text(window) == '{"fail_ms":86400000,"kind":"time_window","warn_ms":43200000}'
    assert read_policy(policy_text(window)) == window
    cron = CronDeadline(deadline_cron="0 9 * * *", lower_bound_ms=1, timezone="Asia/Tokyo")
    assert read_policy(policy_text(cron)) == cron


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        '{"kind":"cron","deadline_cron":"bad","lower_bound_ms":1}',
        '{"kind":"cron","deadline_cron":"@daily","lower_bound_ms":1,"timezone":"Mars/Base"}',
        '{"kind":"time_window","fail_ms":0}',
        '{"kind":"time_window","fail_ms":1,"unknown":1}',
    ],
)
def test_what_is_no_policy_is_told(text: str) -> None:
    with pytest.raises(Invalid):
        _ = read_policy(text)


@pytest.mark.parametrize(
    "policy",
    [
        MaxAge(fail_ms=3_600_000),
        CronDeadline(deadline_cron="0 9 * * *", lower_bound_ms=3_600_000, timezone="Europe/Berlin"),
        CronDeadline(deadline_cron="30 2 * * *", lower_bound_ms=60_000, timezone="Europe/Berlin"),
    ],
)
@pytest.mark.parametrize("hours", range(0, 72, 5))
def test_what_was_made_too_early_is_what_is_judged_to_fail(
    policy: StoredPolicy, hours: int
) -> None:
    now = datetime(2024, 3, 30, tzinfo=UTC) + timedelta(hours=hours)
    since = fresh_since(policy, now)
    assert since is not None
    for made in (since, since - timedelta(microseconds=1), since + timedelta(days=1)):
        failed = judge(policy, min(made, now), now).state is FreshnessState.FAIL
        assert failed == (min(made, now) < since)


def test_before_the_first_deadline_nothing_is_too_old() -> None:
    policy = CronDeadline(deadline_cron="0 9 * * *", lower_bound_ms=60_000)
    assert fresh_since(policy, datetime(1970, 1, 1, 8, tzinfo=UTC)) is None
