"""How old an asset may be before somebody should know.

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
    """What must be so for an asset to be fresh. Make one with `time_window` or `cron`."""

    @staticmethod
    def time_window(
        fail_window: timedelta, warn_window: timedelta | None = None
    ) -> "TimeWindowFreshnessPolicy":
        """It must have been made within `fail_window`; older than `warn_window` is told."""
        return TimeWindowFreshnessPolicy(fail_window=fail_window, warn_window=warn_window)

    @staticmethod
    def cron(
        deadline_cron: str, lower_bound_delta: timedelta, timezone: str = "UTC"
    ) -> "CronFreshnessPolicy":
        """By every tick it must have been made, and not more than `lower_bound_delta` earlier."""
        return CronFreshnessPolicy(
            deadline_cron=deadline_cron, lower_bound_delta=lower_bound_delta, timezone=timezone
        )


class TimeWindowFreshnessPolicy(FreshnessPolicy, frozen=True, kw_only=True):
    """An asset is fresh for so long after it was made."""

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
    """An asset is fresh if it was made shortly before the last deadline, or since."""

    deadline_cron: str
    lower_bound_delta: timedelta
    timezone: str = "UTC"

    def __post_init__(self) -> None:
        _ = Cron(self.deadline_cron, self.timezone)
        _ = _duration(self.lower_bound_delta, "lower_bound_delta")


def checked_policy(value: Any, *, what: str) -> FreshnessPolicy | None:
    """A policy if it is one, or none."""
    known = isinstance(value, TimeWindowFreshnessPolicy | CronFreshnessPolicy)
    if value is not None and not known:
        raise Invalid(
            f"{what}: the freshness policy is {value!r}",
            remedy="use FreshnessPolicy.time_window(…) or FreshnessPolicy.cron(…)",
        )
    return value


def stored_policy(policy: FreshnessPolicy | None) -> str:
    """A policy as a deployment tells it; an empty text for none."""
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
