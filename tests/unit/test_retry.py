"""Retry decisions: two budgets, delays in integers, an answer for everything."""

from datetime import timedelta

import msgspec
import pytest

from servo.core.retry import (
    MAX_DELAY,
    BackoffCurve,
    FailedAttempt,
    FailureKind,
    GiveUp,
    GiveUpReason,
    JitterSpread,
    Retry,
    RetryRules,
    Spent,
    check_policy,
    delay_after,
    retry_or_give_up,
)
from servo.errors import Invalid

DEFAULT = RetryRules()
ERROR = FailedAttempt(
    kind=FailureKind.ERROR, error_types=("requests.exceptions.Timeout", "OSError")
)
INFRASTRUCTURE = [
    FailureKind.WORKER_LOST,
    FailureKind.NOT_ACKNOWLEDGED,
    FailureKind.INTERRUPTED,
    FailureKind.INFRASTRUCTURE,
]


def seconds(policy: RetryRules, count: int, *, jitter: int = 0) -> list[int]:
    delays = [delay_after(policy, number, jitter=jitter) for number in range(1, count + 1)]
    return [delay // timedelta(seconds=1) for delay in delays]


def test_the_default_is_three_attempts_thirty_seconds_apart_and_doubling() -> None:
    decisions = [
        retry_or_give_up(DEFAULT, ERROR, Spent(user_failures=number), jitter=0)
        for number in (1, 2, 3)
    ]
    assert decisions == [
        Retry(timedelta(seconds=30)),
        Retry(timedelta(seconds=60)),
        GiveUp(GiveUpReason.ATTEMPTS_EXHAUSTED),
    ]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (RetryRules(backoff=BackoffCurve.CONSTANT), [30, 30, 30, 30]),
        (RetryRules(backoff=BackoffCurve.LINEAR), [30, 60, 90, 120]),
        (RetryRules(), [30, 60, 120, 240, 480, 900, 900]),
        (RetryRules(multiplier_percent=150, delay_ms=8_000), [8, 12, 18, 27, 40]),
        (RetryRules(delay_ms=1_000_000), [900, 900]),
        (RetryRules(delay_ms=0), [0, 0, 0]),
        (RetryRules(cap_ms=0), [0, 0]),
    ],
)
def test_delays_grow_as_the_policy_says_and_stop_at_the_cap(
    policy: RetryRules, expected: list[int]
) -> None:
    assert seconds(policy, len(expected)) == expected


def test_full_jitter_spreads_from_nothing_to_almost_the_whole_delay() -> None:
    policy = RetryRules(jitter=JitterSpread.FULL)
    found = [delay_after(policy, 1, jitter=jitter) for jitter in (0, 5_000, 9_999)]
    assert found == [timedelta(0), timedelta(seconds=15), timedelta(milliseconds=29_997)]


def test_plus_minus_jitter_spreads_by_the_base_delay_within_nothing_and_the_cap() -> None:
    policy = RetryRules(jitter=JitterSpread.PLUS_MINUS)
    assert seconds(policy, 6, jitter=0) == [0, 30, 90, 210, 450, 870]
    assert seconds(policy, 3, jitter=5_000) == [30, 60, 120]
    assert seconds(policy, 6, jitter=10_000) == [60, 90, 150, 270, 510, 900]


@pytest.mark.parametrize("kind", INFRASTRUCTURE)
def test_what_happened_to_a_task_does_not_use_up_its_own_attempts(kind: FailureKind) -> None:
    spent = Spent(user_failures=2, infra_losses=8)
    assert retry_or_give_up(DEFAULT, FailedAttempt(kind=kind), spent, jitter=0) == Retry(
        timedelta(minutes=5)
    )
    beyond = Spent(user_failures=0, infra_losses=9)
    expected = GiveUp(GiveUpReason.INFRA_RETRIES_EXHAUSTED)
    assert retry_or_give_up(DEFAULT, FailedAttempt(kind=kind), beyond, jitter=0) == expected


