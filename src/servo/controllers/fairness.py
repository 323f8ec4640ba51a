"""Who goes next when several lanes want more than there is: deficit round-robin.

A lane is whatever shares fairly with others: a backfill, a schedule, interactive runs, or a
tenant where one process leads several workspaces. Each visit credits a lane with its weight; a
task costs `COST`. A lane with weight 200 gets twice the tasks of one with 100, and a lane with
ten thousand ready tasks delays one with a single task by one round, not by ten thousand.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

import msgspec

COST = 100
DEFAULT_WEIGHT = 100

T = TypeVar("T")


class Fairness(msgspec.Struct, frozen=True, kw_only=True):
    """What carries over from one round to the next: credit left, and where the round stopped."""

    credit: dict[str, int] = {}
    last: str | None = None


def share(
    lanes: Mapping[str, Iterator[T]],
    *,
    room: int,
    weight: Callable[[str], int],
    before: Fairness,
) -> tuple[list[T], Fairness]:
    """Take up to `room` items from the lanes by their weights, beginning after the last lane."""
    order = _rotated(sorted(lanes), before.last)
    credit = {lane: before.credit.get(lane, 0) for lane in order}
    taken: list[T] = []
    last = before.last
    while order and len(taken) < room:
        remaining: list[str] = []
        for lane in order:
            credit[lane] += max(weight(lane), 1)
            drained = _serve(lanes[lane], lane, credit, taken, room)
            last = lane
            if not drained:
                remaining.append(lane)
            if len(taken) >= room:
                break
        else:
            order = remaining
            continue
        break
    kept = {lane: left for lane, left in credit.items() if left > 0}
    return taken, Fairness(credit=kept, last=last)


def _serve(
    items: Iterator[T], lane: str, credit: dict[str, int], taken: list[T], room: int
) -> bool:
    """Spend a lane's credit; True when the lane has nothing left, and then no credit either."""
    while credit[lane] >= COST and len(taken) < room:
        item = next(items, None)
        if item is None:
            credit[lane] = 0
            return True
        taken.append(item)
        credit[lane] -= COST
    return False


def _rotated(lanes: Sequence[str], last: str | None) -> list[str]:
    if last is None:
        return list(lanes)
    return [lane for lane in lanes if lane > last] + [lane for lane in lanes if lane <= last]
