"""The real local store on a disk that loses power: what it acknowledged is there afterwards.

Writers create, overwrite and delete objects of their own, and race to create shared ones. Every
call to the system takes time, and the power goes at any of them, for all processes at once. Then a
reader compares the store with what writers were told.
"""

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from random import Random
from typing import Any

from msgspec.structs import replace

from servo.errors import Conflict, NotFound, ServoError
from servo.storage import local, local_files, local_folders, local_swaps, local_walk, local_writer
from servo.storage.local import LocalStore
from simulation.disk import System
from simulation.kernel import Process, Violation
from simulation.machines import Machine
from simulation.planting import swap
from simulation.run import Simulation
from simulation.swarm import Swarm, draw

ROOT = "/store"
_WITH_FILES = (local, local_files, local_folders, local_swaps, local_walk, local_writer)


def world_of_disks(seed: int) -> Swarm:
    """The world of a seed, with nothing but writers and a disk."""
    return replace(draw(seed), faulty_ms=600, power_cuts=Random(f"disk-{seed}").randint(3, 8))


class DiskSimulation(Simulation):
    """Writers on one machine, whose power goes again and again."""

    def __init__(self, seed: int, swarm: Swarm, *, trace: bool = False) -> None:
        super().__init__(seed, swarm, trace=trace)
        self.machine = Machine(self.kernel, "machine")
        self.machine.disk.make_folders(ROOT)
        self.machine.disk.slow = True
        self._told: dict[str, set[bytes | None]] = {}
        """What may be under a key: one thing once it is acknowledged, more while it is written."""

    def environment(self) -> AbstractContextManager[None]:
        return _on_disks()

    def _populate(self) -> None:
        return

    def _suffer(self) -> None:
        for _ in range(self.swarm.power_cuts):
            for number in range(3):
                self._start(f"writer{number}", lambda p, n=number: self._write(p, n))
            self.kernel.run_until(self.kernel.ms + self.kernel.random.uniform(2, 80))
            self.kernel.fault("power_cut")
            for process in self.others:
                process.crash()
            self.machine.disk.power_cut()
            self._start("reader", self._compare)
            self.kernel.run_until(self.kernel.ms + 1_000)

    def _rest(self) -> None:
        return

    def _start(self, name: str, main: Callable[[Process], None]) -> None:
        process = self.machine.add(Process(self.kernel, name, main))
        self.others.append(process)
        process.start()

    # --- writers --------------------------------------------------------------------------------

    def _write(self, process: Process, number: int) -> None:
        store, rng = LocalStore(ROOT), self.kernel.random
        while True:
            data = rng.randbytes(rng.choice((0, 10, 200)))
            folder = rng.choice(("a", "b/c"))
            if rng.random() < 0.4:
                self._create(store, f"{folder}/shared{rng.randrange(40)}", data)
                continue
            key = f"{folder}/{number}-{rng.randrange(4)}"
            wanted = data if rng.random() < 0.7 else None
            self._told.setdefault(key, {None}).add(wanted)
            if wanted is None:
                store.delete(key)
            else:
                _ = store.put(key, wanted)
            process.kernel.note("acknowledged", key)
            self._told[key] = {wanted}

    def _create(self, store: LocalStore, key: str, data: bytes) -> None:
        """Create what others create as well; who is told that it exists can rely on it."""
        maybe = self._told.setdefault(key, {None})
        maybe.add(data)
        try:
            _ = store.create(key, data)
        except Conflict:
            self._told[key] = {store.get(key).data}
        else:
            self._told[key] = {data}

    def _compare(self, process: Process) -> None:
        del process
        store = LocalStore(ROOT)
        for key in sorted(self._told):
            try:
                found: bytes | None = store.get(key).data
            except NotFound:
                found = None
            except ServoError as error:
                raise Violation(f"{key} cannot be read after a power cut: {error}") from error
            if found not in self._told[key]:
                raise Violation(f"{key} is not what was acknowledged before the power cut")
            self._told[key] = {found}
        self.kernel.note("compared", len(self._told))


@contextmanager
def _on_disks() -> Generator[None]:
    system = System()
    changes: list[tuple[Any, str, Any]] = [(module, "os", system) for module in _WITH_FILES]
    with swap(*changes, (local_folders, "make_root", _made))():
        yield


def _made(root: object) -> None:
    del root
