"""The status of the partitions of an asset: materialized, failed, stale, and why.

Materializations and attempts are separate: a partition whose last attempt failed still has the data
of its last success. Staleness is computed on demand and never stored:

1. `NEVER_MATERIALIZED`: there is nothing to be stale.
2. `CODE_CHANGED`: it was materialized by another code version than the deployed one.
3. `UPSTREAM_CHANGED`: an upstream partition was materialized after it.
4. `FRESHNESS_POLICY`: it is older than the freshness policy of its asset allows.

The first reason that applies counts. Sets are bitmaps over partition numbers. Partitions that are
no longer in the definition are reported separately (`outside`).
"""

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from servo.core import bitmaps
from servo.errors import Invalid
from servo.sdk.partitions.definition import PartitionsDefinition
from servo.sdk.partitions.space import PartitionSpace


class DisplayStatus(StrEnum):
    """The displayed status of a partition."""

    MATERIALIZED = "MATERIALIZED"
    FAILED = "FAILED"
    IN_PROGRESS = "IN_PROGRESS"
    MISSING = "MISSING"


class StaleReason(StrEnum):
    """Why a partition is stale."""

    NEVER_MATERIALIZED = "NEVER_MATERIALIZED"
    CODE_CHANGED = "CODE_CHANGED"
    UPSTREAM_CHANGED = "UPSTREAM_CHANGED"
    FRESHNESS_POLICY = "FRESHNESS_POLICY"


class PartitionStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The status of the partitions of an asset, as sets of partition numbers."""

    count: int
    made: int
    failed: int
    in_progress: int
    outside: tuple[str, ...] = ()

    def shown(self, status: DisplayStatus) -> int:
        """The partitions displayed with a status."""
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
    """Every partition by its first stale reason."""
    known = bitmaps.EMPTY
    told: dict[StaleReason, int] = {}
    for reason in StaleReason:
        told[reason] = found.get(reason, bitmaps.EMPTY) & ~known
        known |= told[reason]
    return told


def ordinal_of(definition: object, space: PartitionSpace, key: str) -> int | None:
    """The number of a partition by its stored key; None if it does not exist."""
    if not isinstance(definition, PartitionsDefinition):
        return None
    try:
        return space.ordinal(definition.plain_key(key))
    except (Invalid, ValueError):
        return None


def counts(status: PartitionStatus, stale: Mapping[StaleReason, int]) -> dict[str, int]:
    """The number of partitions of each status."""
    told = {one.value.lower(): status.shown(one).bit_count() for one in DisplayStatus}
    reasons = {f"stale_{one.value.lower()}": stale[one].bit_count() for one in stale}
    return {"total": status.count, **told, **reasons, "outside": len(status.outside)}
