"""How the partitions of an asset stand: what is there, what failed, what is stale, and why.

What was made and what was tried are kept apart: a partition whose last attempt failed still has
the data of the last success. Whether it is stale is found when it is asked, never stored:

1. `NEVER_MATERIALIZED`: there is nothing to be stale.
2. `CODE_CHANGED`: it was made by another version of the code than is deployed.
3. `UPSTREAM_CHANGED`: something it is made from, by the mappings, was made after it.
4. `FRESHNESS_POLICY`: it was made longer ago than the policy of its asset allows.

The first that holds is the reason. Sets are bitmaps over the numbers of the partitions, and rows
come in columns, so that a million partitions cost a few passes over flat lists. Rows of partitions
that the definition does not have, because it was changed, are told apart (`outside`).
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from operator import gt
from typing import TypeVar

import msgspec

from servo.core import bitmaps
from servo.errors import Invalid
from servo.sdk.mapping_resolution import Edge
from servo.sdk.partition_space import PartitionSpace
from servo.sdk.partitions_definition import PartitionsDefinition
from servo.sdk.time_space import TimeSpace

T = TypeVar("T")


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


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """What is recorded of the partitions of one asset, in columns, sorted by key.

    `seconds` are what keys of time stand for, since 1970, where they do. `made` is the entry of
    the ledger that made the latest output, 0 if there is none; `made_ms` when that was.
    """

    keys: Sequence[str] = ()
    seconds: Sequence[int] | None = None
    made: Sequence[int] = ()
    made_ms: Sequence[int] = ()
    versions: Sequence[str] = ()
    failed: Sequence[bool] = ()


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """What counts as current: the version of the code, and since when an output is fresh."""

    code_version: str = ""
    fresh_since_ms: int | None = None


class Upstream(msgspec.Struct, frozen=True, kw_only=True):
    """Something an asset is made from: how they belong together, and when each was made."""

    edge: Edge
    made: Sequence[int]


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


class Table:
    """The rows of an asset by the numbers of its partitions."""

    def __init__(
        self, space: PartitionSpace, recorded: Recorded, *, like: "Table | None" = None
    ) -> None:
        """Find the partition of every row; `like` is a known table with the same ones."""
        self.space = space
        self._recorded = recorded
        self.runs: list[Run] = list(_runs(space, recorded)) if like is None else like.runs
        self.made = self._spread(recorded.made, 0)
        """The entry that made each partition, 0 for none."""
        self._there = _where(self.made)

    def status(self, in_progress: Iterable[str] = ()) -> PartitionStatus:
        """How the partitions stand; `in_progress` are those that are being made, by stored key."""
        definition = self.space.what
        busy = [ordinal_of(definition, self.space, key) for key in in_progress]
        return PartitionStatus(
            count=self.space.count,
            made=self._there,
            failed=_where(self._spread(self._recorded.failed, False)),
            in_progress=bitmaps.bitmap(n for n in busy if n is not None),
            outside=tuple(self._outside()),
        )

    def _outside(self) -> Iterable[str]:
        """The rows of partitions that there are not."""
        row, keys = 0, self._recorded.keys
        for _, start, length in self.runs:
            yield from keys[row:start]
            row = start + length
        yield from keys[row:]

    def stale(self, policy: Policy, upstream: Sequence[Upstream]) -> dict[StaleReason, int]:
        """The partitions that are stale, by the first reason that holds."""
        there = self._there
        found = {
            StaleReason.NEVER_MATERIALIZED: bitmaps.span(0, self.space.count) & ~there,
            StaleReason.CODE_CHANGED: self._of_other_code(policy.code_version),
            StaleReason.UPSTREAM_CHANGED: bitmaps.EMPTY,
            StaleReason.FRESHNESS_POLICY: self._too_old(policy.fresh_since_ms),
        }
        for one in upstream:
            found[StaleReason.UPSTREAM_CHANGED] |= newer(one, self.made)
        left = bitmaps.span(0, self.space.count)
        for reason in StaleReason:
            known = found[reason] if reason is StaleReason.NEVER_MATERIALIZED else there
            found[reason] &= left & known
            left &= ~found[reason]
        return found

    def _of_other_code(self, version: str) -> int:
        if not version:
            return bitmaps.EMPTY
        other = {had for had in set(self._recorded.versions) if had and had != version}
        if not other:
            return bitmaps.EMPTY
        return _where([had in other for had in self._spread(self._recorded.versions, "")])

    def _too_old(self, since: int | None) -> int:
        if since is None:
            return bitmaps.EMPTY
        old = [0 < at < since for at in self._recorded.made_ms]
        return _where(self._spread(old, False))

    def _spread(self, column: Sequence[T], nothing: T) -> list[T]:
        """A column by the numbers of the partitions."""
        spread = [nothing] * self.space.count
        if not column:  # it was not read
            return spread
        for start, row, length in self.runs:
            spread[start : start + length] = column[row : row + length]
        return spread


def newer(upstream: Upstream, made: Sequence[int]) -> int:
    """The partitions of which something upstream was made after them."""
    edge, above = upstream.edge, upstream.made
    if not above:
        return bitmaps.EMPTY
    if edge.constant:
        newest = max(
            (above[n] for n in bitmaps.numbers(edge.upstream_bits(edge.below.everything))),
            default=0,
        )
        return _where([newest > own for own in made])
    shift = edge.shift
    if shift is not None:
        low, high = shift
        found = bitmaps.EMPTY
        for offset in range(low, high + 1):
            found |= _newer_by(offset, above, made)
        return found
    return _where(_newest(edge, above, own) > seq > 0 for own, seq in enumerate(made))


def _newest(edge: Edge, above: Sequence[int], own: int) -> int:
    """When the newest was made of what a partition is made from."""
    span = edge.upstream_span(own)
    if span is not None:
        return max(above[span[0] : span[1]], default=0)
    return max((above[n] for n in bitmaps.numbers(edge.upstream_bits(1 << own))), default=0)


def _newer_by(offset: int, above: Sequence[int], made: Sequence[int]) -> int:
    """The partitions whose counterpart so many places further was made after them."""
    start = max(0, -offset)
    flags = bytes(map(gt, above[start + offset :], made[start:]))
    return _packed(flags) << start


_DIGITS = bytes([ord("0")]) + bytes([ord("1")]) * 255


def _where(flags: Iterable[object]) -> int:
    """The places at which something is true."""
    return _packed(bytes(map(bool, flags)))


def _packed(flags: bytes) -> int:
    # Read as a number of binary digits, the last one first: faster than any loop over bits.
    return int(flags[::-1].translate(_DIGITS), 2) if flags else bitmaps.EMPTY


Run = tuple[int, int, int]
"""Partitions that follow each other: the number of the first, its row, and how many."""


def _runs(space: PartitionSpace, recorded: Recorded) -> Iterable[Run]:
    if isinstance(space, TimeSpace) and recorded.seconds is not None:
        yield from _windows(space, recorded.seconds)
        return
    for row, key in enumerate(recorded.keys):
        number = ordinal_of(space.what, space, key)
        if number is not None:
            yield number, row, 1


def _windows(space: TimeSpace, seconds: Sequence[int]) -> Iterable[Run]:
    """Runs of windows, each found by its first and proved by its values."""
    row = 0
    while row < len(seconds):
        number, unit, most = space.place(seconds[row])
        if number is None:
            row += 1
            continue
        length = _regular(seconds, row, unit, min(most, space.count - number))
        yield number, row, length
        row += length


def _regular(seconds: Sequence[int], row: int, unit: int, most: int) -> int:
    """For how many rows the values go on in steps of a unit, up to so many."""
    length, step = 1, 1
    while length < most and step:
        end = min(length + step, most)
        first = seconds[row] + unit * length
        part = list(seconds[row + length : row + end])
        if part == list(range(first, first + unit * len(part), unit)) and part:
            length += len(part)
            step *= 2
        else:
            step //= 2
    return length


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
