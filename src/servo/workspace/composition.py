"""The composition root: the one place that builds adapters.

A process opens a workspace here, once, and passes the result down as arguments. Every worker and
evaluator process imports this module, so nothing that is slow to import belongs here.
"""

from datetime import timedelta

from servo.leader.skew import check_clock
from servo.ports.clock import Clock
from servo.ports.entropy import Entropy
from servo.ports.world import World
from servo.projection.files.arrow import without_pandas
from servo.storage.from_url import store_from_url
from servo.storage.local import LocalStore
from servo.storage.memory import MemoryStore
from servo.storage.probe import probe
from servo.workspace.identity import this_process
from servo.workspace.system import SystemClock, SystemEntropy

LEFTOVER_AGE = timedelta(hours=1)


def open_world(url: str) -> World:
    """The store at `url` with this machine's clock; refused if either cannot be trusted."""
    world = open_to_read(url)
    store, clock, entropy = world.store, world.clock, world.entropy
    probe(store, "probe", entropy)
    _ = check_clock(store, clock, entropy)
    if isinstance(store, LocalStore):
        store.sweep_temporaries(clock.now() - LEFTOVER_AGE)
    return world


def open_to_read(url: str) -> World:
    """The store at `url` for a process that does not lead: it is neither probed nor written."""
    clock = SystemClock()
    return World(store_from_url(url, clock=clock), clock, SystemEntropy(), identity=this_process())


def in_memory() -> World:
    """A store of this process alone, with this machine's clock."""
    clock = SystemClock()
    return World(MemoryStore(clock), clock, SystemEntropy(), identity=this_process())


def system_clock() -> Clock:
    """This machine's clock, for code that has no store and no caller with one."""
    return SystemClock()


def system_entropy() -> Entropy:
    """This machine's randomness, for the same callers as `system_clock`."""
    return SystemEntropy()


def without_user_libraries() -> None:
    """Keep this process from importing pandas, which pyarrow would: it runs no user code."""
    without_pandas()
