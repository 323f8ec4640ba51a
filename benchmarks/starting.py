"""A leader starts as fast, and as small, after a million tasks as after none.

Run as a program with a folder, this opens the workspace in it as a leader does, commits and
publishes once, and says how much memory that took.
"""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks import plans
from benchmarks.leader import PATHS, ports, service
from benchmarks.measure import Result, growth, in_turn
from benchmarks.scratch import Scratch
from servo.runtime.takeover import take_over
from servo.storage.local import LocalStore


def cold_start(scratch: Scratch, *, quick: bool) -> list[Result]:
    """Taking over and loading, with and without a past."""
    sizes, rounds = ((0, 1_000), 3) if quick else ((0, 1_000_000), 40)
    empty, full = [scratch.history(size) for size in sizes]
    with ports(LocalStore(empty)) as none, ports(LocalStore(full)) as many:
        small, large = in_turn(
            [lambda: take_over(none, PATHS), lambda: take_over(many, PATHS)], rounds
        )
    return [growth("cold_start", small, large, per=(1, 1), most=1.5)]


def leader_memory(scratch: Scratch, *, quick: bool) -> list[Result]:
    """The resident memory of a process that leads."""
    sizes = (0, 1_000, 10_000) if quick else (0, 100_000, 1_000_000)
    now, peak = zip(*(_memory_of(scratch.history(size)) for size in sizes), strict=True)
    return [
        *_memory_results("leader_memory", sizes, now),
        *_memory_results("leader_memory.peak", sizes, peak),
    ]


def _memory_results(name: str, sizes: Sequence[int], held: Sequence[int]) -> list[Result]:
    none = held[0]
    return [
        Result(
            name=f"{name}.{size}",
            value=kib / 1024,
            unit="MiB",
            floor=none / 1024,
            ratio=kib / none,
            target="ratio <= 1.2",
            met=kib / none <= 1.2,
        )
        for size, kib in zip(sizes[1:], held[1:], strict=True)
    ]


def _memory_of(folder: Path) -> tuple[int, int]:
    """KiB that a leader has in the end, and at most, measured in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.starting", str(folder)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    now, peak = done.stdout.split()
    return int(now), int(peak)


def _resident() -> tuple[str, str]:
    """KiB that this process has in memory, and had at most."""
    # Not getrusage: its maximum is that of the parent where that was larger.
    lines = Path("/proc/self/status").read_text().splitlines()
    fields = dict([line.split(":", 1) for line in lines])
    return fields["VmRSS"].split()[0], fields["VmHWM"].split()[0]


def _lead(folder: Path) -> None:
    with service(folder) as led:
        tasks = [plans.spec(number) for number in range(100)]
        assert led.commit(plans.planned("run_new", tasks)).applied
    # Stopping has published, so every library a leader uses is loaded by now.
    print(*_resident())


if __name__ == "__main__":
    _lead(Path(sys.argv[1]))
