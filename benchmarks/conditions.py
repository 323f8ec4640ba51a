"""Automation conditions: one evaluation with what follows it, from what changed to events.

The floor beside many assets is the same change beside as few as it touches; the floor beside many
partitions is one pass over as many bits for every node of the condition. A start reads what is
current of very many partitions; its floor is a start with none.
"""

import logging
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import cast

from benchmarks.history import ROWS_PER_FILE, write_tables
from benchmarks.leader import PATHS
from benchmarks.measure import Result, Samples, in_turn
from benchmarks.scratch import Scratch
from servo.code.evaluator.conditions import ConditionEvaluator
from servo.code.evaluator.loaded_location import EvaluatorEnvironment, LoadedLocation
from servo.code.evaluator.plan_store import PlanStore
from servo.core import bitmaps
from servo.core.automation.assets import Asset, Dependency, Graph
from servo.core.automation.condition import AutomationCondition
from servo.core.automation.evaluating import Evaluator
from servo.core.automation.recording import EvaluationPoint, Recording
from servo.core.automation.spaces import Listed
from servo.core.events.tasks import TaskOutcome
from servo.core.state.rows.assets import AssetRow, PartitionStatusRow
from servo.core.state.rows.row import Row
from servo.sdk.assets.asset import asset
from servo.sdk.automation.graph import DEFAULT_SENSOR
from servo.sdk.definitions.project import Project
from servo.sdk.partitions.time_partitions import HOUR, TimeWindowPartitionsDefinition
from servo.storage.local import LocalStore
from servo.testing.builders import START
from servo.workspace.system import SystemClock, SystemEntropy

TICK = timedelta(seconds=30)
MINUTE = timedelta(minutes=1)
FIRST = datetime(2024, 1, 1, tzinfo=UTC)
AT = EvaluationPoint(sensor_id="default", tick=1, eval_id="e", applied_seq=0)


class Ticking:
    """Conditions that are evaluated every thirty seconds."""

    def __init__(self, assets: list[Asset]) -> None:
        self.evaluator = Evaluator(Graph(assets, lambda selection, key: key in selection))
        self.now = START

    def tick(self) -> int:
        """Evaluate, and make the events; how much was asked for."""
        self.now += TICK
        tick = self.evaluator.tick(self.now)
        _ = Recording(self.evaluator, tick, AT).last()
        return sum(bits.bit_count() for bits in tick.requested.values())

    def settle(self) -> None:
        """Evaluate until there is nothing left to look at."""
        for _ in range(4):
            _ = self.tick()


def automation_tick(scratch: Scratch, *, quick: bool) -> list[Result]:
    """Ten changed assets of many; a hundred changed partitions of very many."""
    del scratch
    rounds = 3 if quick else 15
    assets, partitions = (500, 50_000) if quick else (5_000, 1_000_000)
    return [_many_assets(assets, rounds), _many_partitions(partitions, rounds)]


def automation_start(scratch: Scratch, *, quick: bool) -> list[Result]:
    """A process that begins to evaluate an eager asset beside very many partitions."""
    count = 10_000 if quick else 1_000_000
    work: list[Callable[[], object]] = []
    for held in (0, count):
        folder = scratch.folder()
        write_tables(LocalStore(folder), _partitions(held))
        work.append(_start(folder, count))
    floor, measured = in_turn(work, 3)
    return [_result(f"automation_start.{count}", measured, floor, most=3_000)]


def _partitions(count: int) -> dict[str, Iterator[list[Row]]]:
    """The rows of so many minutes that were all made, each thousand by one run."""
    rows = (
        PartitionStatusRow(
            asset_key="raw",
            partition_key=f"partition=t:{FIRST + number * MINUTE:%Y-%m-%dT%H:%M:%S}.000000Z",
            last_materialization_id=f"m{number}",
            last_materialization_run_id=f"run_{number // 1_000}",
            last_materialization_at=START,
            last_materialization_seq=1,
            last_attempt_outcome=TaskOutcome.SUCCEEDED,
            latest_floor=1,
            row_version=1,
        )
        for number in range(count)
    )
    assets: list[Row] = [AssetRow(asset_key=key, row_version=1) for key in ("raw", "mart")]
    files = iter(lambda: list(islice(rows, ROWS_PER_FILE)), [])
    return {"assets": iter([assets]), "partition_status": cast("Iterator[list[Row]]", files)}


