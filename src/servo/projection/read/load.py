"""From a manifest back to the state of a leader.

Only the active tier is read, and nothing of tables whose rows leave memory once they are published:
what has left stays where it is. So a start costs what is alive, not what was ever done. Every file
is checked against its hash before it is parsed.
"""

from collections.abc import Sequence

from servo.core.manifest import FileEntry, Manifest, Tier
from servo.core.state.rows.row import Row
from servo.core.state.state import State
from servo.core.state.tables import TABLES, Residency, TableSpec
from servo.ports.object_store import ObjectStore
from servo.projection.files.arrow import ArrowTable
from servo.projection.files.files import fetch
from servo.projection.files.parquet import conform, live, read, to_rows
from servo.projection.files.segment import check_description
from servo.projection.read.newest import marked, newest, ranked


def load_state(store: ObjectStore, manifest: Manifest, tenant: str, workspace: str) -> State:
    """The state as it was captured for `manifest`, without what had left memory.

    `Gone` (a `NotFound`) means that a file was collected: the manifest is not the newest any more.
    """
    state = State(tenant, workspace)
    state.seq = manifest.applied_seq
    state.epoch = manifest.applied_epoch
    state.ts = manifest.applied_ts
    state.last_hash = manifest.last_hash
    state.min_reader = manifest.min_leader
    for name, spec in TABLES.items():
        files = manifest.files(name, Tier.ACTIVE)
        if files and spec.residency is not Residency.HISTORY:
            state.hydrate(name, _load_rows(store, spec, files))
    return state


def _load_rows(store: ObjectStore, spec: TableSpec, files: Sequence[FileEntry]) -> list[Row]:
    tables = [
        ranked(marked(conform(spec, _read(store, spec, file))), Tier.ACTIVE) for file in files
    ]
    return to_rows(spec, live(newest(spec, tables)))


def _read(store: ObjectStore, spec: TableSpec, file: FileEntry) -> ArrowTable:
    table = read(fetch(store, file), what=file.key)
    check_description(spec, file, table)
    return table
