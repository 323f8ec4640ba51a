"""The present, as the time of a ledger that nobody is writing."""

from datetime import datetime, timedelta

from servo.core.state.state import State
from servo.core.wrong_clocks import is_far_ahead
from servo.errors import NotFound
from servo.leader.term import TICK
from servo.ledger.paths import Paths
from servo.ports.object_store import ObjectStore


def ledger_time(store: ObjectStore, paths: Paths, state: State, now: datetime) -> datetime:
    """The time at which the next entry would be written: the clock's, and later than the last.

    If a clock was far ahead, so is the ledger. Time then passes from the last entry on, as much as
    the store says has passed since that entry was written.
    """
    if not is_far_ahead(state.ts, now):
        return max(now, state.ts + TICK)
    return state.ts + max(TICK, _since_written(store, paths.ledger_entry(state.seq), now))


def _since_written(store: ObjectStore, key: str, now: datetime) -> timedelta:
    try:
        return now - store.get(key).meta.modified
    except NotFound:  # it is in the archive
        return TICK
