"""`python -m servo.testing.simulation --seeds 0:200 [--bug NAME] [--trace]`."""

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from servo.testing.simulation.backfilling import world_of_backfills
from servo.testing.simulation.bugs import BUGS, planted
from servo.testing.simulation.run import Outcome, Simulation, run_seed


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
    worlds = [*range(first, last)]
    faults: Counter[str] = Counter()
    total = Counter[str]()
    backfills = options.backfills or (bool(options.bug) and BUGS[options.bug].backfills)
    for outcome in _outcomes(worlds, options.bug, options.jobs, backfills=backfills):
        faults.update(outcome.faults)
        total.update(
            seeds=1,
            entries=outcome.entries,
            publishes=outcome.publishes,
            runs=outcome.runs,
            virtual_s=outcome.virtual_ms // 1000,
        )
        if outcome.violation is not None:
            _report(outcome, options.bug)
            return 0 if options.bug else 1
    summary = {"bug": options.bug or None, **total, "faults": dict(sorted(faults.items()))}
    print(json.dumps(summary))
    return 1 if options.bug else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="servo.testing.simulation", description=__doc__)
    parser.add_argument("--seeds", default="0:50", help="first:last, last not included")
    parser.add_argument("--bug", default="", choices=["", *BUGS], help="plant this bug")
    parser.add_argument("--trace", action="store_true", help="print everything one seed does")
    parser.add_argument("--backfills", action="store_true", help="worlds of backfills")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--list-bugs", action="store_true")
    return parser.parse_args()


def _outcomes(seeds: list[int], bug: str, jobs: int, *, backfills: bool) -> Iterator[Outcome]:
    one = partial(_one, bug=bug, backfills=backfills)
    if jobs == 1:
        yield from map(one, seeds)
        return
    pool = ProcessPoolExecutor(jobs)
    try:
        yield from pool.map(one, seeds)
    finally:
        pool.shutdown(cancel_futures=True)


def _one(seed: int, *, bug: str, backfills: bool) -> Outcome:
    with planted(bug):
        return run_seed(seed, backfills=backfills)


def _report(outcome: Outcome, bug: str) -> None:
    with_bug = f" BUG={bug}" if bug else ""
    print(f"seed {outcome.seed}: {outcome.violation}")
    print(f"replay: make sim SEEDS={outcome.seed}:{outcome.seed + 1}{with_bug} TRACE=1")


def _trace(options: argparse.Namespace) -> int:
    seed = int(options.seeds.split(":")[0])
    with planted(options.bug):
        backfills = options.backfills or (bool(options.bug) and BUGS[options.bug].backfills)
        world = world_of_backfills(seed) if backfills else None
        simulation = Simulation(seed, world, trace=True)
        outcome = simulation.run()
    for line in simulation.kernel.trace or ():
        print(line)
    print(outcome.violation or "no rule was broken")
    return 1 if outcome.violation else 0


if __name__ == "__main__":
    sys.exit(main())
