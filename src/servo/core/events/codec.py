"""Ledger entries to bytes and back.

An entry is stored sealed (see `servo.core.sealed`). Events are decoded in two steps: all at once by
tag where every one is known, and one by one where not, so that an event of a newer version is kept
and not raised.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, cast

import msgspec

from servo.core.events.envelope import (
    Batch,
    Entry,
    Event,
    Instant,
    Original,
    UnknownEvent,
    Verdict,
)
from servo.core.events.registry import EVENTS, KnownEvent
from servo.core.events.upcast import upcast
from servo.core.format import check_known, needs_upgrade
from servo.core.sealed import UNREADABLE, damaged, seal, unseal
from servo.errors import Invalid

_REMEDY = (
    "restore this object from a backup; it is never skipped, because later entries build on it"
)
_NO_ENTRY = "it does not have the form of an entry"
_FORM = "send the fields of this event with the types that are documented"
MAX_EVENT_BYTES = 256 * 1024
MAX_ENTRY_BYTES = 4 * 1024 * 1024
MAX_BATCH_BYTES = MAX_ENTRY_BYTES - 4096


class _WireBatch(msgspec.Struct, kw_only=True):
    id: str
    events: msgspec.Raw = msgspec.Raw(b"[]")
    request_id: str = msgspec.field(default="", name="key")
    actor: str = ""
    correlation: str = ""
    cause: str = ""
    sent_at: Instant | None = None
    parkable: bool = False
    verdict: Verdict | None = None
    original: Original | None = None


class _WireEntry(msgspec.Struct, kw_only=True):
    format: int = 1
    min_reader: int = 1
    min_servo: str = ""
    seq: int
    epoch: int
    owner: str
    nonce: str
    ts: datetime
    prev_hash: str
    fold_version: int
    stall: bool = False
    identity: str = ""
    batches: tuple[_WireBatch, ...] = ()


class _RawEntry(msgspec.Struct, kw_only=True, omit_defaults=True):
    """An entry whose batches are already encoded."""

    format: int
    min_reader: int
    min_servo: str = ""
    seq: int
    epoch: int
    owner: str
    nonce: str
    ts: datetime
    prev_hash: str
    fold_version: int
    stall: bool
    identity: str = ""
    batches: Sequence[msgspec.Raw]


class _EntryNeeds(msgspec.Struct):
    """What every version of an entry has, for as long as there are versions."""

    nonce: str = ""
    fold_version: int = 1
    min_reader: int = 1
    min_servo: str = ""


class _Header(msgspec.Struct):
    type: str = ""
    v: int = 1


_encoder = msgspec.json.Encoder()
_entry = msgspec.json.Decoder(_WireEntry)
_batch = msgspec.json.Decoder(_WireBatch)
_entry_needs = msgspec.json.Decoder(_EntryNeeds)
_events = msgspec.json.Decoder(tuple[KnownEvent, ...])
_raws = msgspec.json.Decoder(tuple[msgspec.Raw, ...])
_header = msgspec.json.Decoder(_Header)
_plain = msgspec.json.Decoder(dict[str, Any])


def encode_batch(batch: Batch) -> bytes:
    """Encode a batch for an entry or the inbox; `Invalid` if it is larger than allowed."""
    try:
        raw = _encoder.encode(batch)
    except (TypeError, ValueError) as error:
        raise Invalid(f"the batch cannot be encoded as JSON: {error}", remedy=_FORM) from None
    if len(raw) > MAX_EVENT_BYTES:
        _check_sizes(batch, len(raw))
    return raw


def encode_judged(batch: Batch) -> bytes:
    """Encode a batch with its verdict for an entry.

    The batch passed the limits before it was judged. Its verdict and original are bounded.
    """
    return _encoder.encode(batch)


def _check_sizes(batch: Batch, size: int) -> None:
    if size > MAX_BATCH_BYTES:
        raise Invalid(
            f"the batch has {size} bytes; the limit is {MAX_BATCH_BYTES}",
            remedy="split it into smaller batches, or store large plans and lists by digest",
        )
    for position, event in enumerate(batch.events):
        length = len(_encoder.encode(event))
        if length > MAX_EVENT_BYTES:
            raise Invalid(
                f"event {position} ({type(event).__name__}) has {length} bytes; the limit "
                f"is {MAX_EVENT_BYTES}",
                remedy="send less data, or store large plans and lists by digest",
            )


def decode_batch(raw: bytes) -> Batch:
    """Decode a batch from the inbox or the parking table; `Invalid` if it is none."""
    try:
        return _to_batch(_batch.decode(raw))
    except UNREADABLE as error:
        raise Invalid(
            f"invalid batch: {error}",
            remedy="send a batch as documented in the reference of events",
        ) from None


def read_back(raw: bytes) -> Batch:
    """The batch that a replay will see in what `encode_batch` made; `Invalid` if it is another.

    Python does not stop anybody from putting a float where an integer belongs. The leader folds
    what this returns, so that it never folds what nobody could read again.
    """
    try:
        wire = _batch.decode(raw)
        events = cast("tuple[Event, ...]", _events.decode(bytes(wire.events)))
    except msgspec.ValidationError as error:
        raise Invalid(f"invalid event: {error}", remedy=_FORM) from None
    return _with_events(wire, events)


def encode_entry(entry: Entry, batches: Sequence[bytes]) -> tuple[bytes, str]:
    """Encode an entry from its header and its encoded batches; also its hash."""
    body = _encoder.encode(
        _RawEntry(
            format=entry.format,
            min_reader=entry.min_reader,
            min_servo=entry.min_servo,
            seq=entry.seq,
            epoch=entry.epoch,
            owner=entry.owner,
            nonce=entry.nonce,
            ts=entry.ts,
            prev_hash=entry.prev_hash,
            fold_version=entry.fold_version,
            stall=entry.stall,
            identity=entry.identity,
            batches=[msgspec.Raw(raw) for raw in batches],
        )
    )
    return seal(body)


def decode_entry(data: bytes, *, what: str) -> tuple[Entry, str]:
    """Decode a stored entry after checking its hash; `Corrupt` if anything is off.

    `NeedsUpgrade` if it needs a newer version of Servo, by what it says or by an event that this
    one does not know. Batches that a leader has set aside may hold any events.
    """
    body, digest = unseal(data, what=what, remedy=_REMEDY)
    try:
        wire = _entry.decode(body)
        _check_needs(what, wire)
        entry = _to_entry(wire)
    except UNREADABLE as error:
        _check_needs(what, _needs_of(body, what))
        raise damaged(what, f"{_NO_ENTRY}: {error}", remedy=_REMEDY) from None
    for batch in entry.batches:
        if batch.verdict is None:
            _check_events(what, batch)
    return entry, digest


def _check_needs(what: str, needs: "_EntryNeeds | _WireEntry") -> None:
    check_known(what, needs=needs.min_reader, servo=needs.min_servo, fold=needs.fold_version)


def _check_events(what: str, batch: Batch) -> None:
    for event in batch.events:
        if isinstance(event, UnknownEvent):
            raise needs_upgrade(
                f"{what} holds an event that this Servo does not know: {event.type!r}, "
                f"version {event.v}"
            )


def _needs_of(body: bytes, what: str) -> _EntryNeeds:
    try:
        return _entry_needs.decode(body)
    except UNREADABLE as error:
        raise damaged(what, f"{_NO_ENTRY}: {error}", remedy=_REMEDY) from None


def nonce_of_entry(data: bytes, *, what: str) -> str:
    """The nonce of a stored entry of any version; `Corrupt` if it is none."""
    body, _ = unseal(data, what=what, remedy=_REMEDY)
    return _needs_of(body, what).nonce


def _to_entry(wire: _WireEntry) -> Entry:
    return Entry(
        format=wire.format,
        min_reader=wire.min_reader,
        min_servo=wire.min_servo,
        seq=wire.seq,
        epoch=wire.epoch,
        owner=wire.owner,
        nonce=wire.nonce,
        ts=wire.ts,
        prev_hash=wire.prev_hash,
        fold_version=wire.fold_version,
        stall=wire.stall,
        identity=wire.identity,
        batches=tuple(_to_batch(batch) for batch in wire.batches),
    )


def _to_batch(wire: _WireBatch) -> Batch:
    return _with_events(wire, decode_events(bytes(wire.events)))


def _with_events(wire: _WireBatch, events: tuple[Event | UnknownEvent, ...]) -> Batch:
    return Batch(
        id=wire.id,
        events=events,
        request_id=wire.request_id,
        actor=wire.actor,
        correlation=wire.correlation,
        cause=wire.cause,
        sent_at=wire.sent_at,
        parkable=wire.parkable,
        verdict=wire.verdict,
        original=wire.original,
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
