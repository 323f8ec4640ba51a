"""Outputs by the commit protocol.

Everything an execution stores lies under `assets/{asset}/{exec_id}/`, and counts from the moment
`_commit.json` is created there: the marker names every file with its hash, and a folder without one
is garbage. Only the execution writes under its id, so nothing is ever overwritten. A small value is
inside the marker itself: one object, one write. The ledger decides which output is the latest.

Data is staged as soon as an execution has it; the markers are created once its checks are done. The
last marker carries the result of the execution. If the leader ends before the result reaches it,
the next leader finds the result there and adopts it.

A reader compares the marker with the place where it found it, and the data with the hash in the
ledger, so that no other output can take the place of the one it asked for.
"""

import base64
from collections.abc import Callable, Sequence
from datetime import datetime
from hashlib import sha256
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from servo.core.events.tasks import CommittedOutput
from servo.errors import Conflict, Corrupt, NotFound
from servo.execution.outputs import codecs, tables
from servo.execution.outputs.patience import Patience
from servo.leader.assignments import TaskResult
from servo.ledger.paths import DATA, MARKER, Paths
from servo.ports.object_store import ObjectStore

INLINE_BYTES = 64 * 1024
PART_BYTES = 16 * 1024 * 1024
T = TypeVar("T")
_REMEDY = "materialize the asset again, or restore the object from a backup"


class File(msgspec.Struct, frozen=True, kw_only=True):
    """One stored file of an output."""

    name: str
    size: int
    sha256: str


