"""Detect changes of freshness.

The index lists the assets whose policy, data or freshness changed; those are evaluated. The next
change by time alone is kept in a heap of hints, so that nothing is evaluated before it is due. An
asset is evaluated again until its row has the result: a rejected proposal is made again, based on
the state at that time.
"""

from datetime import datetime
from heapq import heappop, heappush

from servo.controllers.actions import Propose
from servo.core.events.freshness import FreshnessChanged
from servo.core.freshness import UNJUDGED, FreshnessState, Judgement, judge, read_policy
from servo.core.state.index import Index
from servo.core.state.rows.assets import AssetRow
from servo.core.state.state import State
from servo.errors import Invalid

MAX_PER_ROUND = 1_000


def reconcile(state: State, now: datetime) -> list[Propose]:
    """Propose every change of freshness up to `now`."""
    index = state.index
    while index.freshness_due and index.freshness_due[0][0] <= now:
        due, key = heappop(index.freshness_due)
        index.freshness_unjudged[key] = None
        if index.freshness_hints.get(key) == due:
            del index.freshness_hints[key]
    proposed: list[Propose] = []
    for key in tuple(index.freshness_unjudged):
        if len(proposed) == MAX_PER_ROUND:
            break
        judgement = _judged(state.assets.rows[key], now)
        change = _change(state, key, judgement, now)
        if change is not None:
            proposed.append(Propose((change,)))
            continue
        del index.freshness_unjudged[key]
        _expect(index, key, judgement.next_due)
    return proposed


def next_due(state: State) -> datetime | None:
    """The earliest time at which freshness may change; in the past if it may have changed."""
    if state.index.freshness_unjudged:
        return state.ts
    return state.index.freshness_due[0][0] if state.index.freshness_due else None


def _expect(index: Index, key: str, due: datetime | None) -> None:
    """Evaluate an asset again when it is due.

    An asset that is evaluated before then anyway needs no other hint: one that is materialized
    every second has one hint, not one for each materialization.
    """
    hint = index.freshness_hints.get(key)
    if due is not None and (hint is None or due < hint):
        index.freshness_hints[key] = due
        heappush(index.freshness_due, (due, key))


def _judged(asset: AssetRow, now: datetime) -> Judgement:
    """The freshness of an asset; unknown if it has no readable policy."""
    if not asset.defined or not asset.freshness_policy:
        return UNJUDGED
    try:
        policy = read_policy(asset.freshness_policy)
    except Invalid:
        return UNJUDGED
    return judge(policy, asset.last_materialization_at, now)


def _change(state: State, key: str, judgement: Judgement, now: datetime) -> FreshnessChanged | None:
    row = state.freshness.rows.get(key)
    stands = row.state if row else FreshnessState.UNKNOWN
    if judgement.state is stands:
        return None
    return FreshnessChanged(
        asset_key=key,
        state=judgement.state,
        expected_version=row.version if row else 0,
        materialization_seq=state.assets.rows[key].last_materialization_seq,
        changed_at=judgement.since or now,
    )
