"""Reading the projection: one version at a time, whole.

A `Snapshot` is one manifest: everything read through it is the state of the workspace at its
`applied_seq`, however long the reading takes and whatever is published meanwhile. Files are
immutable, so they are cached by name and never checked again.

A file that a manifest names can be missing for one reason: the manifest was superseded so long ago
that its files were collected. The remedy is a newer snapshot, and `Reader.read` applies it.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from typing import TypeVar

from msgspec.structs import replace

from servo.core.manifest import FileEntry, Manifest, Tier
from servo.core.state.rows.row import Row
from servo.core.state.tables import TABLES, TableSpec
from servo.errors import Corrupt, NotFound, Unavailable
from servo.ledger.paths import Paths
from servo.ports.object_store import ObjectStore
from servo.projection.files.arrow import ArrowSchema, ArrowTable, pa, pc
from servo.projection.files.files import Gone, Lru, fetch
from servo.projection.files.manifest_store import ManifestStore
from servo.projection.files.parquet import conform, live, read, read_where, to_rows
from servo.projection.files.schema import DELETED, VERSION, schema
from servo.projection.read import wiping
from servo.projection.read.newest import marked, newest_of_sorted, ranked
from servo.projection.read.replay import AsOf

CACHE_BYTES = 256 * 1024 * 1024
REFRESHES = 3

T = TypeVar("T")


class Snapshot:
    """Every table of a workspace at one point of its ledger."""

    def __init__(
        self, store: ObjectStore, manifest: Manifest, *, cache: Lru[bytes] | None = None
    ) -> None:
        self._store = store
        self._cache: Lru[bytes] = cache if cache is not None else Lru(CACHE_BYTES)
        self.manifest = manifest

    @property
    def applied_seq(self) -> int:
        """The last ledger entry that this snapshot knows of."""
        return self.manifest.applied_seq

    @property
    def as_of(self) -> datetime:
        """The time of that entry."""
        return self.manifest.applied_ts

    def table(
        self, name: str, *, only: Sequence[str] | None = None, tiers: Sequence[Tier] = tuple(Tier)
    ) -> ArrowTable:
        """A table as Arrow: one row per key, the newest; all columns, or `only` those named.

        `tiers` leaves out what has left the leader's memory, or what has not.
        """
        if name != wiping.TABLE or not (only is None or wiping.CHANGED.intersection(only)):
            return self.stored(name, only=only, tiers=tiers)
        held = self.stored(name, only=None if only is None else wiping.needed(only), tiers=tiers)
        assets = self.stored("assets", only=(wiping.ASSET, wiping.WIPED))
        told = wiping.without_wiped(held, assets)
        return told if only is None else told.select(list(only))

    def table_of(self, name: str, first: str) -> ArrowTable:
        """What `table` has of the keys that begin with `first`, read without the others."""
        columns = schema(_spec(name).row, _spec(name).key).names
        read = self.partitions if name == wiping.TABLE else partial(self.stored_of, name)
        return read(first, only=columns)

    def partitions(self, asset_key: str, *, only: Sequence[str]) -> ArrowTable:
        """The partitions of one asset: what `table` has of them, read without the others."""
        assets = self.stored("assets", only=(wiping.ASSET, wiping.WIPED))
        wiped = wiping.of_one(assets, asset_key)
        if not wiped.num_rows:
            return self.stored_of(wiping.TABLE, asset_key, only=only)
        held = self.stored_of(wiping.TABLE, asset_key, only=wiping.needed(only))
        return wiping.without_wiped(held, wiped).select(list(only))

    def changed_since(self, name: str, seq: int) -> ArrowTable:
        """The rows of a table that an entry after `seq` has changed, as they are stored.

        Files that can have none are not read. One with tombstones can always say that a row of
        another is gone.
        """
        found = [
            file
            for tier in Tier
            for file in self.manifest.files(name, tier)
            if file.max_seq > seq or file.tombstones
        ]
        rows = self._merged(name, found)
        return rows.filter(pc.greater(rows[VERSION], seq))

    def stored(
        self, name: str, *, only: Sequence[str] | None = None, tiers: Sequence[Tier] = tuple(Tier)
    ) -> ArrowTable:
        """The same with what is stored in its own rows alone; readers want `table`."""
        files = [file for tier in tiers for file in self.manifest.files(name, tier)]
        return self._merged(name, files, only=only)

    def _merged(
        self, name: str, files: Sequence[FileEntry], *, only: Sequence[str] | None = None
    ) -> ArrowTable:
        """One row for every key of these files, the newest."""
        spec = _spec(name)
        chosen = _chosen(name, schema(spec.row, spec.key), only)
        wanted = list(dict.fromkeys([*chosen, *spec.key, VERSION, DELETED]))
        tables = [ranked(self._read(spec, file, wanted), file.tier) for file in files]
        return _told(spec, tables, chosen)

    def stored_of(self, name: str, first: str, *, only: Sequence[str]) -> ArrowTable:
        """The rows of `stored` whose key begins with `first`, read without the others."""
        spec = _spec(name)
        chosen = _chosen(name, schema(spec.row, spec.key), only)
        wanted = list(dict.fromkeys([*chosen, *spec.key[1:], VERSION, DELETED]))
        tables = [
            ranked(self._read(spec, file, wanted, first), tier)
            for tier in Tier
            for file in self.manifest.files(name, tier)
            if file.min_key[:1] <= (first,) <= file.max_key[:1]
        ]
        # They have the first part of their keys in common: the rest tells them apart.
        return _told(replace(spec, key=spec.key[1:]), tables, chosen)

    def rows(self, name: str) -> list[Row]:
        """The rows of a table, in no particular order."""
        return to_rows(_spec(name), self.table(name))

    def _read(
        self, spec: TableSpec, file: FileEntry, wanted: Sequence[str], first: str | None = None
    ) -> ArrowTable:
        data = self._bytes(file)
        if first is None:
            table = read(data, what=file.key, only=wanted)
        else:
            table = read_where(data, spec.key[0], first, what=file.key, only=wanted)
        return marked(conform(spec, table, only=wanted)).select(wanted)

    def _bytes(self, file: FileEntry) -> bytes:
        known = self._cache.get(file.key)
        if known is not None:
            return known
        data = fetch(self._store, file)
        self._cache.put(file.key, data, cost=len(data))
        return data


class Reader:
    """Snapshots of one workspace, newest or past. Any thread may ask.

    Past states are kept at the manifests only; `time_travel` replays from one to an exact entry.
    """

    def __init__(
        self,
        store: ObjectStore,
        paths: Paths,
        *,
        cache_bytes: int = CACHE_BYTES,
    ) -> None:
        self._store = store
        self._paths = paths
        self._manifests = ManifestStore(store, paths)
        self._cache: Lru[bytes] = Lru(cache_bytes)
        self._newest: Manifest | None = None

    def snapshot(self, *, min_seq: int | None = None, as_of: AsOf | None = None) -> Snapshot:
        """The newest snapshot, which must contain entry `min_seq`; or the one at `as_of`.

        `NotFound` if nothing was published yet, or nothing that old is kept; `Unavailable` if
        `min_seq` is not published yet.
        """
        if as_of is not None:
            return self._open(self._manifest_at(as_of))
        held = self._newest
        if min_seq is None or held is None or held.applied_seq < min_seq:
            held = self._newest = self._latest(held)
        if min_seq is not None and held.applied_seq < min_seq:
            raise Unavailable(
                f"entry {min_seq} is not published yet; the newest published is {held.applied_seq}",
                remedy="retry in a moment",
                may_have_applied=False,
            )
        return self._open(held)

    def read(self, use: Callable[[Snapshot], T], *, min_seq: int | None = None) -> T:
        """What `use` makes of the newest snapshot; again with a newer one if files are gone."""
        tried: Snapshot | None = None
        for _ in range(REFRESHES):
            snapshot = self.snapshot(min_seq=min_seq)
            if tried is not None and snapshot.manifest.v == tried.manifest.v:
                snapshot = self._open(self._refreshed(tried))
            try:
                return use(snapshot)
            except Gone:
                tried = snapshot
        raise Unavailable(
            "files were garbage-collected while they were being read",
            remedy="retry; if this repeats, keep files for longer than a read takes",
            may_have_applied=False,
        )

    def _refreshed(self, tried: Snapshot) -> Manifest:
        newest = self._newest = self._latest(tried.manifest)
        if newest.v == tried.manifest.v:
            raise Corrupt(
                f"the newest manifest, {newest.v}, refers to a file that does not exist",
                remedy="rebuild the projection from the ledger",
            )
        return newest

    def _latest(self, known: Manifest | None) -> Manifest:
        found = self._manifests.current(known=known)
        if found is None:
            raise NotFound(
                f"workspace {self._paths.workspace!r} of tenant {self._paths.tenant!r} is empty",
                remedy="materialize an asset first, or check the tenant and the workspace",
            )
        return found

    def _manifest_at(self, as_of: AsOf) -> Manifest:
        """The newest manifest that knows of nothing after `as_of`."""
        versions = self._manifests.versions()
        place = bisect_right(versions, as_of, key=lambda v: self._position(v, as_of))
        if not place:
            raise NotFound(
                f"no version published at or before {as_of} is kept",
                remedy="use a later time or ledger entry",
            )
        return self._manifests.read(versions[place - 1])

    def _position(self, v: int, like: AsOf) -> AsOf:
        manifest = self._manifests.read(v)
        return manifest.applied_seq if isinstance(like, int) else manifest.applied_ts

    def _open(self, manifest: Manifest) -> Snapshot:
        return Snapshot(self._store, manifest, cache=self._cache)


def _told(spec: TableSpec, tables: Sequence[ArrowTable], chosen: Sequence[str]) -> ArrowTable:
    """What readers see of tables with the versions of rows, older tables first."""
    whole = schema(spec.row, TABLES[spec.name].key)
    public = pa.schema([whole.field(column) for column in chosen])
    if not tables:
        return public.empty_table()
    merged = live(newest_of_sorted(spec, tables)).select(list(chosen))
    return pa.Table.from_arrays(merged.columns, schema=public)


def _chosen(name: str, public: ArrowSchema, only: Sequence[str] | None) -> list[str]:
    unknown = [column for column in only or () if column not in public.names]
    if unknown:
        raise NotFound(
            f"{name} has no column {', '.join(unknown)}",
            remedy=f"choose from {', '.join(public.names)}",
        )
    return list(public.names if only is None else only)


def _spec(name: str) -> TableSpec:
    spec = TABLES.get(name)
    if spec is None:
        raise NotFound(f"there is no table {name!r}", remedy=f"use one of {', '.join(TABLES)}")
    return spec
