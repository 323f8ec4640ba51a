"""Outputs by the commit protocol.

Everything an execution stores lies under `assets/{asset}/{exec_id}/`, and counts from the moment
`_commit.json` is created there: the marker names every file with its hash, and a folder without one
is garbage. Only the execution writes under its id, so nothing is ever overwritten. A small value is
inside the marker itself: one object, one write. The ledger decides which output is the latest.
"""

import base64
from datetime import datetime
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from servo.core.events.tasks import CommittedOutput
from servo.errors import Conflict, Corrupt
from servo.execution.outputs import codecs, tables
from servo.ledger.paths import DATA, MARKER, Paths
from servo.ports.object_store import ObjectStore

INLINE_BYTES = 64 * 1024


class File(msgspec.Struct, frozen=True, kw_only=True):
    """One stored file of an output."""

    name: str
    size: int
    sha256: str


class Marker(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What makes an output count: its files, or its value."""

    version: int = 1
    asset_key: str
    exec_id: str
    codec: str
    sha256: str
    size: int
    files: tuple[File, ...] = ()
    value: str | None = None


class _Place(NamedTuple):
    """Where an output is stored, and which asset it belongs to."""

    asset_key: str
    exec_id: str
    folder: str


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Marker)


class OutputStore:
    """The outputs of one workspace."""

    def __init__(self, store: ObjectStore, paths: Paths) -> None:
        self._store = store
        self._paths = paths

    def save(self, asset_key: str, exec_id: str, value: Any, *, part: int = 0) -> CommittedOutput:
        """Store a value and commit it; a second time is the same output.

        `part` tells values apart that one execution stores for an asset.
        """
        place = _Place(asset_key, exec_id, self._paths.output(asset_key, exec_id, part))
        kind = tables.kind_of(value)
        if kind:
            return self._save_table(place, tables.encode_table(value, kind))
        codec, data = codecs.encode(value)
        inline = len(data) <= INLINE_BYTES
        name = "" if inline else f"{DATA}{codec}"
        return self._save(place, codec, data, name)

    def _save_table(self, place: "_Place", table: tables.Encoded) -> CommittedOutput:
        codec = f"{tables.PREFIX}{table.kind}"
        output = self._save(place, codec, table.data, f"{DATA}parquet")
        return replace(
            output, format="parquet", row_count=table.rows, schema_hash=table.schema_hash
        )

    def _save(self, place: "_Place", codec: str, data: bytes, name: str) -> CommittedOutput:
        """Store bytes as a file of this name, or inside the marker if it has none."""
        digest = sha256(data).hexdigest()
        asset_key, exec_id, folder = place
        files = (File(name=name, size=len(data), sha256=digest),) if name else ()
        for file in files:
            self._store.put(f"{folder}{file.name}", data)
        marker = Marker(
            asset_key=asset_key,
            exec_id=exec_id,
            codec=codec,
            sha256=digest,
            size=len(data),
            files=files,
            value=None if name else base64.b64encode(data).decode(),
        )
        self._commit(f"{folder}{MARKER}", _encoder.encode(marker))
        return CommittedOutput(
            materialization_id=exec_id,
            uri=folder,
            format=codec,
            byte_size=len(data),
            content_hash=digest,
        )

    def _commit(self, key: str, data: bytes) -> None:
        try:
            self._store.create(key, data)
        except Conflict:
            if self._store.get(key).data != data:
                raise

    def load(self, uri: str) -> Any:
        """The value of a committed output; `Corrupt` if its bytes are not those committed."""
        codec, data = self.read(uri)
        if codec.startswith(tables.PREFIX):
            return tables.decode_table(data, codec.removeprefix(tables.PREFIX))
        return codecs.decode(codec, data)

    def read(self, uri: str) -> tuple[str, bytes]:
        """The codec and the bytes of a committed output."""
        marker = self._marker(uri)
        if marker.value is not None:
            data = base64.b64decode(marker.value)
        else:
            data = b"".join([self._store.get(f"{uri}{file.name}").data for file in marker.files])
        if sha256(data).hexdigest() != marker.sha256:
            raise Corrupt(
                f"the output {uri} is damaged",
                remedy="materialize the asset again, or restore the object from a backup",
            )
        return marker.codec, data

    def stored_at(self, uri: str) -> datetime:
        """When an output was committed, by the clock of the store."""
        return self._store.get(f"{uri}{MARKER}").meta.modified

    def _marker(self, uri: str) -> Marker:
        key = f"{uri}{MARKER}"
        try:
            return _decoder.decode(self._store.get(key).data)
        except msgspec.MsgspecError as error:
            raise Corrupt(f"{key}: {error}", remedy="materialize the asset again") from error
