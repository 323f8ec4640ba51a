"""The one place that builds adapters."""

from datetime import timedelta

from servo.config import Settings
from servo.leader.service import Service
from servo.leader.skew import check_clock
from servo.ledger.paths import Paths
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
    clock, entropy = SystemClock(), SystemEntropy()
    store = store_from_url(url, clock=clock)
    probe(store, "probe", entropy)
    _ = check_clock(store, clock, entropy)
    if isinstance(store, LocalStore):
        store.sweep_temporaries(clock.now() - LEFTOVER_AGE)
    return World(store, clock, entropy, identity=this_process())


def without_user_libraries() -> None:
    """Keep this process from importing pandas, which pyarrow would: it runs no user code."""
    without_pandas()


def open_to_read(url: str) -> World:
    """The store at `url` for somebody who does not lead: nothing is tried out or written."""
    clock = SystemClock()
    return World(store_from_url(url, clock=clock), clock, SystemEntropy(), identity=this_process())


def in_memory() -> World:
    """A store of this process alone, with this machine's clock."""
    clock = SystemClock()
    return World(MemoryStore(clock), clock, SystemEntropy(), identity=this_process())


def open_service(
    url: str,
    *,
    tenant: str = "default",
    workspace: str = "default",
    settings: Settings | None = None,
) -> Service:
    """A leader for a workspace in the store at `url`, not yet started."""
    return Service(open_world(url), Paths(tenant, workspace), settings)
