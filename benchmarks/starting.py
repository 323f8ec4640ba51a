"""A leader starts as fast, and as small, after a million tasks as after none.

Run as a program with a folder and the number of tasks in it, this opens the workspace as a leader
does, commits and publishes once, and reports the memory it used.
"""

import subprocess
import sys
from pathlib import Path

from benchmarks import plans
from benchmarks.history import run_id
from benchmarks.leader import PATHS, ports, service
from benchmarks.measure import Result, growth, in_turn
from benchmarks.scratch import Scratch
from servo.core.events.envelope import Batch
from servo.leader.takeover import take_over
from servo.storage.local import LocalStore


def cold_start(scratch: Scratch, *, quick: bool) -> list[Result]:
    """Taking over and loading, with and without a past."""
    sizes, rounds = ((0, 1_000), 3) if quick else ((0, 1_000_000), 40)
    empty, full = [scratch.history(size) for size in sizes]
    with ports(LocalStore(empty)) as none, ports(LocalStore(full)) as many:
        small, large = in_turn(
            [lambda: take_over(none, PATHS), lambda: take_over(many, PATHS)], rounds
        )
    return [growth("cold_start", small, large, most=1.5)]


def leader_memory(scratch: Scratch, *, quick: bool) -> list[Result]:
    """The resident memory of a process that leads."""
    sizes = (1_000, 10_000) if quick else (100_000, 1_000_000)
    none = _memory_of(scratch.history(0), 0)
    return [
        memory_result(f"leader_memory.{n}", none, _memory_of(scratch.history(n), n)) for n in sizes
    ]


def memory_result(name: str, none: float, held: float) -> Result:
    """What a leader holds beside much, against what it holds beside nothing."""
    return Result(
        name=name,
        value=held,
        unit="MiB",
        floor=none,
        ratio=held / none,
        target="ratio <= 1.2",
        met=held / none <= 1.2,
    )


def _memory_of(folder: Path, tasks: int) -> float:
    """MiB that a leader of this workspace has in memory, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.starting", str(folder), str(tasks)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return int(done.stdout) / 1024


def _lead(folder: Path, tasks: int) -> None:
    with service(folder) as led:
        specs = [plans.spec(number) for number in range(100)]
        assert not led.commit(plans.planned("run_new", specs)).repeated
        # A run of the past is found by its key, wherever it is.
        known = led.commit(Batch(id="known", events=(plans.requested(run_id(0)),)))
        assert known.repeated == bool(tasks)
    # Stopping has published, so every library a leader uses is loaded by now.
    print(resident_kib())


def resident_kib() -> str:
    """The resident memory of this process."""
    # Not getrusage: its maximum is that of the parent where that was larger.
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(line.split()[1] for line in lines if line.startswith("VmRSS:"))


if __name__ == "__main__":
    _lead(Path(sys.argv[1]), int(sys.argv[2]))