def _start(folder: Path, count: int) -> Callable[[], object]:
    minutes = TimeWindowPartitionsDefinition(FIRST, HOUR, cron_schedule="* * * * *")
    raw = asset(name="raw", partitions_def=minutes)(_nothing)
    eager = AutomationCondition.eager()
    mart = asset(name="mart", partitions_def=minutes, deps=["raw"], automation_condition=eager)
    project = Project([raw, mart(_nothing)])
    around = EvaluatorEnvironment(
        clock=SystemClock(),
        entropy=SystemEntropy(),
        log=logging.getLogger("bench"),
        environ={},
        instance=lambda: None,
    )
    held = PlanStore(store=LocalStore(folder), paths=PATHS, salt=bytes(32))
    now = FIRST + count * MINUTE
    return lambda: ConditionEvaluator(LoadedLocation(project, held, around), DEFAULT_SENSOR).judge(
        now
    )


def _nothing() -> None: ...


def _many_assets(count: int, rounds: int) -> Result:
    """Eager assets that are each made from two others; ten sources change."""
    large, small = Ticking(_groups(count)), Ticking(_groups(20))
    measured, floor = Samples(), Samples()
    for ticking in (large, small):
        for key in ticking.evaluator.graph.assets:
            ticking.evaluator.world.made(key, 1, ticking.now)
        ticking.settle()
    for _ in range(rounds):
        for ticking, samples in ((large, measured), (small, floor)):
            sources = [key for key in ticking.evaluator.graph.order if key.startswith("raw")][:10]
            samples.time(_change(ticking, sources, 1))
            ticking.settle()
    return _result("automation_tick.assets", measured, floor, most=50)


def _many_partitions(count: int, rounds: int) -> Result:
    """Two assets of very many partitions, of which every third is made."""
    space = Listed(count, "many")
    condition = AutomationCondition.eager().without(AutomationCondition.in_latest_time_window())
    above = Asset(key="raw", space=space)
    below = Asset(key="mart", space=space, deps=(Dependency(key="raw"),), condition=condition)
    ticking = Ticking([above, below])
    made = bitmaps.bitmap(range(0, count, 3))
    ticking.evaluator.world.made("raw", bitmaps.span(0, count), ticking.now)
    ticking.evaluator.world.made("mart", made, ticking.now)
    ticking.settle()
    nodes = len(ticking.evaluator.plans["mart"].nodes)
    measured, floor = Samples(), Samples()
    for number in range(rounds):
        bits = bitmaps.bitmap((number * 7_919 + n * 9_973) % count for n in range(100))
        measured.time(_change(ticking, ["raw"], bits))
        floor.time(lambda: [made & bits for _ in range(nodes)])  # noqa: B023 - called at once
        ticking.settle()
    return _result("automation_tick.partitions", measured, floor, most=200)


def _groups(count: int) -> list[Asset]:
    """Groups of twenty: ten sources, and ten eager assets that are each made from two of them."""
    eager = AutomationCondition.eager()
    assets: list[Asset] = []
    for group in range(count // 20):
        assets += [Asset(key=f"raw{group:04}_{n}") for n in range(10)]
        for n in range(10):
            deps = sorted({f"raw{group:04}_{n}", f"raw{group:04}_{(n + 1) % 10}"})
            made = tuple(Dependency(key=key) for key in deps)
            assets.append(Asset(key=f"mart{group:04}_{n}", deps=made, condition=eager))
    return assets


def _change(ticking: Ticking, keys: list[str], bits: int) -> Callable[[], object]:
    def work() -> int:
        for key in keys:
            ticking.evaluator.world.made(key, bits, ticking.now)
        return ticking.tick()

    return work


def _result(name: str, measured: Samples, floor: Samples, *, most: float) -> Result:
    return Result(
        name=name,
        value=measured.wall * 1e3,
        unit="ms",
        floor=floor.wall * 1e3,
        ratio=measured.wall / floor.wall,
        target=f"<= {most:.0f} ms",
        met=measured.wall * 1e3 <= most,
        cpu=measured.cpu * 1e3,
        best=measured.best * 1e3,
    )
