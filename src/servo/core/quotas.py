"""The limits of a workspace: which exist, their defaults, and the values that were set.

Why these defaults: decision 46.
"""

import msgspec
from msgspec.structs import replace

from servo.core.events.quotas import QuotaSet
from servo.core.fold.limits import DEFAULT_MAX_CONCURRENT_TASKS, MAX_TASKS_PER_RUN
from servo.core.state.rows.system import QuotaRow


class Quota(msgspec.Struct, frozen=True, kw_only=True):
    """A limit of a workspace; without a default there is no limit until one is set."""

    name: str
    what: str
    default: int | None = None


QUOTAS: tuple[Quota, ...] = (
    Quota(
        name="max_concurrent_tasks",
        what="tasks at once",
        default=DEFAULT_MAX_CONCURRENT_TASKS,
    ),
    Quota(name="max_concurrent_runs", what="runs at once"),
    Quota(name="max_queued_tasks", what="tasks that wait in a queue for a worker"),
    Quota(name="max_daily_runs", what="runs a day (UTC)"),
    Quota(name="max_run_duration_ms", what="duration of a run"),
    Quota(name="max_tasks_per_run", what="tasks in a run", default=MAX_TASKS_PER_RUN),
    Quota(name="max_backfill_concurrency", what="runs of all backfills at once"),
)


class WorkspaceLimit(msgspec.Struct, frozen=True, kw_only=True):
    """The current value of a limit; None means no limit."""

    name: str
    what: str
    limit: int | None
    is_default: bool


def workspace_limits(row: QuotaRow | None) -> tuple[WorkspaceLimit, ...]:
    """Every limit of a workspace with this row."""
    return tuple(_limit(quota, row) for quota in QUOTAS)


def _limit(quota: Quota, row: QuotaRow | None) -> WorkspaceLimit:
    given: int | None = None if row is None else getattr(row, quota.name)
    return WorkspaceLimit(
        name=quota.name,
        what=quota.what,
        limit=quota.default if given is None else given,
        is_default=given is None,
    )


def quota_set(limits: dict[str, int | None]) -> QuotaSet:
    """The event that sets these limits; None removes one."""
    lifted = tuple(name for name, limit in limits.items() if limit is None)
    given = {name: limit for name, limit in limits.items() if limit is not None}
    return replace(QuotaSet(lifted=lifted), **given)
