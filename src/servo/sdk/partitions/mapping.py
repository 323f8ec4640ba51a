"""Partition mappings: which upstream partitions a partition depends on; backfill policies.

Without a mapping, equal keys are mapped to each other, as are overlapping time windows; an asset
without partitions depends on all partitions. A mapping overrides this:

    AssetDep("events", partition_mapping=TimeWindowPartitionMapping(start_offset=-1))

A custom mapping is a class with a method `upstream_keys`. `servo.sdk.partitions.mapping_resolution`
resolves mappings for keys.
"""

from collections.abc import Iterable, Mapping
from typing import Any, cast

import msgspec

from servo.errors import Invalid
from servo.sdk.partitions.definition import checked_keys


class PartitionMapping(msgspec.Struct, frozen=True):
    """Which upstream partitions a partition depends on.

        class PreviousKey(PartitionMapping, frozen=True):
            def upstream_keys(self, key, upstream, downstream):
                return [str(int(key) - 1)]

    Pass one to `AssetDep` or `AssetIn`. Subclass it for a custom mapping.
    """

    @property
    def description(self) -> str:
        """What the mapping does, for display."""
        return (type(self).__doc__ or "").partition("\n")[0]

    def upstream_keys(self, key: str, upstream: Any, downstream: Any) -> Iterable[str]:
        """The upstream keys that the partition `key` depends on; define it in a custom mapping.

        `upstream` and `downstream` are the partitions definitions of both sides. Planning fails for
        a key that does not exist.
        """
        raise NotImplementedError

    def downstream_keys(self, key: str, upstream: Any, downstream: Any) -> Iterable[str]:
        """The keys that depend on the upstream partition `key`.

        It must agree with `upstream_keys`. Without it, Servo calls `upstream_keys` for every
        partition.
        """
        raise NotImplementedError


class IdentityPartitionMapping(PartitionMapping, frozen=True):
    """Depend on the upstream partition with the same key."""


class AllPartitionMapping(PartitionMapping, frozen=True):
    """Depend on all upstream partitions."""


class LastPartitionMapping(PartitionMapping, frozen=True):
    """Depend on the last upstream partition."""


class SpecificPartitionsPartitionMapping(PartitionMapping, frozen=True):
    """Depend on the listed upstream partitions."""

    partition_keys: Iterable[str]

    def __post_init__(self) -> None:
        keys = checked_keys(self.partition_keys, what=type(self).__name__, empty=False)
        msgspec.structs.force_setattr(self, "partition_keys", keys)


class TimeWindowPartitionMapping(PartitionMapping, frozen=True):
    """Depend on the upstream time windows that overlap the partition.

        AssetDep("events", partition_mapping=TimeWindowPartitionMapping(start_offset=-1))

    `start_offset` and `end_offset` shift the start and the end by a number of windows: with
    `start_offset=-1`, a day depends on itself and the day before. Set
    `allow_nonexistent_upstream_partitions=True` to accept windows before the first partition.
    """

    start_offset: int = 0
    end_offset: int = 0
    allow_nonexistent_upstream_partitions: bool = False

    def __post_init__(self) -> None:
        for name in ("start_offset", "end_offset"):
            value: Any = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int):
                raise Invalid(f"{name} is {value!r}", remedy="use a whole number of windows")


class StaticPartitionMapping(PartitionMapping, frozen=True):
    """An explicit mapping: for each upstream key, the downstream key or keys that depend on it.

    StaticPartitionMapping({"de": "eu", "fr": "eu", "us": "us"})
    """

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
    """The downstream dimension of an upstream dimension, and the mapping between them."""

    dimension_name: str
    partition_mapping: PartitionMapping

    def __post_init__(self) -> None:
        _ = checked_mapping(self.partition_mapping, what=f"the dimension {self.dimension_name}")


class MultiPartitionMapping(PartitionMapping, frozen=True):
    """A mapping for each upstream dimension; dimensions that are not named depend on all keys.

    MultiPartitionMapping({
        "day": DimensionPartitionMapping("day", TimeWindowPartitionMapping(start_offset=-1)),
    })
    """

    downstream_mappings_by_upstream_dimension: Mapping[str, DimensionPartitionMapping]

    def __post_init__(self) -> None:
        for name, mapped in dict(self.downstream_mappings_by_upstream_dimension).items():
            _check_mapped(name, mapped)

    def __hash__(self) -> int:
        return hash(tuple(self.downstream_mappings_by_upstream_dimension.items()))


class MultiToSingleDimensionPartitionMapping(PartitionMapping, frozen=True):
    """A mapping between several dimensions and a single one of them, in either direction.

    `partition_dimension_name` is required if the dimension is not obvious.
    """

    partition_dimension_name: str | None = None


BuiltInMapping = (
    IdentityPartitionMapping
    | AllPartitionMapping
    | LastPartitionMapping
    | SpecificPartitionsPartitionMapping
    | TimeWindowPartitionMapping
    | StaticPartitionMapping
    | MultiPartitionMapping
    | MultiToSingleDimensionPartitionMapping
)
"""The mappings that Servo defines. Every `match` over them ends in `assert_never`."""


def built_in(mapping: PartitionMapping) -> BuiltInMapping | None:
    """The mapping as one that Servo defines; None if code of the user says what it means."""
    if type(mapping).upstream_keys is not PartitionMapping.upstream_keys:
        return None
    if isinstance(mapping, BuiltInMapping):
        return mapping
    raise Invalid(
        f"{type(mapping).__name__} does not implement upstream_keys",
        remedy="define upstream_keys(self, key, upstream, downstream) in it",
    )


class BackfillPolicy(msgspec.Struct, frozen=True):
    """How many partitions one run materializes.

    @asset(partitions_def=days, backfill_policy=BackfillPolicy.multi_run(30))
    def orders(context):
        return load(context.partition_time_window)
    """

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
        """One run materializes all partitions."""
        return BackfillPolicy(None)

    @staticmethod
    def multi_run(max_partitions_per_run: int = 1) -> "BackfillPolicy":
        """Each run materializes at most this number of partitions."""
        return BackfillPolicy(max_partitions_per_run)


def checked_mapping(value: Any, *, what: str) -> PartitionMapping | None:
    """Check that a value is a partition mapping or None."""
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
