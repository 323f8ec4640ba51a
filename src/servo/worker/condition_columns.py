"""The partitions of one asset in columns, as sets by number.

Rows of a million partitions become no objects: a column is turned into one byte a row, the bytes
are put in the places of the partitions, and read as one number.
"""

from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import cached_property
from types import SimpleNamespace
from typing import Any

from servo.core import bitmaps
from servo.projection.arrow import ArrowTable, pa, pc
from servo.sdk.condition_spaces import KeySpace
from servo.sdk.partition_status import Recorded, Run, Table
from servo.sdk.time_space import TimeSpace
from servo.worker.partition_report import Texts, in_order, seconds_of

_TOLD = (
    "last_materialization_seq",
    "last_materialization_run_id",
    "data_changed_seq",
    "last_observed_at",
)
_FAILED = ("FAILED", "TIMED_OUT")
_DIGITS = bytes([ord("0")]) + bytes([ord("1")]) * 255

Group = Callable[[str], Hashable]


class Rows:
    """What is recorded of the partitions of an asset."""

    def __init__(self, space: KeySpace, table: ArrowTable) -> None:
        self._space = space
        self._table: Any = in_order(table.combine_chunks(), "partition_key")
        self._keys = self._table["partition_key"]

    def made_until(self, seq: int, group: Group | None = None) -> Iterator[tuple[int, str]]:
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
        numbers = self._numbers(new)
        for row, number in zip(self._table.filter(new).to_pylist(), numbers, strict=True):
            told = tuple(row[name] for name in _TOLD)
            if number is not None:
                found.setdefault(told, (SimpleNamespace(**row), []))[1].append(number)
        for row, numbers in found.values():
            yield row, bitmaps.bitmap(numbers)

    def _numbers(self, chosen: Any) -> list[int | None]:
        """The numbers of the chosen rows; None for one that there is no partition of any more."""
        rows = pc.indices_nonzero(chosen).to_pylist()
        if not rows:
            return []
        starts = [row for _, row, _ in self._runs]
        found: list[int | None] = []
        for row in rows:
            place = bisect_right(starts, row) - 1
            start, first, length = self._runs[place] if place >= 0 else (0, 0, 0)
            found.append(start + row - first if row < first + length else None)
        return found

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
    def _runs(self) -> Sequence[Run]:
        """Rows that follow each other as their partitions do."""
        listed = self._space.as_listed
        if isinstance(listed, TimeSpace):
            seconds = seconds_of(self._keys, listed.definition)
            return Table(listed, Recorded(keys=Texts(self._keys), seconds=seconds)).runs
        places = enumerate(map(self._space.place, self._keys.to_pylist()))
        return [(number, row, 1) for row, number in places if number is not None]

    @cached_property
    def _size(self) -> int:
        return max((start + length for start, _, length in self._runs), default=0)

    def _set(self, flags: Any) -> int:
        """The partitions of the rows where something is true."""
        told = _bytes(flags)
        if not any(told):
            return bitmaps.EMPTY
        placed = bytearray(self._size)
        for start, row, length in self._runs:
            placed[start : start + length] = told[row : row + length]
        # Read as a number of binary digits, the last one first: faster than any loop over bits.
        return int(bytes(placed[::-1]).translate(_DIGITS), 2) if placed else bitmaps.EMPTY


def _bytes(flags: Any) -> bytes:
    """A column of truths, one byte each."""
    column = pa.chunked_array([flags]) if not isinstance(flags, pa.ChunkedArray) else flags
    held = pc.fill_null(column, False).cast(pa.uint8()).combine_chunks()
    return bytes(held.buffers()[1] or b"")[held.offset : held.offset + len(held)]
