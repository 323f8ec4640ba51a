"""Trying one mutant: tests first, then seeds, each in a process that ends when it is caught.

The process is forked from a server that has imported what tests need besides Servo, so it starts
in a fraction of a second. It leads a group of processes, and passes a mark on to what it starts;
once the trial is over, what is left of the group and whatever carries the mark is killed.
"""

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.mutants.changes import Mutant
from tests.mutants.copies import ChangedCopy
from tests.mutants.reach import PYTEST, Reach

IMPORTED_BEFORE = (
    "coverage", "duckdb", "greenlet", "hypothesis", "msgspec", "obstore", "pyarrow.dataset",
    "pyarrow.parquet", "pydantic", "pytest", "rich.console",
)  # fmt: skip
MARK = "SERVO_MUTANT"
SLOWER = 5
"""A mutant has timed out after so many times the seconds that its tests took."""
GRACE = 120
"""And so many seconds for starting them."""


class Verdict(StrEnum):
    """What became of a mutant."""

    TESTS = "killed by tests"
    SEEDS = "killed by seeds"
    TIMEOUT = "timed out"
    SURVIVED = "survived"


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """A mutant and what became of it."""

    mutant: Mutant
    verdict: Verdict
    by: str = ""
    """The test or the seed that noticed."""
    tests: int = 0
    """How many tests were tried, including those that were not reached any more."""
    worlds: tuple[str, ...] = ()
    """The kinds of worlds that reach the changed file."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How much is tried against a mutant."""

    budget: float
    """Seconds of tests, as measured."""
    seeds: int


class Trials:
    """Trials of mutants in one copy of the checkout, one after the other."""

    def __init__(self, copy: ChangedCopy, reach: Reach, limits: Limits) -> None:
        self._copy = copy
        self._reach = reach
        self._limits = limits
        self._processes = multiprocessing.get_context("forkserver")
        self._processes.set_forkserver_preload(list(IMPORTED_BEFORE))

    def check_unchanged(self, mutant: Mutant) -> str | None:
        """What fails although nothing is changed: then the trials would prove nothing."""
        for tests in self._reach.rounds(mutant, budget=self._limits.budget)[:1]:
            ended = self._run(_try_tests, tests, limit=None)
            if ended is not None:
                return f"{ended}; see {self._log}"
        return None

    def attempt(self, mutant: Mutant) -> Result:
        """Try a mutant, and put the source back."""
        source = self._copy.read(mutant.path)
        self._copy.write(mutant.path, mutant.change.applied(source))
        try:
            return self._attempt(mutant)
        finally:
            self._copy.write(mutant.path, source)

    @property
    def _log(self) -> Path:
        return self._copy.folder.with_suffix(".log")

    def _attempt(self, mutant: Mutant) -> Result:
        tried = 0
        for tests in self._reach.rounds(mutant, budget=self._limits.budget):
            tried += len(tests)
            limit = GRACE + SLOWER * self._reach.seconds(tests)
            ended = self._run(_try_tests, tests, limit=limit)
            if ended is not None and not self._is_chance(ended):
                verdict = Verdict.TIMEOUT if ended == "" else Verdict.TESTS
                return Result(mutant=mutant, verdict=verdict, by=ended, tests=tried)
        kinds = sorted(self._reach.worlds(mutant))
        if kinds and self._limits.seeds:
            seeds = list(map(str, range(self._limits.seeds)))
            ended = self._run(_try_seeds, [",".join(kinds), *seeds], limit=None)
            if ended is not None:
                verdict = Verdict.TIMEOUT if ended == "" else Verdict.SEEDS
                return Result(mutant=mutant, verdict=verdict, by=ended, tests=tried)
        return Result(mutant=mutant, verdict=Verdict.SURVIVED, tests=tried, worlds=tuple(kinds))

    def _is_chance(self, failed: str) -> bool:
        """Whether a test of real processes passes the second time: it did not notice the mutant."""
        again = failed.startswith("tests/integration/") and "::" in failed
        return again and self._run(_try_tests, [failed], limit=GRACE) is None

    def _run(
        self, trial: Callable[[Sequence[str]], str | None], given: Sequence[str], *,
        limit: float | None,
    ) -> str | None:  # fmt: skip
        """Who noticed the mutant; empty if the process had to be ended, None if nobody did."""
        answer = self._copy.folder.with_suffix(".answer")
        answer.unlink(missing_ok=True)
        mark = f"{os.getpid()}-{self._copy.folder.name}"
        arguments = (trial, list(given), self._copy.folder, answer, mark)
        process = self._processes.Process(target=_enter, args=arguments)
        process.start()
        assert process.pid is not None
        process.join(limit)
        ended = process.exitcode
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        _kill_marked(mark)
        process.join()
        if ended is None or ended == -signal.SIGALRM:
            return ""
        if not answer.exists():
            raise RuntimeError(f"the trial did not begin; see {self._log}")
        return None if ended == 0 else answer.read_text()


class _Chosen:
    """Runs the chosen tests in their order, and tells which failed."""

    def __init__(self, tests: Sequence[str]) -> None:
        self._order = {test: place for place, test in enumerate(tests)}
        self.failed = ""

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        chosen = [item for item in items if item.nodeid in self._order]
        items[:] = sorted(chosen, key=lambda item: self._order[item.nodeid])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.failed:
            self.failed = report.nodeid

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed and not self.failed:
            self.failed = f"collecting {report.nodeid}"


def _try_tests(tests: Sequence[str]) -> str | None:
    chosen = _Chosen(tests)
    files = list(dict.fromkeys(test.split("::")[0] for test in tests))
    ended = pytest.main(["-q", "-x", *PYTEST, *files], plugins=[chosen])
    return None if ended == 0 else chosen.failed or f"pytest, which ended with {ended}"


def _try_seeds(given: Sequence[str]) -> str | None:
    try:
        seeds: Any = import_module("tests.mutants.seeds")
        return seeds.first_violation(map(int, given[1:]), set(given[0].split(",")))
    except Exception as error:  # noqa: BLE001 - anything that the unchanged code does not raise
        return f"a world raised {error!r}"


def _enter(
    trial: Callable[[Sequence[str]], str | None],
    given: Sequence[str],
    folder: Path,
    answer: Path,
    mark: str,
) -> None:
    """Become a process that finds everything in the copy, and run the trial there."""
    os.setsid()
    log = os.open(folder.with_suffix(".log"), os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for stream, target in ((nothing, 0), (log, 1), (log, 2)):
        _ = os.dup2(stream, target)
    assert "servo" not in sys.modules, "Servo was imported before it was changed"
    _ = answer.write_text("the end of the process")  # of one that ends before it can tell more
    os.chdir(folder)
    os.environ["PYTHONPATH"] = str(folder / "src")
    os.environ[MARK] = mark
    sys.path[:0] = [str(folder / "src"), str(folder)]
    noticed = trial(given)
    if noticed is not None:
        _ = answer.write_text(noticed)
    sys.stdout.flush()
    os._exit(0 if noticed is None else 1)


def _kill_marked(mark: str) -> None:
    """Kill the processes that carry the mark, where the system tells the environment of others."""
    wanted = f"{MARK}={mark}".encode()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if wanted in (process / "environ").read_bytes().split(b"\0"):
                os.kill(int(process.name), signal.SIGKILL)
