"""What the trials showed, package by package."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from tests.mutants.survivors import Survivors
from tests.mutants.trying import Result, Verdict

KILLED = (Verdict.TESTS, Verdict.SEEDS, Verdict.TIMEOUT)


class Score(msgspec.Struct, frozen=True, kw_only=True):
    """How many of a sample were killed; equivalent mutants, which nothing can kill, left out."""

    killed: int
    counted: int

    @property
    def share(self) -> float:
        """In percent; all of nothing."""
        return 100 * self.killed / self.counted if self.counted else 100.0

    def interval(self) -> tuple[float, float]:
        """Where the share of all mutants lies with 95 % confidence, by Wilson's formula."""
        if not self.counted:
            return 0.0, 100.0
        z, n, p = 1.96, self.counted, self.killed / self.counted
        middle = (p + z * z / (2 * n)) / (1 + z * z / n)
        half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
        return 100 * (middle - half), 100 * (middle + half)


def score(results: Sequence[Result], survivors: Survivors) -> Score:
    """The score of a sample."""
    killed = sum(result.verdict in KILLED for result in results)
    equivalent = sum(_is_equivalent(result, survivors) for result in results)
    return Score(killed=killed, counted=len(results) - equivalent)


def overall(shares: Mapping[str, float], sizes: Mapping[str, int]) -> float:
    """The share of all mutants: every package has equally many in the sample, so weigh by size."""
    total = sum(sizes[package] for package in shares)
    return sum(share * sizes[package] for package, share in shares.items()) / total


def report(results: Sequence[Result], sizes: Mapping[str, int], survivors: Survivors) -> str:
    """A table, then every survivor and every timeout with its diff."""
    lines = [_row("package", "mutants", "tried", *Verdict, "equivalent", "killed", "95 %")]
    shares: dict[str, float] = {}
    for package in sizes:
        part = [result for result in results if result.mutant.package == package]
        if part:
            shares[package] = score(part, survivors).share
            lines.append(_line(package, sizes[package], part, survivors))
    lines.append(_line("all", sum(sizes.values()), results, survivors))
    lines.append(f"\nWeighted by the size of each package: {overall(shares, sizes):.1f} % killed.")
    lines += _told(results, survivors)
    return "\n".join(lines)


def _line(name: str, size: int, part: Sequence[Result], survivors: Survivors) -> str:
    verdicts = Counter(result.verdict for result in part)
    equivalent = sum(_is_equivalent(result, survivors) for result in part)
    scored = score(part, survivors)
    low, high = scored.interval()
    counts = [verdicts[verdict] for verdict in Verdict]
    return _row(
        name, size, len(part), *counts, equivalent, f"{scored.share:.1f} %", f"{low:.0f}–{high:.0f}"
    )


def _row(name: str, *cells: object) -> str:
    return f"{name:12}" + "".join(f"{cell!s:>17}" for cell in cells)


def _told(results: Sequence[Result], survivors: Survivors) -> Iterator[str]:
    for result in results:
        if result.verdict is Verdict.SURVIVED:
            entry = survivors.find(result.mutant)
            why = f"KNOWN: {entry.reason}" if entry else f"NEW: {_tried(result)}"
            yield f"\n{result.mutant.diff()}\n  {why}"
        elif result.verdict is Verdict.TIMEOUT:
            yield f"\n{result.mutant.diff()}\n  TIMED OUT, which counts as killed"


def _tried(result: Result) -> str:
    worlds = ", ".join(result.worlds) or "none"
    return f"survived {result.tests} tests; worlds that reach the file: {worlds}"


def _is_equivalent(result: Result, survivors: Survivors) -> bool:
    entry = survivors.find(result.mutant)
    return result.verdict is Verdict.SURVIVED and entry is not None and entry.equivalent
