"""The number of the partition of each row of an asset, and columns in that order.

Stored keys are strings. Time keys are parsed as a column, and numbered by the ranges in which
windows follow each other regularly; listed keys are looked up all at once; keys of several
dimensions are split into columns, and numbered by the distinct values of each dimension.
"""

from binascii import b2a_base64
from functools import cached_property
from typing import Any

from servo.core.partitions import DEFAULT_DIMENSION, PartitionKey, ValueType
from servo.projection.files.arrow import ArrowColumn, pa, pc
from servo.projection.partitions.columns import counting, flat, is_counting, repeated
from servo.sdk.partitions.definition import PartitionsDefinition
from servo.sdk.partitions.space import PartitionSpace, ProductSpace
from servo.sdk.partitions.time_space import TimeSpace

_MICRO = 1_000_000
_DAY = 86_400
_COMMA = ","
_DATE_LENGTH = len("2024-01-31")
_TIME_LENGTH = len("2024-01-31T12:30:00.000000")


class RowPlaces:
    """The partition of each row of an asset: `numbers` below `count`, null for none."""

    def __init__(self, keys: ArrowColumn, numbers: ArrowColumn, count: int) -> None:
        self.count = count
        self.numbers = flat(numbers)
        self._keys = keys
        self._in_a_row = is_counting(self.numbers)

    @classmethod
    def of(
        cls, keys: ArrowColumn, definition: PartitionsDefinition, space: PartitionSpace
    ) -> "RowPlaces":
        """The places of the stored keys of an asset with this partitions_def."""
        return cls(keys, _numbered(keys, DEFAULT_DIMENSION, definition, space), space.count)

    def outside(self) -> list[str]:
        """The sorted keys of rows that belong to no existing partition."""
        if not self.numbers.null_count:
            return []
        return sorted(self._keys.filter(pc.is_null(self.numbers)).to_pylist())

    def spread(self, column: ArrowColumn, nothing: object) -> ArrowColumn:
        """A column of rows by the numbers of the partitions, `nothing` where there is no row."""
        column = flat(column)
        if column.null_count:
            column = pc.fill_null(column, nothing)
        if not len(column):
            return repeated(nothing, self.count, column)
        if self._in_a_row:
            first = self.numbers[0].as_py()
            before = repeated(nothing, first, column)
            after = repeated(nothing, self.count - first - len(column), column)
            return pa.concat_arrays([before, column, after])
        return pc.fill_null(column.take(self._rows), nothing)

    @cached_property
    def _rows(self) -> ArrowColumn:
        """The row of every partition, null if there is none."""
        return pc.index_in(counting(self.count), value_set=self.numbers, skip_nulls=True)


def _numbered(
    keys: ArrowColumn, name: str, definition: PartitionsDefinition, space: PartitionSpace
) -> ArrowColumn:
    """The number of the partition of every key, null if there is none."""
    if isinstance(space, ProductSpace):
        return _combined(keys, definition, space)
    if isinstance(space, TimeSpace):
        return _timed(keys, name, space)
    return pc.index_in(keys, value_set=_texts(name, definition, space)).cast(pa.int64())


# --- listed ---------------------------------------------------------------------------------------


def _texts(name: str, definition: PartitionsDefinition, space: PartitionSpace) -> ArrowColumn:
    """The stored keys of partitions that are listed, in order."""
    if definition.value_type() is not ValueType.STRING:
        values = map(definition.typed_value, space.keys())
        strings = [PartitionKey.single(value, name).canonical() for value in values]
        return pa.array(strings, pa.string())
    # As `PartitionKey` writes a string, which would take ten times as long.
    keys = [key.encode() for key in space.keys(0)]
    encoded = pa.array([b2a_base64(key, newline=False).decode() for key in keys], pa.string())
    encoded = pc.replace_substring(encoded, "+", "-")
    encoded = pc.utf8_rtrim(pc.replace_substring(encoded, "/", "_"), "=")
    return pc.binary_join_element_wise(f"{name}=s:", encoded, "")


# --- several dimensions ---------------------------------------------------------------------------


