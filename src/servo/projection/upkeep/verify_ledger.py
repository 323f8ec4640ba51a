"""Every entry and every segment of a ledger, checked one by one.

Problems are collected, not raised: an operator wants to know all that has to be restored.
"""

from collections.abc import Callable, Iterator

from servo.core.events.envelope import Entry
from servo.errors import Corrupt, NotFound
from servo.ledger.archive import ArchiveSegment, hot_entries, read_segment, segments_from
from servo.ledger.paths import Paths
from servo.ledger.reader import LedgerReader
from servo.ledger.segment import check_chain
from servo.ports.object_store import ObjectStore

_Progress = Callable[[int], None]
_Note = Callable[[Entry], None]


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
        note(entry)
        if before is not None and entry.prev_hash != before:
            yield _unchained(seq)
        before = digest


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
