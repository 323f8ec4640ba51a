"""Archiving as a background job: a little at a time.

A segment takes thousands of reads and the leader's background does one thing at a time, so a
`Packer` reads a few entries in each step and writes the segment when it has enough. What it has
read is only in memory: a leader that dies in between leaves nothing, and the next begins again.
"""

from datetime import timedelta

from servo.errors import ServoError
from servo.ledger.archive import (
    ArchiveDue,
    ArchiveSegment,
    hot_entries,
    hot_entry,
    segments_from,
    write_segment,
)
from servo.ledger.paths import Paths
from servo.ledger.segment import MAX_BYTES
from servo.ports.object_store import ObjectStore

WORTH_A_SEGMENT = 2_000

# Fewer are packed when the oldest has waited a day for company: an idle workspace would
# otherwise get a segment for every entry.
FILL_FOR = timedelta(days=1)


class Packer:
    """Archives the old end of one ledger, segment by segment."""

    def __init__(self, store: ObjectStore, paths: Paths, *, worth: int = WORTH_A_SEGMENT) -> None:
        self._store = store
        self._paths = paths
        self._worth = worth
        self._next = 0
        self._last = 0
        self._size = 0
        self._entries: list[bytes] = []

    def step(self, due: ArchiveDue, *, reads: int) -> ArchiveSegment | None:
        """Read up to `reads` entries that are due; the segment, once one was written."""
        if not self._last and not self._begin(due):
            return None
        try:
            return self._advance(reads)
        except ServoError:
            self._reset()
            raise

    @property
    def under_way(self) -> bool:
        """Whether a segment was begun and is not written yet."""
        return bool(self._entries)

    def _begin(self, due: ArchiveDue) -> bool:
        start = archived_through(self._store, self._paths)
        hot = hot_entries(self._store, self._paths, after=start, limit=self._worth)
        old = [meta for seq, meta in hot if due.includes(seq, meta)]
        if not old:
            return False
        if len(old) < self._worth and old[0].modified > due.older_than - FILL_FOR:
            return False
        self._next, self._last = start + 1, start + len(old)
        return True

    def _advance(self, reads: int) -> ArchiveSegment | None:
        for _ in range(reads):
            data = hot_entry(self._store, self._paths, self._next)
            if self._entries and self._size + len(data) + 1 > MAX_BYTES:
                return self._write()
            self._entries.append(data)
            self._size += len(data) + 1
            self._next += 1
            if self._next > self._last:
                return self._write()
        return None

    def _write(self) -> ArchiveSegment:
        segment = write_segment(self._store, self._paths, self._entries)
        self._reset()
        return segment

    def _reset(self) -> None:
        self._entries = []
        self._size = self._next = self._last = 0


def archived_through(store: ObjectStore, paths: Paths) -> int:
    """The last entry up to which all is archived; the one before the first hot one if none is."""
    hot = hot_entries(store, paths, after=0, limit=1)
    end = hot[0][0] - 1 if hot else 0
    for segment in segments_from(store, paths, end + 1):
        if segment.first <= end + 1:
            end = max(end, segment.last)
    return end
