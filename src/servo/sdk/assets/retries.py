"""Retry policies: when a failed attempt is repeated."""

from collections.abc import Iterable
from enum import Enum
from math import inf

import msgspec

from servo.core import retry
from servo.errors import Invalid
from servo.sdk.option_kinds import of_kind


class Backoff(Enum):
    """How the delay grows with each retry."""

    LINEAR = "LINEAR"
    EXPONENTIAL = "EXPONENTIAL"


class Jitter(Enum):
    """How delays are randomized, so that tasks that failed together are not retried together."""

    FULL = "FULL"
    PLUS_MINUS = "PLUS_MINUS"


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Retry a failed asset up to `max_retries` times, `delay` seconds apart.

        @asset(retry_policy=RetryPolicy(max_retries=3, delay=10, backoff=Backoff.EXPONENTIAL))
        def orders(): ...

    Args:
        max_retries: the number of retries after the first attempt.
        delay: the seconds before a retry; `backoff` makes it grow, up to `max_delay`.
        backoff: how the delay grows; without one it is constant.
        jitter: how the delay is randomized.
        retry_on: exception classes or their names; if given, only these are retried.
        no_retry_on: exception classes or their names that are never retried.
        max_delay: the longest delay in seconds.
    """

    max_retries: int = 1
    delay: float | None = None
    backoff: Backoff | None = None
    jitter: Jitter | None = None
    retry_on: Iterable[type[BaseException] | str] = ()
    no_retry_on: Iterable[type[BaseException] | str] = ()
    max_delay: float | None = None

    def __post_init__(self) -> None:
        of_kind(self.max_retries, int, what="max_retries", remedy="use a whole number")
        of_kind(self.delay, int | float, what="delay", remedy="use seconds")
        of_kind(self.max_delay, int | float, what="max_delay", remedy="use seconds")
        if self.max_retries < 0:
            raise Invalid(f"max_retries is {self.max_retries}", remedy="use 0 or more")
        _check_seconds(self.delay, "delay")
        _check_seconds(self.max_delay, "max_delay")
        of_kind(self.backoff, Backoff, what="backoff", remedy="use Backoff.LINEAR or EXPONENTIAL")
        of_kind(self.jitter, Jitter, what="jitter", remedy="use Jitter.FULL or PLUS_MINUS")

    def calculate_delay(self, attempt_num: int) -> float:
        """The seconds before retry number `attempt_num` (from 1), without jitter."""
        even = msgspec.structs.replace(stored_policy(self), jitter=retry.JitterSpread.NONE)
        return retry.delay_after(even, attempt_num, jitter=0).total_seconds()


_BACKOFF = {
    None: retry.BackoffCurve.CONSTANT,
    Backoff.LINEAR: retry.BackoffCurve.LINEAR,
    Backoff.EXPONENTIAL: retry.BackoffCurve.EXPONENTIAL,
}
_JITTER = {
    None: retry.JitterSpread.NONE,
    Jitter.FULL: retry.JitterSpread.FULL,
    Jitter.PLUS_MINUS: retry.JitterSpread.PLUS_MINUS,
}

ONCE = retry.RetryRules(max_attempts=1)


def stored_policy(policy: RetryPolicy | None) -> retry.RetryRules:
    """The policy in the form that plans store; without one, an asset is attempted once."""
    if policy is None:
        return ONCE
    stored = retry.RetryRules(
        max_attempts=policy.max_retries + 1,
        delay_ms=round((policy.delay or 0) * 1000),
        backoff=_BACKOFF[policy.backoff],
        jitter=_JITTER[policy.jitter],
        retry_on=_names(policy.retry_on),
        no_retry_on=_names(policy.no_retry_on),
    )
    if policy.max_delay is not None:
        stored = msgspec.structs.replace(stored, cap_ms=round(policy.max_delay * 1000))
    return retry.check_policy(stored)


def _check_seconds(seconds: float | None, what: str) -> None:
    if seconds is not None and not 0 <= seconds < inf:
        raise Invalid(f"{what} is {seconds}", remedy="use 0 or more seconds")


def _names(kinds: Iterable[type[BaseException] | str]) -> tuple[str, ...]:
    return tuple(kind if isinstance(kind, str) else kind.__name__ for kind in kinds)
