"""Building a file: sorted rows go in, bytes and their description come out.

Rows must come in the order of their keys, each key once. They are written in groups of 16,384, so
that looking up one key reads one group. Where keys are looked up, a large file gets a side object,
the **key index**: a Bloom filter, the first key and the place of every group, and a hash of every
part of the file, so that a part can be checked without reading the whole.
"""

from collections.abc import Sequence
from hashlib import sha256
from itertools import pairwise
from typing import Any

import msgspec

from servo.core.manifest import FileEntry
from servo.core.state.tables import TableSpec
from servo.errors import Corrupt
from servo.projection.files.arrow import ArrowSchema, ArrowTable, pa, pc, pq
from servo.projection.files.bloom import Bloom, BloomBuilder
from servo.projection.files.parquet import GROUP_ROWS, SMALL_ROWS, open_writer
from servo.projection.files.schema import DELETED, VERSION

RowKey = tuple[str | int, ...]


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """A range of bytes of a file and their hash."""

    start: int
    length: int
    sha256: str


class KeyIndex(msgspec.Struct, frozen=True, kw_only=True):
    """Where the keys of one file are, and which are not there at all."""

    bloom: Bloom
    first_keys: tuple[RowKey, ...]
    groups: tuple[Part, ...]
    footer: Part


class Segment(msgspec.Struct, frozen=True, kw_only=True):
    """A finished file, not yet stored."""

    data: bytes
    rows: int
    tombstones: int
    min_seq: int | None
    max_seq: int | None
    min_key: RowKey
    max_key: RowKey
    index: KeyIndex | None


class SegmentWriter:
    """Collects sorted tables of one schema into one file of about `capacity` rows."""

    def __init__(self, spec: TableSpec, schema: ArrowSchema, *, capacity: int, index: bool) -> None:
        self._spec = spec
        self._sink = pa.BufferOutputStream()
        self._writer = open_writer(self._sink, schema, rows=capacity)
        self._bloom = BloomBuilder(capacity) if index and capacity > SMALL_ROWS else None
        self._pending: list[ArrowTable] = []
        self._pending_rows = 0
        self._first_keys: list[RowKey] = []
        self._last_key: RowKey = ()
        self._rows = 0
        self._tombstones = 0
        self._versions: list[tuple[int, int]] = []

    def add(self, table: ArrowTable) -> None:
        """Append rows whose keys come after all that were added before."""
        self._pending.append(table)
        self._pending_rows += table.num_rows
        while self._pending_rows >= GROUP_ROWS:
            self._write_group(GROUP_ROWS)

    def finish(self) -> Segment | None:
        """The file; None if nothing was added."""
        if self._pending_rows:
            self._write_group(self._pending_rows)
        self._writer.close()
        if not self._rows:
            return None
        data: bytes = self._sink.getvalue().to_pybytes()
        return Segment(
            data=data,
            rows=self._rows,
            tombstones=self._tombstones,
            min_seq=min((low for low, _ in self._versions), default=None),
            max_seq=max((high for _, high in self._versions), default=None),
            min_key=self._first_keys[0],
            max_key=self._last_key,
            index=self._index(data),
        )

    def _write_group(self, count: int) -> None:
        pending = pa.concat_tables(self._pending)
        group = pending.slice(0, count).combine_chunks()
        self._pending = [pending.slice(count)]
        self._pending_rows -= count
        self._writer.write_table(group, row_group_size=count)
        self._describe(group)

    def _describe(self, group: ArrowTable) -> None:
        last = group.num_rows - 1
        self._rows += group.num_rows
        self._first_keys.append(key_at(self._spec, group, 0))
        self._last_key = key_at(self._spec, group, last)
        versions = group.column(VERSION)
        if DELETED in group.column_names:
            deleted = group.column(DELETED)
            self._tombstones += pc.sum(deleted).as_py()
            versions = versions.filter(pc.invert(deleted))
        if len(versions):
            span = pc.min_max(versions).as_py()
            self._versions.append((span["min"], span["max"]))
        if self._bloom is not None:
            self._bloom.add(keys_of(self._spec, group))

    def _index(self, data: bytes) -> KeyIndex | None:
        if self._bloom is None or self._rows <= SMALL_ROWS:
            return None
        parts = parts_of(data)
        return KeyIndex(
            bloom=self._bloom.build(),
            first_keys=tuple(self._first_keys),
            groups=tuple(parts[:-1]),
            footer=parts[-1],
        )


def parts_of(data: bytes) -> list[Part]:
    """The row groups of a file, the first with what stands before it, and its footer."""
    borders = [0, *_group_ends(data), len(data)]
    return [_part(data, start, end) for start, end in pairwise(borders)]


def key_at(spec: TableSpec, table: ArrowTable, position: int) -> RowKey:
    """The primary key of one row of a table."""
    return tuple([table.column(name)[position].as_py() for name in spec.key])


def keys_of(spec: TableSpec, table: ArrowTable) -> Sequence[RowKey]:
    """The primary keys of all rows of a table."""
    columns: list[list[Any]] = [table.column(name).to_pylist() for name in spec.key]
    return list(zip(*columns, strict=True))


def check_description(spec: TableSpec, file: FileEntry, table: ArrowTable) -> None:
    """`Corrupt` unless a whole file, or its keys, is what its manifest says, as far as it shows.

    Whoever opens a file has its ends at hand. Files that a wrong range keeps closed are found by
    `servo admin verify`, which opens all.
    """
    deleted = DELETED in table.column_names
    found = (
        table.num_rows,
        pc.sum(table.column(DELETED)).as_py() if deleted else 0,
        key_at(spec, table, 0) if table.num_rows else (),
        key_at(spec, table, table.num_rows - 1) if table.num_rows else (),
    )
    if found != (file.rows, file.tombstones, file.min_key, file.max_key):
        raise misdescribed(file)


def check_index(file: FileEntry, index: KeyIndex) -> None:
    """`Corrupt` unless a key index can be that of the file."""
    if index.first_keys[:1] != (file.min_key,) or index.first_keys[-1] > file.max_key:
        raise misdescribed(file)


def misdescribed(file: FileEntry) -> Corrupt:
    """The error about a manifest that says of a file what is not so."""
    return Corrupt(
        f"the manifest says of {file.key} what is not so: its rows or its range of keys are others",
        remedy="rebuild the projection from the ledger",
    )


class RowKeys(Sequence[RowKey]):
    """The keys of a table, read one at a time by the binary search that asks for them."""

    def __init__(self, spec: TableSpec, table: ArrowTable) -> None:
        self._spec = spec
        self._table = table

    def __len__(self) -> int:
        return self._table.num_rows

    def __getitem__(self, position: Any) -> Any:
        return key_at(self._spec, self._table, position)


def _group_ends(data: bytes) -> list[int]:
    """Where each row group of a file ends; its columns stand one after the other."""
    metadata = pq.ParquetFile(pa.BufferReader(data)).metadata
    ends: list[int] = []
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        chunks = [group.column(position) for position in range(group.num_columns)]
        ends.append(max(chunk.data_page_offset + chunk.total_compressed_size for chunk in chunks))
    return ends


def _part(data: bytes, start: int, end: int) -> Part:
    digest = sha256(memoryview(data)[start:end]).hexdigest()
    return Part(start=start, length=end - start, sha256=digest)
