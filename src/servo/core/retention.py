"""How long the data of an asset is kept: the rule, and what it no longer keeps.

A version is a promoted materialization; every partition has its own. One is kept if any of these
holds:

- it is one of the last `versions` of its partition, or younger than `age`;
- it is the newest of its partition, whatever the rule says;
- it waits in quarantine for somebody to decide;
- it was made, or decided about, less than `least_age` ago;
- a task that is still running may have been handed it: it was the newest version of its partition
  at some time since the oldest of those tasks was dispatched. Inputs are the latest outputs of that
  moment, and what is no longer the latest never becomes it again.

What an IO manager stored and what lies elsewhere has no data here, so nothing of it expires; it
counts as a version all the same. Expired outputs do not count: a rule that is loosened keeps that
many which are still there. Versions of one ledger entry cannot be told apart by age, so they are
kept together.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

import msgspec

from servo.core.events.tasks import Gate

MOST_AGE_MS = 1000 * 366 * 24 * 3600 * 1000
"""A thousand years: far more than anybody means, and no arithmetic on time fails."""


class RetentionRule(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept; with neither, everything is."""

    versions: int | None = None
    age: timedelta | None = None


class Version(msgspec.Struct, frozen=True, kw_only=True):
    """One materialization of an asset, as far as it matters here. `stored` is: its data is here."""

    materialization_id: str
    partition_key: str | None
    created_at: datetime
    created_seq: int
    stored: bool = True
    promoted: bool = True
    gate: Gate = Gate.PROMOTED
    decided_at: datetime | None = None
    expired: bool = False

    @property
    def undecided(self) -> bool:
        """Whether it waits in quarantine."""
        return self.gate is Gate.QUARANTINED and self.decided_at is None

    @property
    def settled_at(self) -> datetime:
        """When it became what it is."""
        return self.created_at if self.decided_at is None else self.decided_at


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """What holds for every asset: the time, and what must not be touched yet.

    `handed_since` is when the oldest task that still runs was dispatched; None if none runs.
    """

    present: datetime
    least_age: timedelta
    handed_since: datetime | None = None


def rule_of(versions: int | None, age_ms: int | None) -> RetentionRule | None:
    """The rule that an asset's row holds; None if everything is kept."""
    if versions is None and age_ms is None:
        return None
    age = None if age_ms is None else timedelta(milliseconds=age_ms)
    return RetentionRule(versions=versions, age=age)


def expired(versions: Iterable[Version], rule: RetentionRule, bounds: Bounds) -> list[str]:
    """The ids of one asset's outputs that are no longer kept, oldest first."""
    groups: dict[str | None, list[Version]] = {}
    for version in versions:
        if not version.expired:
            groups.setdefault(version.partition_key, []).append(version)
    found = [version for group in groups.values() for version in _expired_of(group, rule, bounds)]
    found.sort(key=lambda version: (version.created_seq, version.materialization_id))
    return [version.materialization_id for version in found]


def _expired_of(group: Sequence[Version], rule: RetentionRule, bounds: Bounds) -> list[Version]:
    """What is no longer kept of one partition."""
    if rule.versions is None and rule.age is None:
        return []
    kept_from = _last_versions_from(group, rule)
    if bounds.handed_since is not None:
        kept_from = min(kept_from, _handed_from(group, bounds.handed_since))
    settled_before = bounds.present - bounds.least_age
    made_before = bounds.present if rule.age is None else bounds.present - rule.age
    return [
        version
        for version in group
        if version.stored
        and not version.undecided
        and not (version.promoted and version.created_seq >= kept_from)
        and version.settled_at <= settled_before
        and version.created_at <= made_before
    ]


def _last_versions_from(group: Sequence[Version], rule: RetentionRule) -> int:
    """The place in the ledger from which on the rule keeps versions for their number."""
    places = sorted((version.created_seq for version in group if version.promoted), reverse=True)
    count = 1 if rule.versions is None else max(rule.versions, 1)
    return places[min(count, len(places)) - 1] if places else 0


def _handed_from(group: Sequence[Version], since: datetime) -> int:
    """The place from which on a version may have been handed to a task that still runs.

    The newest version of the time before the oldest task was dispatched, and all later ones. What
    was in quarantine may have been let out later than that, so it does not tell where to begin.
    """
    before = (
        version.created_seq
        for version in group
        if version.created_at < since and version.promoted and version.gate is not Gate.QUARANTINED
    )
    return max(before, default=0)
