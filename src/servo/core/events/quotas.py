"""How much may run at once."""

from typing import ClassVar, Literal

from servo.core.events.envelope import Event, EventKind
from servo.core.wire import Int64, MaybeId


class QuotaSet(Event, frozen=True, kw_only=True, tag="QuotaSet"):
    """The limits of this workspace. What is absent keeps its value; what is `lifted` has none."""

    KIND: ClassVar[EventKind] = EventKind.COMMAND

    v: Literal[1] = 1
    max_concurrent_tasks: Int64 | None = None
    max_concurrent_runs: Int64 | None = None
    max_queued_tasks: Int64 | None = None
    max_daily_runs: Int64 | None = None
    max_run_duration_ms: Int64 | None = None
    max_tasks_per_run: Int64 | None = None
    max_backfill_concurrency: Int64 | None = None
    lifted: tuple[str, ...] = ()


class PoolLimitSet(Event, frozen=True, kw_only=True, tag="PoolLimitSet"):
    """At most this many tasks of a pool at once; no limit removes it."""

    KIND: ClassVar[EventKind] = EventKind.COMMAND

    v: Literal[1] = 1
    pool: str
    limit: Int64 | None = None


class LaneWeightSet(Event, frozen=True, kw_only=True, tag="LaneWeightSet"):
    """The share of a lane when lanes compete."""

    KIND: ClassVar[EventKind] = EventKind.COMMAND

    v: Literal[1] = 1
    lane: MaybeId
    weight: Int64
