"""Limits. Slots are counted from the tasks that hold them, so no crash can leak one."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from servo.core.events.envelope import Event
from servo.core.events.quotas import LaneWeightSet, PoolLimitSet, QuotaSet
from servo.core.fold.context import Ctx, Rejected
from servo.core.state.index import WORKSPACE_QUOTA
from servo.core.state.rows.system import QuotaRow
from servo.core.state.state import State

MAX_WEIGHT = 1_000_000


def _row(state: State, key: tuple[str, str]) -> QuotaRow:
    row = state.quotas.rows.get(key)
    if row is None:
        return QuotaRow(scope=key[0], name=key[1], updated_at=state.ts, row_version=state.seq)
    return replace(row, updated_at=state.ts, row_version=state.seq)


def _on_quota(state: State, event: QuotaSet, ctx: Ctx) -> None:
    del ctx
    limits: dict[str, int] = {
        name: value
        for name, value in msgspec.structs.asdict(event).items()
        if name != "v" and value is not None
    }
    if any(value < 0 for value in limits.values()):
        raise Rejected("invalid_quota: a limit cannot be negative")
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
        raise Rejected(f"invalid_quota: a weight is from 1 to {MAX_WEIGHT}")
    key = ("lane", event.lane)
    state.quotas.put(key, replace(_row(state, key), weight=event.weight))


Rule = Callable[[State, Any, Ctx], None]
RULES: Mapping[type[Event], Rule] = {
    QuotaSet: _on_quota,
    PoolLimitSet: _on_pool,
    LaneWeightSet: _on_lane,
}
NEEDS: Mapping[type[Event], Callable[[Any], Iterable[tuple[str, object]]]] = {}
