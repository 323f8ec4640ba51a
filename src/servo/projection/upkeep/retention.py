"""Which versions of the projection are kept.

Ages are those of the store: when it wrote a manifest, by its own clock. Numbers only break ties.
A version is kept if any of these holds:

- it is the newest, or the one before it, which a reader may just have opened;
- it is younger than `all_for`;
- it was the newest when that time began, so that every instant since can be read;
- it is the last one of its hour and younger than `hourly_for`;
- it is the last one of its day and younger than `daily_for`;
- it is pinned.

So collecting often keeps what collecting seldom would have kept: what is dropped once is what
would be dropped later anyhow.

A version that the store wrote clearly after a higher one is a latecomer: a leader that slept
filled a place that had been collected. Nothing ever followed from it, so no hour or day is
remembered by it.
"""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta

import msgspec

from servo.config import Settings

# Stores promise that later writes look later, give or take some seconds.
SKEW = timedelta(minutes=1)
HOUR = "%Y-%m-%dT%H"
DAY = "%Y-%m-%d"


class StoredManifest(msgspec.Struct, frozen=True, kw_only=True):
    """A manifest that is in the store, and when the store wrote it."""

    v: int
    modified: datetime


class VersionRetention(msgspec.Struct, frozen=True, kw_only=True):
    """How long versions are kept."""

    all_for: timedelta
    hourly_for: timedelta
    daily_for: timedelta


def retention(settings: Settings) -> VersionRetention:
    """How long versions are kept by these settings."""
    return VersionRetention(
        all_for=settings.keep_all_for,
        hourly_for=settings.keep_hourly_for,
        daily_for=settings.keep_daily_for,
    )


def retained(
    versions: Sequence[StoredManifest],
    rule: VersionRetention,
    *,
    now: datetime,
    pinned: Collection[int] = (),
) -> list[int]:
    """The numbers of the versions to keep, ascending."""
    ordered = sorted(versions, key=lambda version: version.v)
    kept = dict.fromkeys(version.v for version in ordered[-2:])
    kept |= dict.fromkeys(version.v for version in ordered if version.v in pinned)
    kept |= dict.fromkeys(v.v for v in ordered if now - v.modified < rule.all_for)
    if (start := current_at(ordered, now - rule.all_for)) is not None:
        kept[start.v] = None
    regular = without_latecomers(ordered)
    kept |= _last_of(HOUR, (v for v in regular if now - v.modified < rule.hourly_for))
    kept |= _last_of(DAY, (v for v in regular if now - v.modified < rule.daily_for))
    return sorted(kept)


def current_at(versions: Iterable[StoredManifest], when: datetime) -> StoredManifest | None:
    """The version that was the newest at `when`."""
    before = (version for version in versions if version.modified <= when)
    return max(before, key=lambda version: version.v, default=None)


def without_latecomers(ordered: Sequence[StoredManifest]) -> list[StoredManifest]:
    """The versions that were written in the order of their numbers."""
    regular: list[StoredManifest] = []
    earliest: datetime | None = None
    for version in reversed(ordered):
        if earliest is None or version.modified <= earliest + SKEW:
            regular.append(version)
        earliest = version.modified if earliest is None else min(earliest, version.modified)
    regular.reverse()
    return regular


def _last_of(bucket: str, versions: Iterable[StoredManifest]) -> dict[int, None]:
    """The last version of each bucket, given versions by ascending number."""
    last = {version.modified.strftime(bucket): version.v for version in versions}
    return dict.fromkeys(last.values())
