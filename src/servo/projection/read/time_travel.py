"""The workspace as it was at any entry of its ledger, or at any instant.

Versions of the projection are kept for some moments only. The one before the moment asked for is
opened and the ledger behind it replayed, exactly to that moment: the same fold over the same
entries, so what comes out is what a reader would have seen then. Where no version so old is kept,
the replay begins with the first entry.

A version that cannot be opened (its files were collected, or are damaged) is passed over for an
older one. The ledger is not: an entry that is damaged or missing is `Corrupt`.
"""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from servo.core.manifest import Manifest, Tier
from servo.core.state import derived
from servo.core.state.state import State
from servo.core.state.tables import TABLES
from servo.errors import Corrupt, NeedsUpgrade, NotFound
from servo.ledger.paths import Paths, version_of
from servo.ports.object_store import ObjectStore
from servo.projection.files.arrow import ArrowTable, pa, pc
from servo.projection.files.manifest_store import ManifestStore
from servo.projection.files.parquet import live, to_table
from servo.projection.files.schema import VERSION
from servo.projection.read.load import load_state
from servo.projection.read.newest import marked, newest, ranked
from servo.projection.read.reader import Snapshot
from servo.projection.read.replay import NOTHING, AsOf, Replay, ReplayProgress, ignore


class Past(msgspec.Struct, frozen=True, kw_only=True):
    """A state, and the version of the projection that holds what is not in its memory."""

    state: State
    base: Manifest


def state_at(
    store: ObjectStore, paths: Paths, as_of: AsOf, *, progress: ReplayProgress = ignore
) -> Past:
    """The state after the entry, or at the instant, `as_of`."""
    base, state = _opened(store, paths, as_of)
    Replay(store, paths, progress=progress).forward(state, base, until=as_of)
    return Past(state=state, base=base)


def snapshot_at(
    store: ObjectStore, paths: Paths, as_of: AsOf, *, progress: ReplayProgress = ignore
) -> Snapshot:
    """Every table as a reader would have seen it after the entry, or at the instant, `as_of`."""
    past = state_at(store, paths, as_of, progress=progress)
    return Overlaid(store, paths, past)


class Overlaid(Snapshot):
    """A version of the projection with what was replayed on top of it."""

    def __init__(self, store: ObjectStore, paths: Paths, past: Past) -> None:
        super().__init__(store, past.base)
        self._paths = paths
        self.state = past.state

    @property
    def applied_seq(self) -> int:
        return self.state.seq

    @property
    def as_of(self) -> datetime:
        return self.state.ts

    def changed_since(self, name: str, seq: int) -> ArrowTable:
        rows = self.stored(name)
        return rows.filter(pc.greater(rows[VERSION], seq))

    def stored(
        self, name: str, *, only: Sequence[str] | None = None, tiers: Sequence[Tier] = tuple(Tier)
    ) -> ArrowTable:
        changed = derived.changed(self.state, name) if name in self.state.tables else {}
        if not changed:
            return super().stored(name, only=only, tiers=tiers)
        spec, under = TABLES[name], super().stored(name, tiers=tiers)
        rows = [row for row in changed.values() if row is not None]
        dropped = [(key, self.state.seq) for key, row in changed.items() if row is None]
        over = to_table(spec, rows, dropped, self._paths)
        both = [ranked(marked(table), Tier.ACTIVE) for table in (under, over)]
        chosen = list(under.schema.names if only is None else only)
        merged = live(newest(spec, both)).select(chosen)
        public = pa.schema([under.schema.field(column) for column in chosen])
        return pa.Table.from_arrays(merged.columns, schema=public)

    def stored_of(self, name: str, first: str, *, only: Sequence[str]) -> ArrowTable:
        if name not in self.state.tables or not derived.changed(self.state, name):
            return super().stored_of(name, first, only=only)
        column = TABLES[name].key[0]
        table = self.stored(name, only=list(dict.fromkeys([*only, column])))
        return table.filter(pc.equal(table.column(column), first)).select(list(only))


# --- the version to begin with --------------------------------------------------------------------


def _opened(store: ObjectStore, paths: Paths, as_of: AsOf) -> tuple[Manifest, State]:
    versions = _Versions(store, paths)
    before: int | None = None
    while (found := versions.newest_until(as_of, before=before)) is not None:
        try:
            return found, load_state(store, found, paths.tenant, paths.workspace)
        except (NotFound, Corrupt):
            before = found.v
    return NOTHING, State(paths.tenant, paths.workspace)


class _Versions:
    """Looks for a version without listing all of them: a busy day has hundreds of thousands."""

    def __init__(self, store: ObjectStore, paths: Paths) -> None:
        self._store = store
        self._paths = paths
        self._manifests = ManifestStore(store, paths)

    def newest_until(self, as_of: AsOf, *, before: int | None) -> Manifest | None:
        """The newest version, below `before`, that knows of nothing after `as_of`."""
        best: Manifest | None = None
        low, high = 0, self._end() if before is None else before
        while high - low > 1:
            middle = (low + high) // 2
            found = self._first_from(middle, high)
            if found is not None and _is_until(found, as_of):
                best, low = found, found.v
            else:
                high = middle
        return best

    def _end(self) -> int:
        try:
            newest = self._manifests.latest()
        except (Corrupt, NeedsUpgrade):  # the newest itself cannot be read; those before it may
            return self._manifests.versions()[-1] + 1
        return 1 if newest is None else newest.v + 1

    def _first_from(self, v: int, high: int) -> Manifest | None:
        """The first version from `v` to below `high`; None if there is none to be read."""
        after, prefix = self._paths.manifest(v - 1), self._paths.manifest_prefix
        page = self._store.list_after(prefix, after=after, limit=1)
        found = version_of(page[0].key) if page else None
        if found is None or found >= high:
            return None
        try:
            return self._manifests.read(found)
        except (NotFound, Corrupt, NeedsUpgrade):
            return None


def _is_until(manifest: Manifest, as_of: AsOf) -> bool:
    if isinstance(as_of, int):
        return manifest.applied_seq <= as_of
    return manifest.applied_ts <= as_of
