"""The partitions of one asset in columns, as sets by number.

A million rows do not become a million objects: a column is sorted by partition and read as one
large integer.
"""

from collections.abc import Callable, Hashable, Iterator
from functools import cached_property
from types import SimpleNamespace
from typing import Any

from servo.core import bitmaps
from servo.projection.files.arrow import ArrowColumn, ArrowTable, pa, pc
from servo.projection.partitions.columns import bits_of
from servo.projection.partitions.places import RowPlaces
from servo.sdk.automation.spaces import KeySpace
from servo.sdk.partitions.time_space import TimeSpace

_TOLD = (
    "last_materialization_seq",
    "last_materialization_run_id",
    "data_changed_seq",
    "last_observed_at",
)
_FAILED = ("FAILED", "TIMED_OUT")

_GroupOf = Callable[[str], Hashable]


class Rows:
    """What is recorded of the partitions of an asset."""

    def __init__(self, space: KeySpace, table: ArrowTable) -> None:
        self._space = space
        self._table: Any = table.combine_chunks()
        self._keys = self._table["partition_key"]

    def made_until(self, seq: int, group: _GroupOf | None = None) -> Iterator[tuple[int, str]]:
        """Those whose data is of an entry up to `seq`, together by what `group` says of their run.

        Each set comes with one of its runs.
        """
        old = pc.fill_null(pc.less_equal(self._seqs, seq), False)
        if group is None:
            yield self._set(old), ""
            return
        column = self._table["last_materialization_run_id"].cast(pa.string())
        runs = pc.fill_null(column, "").combine_chunks().dictionary_encode()
        numbers: dict[Hashable, int] = {}
        first: list[str] = []
        of_run: list[int] = []
        for run in runs.dictionary.to_pylist():
            of_run.append(numbers.setdefault(group(run), len(numbers)))
            if len(numbers) > len(first):
                first.append(run)
        groups = pa.array(of_run, pa.int32()).take(runs.indices)
        for number, run in enumerate(first):
            yield self._set(pc.and_(old, pc.equal(groups, number))), run

    def made_after(self, seq: int) -> Iterator[tuple[Any, int]]:
        """What is of a later entry: a row of each entry and run, with all partitions of it."""
        new = pc.fill_null(pc.greater(self._seqs, seq), False)
        found: dict[tuple[Any, ...], tuple[Any, list[int]]] = {}
        numbers = self._places.numbers.filter(new).to_pylist()
        for row, number in zip(self._table.filter(new).to_pylist(), numbers, strict=True):
            told = tuple(row[name] for name in _TOLD)
            if number is not None:
                found.setdefault(told, (SimpleNamespace(**row), []))[1].append(number)
        for row, numbers in found.values():
            yield row, bitmaps.bitmap(numbers)

    def failed(self) -> int:
        """Those whose last attempt failed."""
        outcomes = self._table["last_attempt_outcome"].cast(pa.string())
        return self._set(pc.is_in(outcomes, value_set=pa.array(_FAILED)))

    def made_seq(self, partition: str) -> int:
        """The entry that brought what there is of a partition; 0 if there is nothing."""
        return self._made_seqs.get(partition, 0)

    @cached_property
    def _made_seqs(self) -> dict[str, int]:
        seqs = pc.fill_null(self._seqs, 0).to_pylist()
        return dict(zip(self._keys.to_pylist(), seqs, strict=True))

    @cached_property
    def _seqs(self) -> Any:
        """By row the entry of its data, made or seen; null where there is none."""
        table = self._table
        made = table["last_materialization_seq"]
        floor = pc.max_element_wise(pc.fill_null(made, 0), table["latest_floor"])
        changed = table["data_changed_seq"]
        seen = pc.and_(pc.is_valid(table["last_observed_at"]), pc.greater(changed, floor))
        return pc.if_else(seen, changed, made)

    # --- places ---------------------------------------------------------------------------------

    @cached_property
    def _places(self) -> RowPlaces:
        """The partitions of the rows; a row may be about a partition that was removed."""
        listed = self._space.as_listed
        if isinstance(listed, TimeSpace):
            return RowPlaces.of(self._keys, listed.definition, listed)
        numbers = list(map(self._space.place, self._keys.to_pylist()))
        count = max((number + 1 for number in numbers if number is not None), default=0)
        return RowPlaces(self._keys, pa.array(numbers, pa.int64()), count)

    def _set(self, flags: ArrowColumn) -> int:
        """The partitions of the rows where something is true."""
        return bits_of(self._places.spread(flags, nothing=False))
