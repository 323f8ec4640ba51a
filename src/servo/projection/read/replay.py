"""Folding the stored ledger onto a state, outside of any leader.

`forward` is what a leader does when it takes over, without the fence: every entry, in order, each
checked by its hash and its place in the chain, to the end that `LedgerReader.ends_after` proves.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Annotated

import msgspec

from servo.core.events.envelope import Entry
from servo.core.fold.apply import apply_entry
from servo.core.fold.limits import FOLD_VERSION
from servo.core.manifest import Manifest
from servo.core.state.state import EPOCH_START, State
from servo.errors import Corrupt, NotFound
from servo.ledger.paths import Paths
from servo.ledger.reader import LedgerReader
from servo.ports.object_store import ObjectStore
from servo.projection.read.hydration import Hydrator

AsOf = int | Annotated[datetime, msgspec.Meta(tz=True)]
ReplayProgress = Callable[[int], None]

PRESENT: AsOf = datetime.max.replace(tzinfo=UTC)
"""The end of the ledger: what was applied and is not published yet counts too.

Read here before deciding what to write: published tables may be seconds behind.
"""

NOTHING = Manifest(
    v=0,
    epoch=0,
    owner="",
    nonce="",
    ts=EPOCH_START,
    identity="",
    fold_version=FOLD_VERSION,
)


def ignore(seq: int) -> None:
    """Progress that nobody watches."""
    del seq


class Replay:
    """Brings states of one workspace forward."""

    def __init__(
        self, store: ObjectStore, paths: Paths, *, progress: ReplayProgress = ignore
    ) -> None:
        self._store = store
        self._paths = paths
        self._ledger = LedgerReader(store, paths)
        self._progress = progress

    def forward(self, state: State, base: Manifest, *, until: AsOf | None = None) -> None:
        """Fold what follows `state`, to the end or to `until`, looking up old rows in `base`.

        `NotFound` if the ledger does not reach an entry that was asked for.
        """
        hydrator = Hydrator(self._store, self._paths, base)
        for entry, digest in self._entries(state.seq, until):
            _prepare(hydrator, state, entry)
            apply_entry(state, entry, digest)
            self._progress(entry.seq)
        if isinstance(until, int) and state.seq < until:
            raise NotFound(
                f"the ledger ends with entry {state.seq} and has no entry {until}",
                remedy=f"use an entry up to {state.seq}",
            )

    def _entries(self, after: int, until: AsOf | None) -> Iterator[tuple[Entry, str]]:
        last = until if isinstance(until, int) else None
        seq = after
        while True:
            for entry, digest in self._ledger.forward(seq, last):
                if isinstance(until, datetime) and entry.ts > until:
                    return
                yield entry, digest
                seq = entry.seq
            if seq == last or self._ledger.ends_after(seq):
                return


def _prepare(hydrator: Hydrator, state: State, entry: Entry) -> None:
    try:
        hydrator.prepare(state, entry.batches)
    except NotFound as error:
        raise Corrupt(
            f"{error.message}, and ledger entry {entry.seq} needs it",
            remedy="restore it from a backup",
        ) from None
