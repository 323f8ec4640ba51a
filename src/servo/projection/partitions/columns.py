"""Arrow columns as sets and lists of partitions, without Python code for each partition.

pyarrow is used without numpy here: what it lacks (counting, a column as a bitmap, axes of a grid)
is built from its other functions.
"""

from collections.abc import Sequence

from servo.core import bitmaps
from servo.projection.files.arrow import ArrowColumn, pa, pc


def flat(column: ArrowColumn) -> ArrowColumn:
    """A column as one contiguous array."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def repeated(value: object, count: int, like: ArrowColumn) -> ArrowColumn:
    """A value so many times, in the type of another column."""
    return pa.repeat(pa.scalar(value, like.type), count)


def counting(count: int) -> ArrowColumn:
    """0, 1, 2 and so on."""
    ones = pa.repeat(pa.scalar(1, pa.int64()), count)
    return pc.subtract(pc.cumulative_sum(ones), 1)


def bits_of(flags: ArrowColumn) -> int:
    """The places at which a column is true."""
    flags = flat(flags)
    if flags.null_count:
        flags = pc.fill_null(flags, False)
    if flags.offset:
        flags = pc.invert(pc.invert(flags))
    if not len(flags):
        return bitmaps.EMPTY
    packed = flags.buffers()[1].to_pybytes()
    return int.from_bytes(packed, "little") & bitmaps.span(0, len(flags))


def stretched(values: ArrowColumn, lengths: Sequence[int]) -> ArrowColumn:
    """Every value as often as the length beside it says."""
    ends = [0]
    for length in lengths:
        ends.append(ends[-1] + length)
    nothing = pa.nulls(ends[-1], pa.bool_())
    lists = pa.LargeListArray.from_arrays(pa.array(ends, pa.int64()), nothing)
    return values.take(pc.list_parent_indices(lists))


def is_counting(numbers: ArrowColumn) -> bool:
    """Whether every number is one more than the one before it, and none is missing."""
    if numbers.null_count:
        return False
    if len(numbers) < 2:
        return True
    steps = pc.subtract(numbers.slice(1), numbers.slice(0, len(numbers) - 1))
    return pc.min_max(steps).as_py() == {"min": 1, "max": 1}


def turned(values: ArrowColumn, sizes: Sequence[int], order: Sequence[int]) -> ArrowColumn:
    """The values of a grid with its axes in another order; the last axis changes fastest."""
    moving = [axis for axis in order if sizes[axis] > 1]
    if moving == sorted(moving):
        return values
    weights = [1] * len(sizes)
    for axis in range(len(sizes) - 2, -1, -1):
        weights[axis] = weights[axis + 1] * sizes[axis + 1]
    rest, source = counting(len(values)), repeated(0, len(values), pa.array([0]))
    for axis in reversed(order):
        left = pc.divide(rest, sizes[axis])
        digit = pc.subtract(rest, pc.multiply(left, sizes[axis]))
        source, rest = pc.add(source, pc.multiply(digit, weights[axis])), left
    return values.take(source)