def test_losses_do_not_wait_as_long_as_the_user_asked_for_errors() -> None:
    slow = RetryRules(delay_ms=3_600_000, cap_ms=3_600_000)
    lost = FailedAttempt(kind=FailureKind.WORKER_LOST)
    delays = [retry_or_give_up(slow, lost, Spent(infra_losses=n), jitter=0) for n in (1, 2, 3)]
    assert delays == [Retry(timedelta(seconds=number)) for number in (5, 10, 20)]


@pytest.mark.parametrize("kind", INFRASTRUCTURE)
def test_a_loss_that_names_its_delay_gets_it_and_no_further_retry(kind: FailureKind) -> None:
    lost = FailedAttempt(kind=kind, retry_after=timedelta(hours=2))
    found = [
        retry_or_give_up(DEFAULT, lost, Spent(infra_losses=number), jitter=0) for number in (8, 9)
    ]
    assert found == [Retry(timedelta(hours=2)), GiveUp(GiveUpReason.INFRA_RETRIES_EXHAUSTED)]


def test_lost_workers_leave_all_attempts_to_the_user() -> None:
    spent = Spent(user_failures=1, infra_losses=1_000)
    assert retry_or_give_up(DEFAULT, ERROR, spent, jitter=0) == Retry(timedelta(seconds=30))


def test_a_policy_without_retries_for_losses_gives_up_at_the_first() -> None:
    policy = RetryRules(max_infra_retries=0)
    lost = FailedAttempt(kind=FailureKind.WORKER_LOST)
    expected = GiveUp(GiveUpReason.INFRA_RETRIES_EXHAUSTED)
    assert retry_or_give_up(policy, lost, Spent(infra_losses=1), jitter=0) == expected


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (FailureKind.INVALID, GiveUpReason.INVALID),
        (FailureKind.CANCELLED, GiveUpReason.CANCELLED),
    ],
)
def test_what_can_never_work_is_never_tried_again(kind: FailureKind, reason: GiveUpReason) -> None:
    failure = FailedAttempt(kind=kind, retriable=True)
    assert retry_or_give_up(DEFAULT, failure, Spent(), jitter=0) == GiveUp(reason)


@pytest.mark.parametrize("kind", FailureKind)
def test_every_kind_of_failure_has_an_answer(kind: FailureKind) -> None:
    spent = Spent(user_failures=1, infra_losses=1)
    assert isinstance(
        retry_or_give_up(DEFAULT, FailedAttempt(kind=kind), spent, jitter=0), Retry | GiveUp
    )


@pytest.mark.parametrize(
    ("policy", "retried"),
    [
        (RetryRules(retry_on=("Timeout",)), True),
        (RetryRules(retry_on=("requests.exceptions.Timeout",)), True),
        (RetryRules(retry_on=("OSError",)), True),
        (RetryRules(retry_on=("ValueError",)), False),
        (RetryRules(retry_on=("exceptions.Timeout",)), False),
        (RetryRules(no_retry_on=("OSError",)), False),
        (RetryRules(no_retry_on=("ValueError",)), True),
        (RetryRules(retry_on=("Timeout",), no_retry_on=("OSError",)), False),
    ],
)
def test_exceptions_are_chosen_by_name_and_the_exclusion_wins(
    policy: RetryRules, retried: bool
) -> None:
    excluded = GiveUp(GiveUpReason.EXCLUDED_BY_POLICY)
    expected = Retry(timedelta(seconds=30)) if retried else excluded
    assert retry_or_give_up(policy, ERROR, Spent(user_failures=1), jitter=0) == expected


def test_a_list_of_exceptions_says_nothing_about_running_too_long() -> None:
    policy = RetryRules(retry_on=("ValueError",))
    late = FailedAttempt(kind=FailureKind.TIMED_OUT)
    assert retry_or_give_up(policy, late, Spent(user_failures=1), jitter=0) == Retry(
        timedelta(seconds=30)
    )


