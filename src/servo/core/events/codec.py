"""Ledger entries to bytes and back.

An entry is stored as `{"sha256": H, "body": {...}}` where H is the hash of the bytes of the body
exactly as they stand. It is checked before anything inside is parsed, so a flipped bit is found
and never interpreted. Events are decoded in two steps: all at once by tag where every one is
known, and one by one where not, so that an event of a newer version is kept and not raised.
"""

from collections.abc import Sequence
from datetime import datetime
from hashlib import sha256
from typing import Any, cast

import msgspec

from servo.core.events.envelope import Batch, Entry, Event, Instant, UnknownEvent
from servo.core.events.registry import EVENTS, KnownEvent
from servo.core.events.upcast import upcast
from servo.errors import Corrupt, Invalid

MAX_EVENT_BYTES = 256 * 1024
MAX_ENTRY_BYTES = 4 * 1024 * 1024
MAX_BATCH_BYTES = MAX_ENTRY_BYTES - 4096

_PREFIX = b'{"sha256":"'
_MIDDLE = b'","body":'
_SEAL_BYTES = len(_PREFIX) + 64 + len(_MIDDLE) + 1


# What msgspec raises for bytes that are no JSON, no UTF-8, of another form, or nested too deeply.
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class _WireBatch(msgspec.Struct, kw_only=True):
    id: str
    events: msgspec.Raw = msgspec.Raw(b"[]")
    key: str = ""
    actor: str = ""
    sent_at: Instant | None = None
    parkable: bool = False
    quarantined: str = ""


class _WireEntry(msgspec.Struct, kw_only=True):
    seq: int
    epoch: int
    owner: str
    nonce: str
    ts: datetime
    prev_hash: str
    fold_version: int
    stall: bool = False
    batches: tuple[_WireBatch, ...] = ()


class _RawEntry(msgspec.Struct, kw_only=True):
    """An entry whose batches are already encoded."""

    seq: int
    epoch: int
    owner: str
    nonce: str
    ts: datetime
    prev_hash: str
    fold_version: int
    stall: bool
    batches: Sequence[msgspec.Raw]


class _Sealed(msgspec.Struct):
    sha256: str
    body: msgspec.Raw


class _Header(msgspec.Struct):
    type: str = ""
    v: int = 1


_encoder = msgspec.json.Encoder()
_sealed = msgspec.json.Decoder(_Sealed)
_entry = msgspec.json.Decoder(_WireEntry)
_batch = msgspec.json.Decoder(_WireBatch)
_events = msgspec.json.Decoder(tuple[KnownEvent, ...])
_raws = msgspec.json.Decoder(tuple[msgspec.Raw, ...])
_header = msgspec.json.Decoder(_Header)
_plain = msgspec.json.Decoder(dict[str, Any])


def encode_batch(batch: Batch) -> bytes:
    """Encode a batch for an entry or the inbox; `Invalid` if it is larger than allowed."""
    raw = _encoder.encode(batch)
    if len(raw) > MAX_EVENT_BYTES:
        _check_sizes(batch, len(raw))
    return raw


def _check_sizes(batch: Batch, size: int) -> None:
    if size > MAX_BATCH_BYTES:
        raise Invalid(
            f"the batch has {size} bytes and an entry takes {MAX_BATCH_BYTES}",
            remedy="split it into smaller batches, or store large plans and lists by digest",
        )
    for position, event in enumerate(batch.events):
        length = len(_encoder.encode(event))
        if length > MAX_EVENT_BYTES:
            raise Invalid(
                f"event {position} ({type(event).__name__}) has {length} bytes, "
                f"more than {MAX_EVENT_BYTES}",
                remedy="store large plans and lists by digest and send the digest",
            )


def decode_batch(raw: bytes) -> Batch:
    """Decode a batch from the inbox or the parking table; `Invalid` if it is none."""
    try:
        return _to_batch(_batch.decode(raw))
    except _UNREADABLE as error:
        raise Invalid(f"not a batch: {error}", remedy="send a batch object as documented") from None


def encode_entry(entry: Entry, batches: Sequence[bytes]) -> tuple[bytes, str]:
    """Encode an entry from its header and its encoded batches; also its hash."""
    body = _encoder.encode(
        _RawEntry(
            seq=entry.seq,
            epoch=entry.epoch,
            owner=entry.owner,
            nonce=entry.nonce,
            ts=entry.ts,
            prev_hash=entry.prev_hash,
            fold_version=entry.fold_version,
            stall=entry.stall,
            batches=[msgspec.Raw(raw) for raw in batches],
        )
    )
    digest = sha256(body).hexdigest()
    return b"".join((_PREFIX, digest.encode(), _MIDDLE, body, b"}")), digest


def decode_entry(data: bytes, *, what: str) -> tuple[Entry, str]:
    """Decode a stored entry after checking its hash; `Corrupt` if anything is off."""
    try:
        sealed = _sealed.decode(data)
    except _UNREADABLE as error:
        raise _corrupt(what, f"it is not a sealed object: {error}") from None
    body = bytes(sealed.body)
    if sha256(body).hexdigest() != sealed.sha256 or len(data) != len(body) + _SEAL_BYTES:
        raise _corrupt(what, "its bytes do not match their hash")
    try:
        return _to_entry(_entry.decode(body)), sealed.sha256
    except _UNREADABLE as error:
        raise _corrupt(what, f"it does not have the form of an entry: {error}") from None


def _corrupt(what: str, why: str) -> Corrupt:
    return Corrupt(
        f"{what} is damaged: {why}",
        remedy="restore this object from a backup; it is never skipped, because later entries "
        "build on it",
    )


def _to_entry(wire: _WireEntry) -> Entry:
    return Entry(
        seq=wire.seq,
        epoch=wire.epoch,
        owner=wire.owner,
        nonce=wire.nonce,
        ts=wire.ts,
        prev_hash=wire.prev_hash,
        fold_version=wire.fold_version,
        stall=wire.stall,
        batches=tuple(_to_batch(batch) for batch in wire.batches),
    )


def _to_batch(wire: _WireBatch) -> Batch:
    return Batch(
        id=wire.id,
        events=decode_events(bytes(wire.events)),
        key=wire.key,
        actor=wire.actor,
        sent_at=wire.sent_at,
        parkable=wire.parkable,
        quarantined=wire.quarantined,
    )


def decode_events(raw: bytes) -> tuple[Event | UnknownEvent, ...]:
    """Decode a JSON array of events; what is not known comes back as `UnknownEvent`."""
    try:
        return cast("tuple[Event, ...]", _events.decode(raw))
    except msgspec.ValidationError:
        return tuple(_decode_one(bytes(item)) for item in _raws.decode(raw))


def _decode_one(raw: bytes) -> Event | UnknownEvent:
    try:
        header = _header.decode(raw)
    except msgspec.ValidationError:
        return UnknownEvent(type="", v=0, raw=raw)
    kind = EVENTS.get(header.type)
    if kind is None:
        return UnknownEvent(type=header.type, v=header.v, raw=raw)
    try:
        return msgspec.convert(upcast(_plain.decode(raw), to=kind.VERSION), kind)
    except msgspec.ValidationError:
        return UnknownEvent(type=header.type, v=header.v, raw=raw)
