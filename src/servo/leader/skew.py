"""How far the clock of this machine is from the store's.

Nothing is decided by comparing the two: order, leadership and durability do not depend on clocks.
But the time of a workspace is its leader's, so a leader whose clock is far off moves deadlines and
schedules for every later leader. A leader whose clock is off by more than `REFUSED` is refused.
"""

import logging
from datetime import timedelta

from servo.errors import Invalid
from servo.ports.clock import Clock
from servo.ports.entropy import Entropy
from servo.ports.object_store import ObjectStore

ALARMING = timedelta(seconds=1)
REFUSED = timedelta(seconds=30)

# HTTP gives the time of an object in whole seconds.
_COARSE = timedelta(seconds=1)
_NONE = timedelta(0)

_log = logging.getLogger(__name__)


def check_clock(store: ObjectStore, clock: Clock, entropy: Entropy) -> timedelta:
    """How far the store's clock is ahead, at least; `Invalid` if that is too far either way."""
    ahead = measure(store, clock, entropy)
    if abs(ahead) > REFUSED:
        raise Invalid(
            f"the clock of this machine is {_told(ahead)} of the store's",
            remedy="synchronize the clock with NTP and start again, or lead from another machine",
        )
    if abs(ahead) > ALARMING:
        _log.warning("the clock of this machine is %s of the store's", _told(ahead))
    return ahead


def measure(store: ObjectStore, clock: Clock, entropy: Entropy) -> timedelta:
    """How far the store's clock is ahead of this one (behind: negative), as far as is certain.

    An object is written between two readings of our clock. If the store's time for it lies between
    them, that proves nothing; if it lies outside, the clocks differ by at least that much.
    """
    key = f"probe/clock-{entropy.token_bytes(8).hex()}"
    before = clock.now()
    store.create(key, b"")
    after = clock.now()
    try:
        written = store.get(key).meta.modified
    finally:
        store.delete(key)
    latest = written + (_COARSE if written.microsecond == 0 else _NONE)
    if written > after:
        return written - after
    return latest - before if latest < before else _NONE


def _told(ahead: timedelta) -> str:
    off = abs(ahead).total_seconds()
    return f"{off:.1f} s {'behind' if ahead > _NONE else 'ahead'}"
