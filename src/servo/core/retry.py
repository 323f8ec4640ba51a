"""Whether and when a failed attempt is retried.

`retry_or_give_up` decides. There are two budgets. Failures of user code (it raised, it ran too
long) count against `max_attempts`; losses (its worker died, was preempted, never answered) count
against `max_infra_retries` and leave the user's attempts alone. Attempt *numbers* grow with both,
which is why it takes two counts and not a number. It is total: it decides every kind of failure,
for any policy that decodes. It uses integers only, and takes jitter as a hash of the attempt, so
that a replay decides the same.
"""

from datetime import timedelta
from enum import StrEnum
from typing import assert_never

import msgspec

from servo.core.canonical import intern_defaults
from servo.core.ids import JITTER_STEPS
from servo.core.wire import Int64
from servo.errors import Invalid

MAX_ATTEMPTS = 1000
MAX_DELAY = timedelta(days=30)

_MILLISECOND = timedelta(milliseconds=1)
_MAX_DELAY_MS = MAX_DELAY // _MILLISECOND


class BackoffCurve(StrEnum):
    """How the delay grows from one failure to the next."""

    CONSTANT = "constant"
    LINEAR = "linear"
    EXPONENTIAL = "exponential"


class JitterSpread(StrEnum):
    """How a delay is spread: not, over 0 to itself, or by up to the base delay either way."""

    NONE = "none"
    FULL = "full"
    PLUS_MINUS = "plus_minus"


