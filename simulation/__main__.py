"""`python -m simulation --seeds 0:200 [--world NAME] [--bug NAME] [--trace]`.

Without `--world`, every kind of world has its turn, eight seeds at a time.
"""

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from simulation.bugs import BUGS, planted
from simulation.run import Outcome
from simulation.running import run_seed, simulation_of
from simulation.worlds import WORLDS, dealt


def main() -> int:
    """Run seeds until one breaks a rule; 1 if one did, or if a planted bug was not found."""
    options = _options()
    if options.list_bugs:
        for name, bug in BUGS.items():
            print(f"{name:28} {bug.what}")
        return 0
    if options.trace:
        return _trace(options)
    first, last = (int(part) for part in options.seeds.split(":"))
    faults: Counter[str] = Counter()
    total = Counter[str]()
    worlds = Counter(options.world or dealt(seed) for seed in range(first, last))
    for outcome in _outcomes(range(first, last), options):
        faults.update(outcome.faults)
        total.update(
            seeds=1,
            entries=outcome.entries,
            publishes=outcome.publishes,
            runs=outcome.runs,
            virtual_s=outcome.virtual_ms // 1000,
        )
        if outcome.violation is not None:
            _report(outcome, options)
            return 0 if options.bug else 1
    summary = {
        "bug": options.bug or None,
        "worlds": worlds,
        **total,
        "faults": dict(sorted(faults.items())),
    }
    print(json.dumps(summary))
    return 1 if options.bug else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="simulation", description=__doc__)
    parser.add_argument("--seeds", default="0:50", help="first:last, last not included")
    parser.add_argument("--bug", default="", choices=["", *BUGS], help="plant this bug")
    parser.add_argument("--trace", action="store_true", help="print every step of one seed")
    parser.add_argument(
        "--world", default="", choices=["", *WORLDS], help="the kind of world; all in turn"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--list-bugs", action="store_true")
    options = parser.parse_args()
    options.world = options.world or (BUGS[options.bug].world if options.bug else "")
    return options


def _outcomes(seeds: Iterable[int], options: argparse.Namespace) -> Iterator[Outcome]:
    one = partial(_one, bug=options.bug, world=options.world)
    if options.jobs == 1:
        yield from map(one, seeds)
        return
    pool = ProcessPoolExecutor(options.jobs)
    try:
        yield from pool.map(one, seeds)
    finally:
        pool.shutdown(cancel_futures=True)


def _one(seed: int, *, bug: str, world: str) -> Outcome:
    with planted(bug):
        return run_seed(seed, world=world or dealt(seed))


def _report(outcome: Outcome, options: argparse.Namespace) -> None:
    world = options.world or dealt(outcome.seed)
    chosen = f" WORLD={world}" + (f" BUG={options.bug}" if options.bug else "")
    print(f"seed {outcome.seed} of the {world} world: {outcome.violation}")
    print(f"replay: make sim SEEDS={outcome.seed}:{outcome.seed + 1}{chosen} TRACE=1")


def _trace(options: argparse.Namespace) -> int:
    seed = int(options.seeds.split(":")[0])
    with planted(options.bug):
        simulation = simulation_of(seed, world=options.world or dealt(seed), trace=True)
        outcome = simulation.run()
    for line in simulation.kernel.trace or ():
        print(line)
    print(outcome.violation or "no violation")
    return 1 if outcome.violation else 0


if __name__ == "__main__":
    sys.exit(main())
