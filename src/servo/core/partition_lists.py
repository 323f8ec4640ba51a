"""Stored lists of partitions that are too long for an event."""

from collections.abc import Sequence
from hashlib import sha256

import msgspec

from servo.core.canonical import canonical_bytes
from servo.core.ids import Digest
from servo.errors import Corrupt

_decoder = msgspec.json.Decoder(tuple[str, ...])


def partition_list_bytes(keys: Sequence[str]) -> bytes:
    """The bytes that are stored for a list; equal lists have equal bytes."""
    return canonical_bytes(list(keys))


def partition_list_digest(data: bytes) -> Digest:
    """The name under which the bytes of a list are stored."""
    return Digest(sha256(data).hexdigest())


def parse_partition_list(data: bytes, digest: str) -> tuple[str, ...]:
    """The list that was stored under `digest`; `Corrupt` if these are not its bytes."""
    if partition_list_digest(data) != digest:
        raise Corrupt(
            f"the stored list of partitions {digest} does not match its hash",
            remedy="restore the object from a backup, or cancel the backfill and start another",
        )
    try:
        return _decoder.decode(data)
    except msgspec.MsgspecError as error:
        raise Corrupt(
            f"the stored list of partitions {digest} cannot be decoded: {error}",
            remedy="report this as a bug",
        ) from error
