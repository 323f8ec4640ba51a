"""An archived segment: consecutive ledger entries in one compressed object.

    skippable frame     magic, length, {"sha256": H, "body": {first, last, …, sha256}}
    zstd frame          one stored entry a line, its exact bytes

A file of this form is ordinary zstd: `zstd -dc` skips the header and prints the entries. The
header is sealed by its own hash and holds the hash of everything after it, so damage is found
before anything is decompressed. `prev_hash` and `last_hash` continue the ledger's chain across
segments without opening them.

A segment holds at most `MAX_ENTRIES` entries. That number is part of the format: the segment with
a given entry is found by listing a window of that many numbers, however long the archive is.
"""

from collections.abc import Sequence
from hashlib import sha256

import msgspec

from servo.core.events.codec import decode_entry
from servo.core.format import FORMAT, check_known
from servo.errors import Corrupt, Internal
from servo.ledger import zstd

MAX_ENTRIES = 10_000
MAX_BYTES = 64 * 1024 * 1024  # before compression, so that reading one has a bound too

_MAGIC = (0x184D2A50).to_bytes(4, "little")
_PRELUDE = 8


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a segment without decompressing it. `size` is that of the lines."""

    format: int = 1
    min_reader: int = 1
    min_servo: str = ""
    first: int
    last: int
    prev_hash: str
    last_hash: str
    size: int
    sha256: str


class _SegmentNeeds(msgspec.Struct):
    min_reader: int = 1
    min_servo: str = ""


class _SealedSegment(msgspec.Struct):
    sha256: str
    body: msgspec.Raw


_encoder = msgspec.json.Encoder()
_sealed = msgspec.json.Decoder(_SealedSegment)
_header = msgspec.json.Decoder(Header)
_needs = msgspec.json.Decoder(_SegmentNeeds)


def encode_segment(entries: Sequence[bytes]) -> bytes:
    """The segment of these stored entries; `Corrupt` unless they are intact and consecutive."""
    prev_hash, first, last_hash = check_chain(entries)
    lines = b"".join(entry + b"\n" for entry in entries)
    if lines.count(b"\n") != len(entries):
        raise Internal(
            "a ledger entry holds a line break, and a segment has one entry a line",
            remedy="nothing was archived and nothing is lost; report this as a bug",
        )
    frame = zstd.compress(lines)
    header = Header(
        format=FORMAT,
        first=first,
        last=first + len(entries) - 1,
        prev_hash=prev_hash,
        last_hash=last_hash,
        size=len(lines),
        sha256=sha256(frame).hexdigest(),
    )
    return _sealed_header(header) + frame


def decode_segment(data: bytes, *, what: str) -> tuple[Header, list[bytes]]:
    """The header and the stored entries of a segment; `Corrupt` if anything is off."""
    header, frame = _opened(data, what)
    if sha256(frame).hexdigest() != header.sha256:
        raise damaged(what, "its bytes do not match their hash")
    try:
        lines = zstd.decompress(frame, size=header.size)
    except OSError as error:
        raise damaged(what, str(error)) from None
    entries = lines.removesuffix(b"\n").split(b"\n")
    if len(lines) != header.size or len(entries) != header.last - header.first + 1:
        raise damaged(what, "it does not hold the entries its header names")
    return header, entries


def check_chain(entries: Sequence[bytes]) -> tuple[str, int, str]:
    """The hash before, the first number and the hash at the end of consecutive entries."""
    before: tuple[str, int] | None = None
    seq, hashed = 0, ""
    for data in entries:
        entry, digest = decode_entry(data, what="a ledger entry to be archived")
        if before is None:
            before = entry.prev_hash, entry.seq
        elif (entry.seq, entry.prev_hash) != (seq + 1, hashed):
            raise Corrupt(
                f"ledger entry {entry.seq} does not continue entry {seq}",
                remedy="nothing was archived; restore the ledger from a backup",
            )
        seq, hashed = entry.seq, digest
    if before is None:
        raise Internal("a segment has no entries", remedy="archive at least one entry")
    return *before, hashed


def damaged(what: str, why: str) -> Corrupt:
    return Corrupt(
        f"{what} is damaged: {why}",
        remedy="restore this object from a backup; entries are never skipped, because later "
        "ones build on them",
    )


def _sealed_header(header: Header) -> bytes:
    body = _encoder.encode(header)
    text = _encoder.encode(_SealedSegment(sha256=sha256(body).hexdigest(), body=msgspec.Raw(body)))
    return _MAGIC + len(text).to_bytes(4, "little") + text


def _opened(data: bytes, what: str) -> tuple[Header, bytes]:
    end = _PRELUDE + int.from_bytes(data[4:_PRELUDE], "little")
    if data[:4] != _MAGIC or len(data) < end:
        raise damaged(what, "it does not begin with a header")
    try:
        sealed = _sealed.decode(data[_PRELUDE:end])
        body = bytes(sealed.body)
        if sha256(body).hexdigest() != sealed.sha256:
            raise damaged(what, "its header does not match its hash")
        needs = _needs.decode(body)
        check_known(what, needs=needs.min_reader, servo=needs.min_servo)
        return _header.decode(body), data[end:]
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise damaged(what, f"its header cannot be read: {error}") from None
