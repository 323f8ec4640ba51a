"""Publishing costs what changed, however much is stored."""

from collections.abc import Sequence
from datetime import timedelta

from benchmarks import plans
from benchmarks.leader import PATHS
from benchmarks.measure import Result, growth, in_turn
from benchmarks.scratch import Scratch
from servo.core.events.envelope import Batch
from servo.core.fold.apply import apply_batch, open_entry
from servo.leader.term import TICK
from servo.ports.object_store import ObjectStore
from servo.projection.files.manifest_store import ManifestStore
from servo.projection.publish.publisher import Publisher
from servo.projection.read.cold import ColdRows
from servo.projection.read.load import load_state
from servo.storage.local import LocalStore
from servo.workspace.system import SystemClock, SystemEntropy

CHANGED = 100
HOUR = timedelta(hours=1)
CLOCK = SystemClock()


def publish_flat(scratch: Scratch, *, quick: bool) -> list[Result]:
    """A hundred changed rows, beside few and beside many that are stored."""
    sizes, rounds = ((1_000, 10_000), 3) if quick else ((10_000, 1_000_000), 60)
    local = [LocalStore(scratch.history(size)) for size in sizes]
    memory = [scratch.history_in_memory(size, CLOCK) for size in sizes]
    return [
        _growth("publish_flat.local", local, rounds),
        _growth("publish_flat.memory", memory, rounds),
    ]


def _growth(name: str, stores: Sequence[ObjectStore], rounds: int) -> Result:
    few, many = [_Published(store) for store in stores]
    small, large = in_turn([few.publish, many.publish], rounds)
    return growth(name, small, large, most=1.2)


class _Published:
    """A workspace with a hundred running tasks, whose leases are renewed for each publish."""

    def __init__(self, store: ObjectStore) -> None:
        newest = ManifestStore(store, PATHS).latest()
        assert newest is not None
        self._manifest = newest
        self._entropy = SystemEntropy()
        self._publisher = Publisher(store, PATHS, self._entropy, cold=ColdRows(store))
        self._state = load_state(store, newest, PATHS.tenant, PATHS.workspace)
        self._begin()
        self.publish()

    def _begin(self) -> None:
        self._open(stall=False)
        starts = tuple([plans.started("run_1", number) for number in range(CHANGED)])
        tasks = [plans.spec(number) for number in range(CHANGED)]
        for batch in (plans.planned("run_1", tasks), Batch(id="start", events=starts)):
            assert apply_batch(self._state, batch, 0).applied
        self._state.seal()

    def _open(self, *, stall: bool) -> None:
        state = self._state
        ts = max(CLOCK.now(), state.ts + TICK)
        open_entry(state, seq=state.seq + 1, epoch=1, ts=ts, stall=stall)

    def publish(self) -> None:
        self._open(stall=True)
        self._state.seal()
        assert len(self._state.tasks.dirty) == CHANGED
        now = CLOCK.now()
        capture = self._publisher.capture(self._state, now=now, close_after=HOUR, max_rows=20_000)
        assert capture is not None
        self._manifest = self._publisher.write(
            capture,
            self._manifest,
            epoch=self._manifest.epoch,
            owner=self._manifest.owner,
            nonce=self._entropy.token_bytes(16).hex(),
            ts=now,
        )
        self._publisher.release(self._state, capture)
