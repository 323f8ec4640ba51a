"""The current time by the store's clock.

The store dates its objects. Comparing that with another clock makes an object a day old when the
other clock is a day ahead, so the current time is taken from the store too: the newest time that
was seen there. It is never ahead; it lags behind in a workspace where nothing is written, and is
then brought up to date by writing a small object and reading its time back.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

from servo.core.state.state import EPOCH_START
from servo.ledger.paths import DOMAIN, Paths
from servo.ports.object_store import ObjectMeta, ObjectStore


class StoreTime:
    """A lower bound of the store's own clock. `patience` is how far it may lag behind."""

    def __init__(self, store: ObjectStore, paths: Paths, *, patience: timedelta) -> None:
        self._store = store
        self._marker = f"{paths.root}gc/{DOMAIN}.json"
        self._patience = patience
        self.seen = EPOCH_START

    def note(self, metas: Iterable[ObjectMeta]) -> None:
        """Learn from what was listed."""
        for meta in metas:
            self.seen = max(self.seen, meta.modified)

    def present(self, now: datetime) -> datetime:
        """The time of the store, or a little before; `now` is what another clock believes."""
        if now - self.seen > self._patience:
            _ = self._store.put(self._marker, b"{}\n")
            self.note(self._store.list_after(self._marker, limit=1))
        return self.seen
