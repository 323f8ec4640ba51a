"""A backfill of days that do nothing, run by two warm worker processes.

From the event that creates the backfill to the end of its last run: planning in an evaluator
process, a run for each chunk, a task for each day. Beside it the least that could be done: a
durable create for each run, and a bare pool of two processes for the tasks.
"""

import multiprocessing
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.floors import BareDisk
from benchmarks.measure import Result, in_turn
from benchmarks.scratch import Scratch
from servo.code.backfills.requests import Asked, Choice, Standing, created, outline
from servo.code.loader import load_project
from servo.host.leading import LeadingHost
from servo.leader.leases.lease import HostedTriggers
from servo.planning.backfills import Backfilled
from servo.sdk.definitions.project import Project
from servo.sdk.partitions.mapping_resolution import Moment
from servo.sdk.triggers.resolution import declared
from servo.storage.local import LocalStore
from servo.testing.process_setups import setup_for
from servo.workspace.system import SystemClock

WORKERS = 2
CONCURRENCY = 10
LIMIT_S = 120.0
CODE = """
from servo import DailyPartitionsDefinition, asset

@asset(partitions_def=DailyPartitionsDefinition(start_date="2020-01-01", end_date="2022-09-27"))
def days(): ...
"""


class Days:
    """A thousand days, and the session that makes them."""

    def __init__(self, session: LeadingHost, project: Project, store: LocalStore) -> None:
        self._session = session
        self._project = project
        self._store = store
        self._clock = SystemClock()
        self._count = 0
        self._pause = threading.Event()

    def make(self, partitions: int, size: int) -> None:
        """Make so many days, in runs of some."""
        self._count += 1
        seen = Backfilled(self._project, self._project.order, Moment(self._clock.now()))
        keys = tuple(seen.of(self._project.order[0]).space.keys(0, partitions))
        asked = Asked(
            choice=Choice(keys=keys),
            request_id=str(self._count),
            chunk_size=size,
            concurrency=CONCURRENCY,
        )
        found = outline(seen, asked, Standing({}))
        event = created(self._store, self._session.paths, asked, found)
        _ = self._session.workspace.submit(event).checked()
        self._wait(event.backfill_id, partitions)

    def _wait(self, name: str, partitions: int) -> None:
        until = self._clock.monotonic() + LIMIT_S
        rows = self._session.service.engine.state.backfills.rows
        while rows[name].finished_at is None:
            assert self._clock.monotonic() < until, rows[name]
            self._session.pool.check()
            _ = self._pause.wait(0.002)
        assert rows[name].partitions_succeeded == partitions, rows[name]


@contextmanager
def _days(folder: Path) -> Generator[Days]:
    (folder / "assets.py").write_text(CODE)
    project = load_project("assets.py", folder)
    place = folder / "store"
    setup = setup_for("assets.py", folder, str(place))
    with LeadingHost(setup, workers=WORKERS, triggers=HostedTriggers.BACKFILLS) as session:
        session.deploy("assets.py", declared(project))
        assert session.triggers is not None
        session.triggers.start()
        days = Days(session, project, LocalStore(place))
        days.make(2, 1)  # imports and first pages are not the engine's
        yield days


def _nothing(_: int) -> None:
    return None


def backfill(scratch: Scratch, *, quick: bool) -> list[Result]:
    """A thousand daily partitions, in ten runs and in a thousand."""
    partitions, rounds = (20, 1) if quick else (1_000, 5)
    disk = BareDisk(scratch.folder())
    results: list[Result] = []
    with (
        _days(scratch.folder()) as days,
        multiprocessing.get_context("spawn").Pool(WORKERS) as pool,
    ):
        for name, size, most_ms in (("per_100", 100, 2_000), ("per_partition", 1, 5_000)):

            def bare(size: int = size) -> None:
                for _ in range(-(-partitions // size)):
                    disk.create(b"x" * 600)
                _ = pool.map(_nothing, range(partitions), chunksize=1)

            bare()
            measured, floor = in_turn([lambda size=size: days.make(partitions, size), bare], rounds)
            value = measured.wall * 1e3
            results.append(
                Result(
                    name=f"backfill.{name}",
                    value=value,
                    unit="ms",
                    floor=floor.wall * 1e3,
                    ratio=measured.wall / floor.wall,
                    target=f"<= {most_ms} ms",
                    met=value <= most_ms,
                    cpu=measured.cpu * 1e3,
                    best=measured.best * 1e3,
                )
            )
    return results
