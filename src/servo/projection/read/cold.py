"""Rows that have left the leader's memory, found again by key.

Most questions are about keys that do not exist (is this run key new?), and those must cost nothing:
the range of keys in the manifest, then a Bloom filter or the list of keys held here, say no without
a request. What was just published is learned from the publisher, so that even the newest file is
not fetched to find that a key is not in it.

A large file is not read whole: its key index names the row group and carries the group's hash.
Everything kept is immutable and bounded by bytes; what falls out is fetched again.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from io import SEEK_CUR, SEEK_END, RawIOBase
from typing import Any

import msgspec

from servo.core.manifest import FileEntry, Manifest, ObjectRef, Tier
from servo.core.state.rows.row import Row
from servo.core.state.tables import TABLES, Residency, TableSpec
from servo.errors import Corrupt, Internal
from servo.ports.object_store import ObjectStore
from servo.projection.files.arrow import ArrowTable, pa, pq
from servo.projection.files.bloom import Probe, probe
from servo.projection.files.files import Lru, check, existing, fetch
from servo.projection.files.parquet import SMALL_ROWS, parsing, read, to_rows
from servo.projection.files.schema import DELETED, VERSION, as_tuple
from servo.projection.files.segment import (
    KeyIndex,
    Part,
    RowKey,
    RowKeys,
    Segment,
    check_description,
    check_index,
    key_at,
    keys_of,
)

MAX_BYTES = 128 * 1024 * 1024

_index_decoder = msgspec.json.Decoder(KeyIndex)


class _Block:
    """The keys of a file or of one of its row groups, and a way to the rows behind them.

    Almost every block is asked for a key that it does not have, so only the keys are decoded; the
    columns are read when a row is found. A small file is asked often and keeps its keys in a dict;
    a group of a large one is asked when its filter errs, and is searched.
    """

    def __init__(
        self, name: str, spec: TableSpec, read_columns: Callable[[list[str] | None], Any]
    ) -> None:
        self.name = name
        self.spec = spec
        self._read = read_columns
        self.keys: ArrowTable = read_columns([*spec.key, VERSION, DELETED])
        count: int = self.keys.num_rows
        self._places: dict[RowKey, int] | None = None
        if count <= SMALL_ROWS:
            self._places = {key: n for n, key in enumerate(keys_of(spec, self.keys))}
        self.key_bytes: int = self.keys.nbytes + (200 * count if self._places else 0)

    def find(self, key: RowKey) -> int | None:
        if self._places is not None:
            return self._places.get(key)
        place = bisect_left(RowKeys(self.spec, self.keys), key)
        held = place < self.keys.num_rows and key_at(self.spec, self.keys, place) == key
        return place if held else None

    def version(self, place: int) -> int:
        return self.keys.column(VERSION)[place].as_py()

    def is_row(self, place: int) -> bool:
        """Whether it is a row, and not a tombstone."""
        marked = DELETED in self.keys.column_names
        return not (marked and self.keys.column(DELETED)[place].as_py())

    def columns(self) -> ArrowTable:
        """Everything that the block holds."""
        return self._read(None)


class _Found:
    """The newest version of each key seen so far."""

    def __init__(self) -> None:
        self.best: dict[RowKey, tuple[int, _Block, int]] = {}

    def offer(self, key: RowKey, block: _Block) -> None:
        place = block.find(key)
        if place is None:
            return
        version = block.version(place)
        known = self.best.get(key)
        if known is None or version >= known[0]:
            self.best[key] = version, block, place

    def settled(self, key: RowKey, file: FileEntry) -> bool:
        """Whether nothing in `file` can be newer than what is known of the key."""
        known = self.best.get(key)
        return known is not None and not file.tombstones and file.max_seq <= known[0]


class ColdRows:
    """What a workspace has published and its leader does not hold, asked by key."""

    def __init__(self, store: ObjectStore, *, max_bytes: int = MAX_BYTES) -> None:
        self._store = store
        self._indexes: Lru[KeyIndex] = Lru(max_bytes // 2)
        self._blocks: Lru[_Block] = Lru(max_bytes // 2)
        self._columns: Lru[ArrowTable] = Lru(max_bytes // 8)

    def fetch(self, manifest: Manifest, table: str, keys: Iterable[Any]) -> list[Row]:
        """The rows with these keys, in the order of the keys.

        Those of runs that are in the active tier are in memory. Rows of history are in the closed
        one, unless they were published before their table became history: then they are where
        all were, and stay there.
        """
        spec = TABLES[table]
        if not spec.indexed:
            raise Internal(
                f"{table} cannot be read by key", remedy="declare the table as indexed first"
            )
        wanted = {as_tuple(key): None for key in keys}
        probes = {key: probe(key) for key in wanted}
        found = _Found()
        tiers = tuple(Tier) if spec.residency is Residency.HISTORY else (Tier.CLOSED,)
        files = [file for tier in tiers for file in manifest.files(table, tier)]
        for file in sorted(files, key=lambda file: file.max_seq, reverse=True):
            self._look(spec, file, probes, found)
        return self._rows(_in_order(wanted, found))

    def learn(self, table: str, file: FileEntry, segment: Segment) -> None:
        """Take note of a file that was just written, so that nobody has to fetch it."""
        spec = TABLES[table]
        if not spec.indexed or file.tier is not Tier.CLOSED:
            return
        if segment.index is not None:
            _ = self._remember_index(file, segment.index)
        else:
            _ = self._remember_whole(spec, file, segment.data)

    def _look(
        self, spec: TableSpec, file: FileEntry, probes: dict[RowKey, Probe], found: _Found
    ) -> None:
        asked = [
            key
            for key in probes
            if file.min_key <= key <= file.max_key and not found.settled(key, file)
        ]
        if not asked:
            return
        if file.bloom is None:
            block = self._whole(spec, file)
            for key in asked:
                found.offer(key, block)
            return
        index = self._index(file, file.bloom)
        for key in asked:
            if index.bloom.admits(probes[key]):
                number = max(bisect_right(index.first_keys, key) - 1, 0)
                found.offer(key, self._group(spec, file, index, number))

    def _rows(self, found: Sequence[tuple[int, _Block, int]]) -> list[Row]:
        """The rows in these places, in their order, without those that were dropped."""
        places = [(block, place) for _, block, place in found if block.is_row(place)]
        wanted: dict[_Block, list[int]] = {}
        for block, place in places:
            wanted.setdefault(block, []).append(place)
        read = {block: iter(self._rows_of(block, held)) for block, held in wanted.items()}
        return [next(read[block]) for block, _ in places]

    def _rows_of(self, block: _Block, places: Sequence[int]) -> list[Row]:
        """Rows of one block. Its neighbours tend to be asked for next, so its columns are kept."""
        table = self._columns.get(block.name)
        if table is None:
            table = block.columns()
            self._columns.put(block.name, table, cost=table.nbytes)
        return to_rows(block.spec, table.take(pa.array(places, pa.int64())))

    def _whole(self, spec: TableSpec, file: FileEntry) -> _Block:
        known = self._blocks.get(file.key)
        if known is not None:
            return known
        return self._remember_whole(spec, file, fetch(self._store, file))

    def _remember_whole(self, spec: TableSpec, file: FileEntry, data: bytes) -> _Block:
        block = _Block(file.key, spec, lambda only: read(data, what=file.key, only=only))
        check_description(spec, file, block.keys)
        return self._remember_block(block, len(data))

    def _index(self, file: FileEntry, side: ObjectRef) -> KeyIndex:
        known = self._indexes.get(file.key)
        if known is not None:
            return known
        return self._remember_index(file, _decode_index(fetch(self._store, side), side.key))

    def _group(self, spec: TableSpec, file: FileEntry, index: KeyIndex, number: int) -> _Block:
        name = f"{file.key}#{number}"
        known = self._blocks.get(name)
        if known is not None:
            return known
        parts = [index.groups[number], index.footer]
        loaded = [(part.start, self._read_part(file, part)) for part in parts]

        def read_columns(only: list[str] | None) -> ArrowTable:
            with parsing(file.key):
                source = pq.ParquetFile(pa.PythonFile(_Sparse(file.size, loaded), mode="r"))
                return source.read_row_group(number, columns=only, use_threads=False)

        size = sum(part.length for part in parts)
        return self._remember_block(_Block(name, spec, read_columns), size)

    def _read_part(self, file: FileEntry, part: Part) -> bytes:
        data = existing(
            lambda: self._store.get_range(file.key, start=part.start, length=part.length),
            file.key,
        )
        check(data, f"a part of {file.key}", size=part.length, digest=part.sha256)
        return data

    def _remember_index(self, file: FileEntry, index: KeyIndex) -> KeyIndex:
        check_index(file, index)
        self._indexes.put(file.key, index, cost=len(index.bloom.bits) + 500 * len(index.groups))
        return index

    def _remember_block(self, block: _Block, size: int) -> _Block:
        self._blocks.put(block.name, block, cost=size + block.key_bytes)
        return block


def _in_order(wanted: Iterable[RowKey], found: _Found) -> Sequence[tuple[int, _Block, int]]:
    return [found.best[key] for key in wanted if key in found.best]


def _decode_index(data: bytes, what: str) -> KeyIndex:
    try:
        return _index_decoder.decode(data)
    except msgspec.MsgspecError as error:
        raise Corrupt(
            f"{what} is not a key index that this version can read: {error}",
            remedy="upgrade Servo to at least the version that wrote it",
        ) from None


class _Sparse(RawIOBase):
    """A file of which only some parts are here: those that its reader asks for."""

    def __init__(self, size: int, parts: Sequence[tuple[int, bytes]]) -> None:
        super().__init__()
        self._size = size
        self._parts = parts
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = 0) -> int:
        base = {SEEK_CUR: self._at, SEEK_END: self._size}.get(whence, 0)
        self._at = base + offset
        return self._at

    def read(self, size: int = -1) -> bytes:
        """The next bytes; zeros where no part is, which a reader fetches but does not look at."""
        end = self._size if size < 0 else min(self._at + size, self._size)
        data = bytearray(end - self._at)
        for start, part in self._parts:
            first, last = max(start, self._at), min(start + len(part), end)
            if first < last:
                data[first - self._at : last - self._at] = part[first - start : last - start]
        self._at = end
        return bytes(data)
