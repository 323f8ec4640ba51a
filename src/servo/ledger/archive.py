"""The archive: old ledger entries, moved from one object each into segments of many.

The ledger is never shortened, only packed. Its parts are in this order, and each may be missing:

    archived only  ·  archived and hot  ·  hot only

**What a crash leaves.** `write_segment` creates a segment and reads it back: before that nothing
has changed, after it the entries exist twice. `delete_archived` removes hot copies, oldest first,
each only after its segment was verified: wherever it stops, every entry exists at least once.
Both can be repeated from the start by anybody, at any time; two that race write the same entries.

**Archived wins over hot.** They are equal, with one exception: the place of a deleted entry can
be filled once more by a leader that slept through all of this and does not know yet that it is
none. It will find out before it acknowledges anything; its entry must not be taken for history.
"""

import re
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import islice

import msgspec

from servo.core.events.codec import decode_entry
from servo.errors import Conflict, Corrupt, Invalid
from servo.ledger.paths import Paths, seq_of
from servo.ledger.segment import (
    MAX_ENTRIES,
    check_chain,
    damaged,
    decode_segment,
    encode_segment,
)
from servo.ports.object_store import ObjectMeta, ObjectStore

SEGMENTS_KEPT = 2
PAGE = 1_000

_NAME = re.compile(r"/([0-9]{20})-([0-9]{20})\.ndjson\.zst$")


class ArchiveSegment(msgspec.Struct, frozen=True, kw_only=True):
    """A segment as its name tells."""

    key: str
    first: int
    last: int

    def holds(self, seq: int) -> bool:
        return self.first <= seq <= self.last


class ArchiveDue(msgspec.Struct, frozen=True, kw_only=True):
    """Which entries need not stay hot: those up to `upto` that were written by `older_than`."""

    upto: int
    older_than: datetime

    def includes(self, seq: int, meta: ObjectMeta) -> bool:
        return seq <= self.upto and meta.modified <= self.older_than


# --- reading --------------------------------------------------------------------------------------


class ArchiveReader:
    """Reads archived entries by number. Keeps what was listed and a few segments in memory."""

    def __init__(self, store: ObjectStore, paths: Paths) -> None:
        self._store = store
        self._paths = paths
        self._known: list[ArchiveSegment] = []
        self._listed_from: int | None = None
        self._last: ArchiveSegment | None = None
        self._open: OrderedDict[str, list[bytes]] = OrderedDict()

    def covers(self, seq: int) -> bool:
        """Whether a segment is known to hold entry `seq`; looks once and not again."""
        if self._listed_from is None or seq < self._listed_from:
            self._look(seq)
        return self._find(seq) is not None

    def read(self, seq: int) -> bytes | None:
        """The stored bytes of entry `seq`, or None if it is not archived by now."""
        segment = self._find(seq)
        if segment is None:
            self._look(seq)
            segment = self._find(seq)
        return None if segment is None else self._entries(segment)[seq - segment.first]

    def _find(self, seq: int) -> ArchiveSegment | None:
        if self._last is None or not self._last.holds(seq):
            self._last = next((held for held in self._known if held.holds(seq)), None)
        return self._last

    def _look(self, seq: int) -> None:
        self._known = list(segments_from(self._store, self._paths, seq))
        self._listed_from = seq

    def _entries(self, segment: ArchiveSegment) -> list[bytes]:
        held = self._open.get(segment.key)
        if held is None:
            held = self._open[segment.key] = read_segment(self._store, segment)
            if len(self._open) > SEGMENTS_KEPT:
                _ = self._open.popitem(last=False)
        return held


def read_segment(store: ObjectStore, segment: ArchiveSegment) -> list[bytes]:
    """The stored entries of a segment; `Corrupt` unless it is intact and what its name says."""
    header, entries = decode_segment(store.get(segment.key).data, what=segment.key)
    if (header.first, header.last) != (segment.first, segment.last):
        raise damaged(segment.key, f"it holds entries {header.first} to {header.last}")
    return entries


def segments_from(store: ObjectStore, paths: Paths, seq: int) -> Iterator[ArchiveSegment]:
    """The segments that hold entry `seq` or a later one, by their first entry."""
    # No segment is longer than that, so an earlier one cannot reach so far.
    after = f"{paths.archive_prefix}{max(seq - MAX_ENTRIES, 0):020d}"
    for meta in _pages(store, paths.archive_prefix, after):
        found = _segment(meta.key)
        if found is not None and found.last >= seq:
            yield found


