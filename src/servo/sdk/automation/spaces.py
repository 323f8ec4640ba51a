"""The partitions of a project as conditions see them: numbers, and mappings between them.

A condition stores bitmaps over partition numbers, so a partition keeps its number as long as the
fingerprint of its space stays the same. Time windows are numbered from the first, static partitions
by position, and dynamic ones by the number that the workspace assigned to each key: a number is
never reused, so a deleted key leaves a gap.

With several dimensions, those that grow are the most significant digits. The most significant one
can grow without limit; the others have a capacity, which doubles when it is used up. The
fingerprint then includes the old capacity, and numbers based on it are converted (`moved`).

A space is valid at one time: partitions that are added or removed later belong to another space.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cached_property
from hashlib import sha256
from typing import Any

from servo.core import bitmaps
from servo.core.automation.spaces import EVERYTHING, ONE, SAME, SpaceMapping, Universes
from servo.core.cron import Cron
from servo.errors import Invalid
from servo.sdk.partitions.definition import (
    DynamicPartitionsDefinition,
    MultiPartitionKey,
    MultiPartitionsDefinition,
    PartitionsDefinition,
    StaticPartitionsDefinition,
)
from servo.sdk.partitions.mapping import PartitionMapping
from servo.sdk.partitions.mapping_resolution import (
    WHOLE,
    Edge,
    EveryPartition,
    Moment,
    SameKey,
    edge_between,
)
from servo.sdk.partitions.space import PartitionSpace
from servo.sdk.partitions.time_partitions import TimeWindowPartitionsDefinition
from servo.sdk.partitions.time_space import TimeSpace

_LONGEST = 200
_HASHED = 32
_ROOMS = "~"
_LEAST_ROOM = 64
_MOST_SHOWN = 8
_WAY = "2"
"""The version of the numbering of multi-dimensional and dynamic partitions."""


class KeySpace:
    """The partitions of a definition at a time, by number."""

    def __init__(self, definition: PartitionsDefinition, now: datetime, store: Any) -> None:
        self.definition = definition
        self.moment = Moment(now, store)
        self._parts = {
            name: _dimension(one, self.moment) for name, one in definition.dimensions().items()
        }
        slow = [part for part in self._parts.values() if not part.fixed]
        self._slow = sorted(slow, key=lambda part: not isinstance(part, _WindowPart))
        self._rooms = [part.room for part in self._slow[1:]]
        self._fast = [part for part in self._parts.values() if part.fixed]
        self._weight = 1
        for part in self._fast:
            self._weight *= part.count
        self._base = self._told()
        rooms = "x".join(map(str, self._rooms))
        self.fingerprint = f"{self._base}{_ROOMS}{rooms}" if rooms else self._base

    def _told(self) -> str:
        """What the numbers mean; short enough to be stored in every state."""
        plain = all(isinstance(part, _Fixed | _WindowPart) for part in self._parts.values())
        way = "" if plain and len(self._parts) == 1 else _WAY
        parts = (part.told for part in self._parts.values())
        told = " ".join(filter(None, (way, repr(self.definition), *parts)))
        return told if len(told) <= _LONGEST else _digest(told)

    # --- what there is --------------------------------------------------------------------------

    @cached_property
    def everything(self) -> int:
        """All partitions."""
        return self._set({})

    def universe(self, now: datetime) -> int:
        """All partitions, as of the time of the space."""
        del now
        return self.everything

    def latest(self, now: datetime, lookback: timedelta | None) -> int:
        """The partitions in the last time window, or within `lookback` of its end."""
        del now
        late = {
            id(part): part.late(lookback)
            for part in self._parts.values()
            if isinstance(part, _WindowPart)
        }
        return self._set(late) if late else self.everything

    def next_change(self, now: datetime) -> datetime | None:
        """When the next time window ends."""
        times = [
            Cron(one.cron_schedule, one.timezone).next_after(now)
            for one in self.definition.dimensions().values()
            if isinstance(one, TimeWindowPartitionsDefinition)
        ]
        return min((due for due in times if due is not None), default=None)

    @property
    def as_listed(self) -> PartitionSpace | None:
        """The definition's own space, if it has the same numbers."""
        parts = list(self._parts.values())
        slow = [part for part in parts[:1] if not part.fixed]
        if any(isinstance(part, _Numbered) for part in parts) or len(slow) != len(self._slow):
            return None
        return self.moment.space(self.definition)

    # --- from keys to numbers and back ----------------------------------------------------------

    def number(self, key: str) -> int | None:
        """The number of a partition; None if it does not exist."""
        digits: dict[int, int] = {}
        split = self._split(key)
        for name, part in self._parts.items():
            digit = part.digit(split.get(name, ""))
            if digit is None:
                return None
            digits[id(part)] = digit
        return self._joined(digits, self._rooms)

    def key(self, number: int) -> str | None:
        """The key of a number; None if there is no such partition."""
        digits = self._digits(number, self._rooms)
        if digits is None:
            return None
        found = {name: part.name(digits[id(part)]) for name, part in self._parts.items()}
        keys = {name: key for name, key in found.items() if key is not None}
        return self._join(keys) if len(keys) == len(found) else None

    def _joined(self, digits: Mapping[int, int], rooms: Sequence[int]) -> int | None:
        """The number with these digits; None if one exceeds its capacity."""
        number = 0
        for part, room in zip(self._slow, (None, *rooms), strict=False):
            digit = digits[id(part)]
            if room is not None and digit >= room:
                return None
            number = digit if room is None else number * room + digit
        for part in self._fast:
            number = number * part.count + digits[id(part)]
        return number

    def _digits(self, number: int, rooms: Sequence[int]) -> dict[int, int] | None:
        """The digits of a number; None if it is out of range."""
        digits: dict[int, int] = {}
        for part in reversed(self._fast):
            if not part.count:
                return None
            number, digits[id(part)] = divmod(number, part.count)
        for part, room in zip(reversed(self._slow[1:]), reversed(rooms), strict=True):
            number, digits[id(part)] = divmod(number, room)
        for part in self._slow[:1]:
            number, digits[id(part)] = 0, number
        return None if number else digits

    def moved(self, fingerprint: str, bits: int) -> int | None:
        """A set converted from the numbers of an older fingerprint; None if those are unknown."""
        if fingerprint == self.fingerprint:
            return bits
        base, _, told = fingerprint.rpartition(_ROOMS)
        rooms = [int(room) for room in told.split("x") if room.isdecimal()]
        if base != self._base or len(rooms) != len(self._rooms):
            return None
        found = (self._digits(number, rooms) for number in bitmaps.numbers(bits))
        moved = (self._joined(digits, self._rooms) for digits in found if digits is not None)
        return bitmaps.bitmap(number for number in moved if number is not None)

    def bits(self, keys: Iterable[str]) -> int:
        """The set of these keys, without unknown ones."""
        return bitmaps.bitmap(n for key in keys if (n := self.number(key)) is not None)

    def named(self, bits: int) -> list[str]:
        """The keys of a set that exist."""
        found = (self.key(number) for number in bitmaps.numbers(bits))
        return [key for key in found if key is not None]

    def shown(self, bits: int) -> str:
        """The first partitions of a set: time windows as ranges, others by key."""
        found, more = bitmaps.first_ranges(bits, _MOST_SHOWN)
        if isinstance(self.as_listed, TimeSpace):
            pairs = ((self.key(low), self.key(high)) for low, high in found)
            shown = [f"{low}" if low == high else f"{low}…{high}" for low, high in pairs]
        else:
            numbers = [number for low, high in found for number in range(low, high + 1)]
            more = more or len(numbers) > _MOST_SHOWN
            shown = [str(self.key(number)) for number in numbers[:_MOST_SHOWN]]
        return ", ".join([*shown, "…"] if more else shown)

    def place(self, stored: str) -> int | None:
        """The number of a partition by its stored key; None if it does not exist."""
        try:
            return self.number(self.definition.plain_key(stored))
        except (Invalid, ValueError):
            return None

    def bit_of(self, stored: str) -> int:
        """The set of one partition by its stored key; empty if it does not exist."""
        number = self.place(stored)
        return 0 if number is None else 1 << number

    def _split(self, key: str) -> Mapping[str, str]:
        if not isinstance(self.definition, MultiPartitionsDefinition):
            return dict.fromkeys(self._parts, key)
        try:
            return self.definition.split(key).keys_by_dimension
        except Invalid:
            return {}

    def _join(self, keys: Mapping[str, str]) -> str:
        if isinstance(self.definition, MultiPartitionsDefinition):
            return MultiPartitionKey(keys)
        return next(iter(keys.values()))

    # --- sets -----------------------------------------------------------------------------------

    def _set(self, chosen: Mapping[int, range]) -> int:
        """Every combination of the existing, or chosen, partitions of each dimension."""
        size = self._weight
        bits = bitmaps.span(0, size)
        for part in reversed(self._slow):
            bits = _at_each(bits, size, chosen.get(id(part), part.digits))
            size *= part.room
        return bits


