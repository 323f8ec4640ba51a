"""Appending to the ledger: one entry, one object, one winner.

The key of an entry is its sequence number, so two leaders that append at the same place write the
same key and the store lets one of them through. Whoever loses is not the leader any more and
stops. There is one append in flight: a second one behind it could land beyond a successor's
fence.
"""

from collections.abc import Sequence

from servo.core.events.codec import encode_entry, nonce_of_entry
from servo.core.events.envelope import Entry
from servo.errors import Fenced
from servo.ledger.paths import Paths
from servo.ledger.slots import create_owned
from servo.ports.object_store import Blob, ObjectStore


def entry_nonce(data: bytes) -> str:
    """The nonce of a stored entry; `Corrupt` if it is none."""
    return nonce_of_entry(data, what="the ledger entry in this slot")


class LedgerWriter:
    """Appends entries of one workspace."""

    def __init__(self, store: ObjectStore, paths: Paths) -> None:
        self._store = store
        self._paths = paths

    def append(self, entry: Entry, batches: Sequence[bytes]) -> str:
        """Make an entry durable and return its hash; `Fenced` if its place is taken."""
        data, digest = encode_entry(entry, batches)
        if self.offer(entry, data) is not None:
            raise Fenced(
                f"another leader wrote ledger entry {entry.seq}",
                remedy="nothing is lost; send the request to the new leader",
            )
        return digest

    def offer(self, entry: Entry, data: bytes) -> Blob | None:
        """Try to take the entry's place; what stands there if somebody else was first."""
        key = self._paths.ledger_entry(entry.seq)
        return create_owned(self._store, key, data, nonce=entry.nonce, nonce_of=entry_nonce)
