"""Simulated worlds, run against a mutant or, as a program, to record which files a kind reaches.

Imported by the process that runs them, which by then finds the simulation and the changed code in
its copy. Worlds switch between greenlets, which confuses coverage about lines, less about files.
"""

import signal
import sys
from collections.abc import Iterable

from coverage import Coverage

from simulation.running import run_seed
from simulation.worlds import dealt
from tests.mutants.recording import WORLD

RECORDED = 4
"""So many worlds show which files their kind reaches."""
LIMIT = 600
"""The seconds after which a world hangs; one takes a few at most."""


def first_violation(seeds: Iterable[int], kinds: set[str]) -> str | None:
    """The first of these seeds that breaks a law in a world of these kinds, and the law."""
    for seed in seeds:
        if dealt(seed) in kinds:
            _ = signal.alarm(LIMIT)  # nobody handles it, so it ends this process
            outcome = run_seed(seed, world=dealt(seed))
            if outcome.violation is not None:
                return f"seed {seed}: {outcome.violation}"
    return None


if __name__ == "__main__":
    _measuring = Coverage.current()
    assert _measuring is not None
    _measuring.switch_context(WORLD + sys.argv[1])
    for _seed in range(RECORDED):
        _ = run_seed(_seed, world=sys.argv[1])
