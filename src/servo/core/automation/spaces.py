"""The partitions of an asset as numbers, and mappings between the partitions of two assets.

A *space* gives each partition of an asset an ordinal that stays the same as long as the space keeps
its fingerprint, so that a set of partitions is a bitmap. An unpartitioned asset is the space with
the single ordinal 0. A *mapping* maps a set of partitions along an edge of the graph. Both are
protocols: the SDK implements those with calendars and keys; here are the others.
"""

from datetime import datetime, timedelta
from typing import Protocol

import msgspec

ONE = 1

Universes = tuple[int, int]
"""All upstream partitions, and all downstream partitions."""


class Space(Protocol):
    """The partitions of an asset."""

    @property
    def fingerprint(self) -> str:
        """What the ordinals mean: it changes if any of them changes its meaning."""
        ...

    def moved(self, fingerprint: str, bits: int) -> int | None:
        """A set converted from the numbers of an older fingerprint; None if those are unknown."""
        ...

    def universe(self, now: datetime) -> int:
        """The existing partitions."""
        ...

    def latest(self, now: datetime, lookback: timedelta | None) -> int:
        """The partitions in the last time window, or within `lookback` of its end.

        All partitions if they are not time-based.
        """
        ...

    def next_change(self, now: datetime) -> datetime | None:
        """When time next changes the existing partitions, if ever."""
        ...

    def shown(self, bits: int) -> str:
        """The first partitions of a set, for display; empty if they have no keys."""
        ...


class SpaceMapping(Protocol):
    """Which partitions of an asset depend on which of another."""

    def downstream(self, bits: int, universes: Universes) -> int:
        """The downstream partitions of any of these."""
        ...

    def upstream(self, bits: int, universes: Universes) -> int:
        """The upstream partitions of any of these."""
        ...


class Listed(msgspec.Struct, frozen=True):
    """A space without time: a fixed number of partitions, or an unpartitioned asset."""

    count: int = 1
    fingerprint: str = ""

    def moved(self, fingerprint: str, bits: int) -> int | None:
        """The same set, if it is of these partitions."""
        return bits if fingerprint == self.fingerprint else None

    def universe(self, now: datetime) -> int:
        """All of them."""
        del now
        return (1 << self.count) - 1

    def latest(self, now: datetime, lookback: timedelta | None) -> int:
        """All of them: none is later than another."""
        del lookback
        return self.universe(now)

    def next_change(self, now: datetime) -> None:
        """Never."""
        del now

    def shown(self, bits: int) -> str:
        """Nothing: they are but numbers."""
        del bits
        return ""


class Same(msgspec.Struct, frozen=True):
    """Every partition depends on the same one: both assets have the same partitions."""

    def downstream(self, bits: int, universes: Universes) -> int:
        """The same ones."""
        return bits & universes[1]

    def upstream(self, bits: int, universes: Universes) -> int:
        """The same ones."""
        return bits & universes[0]


class Everything(msgspec.Struct, frozen=True):
    """Every partition depends on all, for example if one of the assets is unpartitioned."""

    def downstream(self, bits: int, universes: Universes) -> int:
        """All, if there is any."""
        return universes[1] if bits & universes[0] else 0

    def upstream(self, bits: int, universes: Universes) -> int:
        """All, if there is any."""
        return universes[0] if bits & universes[1] else 0


UNPARTITIONED = Listed()
SAME = Same()
EVERYTHING = Everything()