def _pages(store: ObjectStore, prefix: str, after: str, size: int = PAGE) -> Iterator[ObjectMeta]:
    while True:
        page = store.list_after(prefix, after=after, limit=size)
        yield from page
        if len(page) < size:
            return
        after = page[-1].key


def _segment(key: str) -> ArchiveSegment | None:
    """The segment of this name; what somebody else left in the folder is none of ours."""
    found = _NAME.search(key)
    if found is None:
        return None
    return ArchiveSegment(key=key, first=int(found.group(1)), last=int(found.group(2)))


# --- packing --------------------------------------------------------------------------------------


def hot_entry(store: ObjectStore, paths: Paths, seq: int) -> bytes:
    """The stored bytes of a hot entry, whose hash and number were checked."""
    data = store.get(paths.ledger_entry(seq)).data
    entry, _ = decode_entry(data, what=f"ledger entry {seq}")
    if entry.seq != seq:
        raise Corrupt(
            f"the object of ledger entry {seq} holds entry {entry.seq}",
            remedy="restore this object from a backup",
        )
    return data


def write_segment(store: ObjectStore, paths: Paths, entries: Sequence[bytes]) -> ArchiveSegment:
    """Store consecutive entries as one segment and read it back."""
    data = encode_segment(entries)
    prev_hash, first, _ = check_chain(entries[:1])
    _check_continues(ArchiveReader(store, paths), first, prev_hash)
    last = first + len(entries) - 1
    segment = ArchiveSegment(key=paths.archive_segment(first, last), first=first, last=last)
    with suppress(Conflict):  # an earlier try, or somebody else's: what it holds is judged now
        _ = store.create(segment.key, data)
    if read_segment(store, segment) != list(entries):
        raise damaged(segment.key, "it does not hold the entries of the ledger")
    return segment


def _check_continues(archive: ArchiveReader, first: int, prev_hash: str) -> None:
    """Refuse entries that do not follow what is archived before them."""
    before = archive.read(first - 1) if first > 1 else None
    if before is not None and decode_entry(before, what=f"entry {first - 1}")[1] != prev_hash:
        raise Corrupt(
            f"ledger entry {first} does not continue the archived entry {first - 1}",
            remedy="nothing was archived; restore the ledger from a backup",
        )


def delete_archived(
    store: ObjectStore, paths: Paths, due: ArchiveDue, *, limit: int
) -> list[ObjectMeta]:
    """Delete up to `limit` hot entries, oldest first, that are safe in the archive; those deleted.

    Stops at the first one that is not due or not archived.
    """
    archive = ArchiveReader(store, paths)
    deleted: list[ObjectMeta] = []
    for seq, meta in hot_entries(store, paths, after=0, limit=limit):
        if not due.includes(seq, meta) or not _is_safe(archive, seq):
            break
        store.delete(meta.key)
        deleted.append(meta)
    return deleted


def _is_safe(archive: ArchiveReader, seq: int) -> bool:
    """Whether the archive gives back entry `seq`, intact; `Corrupt` if it is damaged."""
    data = archive.read(seq)
    return data is not None and decode_entry(data, what=f"archived entry {seq}")[0].seq == seq


def hot_entries(
    store: ObjectStore, paths: Paths, *, after: int, limit: int
) -> list[tuple[int, ObjectMeta]]:
    """The next hot entries after number `after`, by number."""
    metas = _pages(store, paths.ledger_prefix, paths.ledger_entry(after), min(limit, PAGE))
    return list(islice(_numbered(metas), limit))


def last_entry(store: ObjectStore, paths: Paths, *, after: int = 0) -> int:
    """The number of the last entry that is stored, hot or archived; `after` if none is later."""
    end = max((segment.last for segment in segments_from(store, paths, after + 1)), default=after)
    while page := hot_entries(store, paths, after=end, limit=PAGE):
        end = page[-1][0]
    return end


def _numbered(metas: Iterator[ObjectMeta]) -> Iterator[tuple[int, ObjectMeta]]:
    for meta in metas:
        try:
            yield seq_of(meta.key), meta
        except Invalid:
            continue  # what somebody else left in the folder is none of ours
