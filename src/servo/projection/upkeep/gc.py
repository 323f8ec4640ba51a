"""Garbage collection: what no kept version of the projection needs is deleted.

Runs in the leader, a bounded step at a time. What may race with it, and why that is harmless:

**A file on its way into a manifest** looks like garbage. So no file is touched that this leader
has in flight, nor any younger than `gc_min_age`, nor any that a manifest which is kept with all
others of its day could have named late. That needs one promise from whoever publishes: a file is
named within half of `gc_min_age` after it was written, or never.

**Which manifests must be read.** Thousands are kept for a day, and not one of them is read here.
A file is named by consecutive versions, from one that follows its upload to one that precedes its
merge. An old file that any version of the last day names is therefore named by the version that
was the newest when that day began; that one is read, with all the older ones that are kept.

**Clocks.** Every age is the difference of two times of the store. The present is the newest time
seen in the store; where that was long ago, a small object is written and its time read back. The
leader's own clock only says when asking is worth it, so one that is wrong deletes nothing early.

**Another leader** notices at the beginning of a step that it is none and stops. Should it be
replaced within a step, it comes to the same decisions as its successor, and a delete can be
repeated. **A crash** between two deletes leaves garbage for the next round: manifests go first, so
that one which is there has its files.

The ledger is only packed (see `servo.ledger.archive`); what plans name belongs to the ledger and is
not collected here (see `servo.projection.upkeep.orphans`). Outputs are, but not by this module (see
`servo.projection.upkeep.outputs`).
"""

import sys
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime

import msgspec

from servo.config import Settings
from servo.core.manifest import Manifest, referenced
from servo.errors import Corrupt, Fenced, Invalid, NotFound
from servo.ledger.archive import ArchiveDue, delete_archived
from servo.ledger.packing import Packer
from servo.ledger.paths import Paths, version_of
from servo.ports.object_store import ObjectMeta, ObjectStore
from servo.projection.files.manifest_store import ManifestStore
from servo.projection.files.store_time import StoreTime
from servo.projection.upkeep.pins import read_pins
from servo.projection.upkeep.retention import StoredManifest, current_at, retained, retention

PAGE = 1_000
STEP = 200
KEYS_PER_DELETE = 20


class GcReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a round did. `more` says that the round has not ended: call again soon.

    `manifests`, `files`, `pins` and `outputs` count what was deleted and `entries` the hot copies
    of archived ledger entries; `packed` counts entries that were archived. `expired` are outputs
    whose retention has ended; the ledger records that before their data is deleted.
    """

    manifests: int = 0
    files: int = 0
    pins: int = 0
    entries: int = 0
    packed: int = 0
    outputs: int = 0
    expired: tuple[str, ...] = ()
    bytes: int = 0
    deleted: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    more: bool = False

    def __add__(self, other: "GcReport") -> "GcReport":
        return GcReport(
            manifests=self.manifests + other.manifests,
            files=self.files + other.files,
            pins=self.pins + other.pins,
            entries=self.entries + other.entries,
            packed=self.packed + other.packed,
            outputs=self.outputs + other.outputs,
            expired=self.expired + other.expired,
            bytes=self.bytes + other.bytes,
            deleted=self.deleted + other.deleted,
            problems=tuple(dict.fromkeys(self.problems + other.problems)),
            more=other.more,
        )


class _Kept(msgspec.Struct, frozen=True):
    """What is needed of a manifest that is kept."""

    applied_seq: int
    names: frozenset[str]


class _StoreView(msgspec.Struct, frozen=True, kw_only=True):
    """What the store holds, as one step sees it: manifests up to the last day."""

    present: datetime
    listed: dict[int, ObjectMeta]
    keep: frozenset[int]
    day_began: StoredManifest | None
    expired_pins: tuple[str, ...]
    protected: frozenset[str]


class Collector:
    """Collects the garbage of one workspace. Remembers between steps what it has read.

    `limit` bounds a step: so many deletions of each kind, so many manifests or entries read.
    """

    def __init__(
        self, store: ObjectStore, paths: Paths, settings: Settings, *, limit: int = STEP
    ) -> None:
        self._store = store
        self._paths = paths
        self._settings = settings
        self._limit = limit
        self._manifests = ManifestStore(store, paths)
        self._time = StoreTime(store, paths, patience=settings.gc_min_age / 4)
        self._packer = Packer(store, paths, worth=settings.entries_per_segment)
        self._kept: dict[int, _Kept] = {}
        self._cursor = ""
        self.dry_run = False

    def step(self, *, current: Manifest, in_flight: Collection[str], now: datetime) -> GcReport:
        """Do a bounded part of a round. `in_flight` are keys written and not yet named."""
        report = GcReport()
        try:
            view = self._look(current, in_flight, now)
            for work in (self._drop_manifests, self._drop_files, self._pack):
                report += work(view)
                if report.more:
                    break
        except (Corrupt, NotFound) as error:
            # Nothing is deleted on the strength of what cannot be read.
            report += GcReport(problems=(str(error),))
        return report

    # --- what is there ----------------------------------------------------------------------

    def _look(self, current: Manifest, in_flight: Collection[str], now: datetime) -> _StoreView:
        newest = still_ours(self._manifests, current)
        after = self._paths.manifest(newest.v - 1)
        prefix = self._paths.manifest_prefix
        self._time.note(self._store.list_after(prefix, after=after, limit=1))
        present = self._time.present(now)
        listed = {version_of(meta.key): meta for meta in self._old_manifests(present)}
        pins = read_pins(self._store, self._paths)
        versions = [StoredManifest(v=v, modified=meta.modified) for v, meta in listed.items()]
        keep = retained(
            versions,
            retention(self._settings),
            now=present,
            pinned=[pin.v for pin in pins if pin.expires > present],
        )
        return _StoreView(
            present=present,
            listed=listed,
            keep=frozenset(keep),
            day_began=current_at(versions, present - self._settings.keep_all_for),
            expired_pins=tuple(pin.id for pin in pins if pin.expires <= present),
            protected=frozenset(referenced(newest)).union(in_flight, referenced(current)),
        )

    def _old_manifests(self, present: datetime) -> Iterator[ObjectMeta]:
        """Manifests by number, as far as any is too old to be kept with all others."""
        young = present - self._settings.keep_all_for
        prefix, after = self._paths.manifest_prefix, ""
        while True:
            page = self._store.list_after(prefix, after=after, limit=PAGE)
            yield from filter(_is_manifest, page)
            if len(page) < PAGE or all(meta.modified > young for meta in page):
                return
            after = page[-1].key

    # --- manifests --------------------------------------------------------------------------

    def _drop_manifests(self, view: _StoreView) -> GcReport:
        drop = [meta for v, meta in view.listed.items() if v not in view.keep]
        expired = view.expired_pins[: self._limit]
        for name in expired:
            self._delete(self._paths.pin(name))
        deleted = self._delete_all(drop[: self._limit])
        return GcReport(
            manifests=len(deleted),
            pins=len(expired),
            bytes=_size(deleted),
            deleted=_keys(deleted),
            more=len(drop) > self._limit,
        )

    # --- files ------------------------------------------------------------------------------

    def _drop_files(self, view: _StoreView) -> GcReport:
        if not self._read_kept(view):
            return GcReport(more=True)
        found, scanned_all = self._garbage(view)
        deleted = self._delete_all(found)
        return GcReport(
            files=len(deleted), bytes=_size(deleted), deleted=_keys(deleted), more=not scanned_all
        )

    def _read_kept(self, view: _StoreView) -> bool:
        """Read what the older kept manifests name; False if that takes another step."""
        wanted = sorted(view.keep.intersection(self._must_read(view)))
        self._kept = {v: kept for v, kept in self._kept.items() if v in view.keep}
        missing = [v for v in wanted if v not in self._kept]
        for v in missing[: self._limit]:
            manifest = self._manifests.read(v)
            self._kept[v] = _Kept(manifest.applied_seq, frozenset(referenced(manifest)))
        return len(missing) <= self._limit

    def _must_read(self, view: _StoreView) -> Iterator[int]:
        young = view.present - self._settings.keep_all_for
        return (v for v, meta in view.listed.items() if meta.modified <= young)

    def _garbage(self, view: _StoreView) -> tuple[list[ObjectMeta], bool]:
        """The next files to delete, and whether that was the end of the folder."""
        settings = self._settings
        age = max(settings.gc_min_age, settings.keep_all_for + settings.gc_min_age / 2)
        old = view.present - age
        found: list[ObjectMeta] = []
        for _ in range(0, self._limit * KEYS_PER_DELETE, PAGE):
            prefix = self._paths.state_prefix
            page = self._store.list_after(prefix, after=self._cursor, limit=PAGE)
            for meta in page:
                if len(found) == self._limit:
                    return found, False
                self._cursor = meta.key
                if meta.modified <= old and not self._is_named(meta.key, view):
                    found.append(meta)
            if len(page) < PAGE:
                self._cursor = ""
                return found, True
        return found, False

    def _is_named(self, key: str, view: _StoreView) -> bool:
        return key in view.protected or any(key in kept.names for kept in self._kept.values())

    # --- ledger -----------------------------------------------------------------------------

    def _pack(self, view: _StoreView) -> GcReport:
        """Archive what is old, then delete the hot copies of what is archived."""
        if self.dry_run or view.day_began is None:
            return GcReport()
        # Whoever holds a manifest of the last day finds what follows it among the hot entries.
        due = ArchiveDue(
            upto=self._kept[view.day_began.v].applied_seq,
            older_than=view.present - self._settings.archive_after,
        )
        segment = self._packer.step(due, reads=self._limit)
        deleted = delete_archived(self._store, self._paths, due, limit=self._limit)
        return GcReport(
            packed=0 if segment is None else segment.last - segment.first + 1,
            entries=len(deleted),
            deleted=_keys(deleted),
            more=segment is not None or self._packer.under_way or len(deleted) == self._limit,
        )

    # --- deleting ---------------------------------------------------------------------------

    def _delete_all(self, metas: Sequence[ObjectMeta]) -> Sequence[ObjectMeta]:
        for meta in metas:
            self._delete(meta.key)
        return metas

    def _delete(self, key: str) -> None:
        if not self.dry_run:
            self._store.delete(key)


def still_ours(manifests: ManifestStore, current: Manifest) -> Manifest:
    """The newest manifest; `Fenced` if somebody else's: what they have in flight is theirs."""
    newest = manifests.latest(known=current)
    if newest is None or newest.owner != current.owner:
        raise Fenced(
            "another leader has claimed the workspace",
            remedy="nothing was deleted; the new leader collects garbage",
        )
    return newest


def collect(  # noqa: PLR0913 - one operation, whose parts mean nothing apart
    store: ObjectStore,
    paths: Paths,
    *,
    current: Manifest,
    in_flight: Collection[str],
    now: datetime,
    settings: Settings,
    dry_run: bool = False,
) -> GcReport:
    """Do a whole round; with `dry_run` say what it would delete."""
    collector = Collector(store, paths, settings, limit=sys.maxsize // KEYS_PER_DELETE)
    collector.dry_run = dry_run
    report = collector.step(current=current, in_flight=in_flight, now=now)
    while report.more:
        report += collector.step(current=current, in_flight=in_flight, now=now)
    return report


def _is_manifest(meta: ObjectMeta) -> bool:
    try:
        return version_of(meta.key) > 0
    except Invalid:
        return False


def _size(metas: Sequence[ObjectMeta]) -> int:
    return sum(meta.size for meta in metas)


def _keys(metas: Sequence[ObjectMeta]) -> tuple[str, ...]:
    return tuple(meta.key for meta in metas)
