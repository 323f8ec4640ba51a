"""Stored lists of asset definitions that are too large for an event."""

from collections.abc import Sequence
from hashlib import sha256

import msgspec

from servo.core.canonical import canonical_bytes
from servo.core.events.assets import AssetDefinition
from servo.core.ids import Digest
from servo.errors import Corrupt

IN_PROCESS = "in process"
"""The location of assets defined in the running process, which have no file."""

_decoder = msgspec.json.Decoder(tuple[AssetDefinition, ...])


def definitions_bytes(assets: Sequence[AssetDefinition]) -> bytes:
    """The bytes that are stored for a list; equal lists have equal bytes."""
    return canonical_bytes(list(assets))


def definitions_digest(data: bytes) -> Digest:
    """The name under which the bytes of a list are stored."""
    return Digest(sha256(data).hexdigest())


def parse_definitions(data: bytes, digest: Digest) -> tuple[AssetDefinition, ...]:
    """The list that was stored under `digest`; `Corrupt` if these are not its bytes."""
    if definitions_digest(data) != digest:
        raise Corrupt(
            f"the stored definitions {digest} do not match their hash",
            remedy="restore the object from a backup, or deploy again",
        )
    try:
        return _decoder.decode(data)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise Corrupt(
            f"the stored definitions {digest} cannot be decoded: {error}",
            remedy="report this as a bug",
        ) from error
