"""What is stored for a workspace, without opening any of it.

Listings and the newest manifest, nothing else: quick enough to be the first thing to look at, and
right to look at when something is damaged.
"""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from servo.core.manifest import Manifest, TableFiles, Tier, l0_files
from servo.ledger.archive import segments_from
from servo.ledger.paths import Paths
from servo.ports.object_store import ObjectMeta, ObjectStore
from servo.projection.files.manifest_store import ManifestStore
from servo.projection.upkeep.pins import Pin, read_pins
from servo.projection.upkeep.verify_ledger import ledger_end


class StoredKind(msgspec.Struct, frozen=True, kw_only=True):
    """Objects of one kind."""

    kind: str
    objects: int
    bytes: int
    newest: datetime | None = None


class TableFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The files of one table. Rows count every version that is stored, so merging lowers them."""

    table: str
    files: int
    unmerged: int
    active_rows: int
    closed_rows: int
    bytes: int


class NewestVersion(msgspec.Struct, frozen=True, kw_only=True):
    """The newest version of the projection."""

    v: int
    epoch: int
    owner: str
    applied_seq: int
    applied_ts: datetime
    published_at: datetime
    fold_version: int
    unmerged_files: int


class Inspection(msgspec.Struct, frozen=True, kw_only=True):
    """A workspace at a glance. `behind` counts ledger entries that are not published yet."""

    tenant: str
    workspace: str
    last_entry: int
    archived_entries: int
    behind: int
    newest: NewestVersion | None
    tables: tuple[TableFacts, ...]
    stored: tuple[StoredKind, ...]
    pins: tuple[Pin, ...]


def inspect(store: ObjectStore, paths: Paths) -> Inspection:
    """Look at a workspace."""
    newest = ManifestStore(store, paths).latest()
    end = ledger_end(store, paths)
    segments = list(segments_from(store, paths, 1))
    return Inspection(
        tenant=paths.tenant,
        workspace=paths.workspace,
        last_entry=end,
        archived_entries=sum(segment.last - segment.first + 1 for segment in segments),
        behind=max(end - (0 if newest is None else newest.applied_seq), 0),
        newest=None if newest is None else _version(newest),
        tables=() if newest is None else _tables(newest),
        stored=_stored(store, paths),
        pins=tuple(read_pins(store, paths)),
    )


def _version(manifest: Manifest) -> NewestVersion:
    return NewestVersion(
        v=manifest.v,
        epoch=manifest.epoch,
        owner=manifest.owner,
        applied_seq=manifest.applied_seq,
        applied_ts=manifest.applied_ts,
        published_at=manifest.ts,
        fold_version=manifest.fold_version,
        unmerged_files=l0_files(manifest),
    )


def _tables(manifest: Manifest) -> tuple[TableFacts, ...]:
    return tuple(_facts(name, held) for name, held in manifest.tables.items() if held.files)


def _facts(name: str, held: TableFiles) -> TableFacts:
    return TableFacts(
        table=name,
        files=len(held.files),
        unmerged=sum(1 for file in held.files if file.level == 0),
        active_rows=sum(file.rows - file.tombstones for file in held.tier(Tier.ACTIVE)),
        closed_rows=sum(file.rows - file.tombstones for file in held.tier(Tier.CLOSED)),
        bytes=sum(file.size for file in held.files),
    )


def _stored(store: ObjectStore, paths: Paths) -> tuple[StoredKind, ...]:
    prefixes = {
        "ledger entries": paths.ledger_prefix,
        "archived segments": paths.archive_prefix,
        "manifests": paths.manifest_prefix,
        "state files": paths.state_prefix,
        "plans and lists": paths.plans_prefix,
        "waiting in the inbox": paths.inbox_prefix,
        "large dead letters": paths.dead_letters_prefix,
    }
    return tuple(_total(kind, store.list_after(prefix)) for kind, prefix in prefixes.items())


def _total(kind: str, metas: Sequence[ObjectMeta]) -> StoredKind:
    return StoredKind(
        kind=kind,
        objects=len(metas),
        bytes=sum(meta.size for meta in metas),
        newest=max((meta.modified for meta in metas), default=None),
    )
