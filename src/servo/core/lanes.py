"""Lanes share workers fairly, so that nobody waits behind someone else's backlog.

The lane of a run depends on what started it, unless its `servo/lane` tag names another. When lanes
compete, each gets work in proportion to its weight; a lane that is alone gets everything.
"""

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from servo.core.events.runs import (
    AutomationSource,
    BackfillSource,
    ManualSource,
    RerunSource,
    ScheduleSource,
    SensorSource,
    Source,
    SourceRef,
)
from servo.core.wire import MAX_ID_BYTES
from servo.errors import Invalid

LANE_TAG = "servo/lane"
"""The tag of a run that names its lane."""

INTERACTIVE = "interactive"
SCHEDULES = "schedules"
AUTOMATION = "automation"
BACKFILLS = "backfills"

OTHER_WEIGHT = 100
"""The default weight of other lanes."""

# The closer a person is to the result, the larger the share, each twice the next. The sum of the
# others bounds how many tasks go before one that has just become ready: at most seven.
DEFAULT_WEIGHTS: Mapping[str, int] = MappingProxyType(
    {INTERACTIVE: 800, SCHEDULES: 400, AUTOMATION: 200, BACKFILLS: 100}
)

_LANES: Mapping[type[Source], str] = MappingProxyType(
    {
        ManualSource: INTERACTIVE,
        RerunSource: INTERACTIVE,
        ScheduleSource: SCHEDULES,
        SensorSource: SCHEDULES,
        AutomationSource: AUTOMATION,
        BackfillSource: BACKFILLS,
    }
)


def lane_of(source: SourceRef, tags: Mapping[str, str]) -> str:
    """The lane of a run with this source and these tags."""
    named = tags.get(LANE_TAG)
    if named is None:
        return _LANES[type(source)]
    if not named.strip() or len(named.encode()) > MAX_ID_BYTES or not named.isprintable():
        raise Invalid(
            f"invalid lane {named!r}",
            remedy=f"set the tag {LANE_TAG} to a lane such as {INTERACTIVE}, or leave it out",
        )
    return named


def default_weight(lane: str) -> int:
    """The weight of a lane in a workspace that has not set one."""
    return DEFAULT_WEIGHTS.get(lane, OTHER_WEIGHT)


class LaneWeight(msgspec.Struct, frozen=True, kw_only=True):
    """The weight of a lane in a workspace, and its default."""

    lane: str
    weight: int
    default: int


def lane_weights(given: Mapping[str, int]) -> tuple[LaneWeight, ...]:
    """The built-in lanes and those with a weight, heaviest first."""
    rows: list[LaneWeight] = []
    for lane in dict.fromkeys((*DEFAULT_WEIGHTS, *given)):
        default = default_weight(lane)
        rows.append(LaneWeight(lane=lane, weight=given.get(lane, default), default=default))
    return tuple(sorted(rows, key=lambda row: (-row.weight, row.lane)))
