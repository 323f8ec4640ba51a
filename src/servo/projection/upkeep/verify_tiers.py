"""Does the active tier hold everything that a leader loads?

Which tier a file belongs to is said by the manifest alone. Readers merge both, so a file in the
wrong one changes no row that they see; but a leader loads the active tier and nothing else, and
would let a run stand still that it does not know of. So this loads what a leader would load, and
looks for rows that it needs and does not get: all of tables whose rows never leave its memory, and
those of runs that are not over.
"""

from collections.abc import Iterator
from typing import Any

from servo.core.manifest import FileEntry, Manifest, Tier
from servo.core.state.rows.row import Row
from servo.core.state.state import State
from servo.core.state.states import TERMINAL_RUN_STATES
from servo.core.state.tables import TABLES, Residency, TableSpec
from servo.errors import Corrupt
from servo.ports.object_store import ObjectStore
from servo.projection.files.files import fetch
from servo.projection.files.parquet import read
from servo.projection.files.schema import as_tuple
from servo.projection.files.segment import RowKey, keys_of
from servo.projection.read.load import load_state
from servo.projection.upkeep.verify_manifests import REBUILD


def misplaced(store: ObjectStore, manifest: Manifest, rebuilt: State) -> Iterator[Corrupt]:
    """The closed files that keep rows from a leader; `rebuilt` is the fold of the whole ledger."""
    loaded = load_state(store, manifest, rebuilt.tenant, rebuilt.workspace)
    for name, spec in TABLES.items():
        if spec.residency in (Residency.LIVE, Residency.RUN):
            held = loaded.tables[name].rows
            rows = rebuilt.tables[name].rows.items()
            lost = {as_tuple(k) for k, row in rows if k not in held and _active(rebuilt, spec, row)}
            if lost:
                yield from _files_with(store, spec, manifest, lost)


def _active(state: State, spec: TableSpec, row: Row) -> bool:
    if spec.residency is Residency.LIVE:
        return True
    run: Any = state.runs.get(getattr(row, "run_id", ""))
    return run is not None and run.state not in TERMINAL_RUN_STATES


def _files_with(
    store: ObjectStore, spec: TableSpec, manifest: Manifest, lost: set[RowKey]
) -> Iterator[Corrupt]:
    for file in manifest.files(spec.name, Tier.CLOSED):
        held = lost & _keys(store, spec, file)
        if held:
            example = ", ".join(map(str, min(held)))
            yield Corrupt(
                f"manifest {manifest.v} describes {file.key} wrongly: it says tier closed, but "
                f"{len(held)} of its rows are still active, such as {example}",
                remedy=REBUILD,
            )


def _keys(store: ObjectStore, spec: TableSpec, file: FileEntry) -> set[RowKey]:
    table = read(fetch(store, file), what=file.key, only=spec.key)
    return set(keys_of(spec, table))
