"""Partitions of an asset: count them by status, and list them."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

import msgspec

from servo.core import bitmaps
from servo.errors import NotFound
from servo.operations.interface.listing import DEFAULT_LIMIT, check_limit
from servo.operations.interface.moments import AsOf, instant_of
from servo.operations.interface.roles import operation
from servo.projection.partitions.report import PartitionReader, PartitionReport
from servo.projection.read.reader import Snapshot
from servo.sdk.partitions.status import DisplayStatus, StaleReason, counts
from servo.workspace.workspace import Workspace


class PartitionFilter(StrEnum):
    """Which partitions to list."""

    MATERIALIZED = "materialized"
    FAILED = "failed"
    IN_PROGRESS = "in_progress"
    MISSING = "missing"
    STALE = "stale"


class PartitionCounts(msgspec.Struct, frozen=True, kw_only=True):
    """How many partitions of an asset have each status, and how many are stale for which reason.

    `outside` counts recorded partitions that the definition no longer has.
    `unknown_mappings` are upstream assets whose partition mapping only the code knows: whether
    they make partitions stale was not examined.
    """

    asset_key: str
    total: int
    materialized: int
    failed: int
    in_progress: int
    missing: int
    stale_never_materialized: int
    stale_code_changed: int
    stale_upstream_changed: int
    stale_freshness_policy: int
    outside: int
    unknown_mappings: list[str] = []


class PartitionRange(msgspec.Struct, frozen=True, kw_only=True):
    """Consecutive partitions of one status, stale for one reason or not at all.

    `stale_since` is when the first of them became stale at the latest; None if that is not known.
    """

    first: str
    last: str
    count: int
    status: DisplayStatus
    stale: StaleReason | None
    stale_since: datetime | None = None


class PartitionQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which partitions to list: at most `limit` ranges, after the partition `after`."""

    status: PartitionFilter | None = None
    limit: int = DEFAULT_LIMIT
    after: str | None = None

    def __post_init__(self) -> None:
        check_limit(self.limit)


class PartitionListing(msgspec.Struct, frozen=True, kw_only=True):
    """A page of an asset's partitions, in order.

    `outside` are the stored keys of those that the definition no longer has; they are told on the
    first page of a list without filter.
    """

    asset_key: str
    items: list[PartitionRange]
    next_cursor: str | None = None
    outside: list[str] = []


@operation
def count_partitions(
    workspace: Workspace, asset: str, *, as_of: AsOf | None = None
) -> PartitionCounts:
    """How many partitions of an asset have each status, and how many are stale and why."""
    report = _report(workspace, asset, as_of=as_of)
    return PartitionCounts(
        asset_key=report.asset_key,
        unknown_mappings=list(report.unknown),
        **counts(report.status, report.stale),
    )


@operation
def list_partitions(
    workspace: Workspace, asset: str, query: PartitionQuery, *, as_of: AsOf | None = None
) -> PartitionListing:
    """The partitions of an asset in order; consecutive ones with the same status form one range."""
    report = _report(workspace, asset, as_of=as_of)
    found = ranges_of(report, query.status, after=query.after, most=query.limit + 1)
    items = found[: query.limit]
    whole = query.status is None and query.after is None
    return PartitionListing(
        asset_key=report.asset_key,
        items=items,
        next_cursor=items[-1].last if len(found) > query.limit else None,
        outside=list(report.status.outside) if whole else [],
    )


def _report(workspace: Workspace, asset: str, *, as_of: AsOf | None = None) -> PartitionReport:
    """The status of an asset's partitions, as sets; `NotFound` if it has none."""

    def use(snapshot: Snapshot) -> PartitionReport:
        return PartitionReader(snapshot, instant_of(snapshot, as_of, workspace.now())).report(asset)

    return workspace.read(use, as_of=as_of)


def ranges_of(
    report: PartitionReport, wanted: PartitionFilter | None, *, after: str | None, most: int
) -> list[PartitionRange]:
    """The first ranges of partitions with a status, after a partition."""
    behind = report.space.everything & ~bitmaps.span(0, _start(report, after))
    found = sorted(_alike(report, wanted, behind, most), key=lambda one: one.low)[:most]
    return [_range(report, one) for one in found]


# --- ranges ---------------------------------------------------------------------------------------


class _Alike(NamedTuple):
    """The numbers of the first and the last of consecutive partitions, and their common status."""

    low: int
    high: int
    status: DisplayStatus
    stale: StaleReason | None


def _alike(
    report: PartitionReport, wanted: PartitionFilter | None, among: int, most: int
) -> Iterator[_Alike]:
    """The first ranges of every kind, as many of each as are wanted of all."""
    for status in DisplayStatus:
        for reason, bits in _by_reason(report).items():
            if _is_wanted(wanted, status, reason):
                chosen = report.status.shown(status) & bits & among
                pairs, _ = bitmaps.first_ranges(chosen, most)
                yield from (_Alike(low, high, status, reason) for low, high in pairs)


def _by_reason(report: PartitionReport) -> Mapping[StaleReason | None, int]:
    stale = bitmaps.EMPTY
    for bits in report.stale.values():
        stale |= bits
    return {**report.stale, None: report.space.everything & ~stale}


def _is_wanted(
    wanted: PartitionFilter | None, status: DisplayStatus, reason: StaleReason | None
) -> bool:
    if wanted is PartitionFilter.STALE:
        return reason is not None
    return wanted is None or wanted.value == status.value.lower()


def _start(report: PartitionReport, after: str | None) -> int:
    """The number of the first partition of a page."""
    if after is None:
        return 0
    number = report.space.ordinal(after)
    if number is None:
        raise NotFound(
            f"{report.asset_key} has no partition {after!r}",
            remedy="pass the cursor from the previous page",
        )
    return number + 1


def _range(report: PartitionReport, found: _Alike) -> PartitionRange:
    return PartitionRange(
        first=report.space.key(found.low),
        last=report.space.key(found.high),
        count=found.high - found.low + 1,
        status=found.status,
        stale=found.stale,
        stale_since=report.since(found.stale, found.low, found.high) if found.stale else None,
    )
