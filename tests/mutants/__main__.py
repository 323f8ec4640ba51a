"""`python -m tests.mutants [--sample 120] [--seed 1] [--only leader] …`: do tests notice mutants?

Changes one place of the code at a time, and looks whether a test or a simulated world notices. See
CONTRIBUTING for how to read the answer.
"""

import argparse
import ast
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice, zip_longest
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
    if not found:
        sys.exit(f"{options.only} is no package or file of {', '.join(PACKAGES)}")
    sizes = {p: n for p in PACKAGES if (n := sum(m.package == p for m in found))}
    sample = list(_sample(found, sizes, options))
    print(f"{len(found)} mutants, {len(sample)} of them in the sample", flush=True)
    measure(CHECKOUT, FOLDER, jobs=options.jobs)
    results = _results(sample, options)
    if not results:
        return 1
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
        if not only or f"{path}/".startswith(f"{only}/"):
            source = file.read_text()
            rules = Rules(source)
            for mutant in mutants(path, source, changes(source)):
                if rules.count(mutant.change):
                    yield mutant


def _sample(
    found: Iterable[Mutant], sizes: dict[str, int], options: argparse.Namespace
) -> Iterator[Mutant]:
    """The packages take turns, so that a run that is interrupted has tried some of each."""
    taken = shares(sizes, options.sample)
    ordered = in_order(found, options.seed)
    columns = [
        list(islice((m for m in ordered if m.package == package and _is_valid(m)), number))
        for package, number in taken.items()
    ]
    for row in zip_longest(*columns):
        yield from (mutant for mutant in row if mutant is not None)


def _is_valid(mutant: Mutant) -> bool:
    try:
        _ = ast.parse(mutant.change.applied(_source(mutant)))
    except SyntaxError:
        return False
    return True


def _source(mutant: Mutant) -> str:
    return (SOURCES / mutant.path).read_text()


def _results(sample: list[Mutant], options: argparse.Namespace) -> list[Result]:
    """The results in the order of the sample, as far as it was tried when it was interrupted."""
    file = FOLDER / "results.jsonl"
    before = _killed_before(file) if options.resume else {}
    limits = Limits(budget=options.budget, seeds=options.seeds)
    idle = SimpleQueue[Trials]()
    for number in range(options.jobs):
        copy = ChangedCopy(CHECKOUT, FOLDER / f"copy-{number}")
        idle.put(Trials(copy, Reach(FOLDER), limits))
    _check_unchanged(idle, sample)

    def attempt(mutant: Mutant) -> Result:
        if mutant.name in before:
            return before[mutant.name]
        trials = idle.get()
        try:
            result = trials.attempt(mutant)
        finally:
            idle.put(trials)
        with file.open("ab") as kept:
            _ = kept.write(msgspec.json.encode(result) + b"\n")
        return result

    if not options.resume:
        file.unlink(missing_ok=True)
    pool = ThreadPoolExecutor(options.jobs)
    results: list[Result] = []
    try:
        for result in pool.map(attempt, sample):
            results.append(result)
            what = f"{result.mutant.path}: {result.verdict} {result.by}"
            print(f"{len(results)}/{len(sample)} {what}", flush=True)
    except KeyboardInterrupt:
        print(f"interrupted; {len(results)} of {len(sample)} were tried", flush=True)
    finally:
        pool.shutdown(cancel_futures=True)
    return results


def _check_unchanged(idle: SimpleQueue[Trials], sample: Sequence[Mutant]) -> None:
    """Stop if tests fail without any change: then a failure would prove nothing."""
    trials = idle.get()
    for mutant in sample[:: max(1, len(sample) // CONTROLS)]:
        if failed := trials.check_unchanged(mutant):
            sys.exit(f"a test fails although nothing is changed: {failed}")
    idle.put(trials)


def _killed_before(file: Path) -> dict[str, Result]:
    lines = file.read_bytes().splitlines() if file.exists() else []
    results = [msgspec.json.decode(line, type=Result) for line in lines]
    return {r.mutant.name: r for r in results if r.verdict is not Verdict.SURVIVED}


if __name__ == "__main__":
    sys.exit(main())
