"""Partitions definitions: how an asset is divided into partitions.

    regions = StaticPartitionsDefinition(["eu", "us"])
    customers = DynamicPartitionsDefinition(name="customers")
    both = MultiPartitionsDefinition({"region": regions, "day": DailyPartitionsDefinition(...)})

A definition is an immutable value, validated when it is created; two that partition in the same way
are equal. Users see keys as plain strings; `typed_key` is the identity under which a partition is
stored (see `servo.core.partitions`).
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import product
from typing import Any, NamedTuple, Never

import msgspec

from servo.core.partitions import (
    DEFAULT_DIMENSION,
    MAX_DIMENSIONS,
    PartitionKey,
    Scalar,
    ValueType,
)
from servo.errors import Invalid
from servo.sdk.partitions.space import KeyListing, ListSpace, PartitionSpace, ProductSpace

SEPARATOR = "|"
"""The separator between the dimensions of a key, as users see it."""

_BRIEF = 200


class PartitionKeyRange(NamedTuple):
    """The partitions from `start` to `end`, both included; with several dimensions, in each."""

    start: str
    end: str


class PartitionsDefinition:
    """The base class of time-based, static, dynamic and multi-dimensional partitions."""

    __slots__ = ("_fields", "_kept")

    _fields: Any
    _kept: Any

    def __init__(self, fields: msgspec.Struct) -> None:
        object.__setattr__(self, "_fields", fields)

    def __setattr__(self, name: str, value: Any) -> Never:
        raise AttributeError(f"{type(self).__name__} is immutable; create another one")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PartitionsDefinition) and self._fields == other._fields

    def __hash__(self) -> int:
        return hash(self._fields)

    def __reduce__(self) -> Any:
        return _restored, (type(self), self._fields)

    def __repr__(self) -> str:
        shown = [
            f"{name}={str(value) if isinstance(value, datetime) else value!r}"
            for name, value in msgspec.structs.asdict(self._fields).items()
            if value not in (None, (), 0)
        ]
        return f"{type(self).__name__}({', '.join(shown)})"

    def __str__(self) -> str:
        """Like `repr`, but short: for messages."""
        whole = repr(self)
        return whole if len(whole) <= _BRIEF else f"{whole[: _BRIEF - 2]}…)"

    def get_partition_keys(
        self, current_time: datetime | None = None, dynamic_partitions_store: Any = None
    ) -> list[str]:
        """All partition keys at a time, in order."""
        raise NotImplementedError

    def typed_value(self, key: str) -> Scalar:
        """The stored value of a key."""
        raise NotImplementedError

    def space(
        self, current_time: datetime | None = None, dynamic_partitions_store: Any = None
    ) -> PartitionSpace:
        """The partitions at a time, by key and by number."""
        keys = self.get_partition_keys(current_time, dynamic_partitions_store)
        return ListSpace(KeyListing.of(keys), self, self.typed_key)

    def has_partition_key(
        self,
        partition_key: str,
        current_time: datetime | None = None,
        dynamic_partitions_store: Any = None,
    ) -> bool:
        """Whether the partition exists at a time."""
        return partition_key in self.space(current_time, dynamic_partitions_store)

    def validate_partition_key(
        self,
        partition_key: str,
        current_time: datetime | None = None,
        dynamic_partitions_store: Any = None,
    ) -> None:
        """Raise `NotFound` if the partition does not exist."""
        _ = self.space(current_time, dynamic_partitions_store).number(partition_key)

    def get_first_partition_key(
        self, current_time: datetime | None = None, dynamic_partitions_store: Any = None
    ) -> str | None:
        """The first key, if there is any."""
        space = self.space(current_time, dynamic_partitions_store)
        return space.key(0) if space.count else None

    def get_last_partition_key(
        self, current_time: datetime | None = None, dynamic_partitions_store: Any = None
    ) -> str | None:
        """The last key, if there is any."""
        space = self.space(current_time, dynamic_partitions_store)
        return space.key(space.count - 1) if space.count else None

    def get_num_partitions(
        self, current_time: datetime | None = None, dynamic_partitions_store: Any = None
    ) -> int:
        """The number of partitions at a time."""
        return self.space(current_time, dynamic_partitions_store).count

    def get_partition_keys_in_range(
        self,
        partition_key_range: PartitionKeyRange,
        current_time: datetime | None = None,
        dynamic_partitions_store: Any = None,
    ) -> list[str]:
        """The keys in a range; `Invalid` if its end comes before its start.

        With several dimensions the range applies to each: from `1|a` to `2|b` there are four keys.
        """
        space = self.space(current_time, dynamic_partitions_store)
        return list(space.keys_of(space.between(*partition_key_range)))

    def dimensions(self) -> dict[str, "PartitionsDefinition"]:
        """The definition of each dimension by name; a single dimension is called `partition`."""
        return {"partition": self}

    def typed_key(self, key: str) -> PartitionKey:
        """The identity under which a partition is stored."""
        return PartitionKey.of({DEFAULT_DIMENSION: self.typed_value(key)})

    def plain_value(self, value: Scalar) -> str:
        """The key for a stored value, as users write it."""
        return str(value)

    def plain_key(self, typed: str) -> str:
        """The key for a stored identity; `Invalid` if it does not belong to this definition."""
        values = PartitionKey.parse(typed).values()
        if list(values) != [DEFAULT_DIMENSION]:
            raise Invalid(f"{typed} is not a key of {self}", remedy="use one of its partition keys")
        return self.plain_value(values[DEFAULT_DIMENSION])

    def value_type(self) -> ValueType:
        """The type of the stored values."""
        return ValueType.STRING


class _Static(msgspec.Struct, frozen=True):
    partition_keys: tuple[str, ...]


class StaticPartitionsDefinition(PartitionsDefinition):
    """A fixed list of partition keys.

    @asset(partitions_def=StaticPartitionsDefinition(["eu", "us"]))
    def orders(context):
        return fetch(region=context.partition_key)
    """

    __slots__ = ()

    _fields: _Static

    def __init__(self, partition_keys: Iterable[str]) -> None:
        what = "StaticPartitionsDefinition"
        super().__init__(_Static(checked_keys(partition_keys, what=what, empty=False)))

    def get_partition_keys(
        self, current_time: datetime | None = None, dynamic_partitions_store: Any = None
    ) -> list[str]:
        """The keys, in the given order."""
        del current_time, dynamic_partitions_store
        return list(self._fields.partition_keys)

    def space(
        self, current_time: datetime | None = None, dynamic_partitions_store: Any = None
    ) -> PartitionSpace:
        """The keys and their positions in the list."""
        del current_time, dynamic_partitions_store
        listing = getattr(self, "_kept", None)
        if listing is None:
            listing = KeyListing.of(self._fields.partition_keys)
            object.__setattr__(self, "_kept", listing)
        return ListSpace(listing, self, self.typed_key)

    def typed_value(self, key: str) -> Scalar:
        """The key itself."""
        return key


class AddDynamicPartitionsRequest(msgspec.Struct, frozen=True):
    """A request of a sensor to add keys to dynamic partitions."""

    partitions_def_name: str
    partition_keys: Sequence[str]


class DeleteDynamicPartitionsRequest(msgspec.Struct, frozen=True):
    """A request of a sensor to delete keys from dynamic partitions."""

    partitions_def_name: str
    partition_keys: Sequence[str]


class _Dynamic(msgspec.Struct, frozen=True):
    name: str


class DynamicPartitionsDefinition(PartitionsDefinition):
    """Partitions whose keys are added and deleted at run time.

        customers = DynamicPartitionsDefinition(name="customers")

    Add keys with `servo partitions add`, `instance.add_dynamic_partitions`, or from a sensor with
    `build_add_request`. Assets with the same name share the keys.
    """

    __slots__ = ()

    _fields: _Dynamic

    def __init__(self, partition_fn: Any = None, name: str | None = None) -> None:
        if partition_fn is not None or not isinstance(name, str) or not name:
            raise Invalid(
                "DynamicPartitionsDefinition needs a name",
                remedy="pass name=…; a partition function is not supported",
            )
        _ = PartitionKey.single(name)  # checks that the name can be stored, like a key
        super().__init__(_Dynamic(name))

    @property
    def name(self) -> str:
        """The name of the set of keys, which several assets may share."""
        return self._fields.name

    def get_partition_keys(
        self, current_time: datetime | None = None, dynamic_partitions_store: Any = None
    ) -> list[str]:
        """The keys stored in `dynamic_partitions_store` (`context.instance`)."""
        del current_time
        if dynamic_partitions_store is None:
            raise Invalid(
                f"the keys of the dynamic partitions {self.name!r} are stored in the workspace",
                remedy="pass dynamic_partitions_store=context.instance",
            )
        return list(dynamic_partitions_store.get_dynamic_partitions(self.name))

    def typed_value(self, key: str) -> Scalar:
        """The key itself."""
        return key

    def build_add_request(self, partition_keys: Iterable[str]) -> AddDynamicPartitionsRequest:
        """The request to add keys, for the result of a sensor."""
        keys = checked_keys(partition_keys, what=f"partitions {self.name}")
        return AddDynamicPartitionsRequest(self.name, keys)

    def build_delete_request(self, partition_keys: Iterable[str]) -> DeleteDynamicPartitionsRequest:
        """The request to delete keys, for the result of a sensor."""
        keys = checked_keys(partition_keys, what=f"partitions {self.name}")
        return DeleteDynamicPartitionsRequest(self.name, keys)


class MultiPartitionKey(str):
    """The key of a partition with several dimensions: a string with `keys_by_dimension`."""

    __slots__ = ("keys_by_dimension",)

    keys_by_dimension: Mapping[str, str]

    def __new__(cls, keys_by_dimension: Mapping[str, str]) -> "MultiPartitionKey":
        """The key with these parts, joined in the order of the dimension names."""
        names = sorted(keys_by_dimension)
        made = super().__new__(cls, SEPARATOR.join(keys_by_dimension[name] for name in names))
        made.keys_by_dimension = {name: keys_by_dimension[name] for name in names}
        return made

    def __getnewargs__(self) -> tuple[Mapping[str, str]]:  # pyright: ignore[reportIncompatibleMethodOverride] - pickled by its parts, not as a string
        return (self.keys_by_dimension,)


class _Multi(msgspec.Struct, frozen=True):
    parts: tuple[tuple[str, PartitionsDefinition], ...]


class MultiPartitionsDefinition(PartitionsDefinition):
    """Partitions with several dimensions: every combination of their keys.

        MultiPartitionsDefinition({
            "day": DailyPartitionsDefinition(start_date="2026-01-01"),
            "region": StaticPartitionsDefinition(["eu", "us"]),
        })

    A key joins the parts in the order of the dimension names: `2026-01-01|eu`.
    """

    __slots__ = ()

    _fields: _Multi

    def __init__(self, partitions_defs: Mapping[str, PartitionsDefinition]) -> None:
        if not 1 < len(partitions_defs) <= MAX_DIMENSIONS:
            raise Invalid(
                f"MultiPartitionsDefinition has {len(partitions_defs)} dimensions",
                remedy=f"use 2 to {MAX_DIMENSIONS} dimensions",
            )
        for name, definition in partitions_defs.items():
            _ = PartitionKey.single(None, dimension=name)  # rejects a name that cannot be stored
            _check_dimension(name, definition)
        super().__init__(_Multi(tuple(sorted(partitions_defs.items(), key=lambda item: item[0]))))

    @property
    def partitions_defs(self) -> dict[str, PartitionsDefinition]:
        """The definition of each dimension, by name."""
        return dict(self._fields.parts)

    def dimensions(self) -> dict[str, PartitionsDefinition]:
        """The definition of each dimension, by name."""
        return dict(self._fields.parts)

    def get_partition_keys(
        self, current_time: datetime | None = None, dynamic_partitions_store: Any = None
    ) -> list[str]:
        """Every combination of keys, sorted by dimension name."""
        names = [name for name, _ in self._fields.parts]
        keys = [
            definition.get_partition_keys(current_time, dynamic_partitions_store)
            for _, definition in self._fields.parts
        ]
        return [MultiPartitionKey(dict(zip(names, found, strict=True))) for found in product(*keys)]

    def space(
        self, current_time: datetime | None = None, dynamic_partitions_store: Any = None
    ) -> ProductSpace:
        """Every combination, by the numbers of its parts."""
        parts = {
            name: definition.space(current_time, dynamic_partitions_store)
            for name, definition in self._fields.parts
        }
        return ProductSpace(parts, self, join=MultiPartitionKey, split=self._parts_of)

    @staticmethod
    def join(parts: Mapping[str, str]) -> MultiPartitionKey:
        """The key with these parts."""
        return MultiPartitionKey(parts)

    def _parts_of(self, key: str) -> Mapping[str, str] | None:
        try:
            return self.split(key).keys_by_dimension
        except Invalid:
            return None

    def split(self, key: str) -> MultiPartitionKey:
        """The key of this string, with its parts."""
        if isinstance(key, MultiPartitionKey):
            parts = dict(key.keys_by_dimension)
        else:
            parts = dict(
                zip((n for n, _ in self._fields.parts), key.split(SEPARATOR), strict=False)
            )
        if set(parts) != {name for name, _ in self._fields.parts} or SEPARATOR.join(
            parts.values()
        ) != str(key):
            example = SEPARATOR.join(f"<{name}>" for name, _ in self._fields.parts)
            raise Invalid(f"{key!r} is not a key of {self}", remedy=f"write it like {example}")
        return MultiPartitionKey(parts)

    def typed_value(self, key: str) -> Scalar:
        """Not supported: a key has several values, see `typed_key`."""
        raise Invalid(f"{key!r} is a key with several dimensions", remedy="use typed_key")

    def typed_key(self, key: str) -> PartitionKey:
        """The identity under which a partition is stored, with each dimension by name."""
        parts = self.split(key).keys_by_dimension
        return PartitionKey.of({n: d.typed_value(parts[n]) for n, d in self._fields.parts})

    def plain_key(self, typed: str) -> str:
        """The key for a stored identity; `Invalid` if it does not belong to this definition."""
        values = PartitionKey.parse(typed).values()
        if list(values) != [name for name, _ in self._fields.parts]:
            raise Invalid(f"{typed} is not a key of {self}", remedy="use one of its partition keys")
        return MultiPartitionKey({n: d.plain_value(values[n]) for n, d in self._fields.parts})


def _restored(kind: type[PartitionsDefinition], fields: Any) -> PartitionsDefinition:
    made = kind.__new__(kind)
    object.__setattr__(made, "_fields", fields)
    return made


def checked_keys(keys: Any, *, what: str, empty: bool = True) -> tuple[str, ...]:
    """Check that keys can be stored, and that none is repeated."""
    if isinstance(keys, str) or not isinstance(keys, Iterable):
        raise Invalid(
            f"{what}: the keys are {keys!r}", remedy='pass a list of strings, such as ["eu", "us"]'
        )
    found: list[Any] = list(keys)  # pyright: ignore[reportUnknownArgumentType] - checked next
    for key in found:
        if not isinstance(key, str) or not key or SEPARATOR in key:
            raise Invalid(
                f"{what}: invalid key {key!r}",
                remedy=f"use strings that are not empty and do not contain {SEPARATOR!r}",
            )
        _ = PartitionKey.single(key)
    twice = sorted(key for key, count in Counter(found).items() if count > 1)
    if twice:
        raise Invalid(f"{what}: duplicate keys {', '.join(twice[:5])}", remedy="list each key once")
    if not found and not empty:
        raise Invalid(f"{what} has no keys", remedy="pass at least one key")
    return tuple(found)


def _check_dimension(name: str, definition: Any) -> None:
    if not isinstance(definition, PartitionsDefinition):
        raise Invalid(
            f"the dimension {name} is {definition!r}", remedy="use a PartitionsDefinition"
        )
    if isinstance(definition, MultiPartitionsDefinition):
        raise Invalid(
            f"the dimension {name} is a MultiPartitionsDefinition itself",
            remedy="list its dimensions here instead",
        )
    if SEPARATOR in getattr(definition, "fmt", ""):
        raise Invalid(
            f"the keys of the dimension {name} contain {SEPARATOR!r}, which separates dimensions",
            remedy="use a fmt without it",
        )
