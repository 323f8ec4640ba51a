"""Limits. Slots are counted from the tasks that hold them, so no crash can leak one."""

from collections.abc import Mapping

from msgspec.structs import replace

from servo.core.events.envelope import Event
from servo.core.events.quotas import LaneWeightSet, PoolLimitSet, QuotaSet
from servo.core.fold.context import Ctx, FoldRule, FurtherNeedsTable, NeedsTable, Rejected
from servo.core.lanes import default_weight
from servo.core.state.index import WORKSPACE_QUOTA
from servo.core.state.rows.system import QuotaRow
from servo.core.state.state import State

MAX_WEIGHT = 1_000_000

_LIMITS = tuple(name for name in QuotaSet.__struct_fields__ if name.startswith("max_"))


def _row(state: State, key: tuple[str, str]) -> QuotaRow:
    row = state.quotas.rows.get(key)
    if row is None:
        return QuotaRow(scope=key[0], name=key[1], updated_at=state.ts, row_version=state.seq)
    return replace(row, updated_at=state.ts, row_version=state.seq)


def lane_weight(state: State, lane: str) -> int:
    """The share of a lane in a workspace."""
    quota = state.index.quotas.get(("lane", lane))
    return default_weight(lane) if quota is None or quota.weight is None else quota.weight


def _on_quota(state: State, event: QuotaSet, ctx: Ctx) -> None:
    del ctx
    limits: dict[str, int | None] = {name: getattr(event, name) for name in _LIMITS}
    limits = {name: value for name, value in limits.items() if value is not None}
    if any(value is not None and value < 0 for value in limits.values()):
        raise Rejected("invalid_quota: a limit cannot be negative")
    for name in event.lifted:
        if name not in _LIMITS or name in limits:
            raise Rejected(f"invalid_quota: {name!r} is not a limit, or is both set and lifted")
    limits |= dict.fromkeys(event.lifted)
    state.quotas.put(WORKSPACE_QUOTA, replace(_row(state, WORKSPACE_QUOTA), **limits))


def _on_pool(state: State, event: PoolLimitSet, ctx: Ctx) -> None:
    del ctx
    if event.limit is not None and event.limit < 0:
        raise Rejected("invalid_quota: a limit cannot be negative")
    key = ("pool", event.pool)
    state.quotas.put(key, replace(_row(state, key), max_concurrent_tasks=event.limit))


def _on_lane(state: State, event: LaneWeightSet, ctx: Ctx) -> None:
    del ctx
    if not 1 <= event.weight <= MAX_WEIGHT:
        raise Rejected(f"invalid_quota: a weight must be between 1 and {MAX_WEIGHT}")
    key = ("lane", event.lane)
    state.quotas.put(key, replace(_row(state, key), weight=event.weight))


RULES: Mapping[type[Event], FoldRule] = {
    QuotaSet: _on_quota,
    PoolLimitSet: _on_pool,
    LaneWeightSet: _on_lane,
}
NEEDS: NeedsTable = {}
FURTHER_NEEDS: FurtherNeedsTable = {}
