"""Which tests and which simulated worlds run a line, measured once by running all of them.

The measurement is kept in build/mutants. It is repeated when a source has changed, because then its
lines have moved. When only tests have changed, only those files are measured again.
"""

import ast
import hashlib
import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from shutil import rmtree

import msgspec
from coverage import Coverage, CoverageData

from tests.mutants.changes import Mutant
from tests.mutants.copies import PACKAGES, copy_checkout
from tests.mutants.recording import TIMES, WORLD

COLLECTING = 0.5
"""The seconds that it takes to import a file of tests, roughly."""
ROUNDS = (5, 25)
"""A mutant is first tried with so many seconds of tests, then with more: most die at once."""

PYTEST = (
    "--assert=plain", "-p", "no:cacheprovider", "--randomly-seed=1", "--randomly-dont-reorganize",
)  # fmt: skip
"""How tests run, here and against a mutant: in the order given, and not prepared for people."""

NEVER = ("tests/test_architecture.py", "tests/test_docs.py", "tests/simulation/", "tests/mutants/")
"""What is not run against a mutant: tests that read sources as text, and simulated worlds, whose
turn comes later. Worlds switch between greenlets, and coverage is lost for all that follows."""


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """The files that were measured, by their hashes."""

    sources: dict[str, str]
    tests: dict[str, str]


class Reach:
    """Who reaches which line of the sources."""

    def __init__(self, folder: Path) -> None:
        self._root = folder / "measured"
        self._data = CoverageData(str(folder / "reach"))
        self._data.read()
        lines = (folder / "times").read_text().splitlines()
        self._seconds: dict[str, float] = dict(json.loads(line) for line in lines)

    def tests(self, mutant: Mutant) -> list[str]:
        """The tests that run the changed statement.

        For a statement that runs when its module is imported, these are the tests of that file, and
        those that run a line with the name that it defines.
        """
        lines = self._contexts(mutant.path)
        source = self._source(mutant.path)
        if in_function(source, mutant.line):
            chosen = range(_statement(source, mutant.line), mutant.last_line + 1)
            found = {context for line in chosen for context in lines.get(line, ())}
        else:
            found = {c for n, contexts in lines.items() if in_function(source, n) for c in contexts}
            found |= self._naming(mutant.path) | self._using(mutant)
        return sorted(found & self._seconds.keys())

    def worlds(self, mutant: Mutant) -> set[str]:
        """The kinds of worlds that run anything in the changed file."""
        contexts = {c for line in self._contexts(mutant.path).values() for c in line}
        return {c.removeprefix(WORLD) for c in contexts if c.startswith(WORLD)}

    def seconds(self, tests: Iterable[str]) -> float:
        """How long these tests took when they were measured."""
        return sum(self._seconds[test] for test in tests)

    def rounds(self, mutant: Mutant, *, budget: float) -> list[list[str]]:
        """The tests to try, in rounds: files about what is changed first, then cheap ones."""
        files: dict[str, list[str]] = defaultdict(list)
        for test in self.tests(mutant):
            files[test.split("::")[0]].append(test)
        near = {file for file in files if _is_near(file, mutant.path)}
        near |= self._files_naming(mutant.path)
        return in_rounds(files, self._seconds, near=near, limits=(*ROUNDS, budget))

    def _contexts(self, path: str) -> dict[int, set[str]]:
        found = self._data.contexts_by_lineno(str(self._root / "src" / "servo" / path))
        return {line: {_test(context) for context in contexts} for line, contexts in found.items()}

    def _source(self, path: str) -> str:
        return (self._root / "src" / "servo" / path).read_text()

    def _using(self, mutant: Mutant) -> set[str]:
        """The tests that run a line with the name that is assigned, or with that of the class."""
        name = mutant.scope.split(".")[0] or mutant.was.split(" ")[0].rstrip(":")
        if not name.isidentifier():
            return set()
        word = re.compile(rf"\b{name}\b")
        found: set[str] = set()
        for file in self._data.measured_files():
            contexts: dict[int, list[str]] = {}
            text = Path(file).read_text()
            for number, line in enumerate(text.splitlines(), start=1):
                if word.search(line) and in_function(text, number):
                    contexts = contexts or self._data.contexts_by_lineno(file)
                    found.update(map(_test, contexts.get(number, ())))
        return found

    def _naming(self, path: str) -> set[str]:
        """The tests in files that name the module."""
        naming = self._files_naming(path)
        return {test for test in self._seconds if test.split("::")[0] in naming}

    def _files_naming(self, path: str) -> set[str]:
        module = re.compile(rf"servo\.{path.removesuffix('.py').replace('/', '.')}\b")
        files = {test.split("::")[0] for test in self._seconds}
        return {file for file in files if module.search((self._root / file).read_text())}


