"""Outputs by the commit protocol.

Everything an execution stores lies under `assets/{asset}/{exec_id}/`, and counts from the moment
`_commit.json` is created there: the marker names every file with its hash, and a folder without
one is rubbish. Nobody else writes under an execution's id, so nothing is ever overwritten. A small
value stands inside the marker itself: one object, one write. Which output is the latest is not
decided here but by the ledger.
"""

import base64
from hashlib import sha256
from typing import Any

import msgspec

from servo.core.events.tasks import Output
from servo.errors import Conflict, Corrupt
from servo.ledger.paths import Paths
from servo.ports.object_store import ObjectStore
from servo.worker import codecs

INLINE_BYTES = 64 * 1024
MARKER = "_commit.json"


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


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Marker)


class OutputStore:
    """The outputs of one workspace."""

    def __init__(self, store: ObjectStore, paths: Paths) -> None:
        self._store = store
        self._paths = paths

    def save(self, asset_key: str, exec_id: str, value: Any) -> Output:
        """Store a value and commit it; a second time is the same output."""
        codec, data = codecs.encode(value)
        digest = sha256(data).hexdigest()
        folder = self._paths.output(asset_key, exec_id)
        files: tuple[File, ...] = ()
        inline: str | None = None
        if len(data) <= INLINE_BYTES:
            inline = base64.b64encode(data).decode()
        else:
            files = (File(name=f"data.{codec}", size=len(data), sha256=digest),)
            self._store.put(f"{folder}{files[0].name}", data)
        marker = Marker(
            asset_key=asset_key,
            exec_id=exec_id,
            codec=codec,
            sha256=digest,
            size=len(data),
            files=files,
            value=inline,
        )
        self._commit(f"{folder}{MARKER}", _encoder.encode(marker))
        return Output(
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
        return codecs.decode(marker.codec, data)

    def _marker(self, uri: str) -> Marker:
        key = f"{uri}{MARKER}"
        try:
            return _decoder.decode(self._store.get(key).data)
        except msgspec.MsgspecError as error:
            raise Corrupt(f"{key}: {error}", remedy="materialize the asset again") from error