def test_user_code_can_say_that_a_failure_is_final() -> None:
    failure = msgspec.structs.replace(ERROR, retriable=False)
    expected = GiveUp(GiveUpReason.NOT_RETRIABLE)
    assert retry_or_give_up(DEFAULT, failure, Spent(user_failures=1), jitter=0) == expected


def test_user_code_can_ask_for_a_retry_against_the_list_but_not_against_the_budget() -> None:
    policy = RetryRules(no_retry_on=("OSError",))
    failure = msgspec.structs.replace(ERROR, retriable=True)
    found = [
        retry_or_give_up(policy, failure, Spent(user_failures=number), jitter=0)
        for number in (1, 3)
    ]
    assert found == [Retry(timedelta(seconds=30)), GiveUp(GiveUpReason.ATTEMPTS_EXHAUSTED)]


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        (timedelta(hours=2), timedelta(hours=2)),
        (timedelta(0), timedelta(0)),
        (timedelta(seconds=-1), timedelta(0)),
        (timedelta.max, MAX_DELAY),
    ],
)
def test_user_code_can_name_the_delay_which_is_then_neither_capped_nor_spread(
    asked: timedelta, given: timedelta
) -> None:
    policy = RetryRules(jitter=JitterSpread.FULL)
    failure = msgspec.structs.replace(ERROR, retry_after=asked)
    assert retry_or_give_up(policy, failure, Spent(user_failures=1), jitter=1) == Retry(given)


def test_user_code_can_name_its_own_limit() -> None:
    failure = msgspec.structs.replace(ERROR, max_attempts=5)
    found = [
        retry_or_give_up(DEFAULT, failure, Spent(user_failures=number), jitter=0)
        for number in (4, 5)
    ]
    assert found == [Retry(timedelta(seconds=240)), GiveUp(GiveUpReason.ATTEMPTS_EXHAUSTED)]


@pytest.mark.parametrize(
    "policy",
    [
        RetryRules(delay_ms=-(10**18), cap_ms=10**18, multiplier_percent=-5),
        RetryRules(delay_ms=10**18, cap_ms=10**18, multiplier_percent=10**18),
        RetryRules(delay_ms=1, cap_ms=-1, jitter=JitterSpread.PLUS_MINUS),
    ],
)
def test_numbers_that_no_check_has_seen_still_give_a_delay(policy: RetryRules) -> None:
    for failures in (-1, 0, 1, 10**18):
        assert timedelta(0) <= delay_after(policy, failures, jitter=0) <= MAX_DELAY


def test_a_policy_travels_as_what_differs_from_the_default() -> None:
    policy = RetryRules(max_attempts=5, retry_on=("OSError",))
    assert msgspec.json.encode(policy) == b'{"max_attempts":5,"retry_on":["OSError"]}'
    assert msgspec.json.decode(msgspec.json.encode(policy), type=RetryRules) == policy


@pytest.mark.parametrize(
    ("policy", "fault"),
    [
        (RetryRules(max_attempts=0), "max_attempts is 0; use a number from 1 to 1000"),
        (RetryRules(max_attempts=1001), "max_attempts is 1001"),
        (RetryRules(max_infra_retries=-1), "max_infra_retries is -1"),
        (RetryRules(delay_ms=-1), "delay_ms is -1"),
        (RetryRules(cap_ms=2_592_000_001), "cap_ms is 2592000001"),
        (RetryRules(multiplier_percent=99), "multiplier_percent is 99"),
    ],
)
def test_a_policy_with_a_number_that_makes_no_sense_is_refused(
    policy: RetryRules, fault: str
) -> None:
    with pytest.raises(Invalid, match=fault):
        check_policy(policy)


def test_a_sensible_policy_is_accepted_as_it_is() -> None:
    assert check_policy(DEFAULT) is DEFAULT