# --- one dimension --------------------------------------------------------------------------------


class _Part:
    """The partitions of one dimension; `fixed` if they change only with the definition."""

    fixed = False
    told = ""

    def __init__(self, space: PartitionSpace) -> None:
        self.space = space
        self.count = space.count

    @property
    def digits(self) -> Sequence[int]:
        """The numbers of the existing partitions."""
        return range(self.count)

    @property
    def room(self) -> int:
        """The capacity before others have to be renumbered: a power of two."""
        last = self.digits[-1] if self.digits else 0
        return max(1 << last.bit_length(), _LEAST_ROOM)

    def digit(self, key: str) -> int | None:
        """The number of a key."""
        return self.space.ordinal(key)

    def name(self, digit: int) -> str | None:
        """The key of a number."""
        return self.space.key(digit) if digit < self.count else None


class _Fixed(_Part):
    """Partitions that are listed in the code."""

    fixed = True


class _Listed(_Part):
    """Partitions listed by a custom definition: their numbers are valid for this list only."""

    fixed = True

    def __init__(self, space: PartitionSpace) -> None:
        super().__init__(space)
        self.told = _digest("\n".join(space.keys()))


class _WindowPart(_Part):
    """Time windows."""

    def late(self, lookback: timedelta | None) -> range:
        """The last window, or those that start within `lookback` of its end."""
        count, space = self.count, self.space
        if not count or not isinstance(space, TimeSpace):
            return range(0)
        if lookback is None:
            return range(count - 1, count)
        ends = space.definition.window_at(space.tick(count - 1)).end
        starts = _At(count, lambda number: space.definition.window_at(space.tick(number)).start)
        since = ends - lookback
        return range(bisect_left(starts, since), count)


