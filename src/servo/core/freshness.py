"""Whether an asset is fresh according to its policy, and when that changes next.

A policy is stored as canonical JSON in the definition of its asset:

    {"fail_ms":86400000,"kind":"time_window","warn_ms":43200000}
    {"deadline_cron":"0 9 * * *","kind":"cron","lower_bound_ms":3600000,"timezone":"UTC"}

A **time window** counts from the last materialization: PASS, then WARN if there is a warning, then
FAIL. A **cron** has deadlines: at each of them the asset must have been materialized within the
lower bound, otherwise it fails until the next materialization. An asset that was never materialized
is UNKNOWN. Boundaries are inclusive: it is still fresh at the very end of its window.
"""

from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated

import msgspec

from servo.core.canonical import canonical_str
from servo.core.cron import Cron
from servo.errors import Invalid

_LONGEST_MS = 100 * 366 * 86_400_000
_Milliseconds = Annotated[int, msgspec.Meta(ge=1, le=_LONGEST_MS)]
_TICK = timedelta(microseconds=1)
_EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)


class FreshnessState(StrEnum):
    PASS = "PASS"  # noqa: S105 - no password
    WARN = "WARN"
    FAIL = "FAIL"
    UNKNOWN = "UNKNOWN"


class MaxAge(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    tag_field="kind",
    tag="time_window",
    omit_defaults=True,
    forbid_unknown_fields=True,
):
    """Fresh until it reaches a maximum age."""

    fail_ms: _Milliseconds
    warn_ms: _Milliseconds | None = None


class CronDeadline(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    tag_field="kind",
    tag="cron",
    omit_defaults=True,
    forbid_unknown_fields=True,
):
    """Materialized before every deadline, within the lower bound."""

    deadline_cron: str
    lower_bound_ms: _Milliseconds
    timezone: str = "UTC"


StoredPolicy = MaxAge | CronDeadline


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """The freshness of an asset, since when, and when to evaluate it again."""

    state: FreshnessState
    since: datetime | None = None
    next_due: datetime | None = None


UNJUDGED = Judgement(state=FreshnessState.UNKNOWN)


def policy_text(policy: StoredPolicy) -> str:
    """The stored form of a policy."""
    return canonical_str(msgspec.to_builtins(policy))


def read_policy(text: str) -> StoredPolicy:
    """The policy of a stored form."""
    try:
        policy: StoredPolicy = msgspec.json.decode(text, type=StoredPolicy)
    except msgspec.DecodeError as error:
        raise Invalid(
            f"{text[:200]!r} is not a freshness policy: {error}",
            remedy="use FreshnessPolicy.time_window(…) or FreshnessPolicy.cron(…)",
        ) from error
    if isinstance(policy, CronDeadline):
        _ = Cron(policy.deadline_cron, policy.timezone)
    return policy


def judge(policy: StoredPolicy, made_at: datetime | None, now: datetime) -> Judgement:
    """The freshness at `now` of an asset that was last materialized at `made_at`."""
    if made_at is None:
        return UNJUDGED
    if isinstance(policy, MaxAge):
        return _in_window(policy, made_at, now)
    return _by_deadline(policy, made_at, now)


def fresh_since(policy: StoredPolicy, now: datetime) -> datetime | None:
    """The time before which a materialization fails now; None if none does."""
    if isinstance(policy, MaxAge):
        return now - timedelta(milliseconds=policy.fail_ms)
    cron = Cron(policy.deadline_cron, policy.timezone)
    deadlines = cron.newest_between(_EARLIEST, now, 1)
    bound = timedelta(milliseconds=policy.lower_bound_ms)
    return deadlines[0] - bound if deadlines else None


def _in_window(policy: MaxAge, made_at: datetime, now: datetime) -> Judgement:
    fails = made_at + timedelta(milliseconds=policy.fail_ms) + _TICK
    warns = fails
    if policy.warn_ms is not None:
        warns = made_at + timedelta(milliseconds=policy.warn_ms) + _TICK
    if now >= fails:
        return Judgement(state=FreshnessState.FAIL, since=fails)
    if now >= warns:
        return Judgement(state=FreshnessState.WARN, since=warns, next_due=fails)
    return Judgement(state=FreshnessState.PASS, since=made_at, next_due=min(warns, fails))


def _by_deadline(policy: CronDeadline, made_at: datetime, now: datetime) -> Judgement:
    cron = Cron(policy.deadline_cron, policy.timezone)
    bound = timedelta(milliseconds=policy.lower_bound_ms)
    # The first deadline for which it was materialized too early: then it fails.
    missed = cron.next_after(made_at + bound)
    if missed is None or missed > now:
        return Judgement(state=FreshnessState.PASS, since=made_at, next_due=missed)
    return Judgement(state=FreshnessState.FAIL, since=missed)
