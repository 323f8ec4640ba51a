"""New files: built from changes or merges, named, described, uploaded.

A name carries a nonce, so two leaders never write the same key, and a file is complete before any
manifest refers to it.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from hashlib import sha256

import msgspec

from servo.core.manifest import FileEntry, ObjectRef, Tier
from servo.core.state.tables import TABLES
from servo.errors import Internal
from servo.ledger.paths import Paths
from servo.ports.object_store import ObjectStore
from servo.projection.files.arrow import ArrowTable
from servo.projection.files.files import upload
from servo.projection.files.parquet import GROUP_ROWS, to_table
from servo.projection.files.schema import key_parts
from servo.projection.files.segment import Segment, SegmentWriter
from servo.projection.publish.capture import TierChange
from servo.projection.read.cold import ColdRows

Objects = Sequence[tuple[str, bytes]]
Uploads = Callable[[ObjectStore, Objects], None]


class FilePlacement(msgspec.Struct, frozen=True, kw_only=True):
    """Where a new file belongs. `seq` is that of the newest change it can hold."""

    table: str
    tier: Tier
    level: int
    seq: int
    nonce: str
    written_at: datetime


class Staged(msgspec.Struct, frozen=True, kw_only=True):
    """A file that is built and described but not uploaded."""

    place: FilePlacement
    segment: Segment
    file: FileEntry
    objects: Objects


def one_by_one(store: ObjectStore, objects: Objects) -> None:
    """Upload objects in their order; a deployment may pass a way to upload several at once."""
    for key, data in objects:
        upload(store, key, data)


def build(place: FilePlacement, change: TierChange, where: Paths) -> Segment:
    """The file of one table and tier with what changed there."""
    spec = TABLES[place.table]
    writer: SegmentWriter | None = None
    for table in _sorted_tables(place, change, where):
        if writer is None:
            writer = SegmentWriter(
                spec,
                table.schema,
                capacity=len(change.rows) + len(change.tombstones),
                index=spec.indexed and place.tier is Tier.CLOSED,
            )
        writer.add(table)
    segment = None if writer is None else writer.finish()
    if segment is None:
        raise Internal(
            f"refused to write a file of {place.table} without rows",
            remedy="nothing was published; report this as a bug",
        )
    return segment


def _sorted_tables(place: FilePlacement, change: TierChange, where: Paths) -> Iterator[ArrowTable]:
    """The change as tables whose keys follow each other; many rows come in several."""
    spec = TABLES[place.table]
    if change.tombstones:
        yield to_table(spec, change.rows, change.tombstones, where)
        return
    rows = sorted(change.rows, key=key_parts(spec))
    for start in range(0, len(rows), GROUP_ROWS):
        yield to_table(spec, rows[start : start + GROUP_ROWS], (), where)


class SegmentStore:
    """Names, describes and uploads new files of one workspace.

    `cold`, if given, gets every new file, so that a lookup by key need not fetch it.
    """

    def __init__(
        self, store: ObjectStore, paths: Paths, *, cold: ColdRows | None, uploads: Uploads
    ) -> None:
        self._store = store
        self._paths = paths
        self._cold = cold
        self._uploads = uploads

    def stage(self, place: FilePlacement, segment: Segment) -> Staged:
        """Name and describe a file."""
        name = f"{place.tier[0]}{place.level}-{place.seq:020d}-{place.nonce}"
        main = self._paths.state_file(place.table, f"{name}.parquet"), segment.data
        objects = [main]
        bloom = None
        if segment.index is not None:
            side = msgspec.json.encode(segment.index)
            key = self._paths.state_file(place.table, f"{name}.keys.json")
            bloom = ObjectRef(key=key, size=len(side), sha256=sha256(side).hexdigest())
            objects.append((key, side))
        file = _describe(place, segment, main[0], bloom)
        return Staged(place=place, segment=segment, file=file, objects=objects)

    def put(self, staged: Sequence[Staged]) -> None:
        """Upload files; `Unavailable`, certainly without effect, if one could not be."""
        self._uploads(self._store, [pair for item in staged for pair in item.objects])
        if self._cold is not None:
            for item in staged:
                self._cold.learn(item.place.table, item.file, item.segment)


def _describe(
    place: FilePlacement, segment: Segment, key: str, bloom: ObjectRef | None
) -> FileEntry:
    return FileEntry(
        key=key,
        size=len(segment.data),
        sha256=sha256(segment.data).hexdigest(),
        rows=segment.rows,
        tombstones=segment.tombstones,
        level=place.level,
        tier=place.tier,
        min_seq=place.seq if segment.min_seq is None else segment.min_seq,
        max_seq=place.seq if segment.max_seq is None else segment.max_seq,
        min_key=segment.min_key,
        max_key=segment.max_key,
        written_at=place.written_at,
        bloom=bloom,
    )
