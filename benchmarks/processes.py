"""What whole processes cost: time to a first answer, and peak memory.

Processor time is that of the child, not how long it waited for a core. The floor of a start is a
Python that does nothing.
"""

import os
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median

from benchmarks.executing import code_of_layers
from benchmarks.measure import Result
from benchmarks.scratch import Scratch

LOOK_EVERY = 0.01
MEGA = 1e6


def start_up(scratch: Scratch, *, quick: bool) -> list[Result]:
    """`servo --version` and `import servo`, from nothing."""
    del scratch
    rounds = 2 if quick else 11
    version = [sys.executable, "-m", "servo.cli.main", "--version"]
    imported = [sys.executable, "-c", "import servo"]
    nothing = [sys.executable, "-c", "pass"]
    taken: list[list[float]] = [[], [], []]
    for _ in range(rounds):
        for held, command in zip(taken, (version, imported, nothing), strict=True):
            held.append(cpu_seconds(command) * 1e3)
    floor = median(taken[2])
    return [
        _started("start_up.version", taken[0], floor, most=150),
        _started("start_up.import", taken[1], floor, most=250),
    ]


def _started(name: str, taken: Sequence[float], floor: float, *, most: float) -> Result:
    value = median(taken)
    return Result(
        name=name,
        value=value,
        unit="ms",
        floor=floor,
        ratio=value / floor,
        target=f"<= {most:g} ms of CPU",
        met=value <= most,
        best=min(taken),
    )


def cpu_seconds(command: Sequence[str], folder: Path | None = None) -> float:
    """The processor time that a command takes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=folder, env=_as_installed())
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)


def _as_installed() -> dict[str, str]:
    """An environment in which modules are compiled once, as after an installation."""
    return {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}


def tree_memory(scratch: Scratch, *, quick: bool) -> list[Result]:
    """A hundred layers of a hundred assets by `servo materialize`: the most its tree ever holds.

    Pages that processes share count once, in parts.
    """
    folder = scratch.folder()
    (folder / "assets.py").write_text(code_of_layers(2 if quick else 100))
    command = [sys.executable, "-m", "servo.cli.main", "materialize", "assets.py"]
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        most = 0.0
        while process.poll() is None:
            most = max(most, _held(_tree(process.pid)))
            time.sleep(LOOK_EVERY)
    assert process.returncode == 0
    return [
        Result(
            name="tree_memory",
            value=most / MEGA,
            unit="MB",
            target="<= 250 MB",
            met=most <= 250 * MEGA,
        )
    ]


def _tree(root: int) -> list[int]:
    """A process and all that it started."""
    found, todo = [root], [root]
    while todo:
        pid = todo.pop()
        with suppress(OSError):
            for task in Path(f"/proc/{pid}/task").iterdir():
                with suppress(OSError):
                    children = [int(c) for c in (task / "children").read_text().split()]
                    found += children
                    todo += children
    return found


def _held(pids: Sequence[int]) -> float:
    """Bytes in memory: each page once, shared ones divided among those that share them."""
    total = 0
    for pid in pids:
        with suppress(OSError, StopIteration):
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            pss = next(line for line in lines if line.startswith("Pss:"))
            total += int(pss.split()[1]) * 1024
    return total