class _Numbered(_Part):
    """The keys of dynamic partitions, by the number that the workspace assigned to each."""

    def __init__(self, space: PartitionSpace, numbers: Mapping[str, int]) -> None:
        super().__init__(space)
        self._digits = {key: number - 1 for key, number in numbers.items()}
        self._keys = {digit: key for key, digit in self._digits.items()}
        if any(digit < 0 for digit in self._digits.values()):
            # Published before keys had numbers: valid for exactly these keys.
            keys = list(space.keys())
            self._digits = {key: digit for digit, key in enumerate(keys)}
            self._keys = dict(enumerate(keys))
            self.told = _digest("\n".join(keys))

    @property
    def digits(self) -> Sequence[int]:
        """The numbers of the existing keys."""
        return sorted(self._keys)

    def digit(self, key: str) -> int | None:
        """The number of a key."""
        return self._digits.get(key)

    def name(self, digit: int) -> str | None:
        """The key of a number."""
        return self._keys.get(digit)


class _At(Sequence[datetime]):
    """Instants that are computed on demand."""

    def __init__(self, count: int, at: Callable[[int], datetime]) -> None:
        self._count = count
        self._at = at

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: Any) -> Any:
        return self._at(index)


def _dimension(definition: PartitionsDefinition, moment: Moment) -> _Part:
    space = moment.space(definition)
    if isinstance(definition, TimeWindowPartitionsDefinition):
        return _WindowPart(space)
    if isinstance(definition, StaticPartitionsDefinition):
        return _Fixed(space)
    numbers = getattr(moment.store, "dynamic_numbers", None)
    if isinstance(definition, DynamicPartitionsDefinition) and numbers is not None:
        return _Numbered(space, numbers(definition.name))
    return _Listed(space)


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:_HASHED]


# --- several dimensions ---------------------------------------------------------------------------


def _at_each(block: int, size: int, digits: Sequence[int]) -> int:
    """A block of `size` bits at each of these digits."""
    if isinstance(digits, range):
        return _repeated(block, size, len(digits)) << digits.start * size
    places = list(bitmaps.numbers(block))
    return bitmaps.bitmap(digit * size + place for digit in digits for place in places)


def _repeated(block: int, size: int, times: int) -> int:
    """A block repeated a number of times."""
    found = length = 0
    piece, pieces = block, 1
    while times:
        if times & 1:
            found |= piece << length * size
            length += pieces
        times >>= 1
        if times:
            piece |= piece << pieces * size
            pieces *= 2
    return found


# --- mappings -------------------------------------------------------------------------------------


class KeyMapping:
    """A mapping of two assets by the edge that the planner follows; None has no partitions."""

    def __init__(self, above: KeySpace | None, below: KeySpace | None, edge: Edge) -> None:
        self.above = above
        self.below = below
        self._edge = edge
        # If partitions have their definition's own numbers, sets are mapped at once.
        self._whole = all(one is None or one.as_listed is not None for one in (above, below))

    def downstream(self, bits: int, universes: Universes) -> int:
        """The downstream partitions of any of these."""
        if self._whole:
            return self._edge.downstream_bits(bits & universes[0]) & universes[1]
        keys = _named(self.above, bits & universes[0])
        found = [key for one in keys for key in self._edge.downstream_of(one)]
        return _bits(self.below, found) & universes[1]

    def upstream(self, bits: int, universes: Universes) -> int:
        """The upstream partitions of any of these."""
        if self._whole:
            return self._edge.upstream_bits(bits & universes[1]) & universes[0]
        keys = _named(self.below, bits & universes[1])
        found = [key for one in keys for key in self._edge.upstream_of(one).keys]
        return _bits(self.above, found) & universes[0]


def _named(space: KeySpace | None, bits: int) -> list[str]:
    if space is None:
        return [WHOLE] if bits else []
    return space.named(bits)


def _bits(space: KeySpace | None, keys: list[str]) -> int:
    if space is None:
        return ONE if WHOLE in keys else bitmaps.EMPTY
    return space.bits(keys)


def mapping_between(
    above: KeySpace | None, below: KeySpace | None, mapping: PartitionMapping | None
) -> SpaceMapping:
    """The mapping of two assets as the planner resolves it; None has no partitions."""
    divided = below or above
    edge = edge_between(
        above and above.definition,
        below and below.definition,
        mapping,
        divided and divided.moment,
    )
    match edge:
        case SameKey():
            return SAME
        case EveryPartition():
            return EVERYTHING
        case _:
            return KeyMapping(above, below, edge)
