"""Which partitions of an asset a partition of another is made from, and how many at a time.

Without a mapping, equal keys belong together, and windows of time that overlap; an asset without
partitions is made from all of them. A mapping says otherwise:

    AssetDep("events", partition_mapping=TimeWindowPartitionMapping(start_offset=-1))

A mapping of your own is a class with a method `upstream_keys`. What mappings mean for keys is in
`servo.sdk.partitions.mapping_resolution`.
"""

from collections.abc import Iterable, Mapping
from typing import Any, cast

import msgspec

from servo.errors import Invalid
from servo.sdk.partitions.definition import checked_keys


class PartitionMapping(msgspec.Struct, frozen=True):
    """Which upstream partitions a partition is made from."""

    @property
    def description(self) -> str:
        """What it does, for people."""
        return (type(self).__doc__ or "").partition("\n")[0]

    def upstream_keys(self, key: str, upstream: Any, downstream: Any) -> Iterable[str]:
        """The upstream keys that the partition `key` is made from, for a mapping of your own.

        `upstream` and `downstream` are the definitions of both sides. What you name and what does
        not exist is told to whoever asks for the partition.
        """
        raise NotImplementedError

    def downstream_keys(self, key: str, upstream: Any, downstream: Any) -> Iterable[str]:
        """The keys that are made from the upstream partition `key`.

        It must agree with `upstream_keys`. Where it is left out, that is asked of every partition.
        """
        raise NotImplementedError


class IdentityPartitionMapping(PartitionMapping, frozen=True):
    """The partition of the same key."""


class AllPartitionMapping(PartitionMapping, frozen=True):
    """All partitions."""


class LastPartitionMapping(PartitionMapping, frozen=True):
    """The last partition."""


class SpecificPartitionsPartitionMapping(PartitionMapping, frozen=True):
    """The partitions that are listed, always."""

    partition_keys: Iterable[str]

    def __post_init__(self) -> None:
        keys = checked_keys(self.partition_keys, what=type(self).__name__, empty=False)
        msgspec.structs.force_setattr(self, "partition_keys", keys)


class TimeWindowPartitionMapping(PartitionMapping, frozen=True):
    """The windows that overlap, from `start_offset` windows earlier to `end_offset` later."""

    start_offset: int = 0
    end_offset: int = 0
    allow_nonexistent_upstream_partitions: bool = False

    def __post_init__(self) -> None:
        for name in ("start_offset", "end_offset"):
            value: Any = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int):
                raise Invalid(f"{name} is {value!r}", remedy="use a whole number of windows")


class StaticPartitionMapping(PartitionMapping, frozen=True):
    """Written out: for each upstream key, the key or the keys that are made from it."""

    downstream_partition_keys_by_upstream_partition_key: Mapping[str, Any]

    def __post_init__(self) -> None:
        what = type(self).__name__
        given: Any = self.downstream_partition_keys_by_upstream_partition_key
        if not isinstance(given, Mapping):
            raise Invalid(f"{what} got {given!r}", remedy='pass a dict: {"upstream": "downstream"}')
        pairs = cast("Mapping[str, Any]", given)
        _ = checked_keys(pairs, what=what)
        held = {
            key: checked_keys([made] if isinstance(made, str) else made, what=what)
            for key, made in pairs.items()
        }
        name = "downstream_partition_keys_by_upstream_partition_key"
        msgspec.structs.force_setattr(self, name, held)

    def __hash__(self) -> int:
        return hash(tuple(self.downstream_partition_keys_by_upstream_partition_key.items()))


class DimensionPartitionMapping(msgspec.Struct, frozen=True):
    """How one dimension upstream maps to the one that is named here."""

    dimension_name: str
    partition_mapping: PartitionMapping

    def __post_init__(self) -> None:
        _ = checked_mapping(self.partition_mapping, what=f"the dimension {self.dimension_name}")


class MultiPartitionMapping(PartitionMapping, frozen=True):
    """For each dimension upstream, which dimension it maps to, and how; all others to all."""

    downstream_mappings_by_upstream_dimension: Mapping[str, DimensionPartitionMapping]

    def __post_init__(self) -> None:
        for name, mapped in dict(self.downstream_mappings_by_upstream_dimension).items():
            _check_mapped(name, mapped)

    def __hash__(self) -> int:
        return hash(tuple(self.downstream_mappings_by_upstream_dimension.items()))


class MultiToSingleDimensionPartitionMapping(PartitionMapping, frozen=True):
    """Between partitions in several dimensions and those of one of them."""

    partition_dimension_name: str | None = None


class BackfillPolicy(msgspec.Struct, frozen=True):
    """How many partitions one run makes: all of them, or at most so many."""

    max_partitions_per_run: int | None = 1

    def __post_init__(self) -> None:
        most: Any = self.max_partitions_per_run
        if most is not None and (isinstance(most, bool) or not isinstance(most, int) or most < 1):
            raise Invalid(
                f"max_partitions_per_run is {most!r}",
                remedy="use a whole number of at least 1, or BackfillPolicy.single_run()",
            )

    @staticmethod
    def single_run() -> "BackfillPolicy":
        """One run makes all partitions."""
        return BackfillPolicy(None)

    @staticmethod
    def multi_run(max_partitions_per_run: int = 1) -> "BackfillPolicy":
        """Each run makes at most so many partitions."""
        return BackfillPolicy(max_partitions_per_run)


def checked_mapping(value: Any, *, what: str) -> PartitionMapping | None:
    """A mapping if it is one, or none."""
    if value is not None and not isinstance(value, PartitionMapping):
        raise Invalid(
            f"{what}: the partition mapping is {value!r}",
            remedy="use a PartitionMapping, such as AllPartitionMapping()",
        )
    return value


def _check_mapped(name: str, mapped: Any) -> None:
    if not isinstance(mapped, DimensionPartitionMapping):
        raise Invalid(
            f"the mapping of the dimension {name} is {mapped!r}",
            remedy="use DimensionPartitionMapping(dimension_name, partition_mapping)",
        )