class RetryRules(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """When an asset's failed attempts are repeated.

    `retry_on` and `no_retry_on` hold exception names, plain (`ValueError`) or qualified
    (`requests.exceptions.Timeout`). An empty `retry_on` means any; `no_retry_on` wins.
    """

    max_attempts: Int64 = 3
    max_infra_retries: Int64 = 8
    delay_ms: Int64 = 30_000
    backoff: BackoffCurve = BackoffCurve.EXPONENTIAL
    multiplier_percent: Int64 = 200
    cap_ms: Int64 = 900_000
    jitter: JitterSpread = JitterSpread.NONE
    retry_on: tuple[str, ...] = ()
    no_retry_on: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        intern_defaults(self)


class FailureKind(StrEnum):
    """What ended an attempt without success."""

    ERROR = "error"
    TIMED_OUT = "timed_out"
    WORKER_LOST = "worker_lost"
    NOT_ACKNOWLEDGED = "not_acknowledged"
    INTERRUPTED = "interrupted"
    INFRASTRUCTURE = "infrastructure"
    INVALID = "invalid"
    CANCELLED = "cancelled"


class FailedAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """How one attempt failed.

    `error_types` are the names of the exception's class and its bases, most derived first.
    `retriable`, `retry_after` and `max_attempts` are what the user's code itself asked for when it
    failed; each wins over the policy, except that nothing outlives the budget.
    """

    kind: FailureKind
    error_types: tuple[str, ...] = ()
    retriable: bool | None = None
    retry_after: timedelta | None = None
    max_attempts: int | None = None


class Spent(msgspec.Struct, frozen=True, kw_only=True):
    """How often a task has failed in either way, the failure at hand included."""

    user_failures: int = 0
    infra_losses: int = 0


class GiveUpReason(StrEnum):
    """Why a failure is final."""

    ATTEMPTS_EXHAUSTED = "attempts_exhausted"
    INFRA_RETRIES_EXHAUSTED = "infra_retries_exhausted"
    NOT_RETRIABLE = "not_retriable"
    EXCLUDED_BY_POLICY = "excluded_by_policy"
    INVALID = "invalid"
    CANCELLED = "cancelled"


class Retry(msgspec.Struct, frozen=True):
    """Try again once `after` has passed."""

    after: timedelta


class GiveUp(msgspec.Struct, frozen=True):
    """Do not try again."""

    reason: GiveUpReason


RetryDecision = Retry | GiveUp

# No external service needs time to recover after a lost worker, so these waits are short, and
# they grow so that a task which kills its workers does not kill them quickly.
_INFRA_DELAYS = RetryRules(delay_ms=5_000, cap_ms=300_000)


def retry_or_give_up(
    policy: RetryRules, failure: FailedAttempt, spent: Spent, *, jitter: int
) -> RetryDecision:
    """What follows a failed attempt; `jitter` is `ids.jitter_fraction` of the failed attempt."""
    match failure.kind:
        case FailureKind.ERROR | FailureKind.TIMED_OUT:
            return _after_user_failure(policy, failure, spent.user_failures, jitter)
        case (
            FailureKind.WORKER_LOST
            | FailureKind.NOT_ACKNOWLEDGED
            | FailureKind.INTERRUPTED
            | FailureKind.INFRASTRUCTURE
        ):
            if spent.infra_losses > policy.max_infra_retries:
                return GiveUp(GiveUpReason.INFRA_RETRIES_EXHAUSTED)
            if failure.retry_after is not None:
                return Retry(_asked(failure.retry_after))
            return Retry(delay_after(_INFRA_DELAYS, spent.infra_losses, jitter=jitter))
        case FailureKind.INVALID:
            return GiveUp(GiveUpReason.INVALID)
        case FailureKind.CANCELLED:
            return GiveUp(GiveUpReason.CANCELLED)
        case _:
            assert_never(failure.kind)


def delay_after(policy: RetryRules, failures: int, *, jitter: int) -> timedelta:
    """The wait after failure number `failures` (from 1): at most the cap, never negative."""
    cap = _between(0, policy.cap_ms, _MAX_DELAY_MS)
    base = _between(0, policy.delay_ms, cap)
    grown = min(_grown(policy, base, _between(1, failures, MAX_ATTEMPTS)), cap)
    spread = _spread(policy.jitter, grown, base=base, jitter=jitter)
    return _MILLISECOND * _between(0, spread, cap)


def check_policy(policy: RetryRules) -> RetryRules:
    """`policy` if its numbers make sense; what a definition is checked with."""
    for name, low, high in _RANGES:
        value: int = getattr(policy, name)
        if not low <= value <= high:
            raise Invalid(
                f"retry policy: {name} is {value}", remedy=f"use a number from {low} to {high}"
            )
    return policy


_RANGES = (
    ("max_attempts", 1, MAX_ATTEMPTS),
    ("max_infra_retries", 0, MAX_ATTEMPTS),
    ("delay_ms", 0, _MAX_DELAY_MS),
    ("cap_ms", 0, _MAX_DELAY_MS),
    ("multiplier_percent", 100, 10_000),
)


def _after_user_failure(
    policy: RetryRules, failure: FailedAttempt, failures: int, jitter: int
) -> RetryDecision:
    if failure.retriable is False:
        return GiveUp(GiveUpReason.NOT_RETRIABLE)
    if failure.retriable is None and not _included(policy, failure):
        return GiveUp(GiveUpReason.EXCLUDED_BY_POLICY)
    limit = policy.max_attempts if failure.max_attempts is None else failure.max_attempts
    if failures >= limit:
        return GiveUp(GiveUpReason.ATTEMPTS_EXHAUSTED)
    if failure.retry_after is not None:
        return Retry(_asked(failure.retry_after))
    return Retry(delay_after(policy, failures, jitter=jitter))


def _asked(wait: timedelta) -> timedelta:
    """A wait that a worker asked for, within reason."""
    return min(max(wait, timedelta(0)), MAX_DELAY)


def _included(policy: RetryRules, failure: FailedAttempt) -> bool:
    # Running too long is not an exception that a list of exceptions could name.
    if failure.kind is not FailureKind.ERROR:
        return True
    names = {*failure.error_types, *(name.rpartition(".")[2] for name in failure.error_types)}
    if not names.isdisjoint(policy.no_retry_on):
        return False
    return not policy.retry_on or not names.isdisjoint(policy.retry_on)


def _grown(policy: RetryRules, base: int, failures: int) -> int:
    match policy.backoff:
        case BackoffCurve.CONSTANT:
            return base
        case BackoffCurve.LINEAR:
            return base * failures
        case BackoffCurve.EXPONENTIAL:
            percent = _between(100, policy.multiplier_percent, 10_000)
            steps = failures - 1
            return base * percent**steps // 100**steps
        case _:
            assert_never(policy.backoff)


def _spread(kind: JitterSpread, delay: int, *, base: int, jitter: int) -> int:
    match kind:
        case JitterSpread.NONE:
            return delay
        case JitterSpread.FULL:
            return delay * jitter // JITTER_STEPS
        case JitterSpread.PLUS_MINUS:
            return delay + base * (2 * jitter - JITTER_STEPS) // JITTER_STEPS
        case _:
            assert_never(kind)


def _between(low: int, value: int, high: int) -> int:
    return max(low, min(value, high))