class Marker(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What makes an output count: its files, or its value.

    The marker that an execution creates last says in `result` how the execution ended.
    """

    version: int = 1
    asset_key: str
    exec_id: str
    codec: str
    sha256: str
    size: int
    files: tuple[File, ...] = ()
    value: str | None = None
    result: TaskResult | None = None


class StagedOutput(msgspec.Struct, frozen=True, kw_only=True):
    """An output whose data is stored and which does not count yet: its marker is missing."""

    output: CommittedOutput
    marker: Marker


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Marker)


class OutputStore:
    """The outputs of one workspace.

    With `patience`, reads and writes are repeated while the store does not answer.
    """

    def __init__(
        self, store: ObjectStore, paths: Paths, *, patience: Patience | None = None
    ) -> None:
        self._store = store
        self._paths = paths
        self._patience = patience

    # --- storing ------------------------------------------------------------------------------

    def stage(self, asset_key: str, exec_id: str, value: Any, *, part: int = 0) -> StagedOutput:
        """Store the data of a value, which counts once it is committed.

        `part` tells values apart that one execution stores for an asset.
        """
        uri = self._paths.output(asset_key, exec_id, part)
        kind = tables.kind_of(value)
        if kind:
            return self._stage_table(asset_key, exec_id, uri, tables.encode_table(value, kind))
        codec, data = codecs.encode(value)
        marker = _marker(asset_key, exec_id, codec, data)
        if len(data) <= INLINE_BYTES:
            marker = replace(marker, value=base64.b64encode(data).decode())
        else:
            marker = self._put(uri, f"{DATA}{codec}", data, marker)
        return StagedOutput(output=_output(uri, marker), marker=marker)

    def _stage_table(
        self, asset_key: str, exec_id: str, uri: str, table: tables.Encoded
    ) -> StagedOutput:
        marker = _marker(asset_key, exec_id, f"{tables.PREFIX}{table.kind}", table.data)
        marker = self._put(uri, f"{DATA}parquet", table.data, marker)
        output = replace(
            _output(uri, marker),
            format="parquet",
            row_count=table.rows,
            schema_hash=table.schema_hash,
        )
        return StagedOutput(output=output, marker=marker)

    def _put(self, uri: str, name: str, data: bytes, marker: Marker) -> Marker:
        key = f"{uri}{name}"
        _ = self._insist(lambda: self._store.put(key, data), f"store {key}")
        return replace(marker, files=(File(name=name, size=marker.size, sha256=marker.sha256),))

    def commit(self, staged: Sequence[StagedOutput], result: TaskResult) -> None:
        """Make the outputs of an execution count; a second time changes nothing.

        The marker of the first output is created last and carries the result: whoever finds it
        knows that all of them are complete, and how the execution ended.
        """
        for number in reversed(range(len(staged))):
            one = staged[number]
            marker = one.marker if number else replace(one.marker, result=result)
            self._create(f"{one.output.uri}{MARKER}", _encoder.encode(marker))

    def _create(self, key: str, data: bytes) -> None:
        try:
            _ = self._insist(lambda: self._store.create(key, data), f"create {key}")
        except Conflict:
            stored = self._insist(lambda: self._store.get(key), f"read {key}")
            if stored.data != data:
                raise

    def _insist(self, attempt: Callable[[], T], what: str) -> T:
        return attempt() if self._patience is None else self._patience.insist(attempt, what)

    # --- reading ------------------------------------------------------------------------------

    def result_of(self, asset_key: str, exec_id: str) -> TaskResult | None:
        """How the execution ended that stored this output; None if it did not commit it."""
        try:
            return self._marker(self._paths.output(asset_key, exec_id)).result
        except (NotFound, Corrupt):
            return None

    def load(self, uri: str, content_hash: str) -> Any:
        """The value of a committed output; `Corrupt` if its bytes are not those committed."""
        codec, data = self.read(uri, content_hash)
        if codec.startswith(tables.PREFIX):
            return tables.decode_table(data, codec.removeprefix(tables.PREFIX))
        return codecs.decode(codec, data)

    def read(self, uri: str, content_hash: str) -> tuple[str, bytes]:
        """The codec and the bytes of a committed output.

        `content_hash` is what the ledger says of it; empty if the ledger has none.
        """
        marker = self._marker(uri)
        if marker.value is not None:
            data = base64.b64decode(marker.value)
        else:
            data = b"".join([self._get(f"{uri}{file.name}") for file in marker.files])
        _compare(uri, sha256(data).hexdigest(), marker.sha256, content_hash)
        return marker.codec, data

    def check(self, uri: str, content_hash: str) -> None:
        """`Corrupt` unless an output is the one that was committed; its data is read in parts."""
        marker = self._marker(uri)
        digest = sha256(b"" if marker.value is None else base64.b64decode(marker.value))
        for file in marker.files:
            for start in range(0, file.size + 1, PART_BYTES):
                digest.update(self._part(f"{uri}{file.name}", start))
        _compare(uri, digest.hexdigest(), marker.sha256, content_hash)

    def _part(self, key: str, start: int) -> bytes:
        def read() -> bytes:
            return self._store.get_range(key, start=start, length=PART_BYTES)

        return self._insist(read, f"read {key}")

    def stored_at(self, uri: str) -> datetime:
        """When an output was committed, by the clock of the store."""
        return self._store.get(f"{uri}{MARKER}").meta.modified

    def _marker(self, uri: str) -> Marker:
        key = f"{uri}{MARKER}"
        try:
            marker = _decoder.decode(self._get(key))
        except msgspec.MsgspecError as error:
            raise Corrupt(f"{key} is damaged: {error}", remedy=_REMEDY) from error
        if not self._paths.is_output(uri, marker.asset_key, marker.exec_id):
            raise Corrupt(
                f"{key} is the marker of another output: {marker.asset_key} of execution "
                f"{marker.exec_id}",
                remedy=_REMEDY,
            )
        return marker

    def _get(self, key: str) -> bytes:
        return self._insist(lambda: self._store.get(key), f"read {key}").data


def _compare(uri: str, digest: str, committed: str, recorded: str) -> None:
    """Compare the hash of data with that in its marker and that in the ledger, if it has one."""
    if digest != committed:
        raise Corrupt(f"the output {uri} is damaged", remedy=_REMEDY)
    if recorded and digest != recorded:
        raise Corrupt(
            f"the output {uri} is not the one that was committed: its hash differs from the "
            "one in the ledger",
            remedy=_REMEDY,
        )


def _marker(asset_key: str, exec_id: str, codec: str, data: bytes) -> Marker:
    return Marker(
        asset_key=asset_key,
        exec_id=exec_id,
        codec=codec,
        sha256=sha256(data).hexdigest(),
        size=len(data),
    )


def _output(uri: str, marker: Marker) -> CommittedOutput:
    return CommittedOutput(
        materialization_id=marker.exec_id,
        uri=uri,
        format=marker.codec,
        byte_size=marker.size,
        content_hash=marker.sha256,
    )
