"""Every entry and every segment of a ledger, checked one by one.

An entry must be intact and continue the chain of hashes; be later than the entries before it,
because its time is the only time there is; and the first one of a leader must be a fence, because
a former leader is kept out by nothing else. Entries of a leader that was fenced are dead, and
count for the chain alone.

Problems are collected, not raised: an operator wants to know all that has to be restored.
"""

from collections.abc import Callable, Iterator
from datetime import datetime

from servo.core.events.envelope import Entry
from servo.core.state.state import EPOCH_START
from servo.errors import Corrupt, NotFound
from servo.ledger.archive import ArchiveSegment, hot_entries, read_segment, segments_from
from servo.ledger.paths import Paths
from servo.ledger.reader import LedgerReader
from servo.ledger.segment import check_chain
from servo.ports.object_store import ObjectStore

PAGE = 1_000

_Progress = Callable[[int], None]
_Note = Callable[["VerifiedEntry"], None]


class VerifiedEntry:
    """An entry that could be read, and the epoch and the time that the ledger reached with it."""

    __slots__ = ("digest", "entry", "epoch", "ts")

    def __init__(self, entry: Entry, digest: str, epoch: int, ts: datetime) -> None:
        self.entry = entry
        self.digest = digest
        self.epoch = epoch
        self.ts = ts


def ledger_end(store: ObjectStore, paths: Paths) -> int:
    """The number of the last entry that is stored, hot or archived."""
    end = max((segment.last for segment in segments_from(store, paths, 1)), default=0)
    while page := hot_entries(store, paths, after=end, limit=PAGE):
        end = page[-1][0]
    return end


def check_ledger(
    store: ObjectStore, paths: Paths, end: int, *, progress: _Progress, note: _Note
) -> Iterator[Corrupt]:
    """What is wrong with the entries up to `end`, and with the archive.

    `note` is called with every entry that can be read.
    """
    yield from _check_entries(LedgerReader(store, paths), end, progress, note)
    yield from _check_segments(store, paths)


def _check_entries(
    reader: LedgerReader, end: int, progress: _Progress, note: _Note
) -> Iterator[Corrupt]:
    before: str | None = ""
    hole: int | None = None
    term = _Term()
    for seq in range(1, end + 1):
        progress(seq)
        try:
            found = reader.read(seq)
        except Corrupt as error:
            yield error
            before = None
            continue
        if found is None:
            hole, before = (seq if hole is None else hole), None
            continue
        if hole is not None:
            yield _missing(hole, seq - 1)
            hole = None
        entry, digest = found
        if before is not None and entry.prev_hash != before:
            yield _unchained(seq)
        yield from term.follow(entry, complete=before is not None)
        note(VerifiedEntry(entry, digest, term.epoch, term.ts))
        before = digest


class _Term:
    """Who leads and what time it is, from one entry to the next."""

    def __init__(self) -> None:
        self.epoch = 0
        self.owner = ""
        self.ts = EPOCH_START

    def follow(self, entry: Entry, *, complete: bool) -> Iterator[Corrupt]:
        """Go on to an entry; `complete` if the one before could be read."""
        if entry.epoch < self.epoch:
            return  # dead
        if entry.ts <= self.ts:
            yield _too_early(entry, self.ts)
        changed = (entry.epoch, entry.owner) != (self.epoch, self.owner)
        if complete and changed and self.epoch and entry.batches:
            yield _unfenced(entry)
        self.epoch, self.owner, self.ts = entry.epoch, entry.owner, max(self.ts, entry.ts)


def _check_segments(store: ObjectStore, paths: Paths) -> Iterator[Corrupt]:
    for segment in segments_from(store, paths, 1):
        try:
            entries = read_segment(store, segment)
            _ = check_chain(entries)
        except Corrupt as error:
            yield error
            continue
        yield from _check_copies(store, paths, segment, entries)


def _check_copies(
    store: ObjectStore, paths: Paths, segment: ArchiveSegment, entries: list[bytes]
) -> Iterator[Corrupt]:
    """Hot copies of archived entries must equal them."""
    page = hot_entries(store, paths, after=segment.first - 1, limit=len(entries))
    for seq, meta in page:
        if not segment.holds(seq):
            return
        try:
            data = store.get(meta.key).data
        except NotFound:
            continue  # deleted meanwhile, as it should be
        if data != entries[seq - segment.first]:
            yield Corrupt(
                f"{meta.key} is not the entry {seq} that was archived",
                remedy="delete this object: the archived entry is the one the ledger continues",
            )


def _missing(first: int, last: int) -> Corrupt:
    which = f"entry {first} is" if first == last else f"entries {first} to {last} are"
    return Corrupt(f"ledger {which} missing", remedy="restore the ledger from a backup")


def _unchained(seq: int) -> Corrupt:
    return Corrupt(
        f"ledger entry {seq} does not continue the chain of hashes",
        remedy="an entry was replaced; restore the ledger from a backup",
    )


def _too_early(entry: Entry, ts: datetime) -> Corrupt:
    return Corrupt(
        f"ledger entry {entry.seq} is dated {entry.ts.isoformat()}, which is not later than "
        f"{ts.isoformat()}, the time of the entries before it",
        remedy="an entry was replaced; restore the ledger from a backup",
    )


def _unfenced(entry: Entry) -> Corrupt:
    return Corrupt(
        f"ledger entry {entry.seq} is the first of the owner {entry.owner} in epoch "
        f"{entry.epoch}, and has batches instead of being a fence",
        remedy="an entry was replaced; restore the ledger from a backup",
    )
