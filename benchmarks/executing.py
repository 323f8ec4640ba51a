"""Assets that do nothing, run by two warm worker processes on a folder that is synced.

It measures all that Servo adds, from the request of the run to its end. Each is compared with the
least that any implementation has to do: a durable create per step of a chain, a bare pool of two
processes for the rest.
"""

import multiprocessing
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from benchmarks.floors import BareDisk
from benchmarks.measure import Result, Samples, in_turn
from benchmarks.scratch import Scratch
from servo.code.loader import load_project
from servo.core.plan import Plan
from servo.host.leading import LeadingHost
from servo.planning.assets import plan_assets
from servo.sdk.triggers.resolution import declared
from servo.testing.planned_runs import start_plan
from servo.testing.process_setups import setup_for

WORKERS = 2
LIMIT = 120.0

_MAKE = """
from servo import asset

def make(name, deps):
    def fn(): ...
    fn.__name__ = name
    globals()[name] = made = asset(deps=deps)(fn)
    return made

"""
_CHAIN = """
above = []
for number in range({size}):
    above = [make(f"c{{number:05d}}", above)]
"""
_FAN = """
make("last", [make(f"t{{number:05d}}", []) for number in range({size})])
"""
_LAYERS = """
above = []
for layer in range({size}):
    above = [
        make(f"l{{layer:03d}}_{{n:03d}}", [above[n], above[(n + 1) % 100]] if above else [])
        for n in range(100)
    ]
"""


def code_of_layers(size: int) -> str:
    """A file of so many layers of a hundred assets each."""
    return _MAKE + _LAYERS.format(size=size)


def _nothing(_: int) -> None:
    return None


class _Project:
    """A file of assets, the plan to make them all, and the session that does."""

    def __init__(self, session: LeadingHost, plan: Plan) -> None:
        self._session = session
        self._plan = plan
        self._runs = 0
        self.tasks = len(plan.tasks)

    def run(self) -> None:
        """Make everything."""
        self._runs += 1
        run = self._session.wait(start_plan(self._session, self._plan, f"run {self._runs}"), LIMIT)
        assert run is not None
        assert run.tasks_succeeded == self.tasks, run


@contextmanager
def _project(folder: Path, code: str) -> Generator[_Project]:
    (folder / "assets.py").write_text(_MAKE + code)
    project = load_project("assets.py", folder)
    with LeadingHost(
        setup_for("assets.py", folder, str(folder / "store")), workers=WORKERS
    ) as session:
        session.deploy("assets.py", declared(project))
        made = _Project(session, plan_assets(project, project.order))
        made.run()  # imports and first pages are not the engine's
        yield made


def _result(
    name: str,
    measured: Samples,
    floor: Samples,
    *,
    most_ms: float,
    most: float | None = None,
    per: int = 1,
) -> Result:
    """`most` is how many times the floor it may be, if that is asked for as well."""
    value = measured.wall * 1e3 / per
    ratio = measured.wall / floor.wall
    return Result(
        name=name,
        value=value,
        unit="ms",
        floor=floor.wall * 1e3 / per,
        ratio=ratio,
        target=f"<= {most_ms:g} ms" + ("" if most is None else f", ratio <= {most:g}"),
        met=value <= most_ms and (most is None or ratio <= most),
        cpu=measured.cpu * 1e3 / per,
        best=measured.best * 1e3 / per,
    )


def chain(scratch: Scratch, *, quick: bool) -> list[Result]:
    """Forty assets, each made from the one before: what a step costs."""
    size, rounds = (5, 2) if quick else (40, 15)
    disk = BareDisk(scratch.folder())

    def bare() -> None:
        for _ in range(size):
            disk.create(b"x" * 600)

    with _project(scratch.folder(), _CHAIN.format(size=size)) as project:
        measured, floor = in_turn([project.run, bare], rounds)
    return [_result("chain.step", measured, floor, most_ms=3, per=size)]


def fan_out(scratch: Scratch, *, quick: bool) -> list[Result]:
    """A thousand assets and one that waits for them all."""
    size, rounds = (20, 2) if quick else (1_000, 9)
    with (
        _project(scratch.folder(), _FAN.format(size=size)) as project,
        multiprocessing.get_context("spawn").Pool(WORKERS) as pool,
    ):

        def bare() -> None:
            _ = pool.map(_nothing, range(size), chunksize=1)

        bare()
        measured, floor = in_turn([project.run, bare], rounds)
    return [_result("fan_out", measured, floor, most_ms=800, most=10)]


def layers(scratch: Scratch, *, quick: bool) -> list[Result]:
    """A hundred layers of a hundred assets, each made from two of the layer before."""
    small, large, rounds = (1, 2, 1) if quick else (10, 100, 3)
    results: list[Samples] = []
    for size in (small, large):
        with (
            _project(scratch.folder(), _LAYERS.format(size=size)) as project,
            multiprocessing.get_context("spawn").Pool(WORKERS) as pool,
        ):
            bare = partial(pool.map, _nothing, range(size * 100), 1)
            _ = bare()
            results += in_turn([project.run, bare], rounds)
    few, _, many, floor = results
    whole = _result("layers", many, floor, most_ms=6_000)
    ratio = (many.wall / large) / (few.wall / small)
    flat = Result(
        name="layers.flat",
        value=many.wall * 10 / large,
        unit="ms/task",
        floor=few.wall * 10 / small,
        ratio=ratio,
        target="ratio <= 1.5",
        met=ratio <= 1.5,
    )
    return [whole, flat]
