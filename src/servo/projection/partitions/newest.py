"""When the newest upstream partition of each partition was materialized, for all at once.

A mapping that has a rule for all partitions is applied as a whole: the same for all, a shift by a
number of places, ranges, or one dimension after the other. Only other mappings are asked for every
single partition.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from servo.core import bitmaps
from servo.projection.files.arrow import ArrowColumn, pa, pc
from servo.projection.partitions.columns import repeated, stretched, turned
from servo.sdk.partitions.dimension_mapping import Dimensions
from servo.sdk.partitions.mapping_edges import (
    UNDIVIDED,
    Edge,
    EveryPartition,
    Moment,
    Sides,
    Stride,
)
from servo.sdk.partitions.space import PartitionSpace


def newest(edge: Edge, above: ArrowColumn) -> ArrowColumn:
    """The greatest value among the upstream partitions of each partition; 0 if there are none.

    `above` has a value for every upstream partition, by number.
    """
    if edge.constant:
        chosen = edge.upstream_bits(edge.below.everything)
        return repeated(_greatest_of(above, chosen), edge.below.count, above)
    if edge.shift is not None:
        return _shifted(above, *edge.shift, edge.below.count)
    if isinstance(edge, Dimensions) and (axes := _axes(edge)) is not None:
        return _by_axes(axes, above)
    return _by_steps(edge, above)


def _greatest_of(above: ArrowColumn, chosen: int) -> int:
    runs = bitmaps.ranges(chosen)
    found = [pc.max(above.slice(low, high + 1 - low)).as_py() for low, high in runs]
    return max(found, default=0)


def _shifted(above: ArrowColumn, low: int, high: int, count: int) -> ArrowColumn:
    """The greatest of those from `low` to `high` places further, however many these are."""
    low, high = max(low, 1 - count), min(high, len(above) - 1)  # no partition is beyond
    if low > high:
        return repeated(0, count, above)
    width, span = high - low + 1, 1
    level = _moved(above, low, count + width - 1)
    while 2 * span <= width:  # it has the greatest of `span` places from each on
        rest = len(level) - span
        level, span = pc.max_element_wise(level.slice(0, rest), level.slice(span)), 2 * span
    if width == 1:
        return level
    return pc.max_element_wise(level.slice(0, count), level.slice(width - span, count))


def _moved(above: ArrowColumn, offset: int, count: int) -> ArrowColumn:
    """So many places further: what place `n` has is at `n - offset`."""
    before = min(max(-offset, 0), count)
    part = above.slice(min(max(offset, 0), len(above)), count - before)
    after = count - before - len(part)
    return pa.concat_arrays([repeated(0, before, above), part, repeated(0, after, above)])


# --- ranges ---------------------------------------------------------------------------------------


def _by_steps(edge: Edge, above: ArrowColumn) -> ArrowColumn:
    values: list[int] = above.to_pylist()
    steps = edge.steps()
    if steps is None:
        each = (edge.upstream(own).numbers for own in range(edge.below.count))
        found = [max((values[n] for n in numbers), default=0) for numbers in each]
        return pa.array(found, above.type)
    if len(steps) == 0:
        return pa.array([], above.type)
    greatest = pa.array(list(_greatest_in(values, steps)), above.type)
    if len(steps) == edge.below.count:
        return greatest
    return stretched(greatest, [step.length for step in steps])


def _greatest_in(values: Sequence[int], steps: Sequence[Stride]) -> Iterator[int]:
    """The greatest value in the range of each step."""
    if sum(step.stop - step.start for step in steps) <= 2 * len(values) + len(steps):
        return (max(values[step.start : step.stop], default=0) for step in steps)
    return _sliding(values, steps)


def _sliding(values: Sequence[int], steps: Sequence[Stride]) -> Iterator[int]:
    """The same where ranges overlap much: every value is looked at once."""
    held: deque[int] = deque()  # places whose values fall: the first has the greatest
    seen = 0
    for _, start, stop in steps:
        if stop <= start:
            yield 0
            continue
        for at in range(max(seen, start), stop):
            while held and values[held[-1]] <= values[at]:
                _ = held.pop()
            held.append(at)
        seen = max(seen, stop)
        while held[0] < start:
            _ = held.popleft()
        yield values[held[0]]


# --- dimensions -----------------------------------------------------------------------------------


class Axis(NamedTuple):
    """How an upstream dimension maps to one of ours; `below` is its place, None if dropped."""

    edge: Edge
    below: int | None


def _axes(edge: Dimensions) -> list[Axis] | None:
    """The upstream dimensions, and then those of ours that none of them maps to.

    None if two upstream dimensions map to the same one of ours: they are not independent then.
    """
    up, down = (list(grid.parts) for grid in edge.grids)
    paired = {pair.above: (pair, one) for pair, one in edge.pairs}
    places = [pair.below for pair, _ in edge.pairs]
    if len(set(places)) < len(places):
        return None
    above, below = edge.grids
    axes = [
        Axis(paired[name][1], down.index(paired[name][0].below))
        if name in paired
        else Axis(_Whole(above.parts[name], UNDIVIDED), None)
        for name in up
    ]
    alone = [name for name in down if name not in places]
    return axes + [Axis(_Whole(UNDIVIDED, below.parts[name]), down.index(name)) for name in alone]


class _Whole(EveryPartition):
    """A dimension that belongs to all of another, or to none."""

    def __init__(self, above: PartitionSpace, below: PartitionSpace) -> None:
        super().__init__(Sides(None, None, Moment()))
        self.above, self.below = above, below


def _by_axes(axes: Sequence[Axis], values: ArrowColumn) -> ArrowColumn:
    """One axis after the other; a new one begins with one place, one that goes away ends so."""
    sizes = [axis.edge.above.count for axis in axes]
    for place, axis in enumerate(axes):
        values = _along(axis.edge, values, sizes, place)
        sizes[place] = axis.edge.below.count
    gone = [place for place, axis in enumerate(axes) if axis.below is None]
    kept = sorted((axis.below, place) for place, axis in enumerate(axes) if axis.below is not None)
    return turned(values, sizes, [*gone, *(place for _, place in kept)])


def _along(edge: Edge, values: ArrowColumn, sizes: Sequence[int], place: int) -> ArrowColumn:
    """The greatest values along one axis of a grid, which gets another size."""
    if edge.shift == (0, 0) and edge.above.count == edge.below.count:
        return values
    others = [axis for axis in range(len(sizes)) if axis != place]
    lanes = len(values) // sizes[place] if sizes[place] else 0
    if not lanes:
        return repeated(0, _size(sizes, others) * edge.below.count, values)
    after = [*sizes]
    after[place] = edge.below.count
    if lanes <= sizes[place]:
        order = [*others, place]
        values, length = turned(values, sizes, order), sizes[place]
        found = [newest(edge, values.slice(lane * length, length)) for lane in range(lanes)]
    else:
        order = [place, *others]
        values = turned(values, sizes, order)
        slabs = [values.slice(at * lanes, lanes) for at in range(sizes[place])]
        found = _by_slabs(edge, slabs)
    joined = pa.concat_arrays(found) if found else values.slice(0, 0)
    back = [order.index(axis) for axis in range(len(sizes))]
    return turned(joined, [after[axis] for axis in order], back)


def _size(sizes: Sequence[int], chosen: Sequence[int]) -> int:
    total = 1
    for axis in chosen:
        total *= sizes[axis]
    return total


def _by_slabs(edge: Edge, slabs: Sequence[ArrowColumn]) -> list[ArrowColumn]:
    if edge.constant:
        return [_together(edge, slabs, 0)] * edge.below.count if edge.below.count else []
    return [_together(edge, slabs, own) for own in range(edge.below.count)]


def _together(edge: Edge, slabs: Sequence[ArrowColumn], own: int) -> ArrowColumn:
    """The greatest values of those parts of a grid that one place of an axis is made from."""
    chosen = [slabs[number] for number in edge.upstream(own).numbers]
    if not chosen:
        return repeated(0, len(slabs[0]), slabs[0])
    return chosen[0] if len(chosen) == 1 else pc.max_element_wise(*chosen)
