"""Reading the ledger forward, entry by entry, from hot objects or from archived segments.

Where the ledger ends, nothing is stored behind the last entry. An entry that is missing while
later ones exist is a hole, and a hole is `Corrupt`, never an end. A listing alone does not prove
a hole: a store that is written to meanwhile may list entry 8 and leave out entry 7, which was
created during the listing. So the missing entry is read once more before anybody hears of it.
"""

from collections.abc import Iterator

from servo.core.events.codec import decode_entry
from servo.core.events.envelope import Entry
from servo.errors import Corrupt, NotFound
from servo.ledger.archive import ArchiveReader, hot_entries, last_entry, segments_from
from servo.ledger.paths import Paths
from servo.ports.object_store import ObjectStore


class LedgerReader:
    """Reads entries of one workspace by sequence number."""

    def __init__(self, store: ObjectStore, paths: Paths) -> None:
        self._store = store
        self._paths = paths
        self._archive = ArchiveReader(store, paths)

    def read(self, seq: int) -> tuple[Entry, str] | None:
        """The entry at `seq` and its hash, or None if nothing is stored there."""
        data = self.read_bytes(seq)
        if data is None:
            return None
        entry, digest = decode_entry(data, what=f"ledger entry {seq}")
        if entry.seq != seq:
            raise Corrupt(
                f"the object of ledger entry {seq} holds entry {entry.seq}",
                remedy="restore this object from a backup",
            )
        return entry, digest

    def read_bytes(self, seq: int) -> bytes | None:
        """The stored bytes of an entry.

        What is archived is read from the archive: its hot slot was emptied, and a leader that
        slept through all of that may have filled it again.
        """
        if self._archive.covers(seq):
            return self._archive.read(seq)
        try:
            return self._store.get(self._paths.ledger_entry(seq)).data
        except NotFound:
            return self._archive.read(seq)

    def forward(self, after: int, until: int | None = None) -> Iterator[tuple[Entry, str]]:
        """Entries after `after`, in order, up to `until` or the first missing one."""
        seq = after + 1
        while until is None or seq <= until:
            found = self.read(seq)
            if found is None:
                return
            yield found
            seq += 1

    def last(self, after: int) -> Entry | None:
        """The last entry that is stored; None if there is none after `after`."""
        end = last_entry(self._store, self._paths, after=after)
        found = self.read(end) if end > after else None
        return None if found is None else found[0]

    def identity(self) -> str | None:
        """The identity of the workspace by its first entry; None if nothing was ever written.

        `Corrupt` if the first entry is missing or does not tell it.
        """
        while (found := self.read(1)) is None:
            if self.ends_after(0):
                return None
        if not found[0].identity:
            raise Corrupt(
                "ledger entry 1 does not carry the identity of the workspace",
                remedy="it was written by a version of Servo that was never released; restore at "
                "least one manifest from a backup",
            )
        return found[0].identity

    def ends_after(self, seq: int) -> bool:
        """Whether entry `seq` is the last one, False if the next has appeared meanwhile.

        `Corrupt` if the next entry is missing and a later one exists.
        """
        later = self._first_listed(seq)
        if later is None:
            return True
        if self.read_bytes(seq + 1) is not None:
            return False
        raise Corrupt(
            f"ledger entry {seq + 1} is missing, but entry {later} exists",
            remedy="restore the missing entries from a backup; entries are never skipped",
        )

    def _first_listed(self, seq: int) -> int | None:
        """The smallest number that a listing shows behind `seq`; None if it shows none."""
        hot = [number for number, _ in hot_entries(self._store, self._paths, after=seq, limit=1)]
        segments = segments_from(self._store, self._paths, seq + 1)
        return min([*hot, *(max(segment.first, seq + 1) for segment in segments)], default=None)
