"""Deficit round-robin: which lane is served next when several compete.

A lane is anything that shares fairly with others: backfills, schedules, interactive runs, or a
tenant if one process leads several workspaces. Each visit credits a lane with its weight; a task
costs `COST`. A lane with weight 200 gets twice the tasks of one with 100, and a lane with ten
thousand ready tasks delays one with a single task by one round, not by ten thousand.

Shares do not depend on how much room there is at a time: a turn that ends early because the room
ran out continues when there is room again.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

import msgspec

COST = 100

T = TypeVar("T")


class Fairness(msgspec.Struct, frozen=True, kw_only=True):
    """What carries over between rounds: the credit left, and where the last round stopped.

    `interrupted` is a lane that had credit left when the room ran out: its turn continues.
    """

    credit: dict[str, int] = {}
    last: str | None = None
    interrupted: str | None = None


def share(
    lanes: Mapping[str, Iterator[T]],
    *,
    room: int,
    weight: Callable[[str], int],
    before: Fairness,
) -> tuple[list[T], Fairness]:
    """Take up to `room` items from the lanes by weight, starting after the last lane."""
    order = _rotated(sorted(lanes), before)
    credit = {lane: before.credit.get(lane, 0) for lane in order}
    taken: list[T] = []
    last, going_on = before.last, before.interrupted
    while order and len(taken) < room:
        remaining: list[str] = []
        for lane in order:
            if lane != going_on:
                credit[lane] += max(weight(lane), 1)
            going_on = None
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
    interrupted = last if last is not None and kept.get(last, 0) >= COST else None
    return taken, Fairness(credit=kept, last=last, interrupted=interrupted)


def _serve(
    items: Iterator[T], lane: str, credit: dict[str, int], taken: list[T], room: int
) -> bool:
    """Spend a lane's credit; True when the lane is empty, which also resets its credit."""
    while credit[lane] >= COST and len(taken) < room:
        item = next(items, None)
        if item is None:
            credit[lane] = 0
            return True
        taken.append(item)
        credit[lane] -= COST
    return False


def _rotated(lanes: Sequence[str], before: Fairness) -> list[str]:
    """The lanes in order: the interrupted one first, then those after the last."""
    last, first = before.last, before.interrupted
    if last is None:
        return list(lanes)
    order = [lane for lane in lanes if lane > last] + [lane for lane in lanes if lane <= last]
    return order if first not in order else [first, *(lane for lane in order if lane != first)]