def _combined(
    keys: ArrowColumn, definition: PartitionsDefinition, space: ProductSpace
) -> ArrowColumn:
    """By the numbers of the parts, of which there are fewer than combinations."""
    parts = pc.split_pattern(flat(keys), _COMMA)
    whole = pc.equal(pc.list_value_length(parts), len(space.parts))
    total = repeated(0, len(keys), pa.array([0]))
    parts = pc.if_else(whole, parts, pa.scalar([""] * len(space.parts), parts.type))
    for place, (name, one) in enumerate(definition.dimensions().items()):
        strings = pc.list_element(parts, place).dictionary_encode()
        digits = _numbered(strings.dictionary, name, one, space.parts[name]).take(strings.indices)
        total = pc.add(total, pc.multiply(digits, space.weights[name]))
    return total


# --- windows of time ------------------------------------------------------------------------------


def _timed(keys: ArrowColumn, name: str, space: TimeSpace) -> ArrowColumn:
    """In the order of time, whatever the order of the rows is."""
    instants = flat(_instants(keys, f"{name}={space.definition.value_type()}:", space))
    order = None
    if instants.null_count or not _is_sorted(instants):
        order = pc.sort_indices(instants)
        instants = instants.take(order)
    numbers = _by_stretches(instants, space)
    return numbers if order is None else numbers.take(pc.sort_indices(order))


def _is_sorted(column: ArrowColumn) -> bool:
    pairs = pc.less(column.slice(0, max(len(column) - 1, 0)), column.slice(1))
    return pc.all(pairs, min_count=0).as_py()


def _instants(keys: ArrowColumn, tag: str, space: TimeSpace) -> ArrowColumn:
    """What keys stand for in microseconds since 1970; null for what is no such time."""
    dated = space.definition.value_type() is ValueType.DATE
    kind = pa.date32() if dated else pa.timestamp("us")
    start, end = len(tag), len(tag) + (_DATE_LENGTH if dated else _TIME_LENGTH)
    alike = pc.and_(
        pc.starts_with(keys, tag),
        pc.equal(pc.binary_length(keys), end + (not dated)),  # an instant ends with a Z
    )
    if not pc.all(alike, min_count=0).as_py():
        keys = pc.if_else(alike, keys, None)
    plain = pc.binary_slice(keys.cast(pa.binary()), start, end)
    try:
        times = plain.cast(pa.string(), safe=False).cast(kind)
    except pa.ArrowInvalid:  # one of them is none: each by itself
        strings = [key and key[start:end] for key in keys.to_pylist()]
        times = pa.array([_time(text, kind) for text in strings], kind)
    if dated:
        days = times.cast(pa.int32()).cast(pa.int64())
        return pc.multiply(days, _DAY * _MICRO)
    return times.cast(pa.int64())


def _time(text: str | None, kind: Any) -> Any:
    try:
        return None if text is None else pa.scalar(text).cast(kind).as_py()
    except pa.ArrowInvalid:
        return None


def _by_stretches(instants: ArrowColumn, space: TimeSpace) -> ArrowColumn:
    """The numbers of instants that are sorted, nulls last."""
    known = len(instants) - instants.null_count
    parts = [pa.nulls(0, pa.int64())]
    row = 0
    while row < known:
        at = instants[row].as_py()
        second, odd = divmod(at, _MICRO)
        number, unit, most = (None, 1, 1) if odd else space.place(second)
        if number is None:
            following = space.following(second)
            stop = known if following is None else _from(instants, following * _MICRO, row, known)
            stop = max(stop, row + 1)
            parts.append(pa.nulls(stop - row, pa.int64()))
        else:
            unit *= _MICRO
            # Up to the last of those that are regular: what is behind it may be nearer.
            stop = _from(instants, at + unit * (most - 1) + 1, row, known)
            since = pc.subtract(instants.slice(row, stop - row), at)
            steps = pc.divide(since, unit)
            exact = pc.equal(pc.multiply(steps, unit), since)
            parts.append(pc.if_else(exact, pc.add(steps, number), pa.scalar(None, pa.int64())))
        row = stop
    return pa.concat_arrays([*parts, pa.nulls(len(instants) - known, pa.int64())])


def _from(instants: ArrowColumn, at: int, low: int, high: int) -> int:
    """The first row from an instant on, among rows that are sorted."""
    while low < high:
        middle = (low + high) // 2
        if instants[middle].as_py() < at:
            low = middle + 1
        else:
            high = middle
    return low
