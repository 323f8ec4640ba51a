"""How much may run at once."""

from typing import ClassVar, Literal

from servo.core.events.envelope import Event, Kind


class QuotaSet(Event, frozen=True, kw_only=True, tag="QuotaSet"):
    """The limits of this workspace. What is absent keeps its value."""

    KIND: ClassVar[Kind] = Kind.COMMAND

    v: Literal[1] = 1
    max_concurrent_tasks: int | None = None
    max_concurrent_runs: int | None = None
    max_queued_tasks: int | None = None
    max_daily_runs: int | None = None
    max_run_duration_ms: int | None = None
    max_tasks_per_run: int | None = None
    max_backfill_concurrency: int | None = None


class PoolLimitSet(Event, frozen=True, kw_only=True, tag="PoolLimitSet"):
    """At most this many tasks of a pool at once; no limit removes it."""

    KIND: ClassVar[Kind] = Kind.COMMAND

    v: Literal[1] = 1
    pool: str
    limit: int | None = None


class LaneWeightSet(Event, frozen=True, kw_only=True, tag="LaneWeightSet"):
    """The share of a lane when lanes compete, in relation to the default of 100."""

    KIND: ClassVar[Kind] = Kind.COMMAND

    v: Literal[1] = 1
    lane: str
    weight: int
