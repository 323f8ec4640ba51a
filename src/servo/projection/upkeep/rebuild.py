"""The projection, made again from the ledger.

From the beginning: every entry onto an empty state, which needs the whole ledger and proves the
whole projection. Or from the newest version whose every file is intact, and the ledger behind it:
enough after damage, and as fast as what has to be read.
"""

from collections.abc import Iterator
from contextlib import suppress

from servo.core.manifest import FileEntry, Manifest, ObjectRef
from servo.errors import Corrupt, NotFound
from servo.ledger.paths import Paths
from servo.ports.object_store import ObjectStore
from servo.projection.files.files import fetch
from servo.projection.files.manifest_store import ManifestStore
from servo.projection.read.load import load_state
from servo.projection.read.replay import NOTHING, Replay, ReplayProgress, ignore
from servo.projection.read.time_travel import Past


def rebuild(
    store: ObjectStore, paths: Paths, *, from_genesis: bool, progress: ReplayProgress = ignore
) -> Past:
    """Fold the ledger to its end, from its beginning or behind the newest version that is intact.

    The state holds what a leader would have in memory, or everything where nothing was published
    before it began; what was replayed is marked as changed.
    """
    base = NOTHING if from_genesis else newest_intact(store, paths)
    state = load_state(store, base, paths.tenant, paths.workspace)
    Replay(store, paths, progress=progress).forward(state, base)
    published = next(readable(store, paths), NOTHING)
    if state.seq < published.applied_seq:
        raise Corrupt(
            f"the ledger ends with entry {state.seq}, but entry {published.applied_seq} was "
            "published",
            remedy="restore the missing entries from a backup",
        )
    return Past(state=state, base=base)


def newest_intact(store: ObjectStore, paths: Paths) -> Manifest:
    """The newest version all of whose files are what was written; `NOTHING` if there is none."""
    for found in readable(store, paths):
        try:
            for ref in objects_of(found):
                _ = fetch(store, ref)
        except (NotFound, Corrupt):
            continue
        return found
    return NOTHING


def readable(store: ObjectStore, paths: Paths) -> Iterator[Manifest]:
    """The versions that can be read, newest first."""
    manifests = ManifestStore(store, paths)
    for v in reversed(manifests.versions()):
        with suppress(NotFound, Corrupt):
            yield manifests.read(v)


def objects_of(manifest: Manifest) -> Iterator[FileEntry | ObjectRef]:
    """Every object that a version consists of."""
    for held in manifest.tables.values():
        for file in held.files:
            yield file
            if file.bloom is not None:
                yield file.bloom
