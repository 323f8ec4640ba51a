"""Following a workspace entry by entry, without leading it.

A follower loads what was published last and folds the ledger behind it, as a leader does when it
takes over, but writes nothing and fences nobody. It can say at any moment which rows have changed
since it was asked last, at a cost that follows what changed. Entries are never changed or taken
back, so what it has folded stays true.

A leader lets go of rows of history once it has published them; a follower publishes nothing and
keeps them. So it begins anew from what is published by then when it holds many of them, and also
when what it began from has been collected.
"""

from collections.abc import Mapping
from typing import Any

from servo.core.state.rows.row import Row
from servo.core.state.state import State
from servo.core.state.tables import TABLES, Residency
from servo.errors import NotFound
from servo.ledger.paths import Paths
from servo.ports.object_store import ObjectStore
from servo.projection.read.load import load_state
from servo.projection.read.reader import Reader, Snapshot
from servo.projection.read.replay import Replay

MOST_HISTORY = 200_000

_HISTORY = tuple(n for n, spec in TABLES.items() if spec.residency is Residency.HISTORY)

Changed = Mapping[str, Mapping[Any, Row | None]]
"""By table and key, the rows that are new or different; None for one that is gone."""


class Follower:
    """The state of a workspace, as far as its ledger goes."""

    def __init__(
        self, store: ObjectStore, paths: Paths, *, most_history: int = MOST_HISTORY
    ) -> None:
        self._most = most_history
        self._store = store
        self._paths = paths
        self._reader = Reader(store, paths)
        self._replay = Replay(store, paths)
        self._begin()

    def _begin(self) -> None:
        self.snapshot: Snapshot = self._reader.snapshot()
        manifest = self.snapshot.manifest
        self.state: State = load_state(
            self._store, manifest, self._paths.tenant, self._paths.workspace
        )

    @property
    def seq(self) -> int:
        """The last entry that was folded."""
        return self.state.seq

    def catch_up(self) -> Changed | None:
        """Fold what is new and tell what changed; None if it had to begin anew from `snapshot`.

        Whoever is told None reads everything again: what changed in between is not known.
        """
        if self._is_full():
            self._begin()
            return None
        try:
            self._replay.forward(self.state, self.snapshot.manifest)
        except NotFound:
            self._begin()
            return None
        self.state.forget_loaded()
        return self._take()

    def _is_full(self) -> bool:
        """Whether much was folded that somebody else has published meanwhile."""
        if sum(len(self.state.tables[name]) for name in _HISTORY) <= self._most:
            return False
        return self._reader.snapshot().applied_seq > self.snapshot.applied_seq

    def _take(self) -> Changed:
        changed: dict[str, dict[Any, Row | None]] = {}
        for name, table in self.state.tables.items():
            if not table.dirty:
                continue
            changed[name] = dict(table.dirty)
            # What was dropped is still in what this began from, and must not be fetched from there.
            table.publishing.update((key, None) for key, row in table.dirty.items() if row is None)
            table.dirty.clear()
        return changed
