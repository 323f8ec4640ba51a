"""Ledger entries and archive segments, without a leader that writes them."""

from datetime import timedelta

from servo.core.events.codec import encode_entry
from servo.core.events.envelope import Entry
from servo.ledger.archive import hot_entry, write_segment
from servo.ledger.paths import Paths
from servo.ledger.segment import MAX_BYTES, MAX_ENTRIES
from servo.ports.object_store import ObjectStore
from servo.testing.builders import START


def archive_range(store: ObjectStore, paths: Paths, first: int, last: int) -> str:
    """Archive the hot entries from `first`, to `last` or to where a segment is full; its key."""
    entries: list[bytes] = []
    room = MAX_BYTES
    for seq in range(first, min(last, first + MAX_ENTRIES - 1) + 1):
        data = hot_entry(store, paths, seq)
        room -= len(data) + 1
        if entries and room < 0:
            break
        entries.append(data)
    return write_segment(store, paths, entries).key


def chained_entries(count: int, *, filler: int = 0) -> list[bytes]:
    """Stored entries 1 to `count`, chained."""
    made: list[bytes] = []
    before = ""
    for seq in range(1, count + 1):
        ts = START + timedelta(seconds=seq)
        entry = Entry(
            seq=seq, epoch=1, owner="o", nonce=f"n{seq}", ts=ts, prev_hash=before, fold_version=1
        )
        batches = [b'{"id":"%s"}' % (b"x" * filler)] if filler else []
        data, before = encode_entry(entry, batches)
        made.append(data)
    return made
