"""The partitions of a project as conditions are evaluated over them: numbers and their mappings.

A partition keeps its number for as long as its definition stays: those of time are numbered from
the first window on, the others in the order in which they were first seen. `known` is that order
and has to be remembered with the state of the conditions.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from servo.core import bitmaps
from servo.core.automation.spaces import EVERYTHING, SAME, Mapping, Universes
from servo.core.cron import Cron
from servo.sdk.mapping_resolution import Moment, edge_between
from servo.sdk.partition_mapping import (
    AllPartitionMapping,
    IdentityPartitionMapping,
    LastPartitionMapping,
    SpecificPartitionsPartitionMapping,
    TimeWindowPartitionMapping,
)
from servo.sdk.partitions_definition import PartitionsDefinition
from servo.sdk.time_partitions import TimeWindowPartitionsDefinition


class KeySpace:
    """The partitions of a definition at a time, by number."""

    def __init__(
        self, definition: PartitionsDefinition, now: datetime, store: Any, known: Sequence[str]
    ) -> None:
        self.definition = definition
        self.fingerprint = repr(definition)
        self.moment = Moment(now, store)
        there = definition.get_partition_keys(now, store)
        self.keys = tuple(dict.fromkeys((*known, *there)))
        self.there = there
        self.numbers = {key: number for number, key in enumerate(self.keys)}
        self.stored: dict[str, str] = {
            definition.typed_key(key).canonical(): key for key in self.keys
        }

    def universe(self, now: datetime) -> int:
        """Those that there are; as of when the space was made."""
        del now
        return self.bits(self.there)

    def latest(self, now: datetime, lookback: timedelta | None) -> int:
        """Those in the last window of time, or so far back from its end."""
        times = {
            name: one
            for name, one in self.definition.dimensions().items()
            if isinstance(one, TimeWindowPartitionsDefinition)
        }
        found = self.there
        for name, one in times.items():
            late = _late(one, now, lookback)
            found = [key for key in found if _part(self.definition, key, name) in late]
        return self.bits(found)

    def next_change(self, now: datetime) -> datetime | None:
        """When the next window of time is over."""
        times = [
            Cron(one.cron_schedule, one.timezone).next_after(now)
            for one in self.definition.dimensions().values()
            if isinstance(one, TimeWindowPartitionsDefinition)
        ]
        return min((due for due in times if due is not None), default=None)

    def bits(self, keys: Sequence[str]) -> int:
        """A set of keys; those that are unknown are left out."""
        return bitmaps.bitmap(self.numbers[key] for key in keys if key in self.numbers)

    def named(self, bits: int) -> list[str]:
        """The keys of a set that there are."""
        return [key for key in self.there if bits >> self.numbers[key] & 1]

    def bit_of(self, stored: str) -> int:
        """A partition by the text it is stored under; nothing if there is none."""
        key = self.stored.get(stored)
        return 0 if key is None else 1 << self.numbers[key]


class KeyMapping:
    """A mapping of two spaces, as whoever plans would follow it."""

    def __init__(self, above: KeySpace, below: KeySpace, mapping: Any) -> None:
        self.above = above
        self.below = below
        self._edge = edge_between(above.definition, below.definition, mapping, below.moment)
        # Where partitions have the numbers of this moment, sets of them are mapped whole.
        self._whole = all(list(space.keys) == space.there for space in (above, below))

    def downstream(self, bits: int, universes: Universes) -> int:
        """What is made from any of these."""
        if self._whole:
            return self._edge.downstream_bits(bits & universes[0]) & universes[1]
        keys = self.above.named(bits & universes[0])
        found = [key for one in keys for key in self._edge.downstream_of(one)]
        return self.below.bits(found) & universes[1]

    def upstream(self, bits: int, universes: Universes) -> int:
        """What any of these is made from."""
        if self._whole:
            return self._edge.upstream_bits(bits & universes[1]) & universes[0]
        keys = self.below.named(bits & universes[1])
        found = [key for one in keys for key in self._edge.upstream_of(one).keys]
        return self.above.bits(found) & universes[0]


def mapping_between(above: Any, below: Any, mapping: Any) -> Mapping:
    """How the partitions of two assets belong together; None is an asset without any."""
    if not isinstance(above, KeySpace) or not isinstance(below, KeySpace):
        partial = isinstance(mapping, LastPartitionMapping | SpecificPartitionsPartitionMapping)
        return _Few(above, mapping) if isinstance(above, KeySpace) and partial else EVERYTHING
    if is_same(above, below, mapping):
        return SAME
    if isinstance(mapping, AllPartitionMapping):
        return EVERYTHING
    return KeyMapping(above, below, mapping)


def is_same(above: KeySpace, below: KeySpace, mapping: Any) -> bool:
    """Whether every partition is made from the one of the same key."""
    plain = mapping is None or isinstance(mapping, IdentityPartitionMapping)
    plain = plain or mapping == TimeWindowPartitionMapping()
    return plain and above.definition == below.definition and above.keys == below.keys


class _Few:
    """An asset without partitions that is made from some partitions of another."""

    def __init__(self, above: KeySpace, mapping: Any) -> None:
        last = isinstance(mapping, LastPartitionMapping)
        self._bits = above.bits(above.there[-1:] if last else list(mapping.partition_keys))

    def downstream(self, bits: int, universes: Universes) -> int:
        """The asset, if one of them is in it."""
        return universes[1] if bits & self._bits else 0

    def upstream(self, bits: int, universes: Universes) -> int:
        """Those partitions."""
        return self._bits & universes[0] if bits else 0


def _late(
    definition: TimeWindowPartitionsDefinition, now: datetime, lookback: timedelta | None
) -> set[str]:
    windows = definition.time_windows(now)
    if not windows:
        return set()
    since = windows[-1].start if lookback is None else windows[-1].end - lookback
    return {definition.key_at(window.start) for window in windows if window.start >= since}


def _part(definition: PartitionsDefinition, key: str, dimension: str) -> str:
    """The key of one dimension."""
    split = getattr(definition, "split", None)
    return key if split is None else split(key).keys_by_dimension[dimension]
