"""`python -m tests.mutants [--sample 120] [--seed 1] [--only leader] …`: do tests notice mutants?

Changes one place of the code at a time, and looks whether a test or a simulated world notices. See
CONTRIBUTING for how to read the answer.
"""

import argparse
import ast
import os
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from queue import SimpleQueue

import msgspec

from tests.mutants.changes import Mutant, mutants
from tests.mutants.copies import PACKAGES, ChangedCopy
from tests.mutants.operators import changes
from tests.mutants.reach import Reach, measure
from tests.mutants.reporting import overall, report, score
from tests.mutants.rules import Rules
from tests.mutants.sampling import in_order, shares
from tests.mutants.survivors import known
from tests.mutants.trying import Limits, Result, Trials, Verdict

CHECKOUT = Path(__file__).parents[2]
SOURCES = CHECKOUT / "src" / "servo"
FOLDER = CHECKOUT / "build" / "mutants"
REQUIRED = 90.0
"""Percent of the mutants that must be killed."""

CONTROLS = 5
"""For so many mutants the tests are tried without the change first: they must pass."""


def main() -> int:
    """1 if fewer mutants were killed than required, or one survived that is not in the list."""
    options = _options()
    FOLDER.mkdir(parents=True, exist_ok=True)
    found = [mutant for package in PACKAGES for mutant in _mutants(package, options.only)]
    sizes = {p: n for p in PACKAGES if (n := sum(m.package == p for m in found))}
    sample = list(_sample(found, sizes, options))
    print(f"{len(found)} mutants, {len(sample)} of them in the sample", flush=True)
    measure(CHECKOUT, FOLDER, jobs=options.jobs)
    results = _results(sample, options)
    survivors = known()
    print(report(results, sizes, survivors))
    parts = {p: [r for r in results if r.mutant.package == p] for p in sizes}
    share = overall({p: score(part, survivors).share for p, part in parts.items() if part}, sizes)
    new = [r for r in results if r.verdict is Verdict.SURVIVED and not survivors.find(r.mutant)]
    if new:
        print(f"\n{len(new)} new survivors: write a test, or list them in survivors.toml")
    if share < REQUIRED:
        print(f"\n{share:.1f} % killed, {REQUIRED:.0f} % required")
    return 1 if new or share < REQUIRED else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="mutants", description=__doc__)
    add = parser.add_argument
    _ = add("--sample", type=int, default=120, help="how many mutants to try")
    _ = add("--seed", type=int, default=1, help="which ones")
    _ = add("--only", default="", help="a package or a file, such as leader/engine.py")
    _ = add("--seeds", type=int, default=300, help="how many worlds a survivor of the tests faces")
    _ = add("--budget", type=float, default=60, help="seconds of tests for each, as measured")
    _ = add("--jobs", type=int, default=os.cpu_count() or 1, help="how many to try at a time")
    _ = add("--resume", action="store_true", help="keep the killed ones of the last run")
    return parser.parse_args()


def _mutants(package: str, only: str) -> Iterator[Mutant]:
    for file in sorted((SOURCES / package).rglob("*.py")):
        path = str(file.relative_to(SOURCES))
        if path == only or f"{path}/".startswith(f"{only}/" if only else ""):
            source = file.read_text()
            rules = Rules(source)
            for mutant in mutants(path, source, changes(source)):
                if rules.count(mutant.change):
                    yield mutant


def _sample(
    found: Iterable[Mutant], sizes: dict[str, int], options: argparse.Namespace
) -> Iterator[Mutant]:
    taken = shares(sizes, options.sample)
    ordered = in_order(found, options.seed)
    for package in sizes:
        valid = (m for m in ordered if m.package == package and _is_valid(m))
        yield from islice(valid, taken[package])


def _is_valid(mutant: Mutant) -> bool:
    try:
        _ = ast.parse(mutant.change.applied(_source(mutant)))
    except SyntaxError:
        return False
    return True


def _source(mutant: Mutant) -> str:
    return (SOURCES / mutant.path).read_text()


def _results(sample: list[Mutant], options: argparse.Namespace) -> list[Result]:
    """The results in the order of the sample; each is kept as soon as it is known."""
    file = FOLDER / "results.jsonl"
    before = dict(_killed_before(file)) if options.resume else {}
    limits = Limits(budget=options.budget, seeds=options.seeds)
    reach = [Reach(FOLDER) for _ in range(options.jobs)]
    idle = SimpleQueue[Trials]()
    for number in range(options.jobs):
        copy = ChangedCopy(CHECKOUT, FOLDER / f"copy-{number}")
        idle.put(Trials(copy, reach[number], limits))

    def attempt(mutant: Mutant) -> Result:
        if mutant.name in before:
            return before[mutant.name]
        trials = idle.get()
        try:
            return trials.attempt(mutant)
        finally:
            idle.put(trials)

    trials = idle.get()
    for mutant in sample[:: max(1, len(sample) // CONTROLS)]:
        if failed := trials.check_unchanged(mutant):
            sys.exit(f"a test fails although nothing is changed: {failed}")
    idle.put(trials)
    results: list[Result] = []
    with file.open("wb") as kept, ThreadPoolExecutor(options.jobs) as pool:
        for result in pool.map(attempt, sample):
            results.append(result)
            _ = kept.write(msgspec.json.encode(result) + b"\n")
            kept.flush()
            what = f"{result.verdict} {result.by}"
            print(f"{len(results)}/{len(sample)} {result.mutant.path}: {what}", flush=True)
    return results


def _killed_before(file: Path) -> Iterator[tuple[str, Result]]:
    for line in file.read_bytes().splitlines() if file.exists() else ():
        result = msgspec.json.decode(line, type=Result)
        if result.verdict is not Verdict.SURVIVED:
            yield result.mutant.name, result


if __name__ == "__main__":
    sys.exit(main())