def in_rounds(
    files: dict[str, list[str]],
    seconds: dict[str, float],
    *,
    near: set[str],
    limits: Sequence[float],
) -> list[list[str]]:
    """Tests in rounds of at most so many seconds each; within a file, the fastest first."""
    order = sorted(files, key=lambda file: (file not in near, sum(seconds[t] for t in files[file])))
    left = [sorted(files[file], key=lambda test: seconds[test]) for file in order]
    rounds: list[list[str]] = []
    for limit in limits:
        chosen: list[str] = []
        spent = 0.0
        for tests in left:
            if tests and spent + COLLECTING + seconds[tests[0]] <= limit:
                spent += COLLECTING
            while tests and spent + seconds[tests[0]] <= limit:
                spent += seconds[tests[0]]
                chosen.append(tests.pop(0))
        if chosen:
            rounds.append(chosen)
    return rounds


def measure(checkout: Path, folder: Path, *, jobs: int) -> None:
    """Measure what has changed since the last time."""
    now = Measured(
        sources=_hashes(checkout, (f"src/servo/{package}" for package in PACKAGES), "*.py"),
        tests=_hashes(checkout, ["tests"], "test_*.py"),
    )
    note = folder / "measured.json"
    before = msgspec.json.decode(note.read_bytes(), type=Measured) if note.exists() else None
    if before is None or before.sources != now.sources:
        for stale in (folder / "reach", folder / "times", note):
            stale.unlink(missing_ok=True)
        before = None
    known = {} if before is None else before.tests
    tests = [test for test, digest in now.tests.items() if known.get(test) != digest]
    if not tests:
        return
    copy_checkout(checkout, folder / "measured")
    if before is None:
        for world in _worlds(folder):
            _run(folder, ["tests.mutants.seeds", world])
    chosen = [test for test in tests if not test.startswith(NEVER)]
    if chosen:
        options = ["-q", "-p", "tests.mutants.recording", "-m", "not slow", "-n", str(jobs)]
        _run(folder, ["pytest", *options, *PYTEST, *chosen])
        _combine(folder)
    _ = note.write_bytes(msgspec.json.encode(now))


def _run(folder: Path, module: Sequence[str]) -> None:
    settings = folder / "coverage.ini"
    included = "".join(f"\n    */servo/{package}/*" for package in PACKAGES)
    _ = settings.write_text(
        f"[run]\ndata_file = {folder / 'data' / 'coverage'}\nparallel = true\n"
        "patch = _exit\n"  # workers end like that
        f"context = ${{PYTEST_CURRENT_TEST-}}\ninclude = {included}\n"
    )
    (folder / "data").mkdir(exist_ok=True)
    copy = folder / "measured"
    environ = {
        **os.environ,
        "COVERAGE_PROCESS_START": str(settings),
        "PYTHONPATH": str(copy / "src"),
        TIMES: str(folder / "times"),
    }
    # A test that fails while it is measured is never chosen.
    _ = subprocess.run([sys.executable, "-m", *module], cwd=copy, env=environ, check=False)


def _worlds(folder: Path) -> list[str]:
    """The kinds of worlds. Not imported: Servo must not be, where it is changed afterwards."""
    code = "from simulation.worlds import WORLDS; print(*WORLDS)"
    command = [sys.executable, "-c", code]
    copy = folder / "measured"
    return subprocess.run(
        command, cwd=copy, capture_output=True, text=True, check=True
    ).stdout.split()


def _combine(folder: Path) -> None:
    measured = Coverage(data_file=str(folder / "reach"), config_file=False)
    if (folder / "reach").exists():
        measured.load()
    measured.combine([str(file) for file in (folder / "data").iterdir()])
    measured.save()
    rmtree(folder / "data")


def _hashes(checkout: Path, folders: Iterable[str], names: str) -> dict[str, str]:
    paths = sorted(path for folder in folders for path in (checkout / folder).rglob(names))
    return {
        str(path.relative_to(checkout)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in paths
    }


def _test(context: str) -> str:
    """The test of a context; pytest adds the phase for the processes that a test starts."""
    for phase in (" (setup)", " (call)", " (teardown)"):
        context = context.removesuffix(phase)
    return context


def _is_near(file: str, path: str) -> bool:
    package, *_, module = path.removesuffix(".py").split("/")
    return f"/{package}/" in file or module in file


@cache
def _functions(source: str) -> list[tuple[int, int]]:
    """From where to where the bodies of functions are."""
    nodes = ast.walk(ast.parse(source))
    functions = [n for n in nodes if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    return [(f.body[0].lineno, f.end_lineno or f.lineno) for f in functions]


def in_function(source: str, line: int) -> bool:
    """Whether a line runs when a function is called; the others run when they are imported."""
    return any(first <= line <= last for first, last in _functions(source))


def _statement(source: str, line: int) -> int:
    """The first line of the innermost statement that includes this line."""
    found = line
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or node.lineno):
            found = node.lineno  # inner ones are walked later
    return found
