"""Archive segments without a leader that archives."""

from servo.ledger.archive import hot_entry, write_segment
from servo.ledger.paths import Paths
from servo.ledger.segment import MAX_BYTES, MAX_ENTRIES
from servo.ports.object_store import ObjectStore


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
