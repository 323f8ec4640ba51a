"""Reading the ledger forward, entry by entry, from hot objects or from archived segments."""

from collections.abc import Iterator

from servo.core.events.codec import decode_entry
from servo.core.events.envelope import Entry
from servo.errors import Corrupt, NotFound
from servo.ledger.archive import ArchiveReader
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
