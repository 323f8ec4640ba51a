"""Freshness policies: how old an asset may become.

FreshnessPolicy.time_window(fail_window=timedelta(hours=24), warn_window=timedelta(hours=12))
FreshnessPolicy.cron(deadline_cron="0 9 * * *", lower_bound_delta=timedelta(hours=1))
"""

from datetime import timedelta
from typing import Any

import msgspec

from servo.core.cron import Cron
from servo.core.freshness import CronDeadline, MaxAge, policy_text
from servo.errors import Invalid

_MS = timedelta(milliseconds=1)


class FreshnessPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """How fresh an asset must be. Create one with `time_window` or `cron`.

    @asset(freshness_policy=FreshnessPolicy.time_window(fail_window=timedelta(hours=24)))
    def orders(): ...
    """

    @staticmethod
    def time_window(
        fail_window: timedelta, warn_window: timedelta | None = None
    ) -> "TimeWindowFreshnessPolicy":
        """Fail if the asset is older than `fail_window`; warn if it is older than `warn_window`."""
        return TimeWindowFreshnessPolicy(fail_window=fail_window, warn_window=warn_window)

    @staticmethod
    def cron(
        deadline_cron: str, lower_bound_delta: timedelta, timezone: str = "UTC"
    ) -> "CronFreshnessPolicy":
        """Require a materialization in the `lower_bound_delta` before each deadline."""
        return CronFreshnessPolicy(
            deadline_cron=deadline_cron, lower_bound_delta=lower_bound_delta, timezone=timezone
        )


class TimeWindowFreshnessPolicy(FreshnessPolicy, frozen=True, kw_only=True):
    """An asset is fresh until it reaches a certain age."""

    fail_window: timedelta
    warn_window: timedelta | None = None

    def __post_init__(self) -> None:
        fail = _duration(self.fail_window, "fail_window")
        if self.warn_window is not None and _duration(self.warn_window, "warn_window") >= fail:
            raise Invalid(
                f"warn_window {self.warn_window} is not shorter than fail_window {fail}",
                remedy="pass a shorter warn_window",
            )


class CronFreshnessPolicy(FreshnessPolicy, frozen=True, kw_only=True):
    """An asset is fresh if it was materialized shortly before the last deadline, or since."""

    deadline_cron: str
    lower_bound_delta: timedelta
    timezone: str = "UTC"

    def __post_init__(self) -> None:
        _ = Cron(self.deadline_cron, self.timezone)
        _ = _duration(self.lower_bound_delta, "lower_bound_delta")


def checked_policy(value: Any, *, what: str) -> FreshnessPolicy | None:
    """Check that a value is a freshness policy or None."""
    known = isinstance(value, TimeWindowFreshnessPolicy | CronFreshnessPolicy)
    if value is not None and not known:
        raise Invalid(
            f"{what}: the freshness policy is {value!r}",
            remedy="use FreshnessPolicy.time_window(…) or FreshnessPolicy.cron(…)",
        )
    return value


def stored_policy(policy: FreshnessPolicy | None) -> str:
    """The stored form of a policy; empty for None."""
    match policy:
        case TimeWindowFreshnessPolicy():
            warn = None if policy.warn_window is None else policy.warn_window // _MS
            return policy_text(MaxAge(fail_ms=policy.fail_window // _MS, warn_ms=warn))
        case CronFreshnessPolicy():
            deadline = CronDeadline(
                deadline_cron=policy.deadline_cron,
                lower_bound_ms=policy.lower_bound_delta // _MS,
                timezone=policy.timezone,
            )
            return policy_text(deadline)
        case _:
            return ""


def _duration(value: Any, what: str) -> timedelta:
    if not isinstance(value, timedelta) or value < timedelta(minutes=1):
        raise Invalid(f"{what} is {value!r}", remedy="use a timedelta of a minute or more")
    return value
