"""The partitions of an asset as numbers, and how those of one asset stand to those of another.

A *space* gives each partition of an asset an ordinal that stays its own for as long as the space
keeps its fingerprint, so that a set of partitions is a bitmap. An asset without partitions is the
space with the one ordinal 0. A *mapping* takes a set of partitions along an edge of the graph.
Both are protocols: calendars and lists of keys are other people's; here is what has none.
"""

from datetime import datetime, timedelta
from typing import Protocol

import msgspec

ONE = 1

Universes = tuple[int, int]
"""What there is upstream, and what there is downstream."""


class Space(Protocol):
    """The partitions of an asset, as far as time says which there are."""

    @property
    def fingerprint(self) -> str:
        """What the ordinals mean: another one if any of them means something else."""
        ...

    def moved(self, fingerprint: str, bits: int) -> int | None:
        """A set by the numbers it had under a fingerprint, by those of now; None if unknown."""
        ...

    def universe(self, now: datetime) -> int:
        """The partitions that there are."""
        ...

    def latest(self, now: datetime, lookback: timedelta | None) -> int:
        """Those in the last window of time, or so far back from its end; all without time."""
        ...

    def next_change(self, now: datetime) -> datetime | None:
        """When time next changes what there is, if ever."""
        ...

    def shown(self, bits: int) -> str:
        """The first partitions of a set, as people know them; nothing if they have no keys."""
        ...


class Mapping(Protocol):
    """Which partitions of an asset are made from which of another."""

    def downstream(self, bits: int, universes: Universes) -> int:
        """What is made from any of these upstream partitions."""
        ...

    def upstream(self, bits: int, universes: Universes) -> int:
        """What any of these downstream partitions is made from."""
        ...


class Listed(msgspec.Struct, frozen=True):
    """A space without time: so many partitions, or just the asset."""

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
    """Each from its own: both assets have the same partitions."""

    def downstream(self, bits: int, universes: Universes) -> int:
        """The same ones."""
        return bits & universes[1]

    def upstream(self, bits: int, universes: Universes) -> int:
        """The same ones."""
        return bits & universes[0]


class Everything(msgspec.Struct, frozen=True):
    """Each from all: from a partitioned asset to one without partitions, or the other way."""

    def downstream(self, bits: int, universes: Universes) -> int:
        """All, if there is anything."""
        return universes[1] if bits & universes[0] else 0

    def upstream(self, bits: int, universes: Universes) -> int:
        """All, if there is anything."""
        return universes[0] if bits & universes[1] else 0


UNPARTITIONED = Listed()
SAME = Same()
EVERYTHING = Everything()
