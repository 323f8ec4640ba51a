"""The partitions at one time, by key and by number.

    space = definition.space(now, store)
    space.count                    # how many there are
    space.ordinal("2024-01-31")    # 30, or None if there is no such partition
    space.key(30)                  # "2024-01-31"

Partitions are numbered from 0 in the order of `get_partition_keys()`, so a set of them is a bitmap
(`servo.core.bitmaps`). The numbers of time-based and static partitions stay the same when
partitions are added; those of dynamic and multi-dimensional partitions are valid at one time only.
Nothing here iterates over all partitions unless the caller does.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from servo.core import bitmaps
from servo.core.partitions import PartitionKey
from servo.errors import Invalid, NotFound


class PartitionSpace(ABC):
    """The partitions at one time."""

    __slots__ = ("count", "what")

    def __init__(self, count: int, what: object) -> None:
        self.count = count
        self.what = what

    @abstractmethod
    def ordinal(self, key: str) -> int | None:
        """The number of a key; None if there is no such partition."""

    @abstractmethod
    def key(self, ordinal: int) -> str:
        """The key of a number below `count`."""

    @abstractmethod
    def identity(self, ordinal: int) -> PartitionKey:
        """The identity under which the partition of a number is stored."""

    def __contains__(self, key: str) -> bool:
        return self.ordinal(key) is not None

    def number(self, key: str) -> int:
        """The number of a key; `NotFound` if there is no such partition."""
        found = self.ordinal(key)
        if found is None:
            raise NotFound(f"there is no partition {key!r} in {self.what}", remedy=self.remedy())
        return found

    def keys(self, start: int = 0, stop: int | None = None) -> Iterator[str]:
        """The keys of the numbers from `start` up to, but not including, `stop`."""
        return map(self.key, range(start, self.count if stop is None else stop))

    def between(self, start: str, end: str) -> int:
        """The set from one key to another, both included; `Invalid` if the end comes first."""
        first, last = self.number(start), self.number(end)
        if first > last:
            raise Invalid(f"{start!r} comes after {end!r}", remedy="swap the two")
        return bitmaps.span(first, last + 1)

    def bits(self, keys: Iterable[str]) -> int:
        """The set of these keys; `NotFound` names the first that does not exist."""
        return bitmaps.bitmap(self.number(key) for key in keys)

    def keys_of(self, bits: int) -> Iterator[str]:
        """The keys of a set, in order."""
        return map(self.key, bitmaps.numbers(bits))

    @property
    def everything(self) -> int:
        """The set of all partitions."""
        return bitmaps.span(0, self.count)

    def remedy(self) -> str:
        """The available keys, for messages."""
        if not self.count:
            return "it has no partitions at the moment"
        first, last = self.key(0), self.key(self.count - 1)
        return f"available: {first!r}" if first == last else f"available: {first!r} to {last!r}"


class KeyListing(NamedTuple):
    """Keys in order, and the number of each."""

    keys: Sequence[str]
    numbers: Mapping[str, int]

    @classmethod
    def of(cls, keys: Sequence[str]) -> "KeyListing":
        """The listing of these keys."""
        return cls(keys, {key: number for number, key in enumerate(keys)})


class ListSpace(PartitionSpace):
    """Listed partitions; `identify` returns the stored identity of a key."""

    __slots__ = ("_identify", "_listing")

    def __init__(
        self,
        listing: KeyListing,
        what: object,
        identify: Callable[[str], PartitionKey] = PartitionKey.single,
    ) -> None:
        super().__init__(len(listing.keys), what)
        self._listing = listing
        self._identify = identify

    def ordinal(self, key: str) -> int | None:
        """The position of the key in the list."""
        return self._listing.numbers.get(key)

    def key(self, ordinal: int) -> str:
        """The key at a position in the list."""
        return self._listing.keys[ordinal]

    def identity(self, ordinal: int) -> PartitionKey:
        """The stored identity of the partition at a position in the list."""
        return self._identify(self._listing.keys[ordinal])


class ProductSpace(PartitionSpace):
    """Every combination of the partitions of several dimensions; the last varies fastest."""

    __slots__ = ("_join", "_split", "parts", "weights")

    def __init__(
        self,
        parts: Mapping[str, PartitionSpace],
        what: object,
        *,
        join: Callable[[Mapping[str, str]], str],
        split: Callable[[str], Mapping[str, str] | None],
    ) -> None:
        weight, weights = 1, dict[str, int]()
        for name in reversed(list(parts)):
            weights[name] = weight
            weight *= parts[name].count
        super().__init__(weight, what)
        self.parts = parts
        self.weights = weights
        self._join, self._split = join, split

    def ordinal(self, key: str) -> int | None:
        """The number of a combination."""
        found = self._split(key)
        if found is None:
            return None
        total = 0
        for name, space in self.parts.items():
            digit = space.ordinal(found[name])
            if digit is None:
                return None
            total += digit * self.weights[name]
        return total

    def between(self, start: str, end: str) -> int:
        """The set from one key to another in every dimension."""
        _, _ = self.number(start), self.number(end)
        first, last = (self._split(key) or {} for key in (start, end))
        found = [0]
        for name, space in self.parts.items():
            digits = list(bitmaps.numbers(space.between(first[name], last[name])))
            found = [total + digit * self.weights[name] for total in found for digit in digits]
        return bitmaps.bitmap(found)

    def key(self, ordinal: int) -> str:
        """The combination of a number."""
        return self._join({name: self.parts[name].key(d) for name, d in self.digits(ordinal)})

    def identity(self, ordinal: int) -> PartitionKey:
        """The stored identity of a combination: the values of all its parts."""
        parts = {name: self.parts[name].identity(digit) for name, digit in self.digits(ordinal)}
        return PartitionKey.joined(parts)

    def weights_in_order(self) -> Iterable[tuple[str, int]]:
        """How much one step in each dimension adds to the number."""
        return [(name, self.weights[name]) for name in self.parts]

    def digits(self, ordinal: int) -> Iterator[tuple[str, int]]:
        """The number of a combination in each dimension."""
        for name in self.parts:
            digit, ordinal = divmod(ordinal, self.weights[name])
            yield name, digit
