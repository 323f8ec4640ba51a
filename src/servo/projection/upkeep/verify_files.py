"""Does a file hold what manifests say about it?

Its bytes have the hash that the manifest names, but what else the manifest says of it is believed:
a key outside of the range is not looked for, a version above `max_seq` not expected, a tombstone
not counted. So all of it is computed again from the rows, and the key index with it.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from servo.core.manifest import FileEntry
from servo.core.state.tables import TableSpec
from servo.ledger.paths import Paths
from servo.projection.files.arrow import ArrowTable, pa, pc, pq
from servo.projection.files.bloom import probe
from servo.projection.files.parquet import parsing
from servo.projection.files.schema import DELETED, TENANT, VERSION, WORKSPACE, stored_schema
from servo.projection.files.segment import KeyIndex, RowKey, keys_of, parts_of
from servo.projection.publish.tiering import level_for

_index_decoder = msgspec.json.Decoder(KeyIndex)


class FileContents:
    """What a file holds, from its rows. `faults` says where it cannot be one of its table."""

    def __init__(self, spec: TableSpec, paths: Paths, data: bytes, *, what: str) -> None:
        self._spec = spec
        self._paths = paths
        self._data = data
        self._what = what
        self.rows = 0
        self.tombstones = 0
        self.seqs: list[int] = []
        self.first_keys: list[RowKey] = []
        self.max_key: RowKey = ()
        self.faults: list[str] = []
        with parsing(what):
            self._file: Any = pq.ParquetFile(pa.BufferReader(data))
            self.faults.extend(self._wrong_columns())
            if not self.faults:
                for group in self._groups():
                    self._take(group)

    def _wrong_columns(self) -> Iterator[str]:
        held: Any = self._file.schema_arrow
        for field in stored_schema(self._spec.row, self._spec.key):
            if field.name not in held.names:
                if field.name in (*self._spec.key, VERSION, TENANT, WORKSPACE):
                    yield f"it has no column {field.name}"
            elif held.field(field.name).type != field.type:
                kind = held.field(field.name).type
                yield f"its column {field.name} has the type {kind}, not {field.type}"

    def _groups(self) -> Iterator[ArrowTable]:
        wanted = [*self._spec.key, VERSION, TENANT, WORKSPACE, DELETED]
        present = [name for name in wanted if name in self._file.schema_arrow.names]
        for number in range(self._file.metadata.num_row_groups):
            yield self._file.read_row_group(number, columns=present, use_threads=False)

    def _take(self, group: ArrowTable) -> None:
        keys = list(keys_of(self._spec, group))
        if not keys:
            return
        for key in keys:
            if self.rows and key <= self.max_key:
                self._fault("its rows are not in the order of their keys, each key once")
            self.rows, self.max_key = self.rows + 1, key
        self.first_keys.append(keys[0])
        versions = group.column(VERSION)
        if DELETED in group.column_names:
            deleted = group.column(DELETED)
            self.tombstones += pc.sum(deleted).as_py()
            versions = versions.filter(pc.invert(deleted))
        if len(versions):
            span = pc.min_max(versions).as_py()
            self.seqs += [span["min"], span["max"]]
        for name, own in ((TENANT, self._paths.tenant), (WORKSPACE, self._paths.workspace)):
            if pc.unique(group.column(name)).to_pylist() != [own]:
                self._fault(f"its column {name} is not {own} in every row")

    def _fault(self, what: str) -> None:
        if what not in self.faults:
            self.faults.append(what)

    def differences(self, file: FileEntry) -> Iterator[str]:
        """What a manifest says of the file that is not so."""
        said_and_found: list[tuple[str, Any, Any]] = [
            ("rows", file.rows, self.rows),
            ("tombstones", file.tombstones, self.tombstones),
            ("min_key", file.min_key, self.first_keys[0] if self.first_keys else ()),
            ("max_key", file.max_key, self.max_key),
        ]
        if self.seqs:  # a file of nothing but tombstones is dated by the entry it was written at
            said_and_found += [
                ("min_seq", file.min_seq, min(self.seqs)),
                ("max_seq", file.max_seq, max(self.seqs)),
            ]
        if file.level:
            said_and_found.append(("level", file.level, level_for(self.rows)))
        for name, said, found in said_and_found:
            if said != found:
                yield f"it says {name} {_shown(said)}, but the file has {_shown(found)}"

    def index_faults(self, data: bytes) -> Iterator[str]:
        """Where a key index does not describe the file; its bytes are what was written."""
        try:
            index = _index_decoder.decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            yield f"it does not have the form of a key index: {error}"
            return
        if index.first_keys != tuple(self.first_keys):
            yield "the first keys of its groups are not those of the file"
        if [*index.groups, index.footer] != parts_of(self._data):
            yield "its parts are not those of the file"
        missing = sum(
            not index.bloom.admits(probe(key))
            for group in self._groups()
            for key in keys_of(self._spec, group)
        )
        if missing:
            yield f"its filter excludes {missing} of the keys that are in the file"


def _shown(value: object) -> str:
    return msgspec.json.encode(value).decode()
