"""How the partitions of an asset stand: what is there, what failed, what is stale, and why.

What was made and what was tried are kept apart: a partition whose last attempt failed still has
the data of the last success. Whether it is stale is found when it is asked, never stored:

1. `NEVER_MATERIALIZED`: there is nothing to be stale.
2. `CODE_CHANGED`: it was made by another version of the code than is deployed.
3. `UPSTREAM_CHANGED`: something it is made from, by the mappings, was made after it.
4. `FRESHNESS_POLICY`: it was made longer ago than the policy of its asset allows.

The first that holds is the reason. Sets are bitmaps over the numbers of the partitions. Rows of
partitions that the definition does not have, because it was changed, are told apart (`outside`).
"""

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from servo.core import bitmaps
from servo.errors import Invalid
from servo.sdk.partitions.definition import PartitionsDefinition
from servo.sdk.partitions.space import PartitionSpace


class DisplayStatus(StrEnum):
    """What people are shown of a partition."""

    MATERIALIZED = "MATERIALIZED"
    FAILED = "FAILED"
    IN_PROGRESS = "IN_PROGRESS"
    MISSING = "MISSING"


class StaleReason(StrEnum):
    """Why a partition should be made again."""

    NEVER_MATERIALIZED = "NEVER_MATERIALIZED"
    CODE_CHANGED = "CODE_CHANGED"
    UPSTREAM_CHANGED = "UPSTREAM_CHANGED"
    FRESHNESS_POLICY = "FRESHNESS_POLICY"


class PartitionStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How the partitions of an asset stand, as sets of their numbers."""

    count: int
    made: int
    failed: int
    in_progress: int
    outside: tuple[str, ...] = ()

    def shown(self, status: DisplayStatus) -> int:
        """The partitions that are shown with a status."""
        busy = self.in_progress
        missing = bitmaps.span(0, self.count) & ~self.made
        match status:
            case DisplayStatus.IN_PROGRESS:
                return busy
            case DisplayStatus.MATERIALIZED:
                return self.made & ~busy
            case DisplayStatus.FAILED:
                return missing & self.failed & ~busy
            case DisplayStatus.MISSING:
                return missing & ~self.failed & ~busy


def first_reasons(found: Mapping[StaleReason, int]) -> dict[StaleReason, int]:
    """Every partition by the first reason that holds; what was never made has no other."""
    known = bitmaps.EMPTY
    told: dict[StaleReason, int] = {}
    for reason in StaleReason:
        told[reason] = found.get(reason, bitmaps.EMPTY) & ~known
        known |= told[reason]
    return told


def ordinal_of(definition: object, space: PartitionSpace, key: str) -> int | None:
    """The number of a partition by its stored key; None if there is none."""
    if not isinstance(definition, PartitionsDefinition):
        return None
    try:
        return space.ordinal(definition.plain_key(key))
    except (Invalid, ValueError):
        return None


def counts(status: PartitionStatus, stale: Mapping[StaleReason, int]) -> dict[str, int]:
    """How many partitions there are of each kind."""
    told = {one.value.lower(): status.shown(one).bit_count() for one in DisplayStatus}
    reasons = {f"stale_{one.value.lower()}": stale[one].bit_count() for one in stale}
    return {"total": status.count, **told, **reasons, "outside": len(status.outside)}
