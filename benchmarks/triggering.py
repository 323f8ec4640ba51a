"""The cost of triggers: many ticks at once, and a pass with nothing to do."""

import subprocess
import sys
import time
from datetime import datetime, timedelta
from pathlib import Path
from statistics import median

from benchmarks.floors import BareDisk
from benchmarks.measure import Result, Sample, Samples, timed
from benchmarks.processes import cpu_seconds
from benchmarks.scratch import Scratch
from servo.code.loader import load_project
from servo.host.leading import LeadingHost
from servo.leader.leases.lease import HostedTriggers
from servo.ports.world import World
from servo.sdk.triggers.resolution import declared
from servo.storage.local import LocalStore
from servo.testing.process_setups import setup_for
from servo.workspace.system import SystemClock, SystemEntropy

LIMIT = 120.0
_SCHEDULES = """
from servo import DefaultScheduleStatus, ScheduleDefinition, asset

@asset
def made():
    return None

schedules = [
    ScheduleDefinition(
        name=f"s{{n}}",
        cron_schedule="0 0 * * *",
        target="made",
        default_status=DefaultScheduleStatus.RUNNING,
    )
    for n in range({size})
]
"""


class _Ahead(SystemClock):
    """The clock of this machine, some days ahead."""

    def __init__(self) -> None:
        self.days = 0

    def now(self) -> datetime:
        return super().now() + timedelta(days=self.days)


def schedules_due(scratch: Scratch, *, quick: bool) -> list[Result]:
    """A thousand schedules that are due at the same instant, until every tick is durable.

    The runs they ask for are being made meanwhile. The floor is a bare durable create for each.
    """
    size, rounds = (20, 1) if quick else (1_000, 5)
    folder, clock = scratch.folder(), _Ahead()
    (folder / "assets.py").write_text(_SCHEDULES.format(size=size))
    project = load_project("assets.py", folder)
    setup = setup_for("assets.py", folder, str(folder / "store"))
    world = World(LocalStore(folder / "store"), clock, SystemEntropy())
    disk, taken, floors = BareDisk(scratch.folder()), Samples(), Samples()
    with LeadingHost(setup, workers=2, world=world, triggers=HostedTriggers.ALL) as session:
        session.deploy("assets.py", declared(project))
        for _ in range(rounds + 1):
            clock.days += 1
            taken.taken.append(_until_ticked(session, clock))
            floors.time(lambda: [disk.create(b"x" * 600) for _ in range(size)])
            _until_quiet(session)
    _ = taken.taken.pop(0)  # the evaluator imports the code once
    return [
        Result(
            name="schedules_due",
            value=taken.wall * 1e3,
            unit="ms",
            floor=floors.wall * 1e3,
            ratio=taken.wall / floors.wall,
            target="<= 2,000 ms",
            met=taken.wall <= 2.0,
            best=min(sample.wall for sample in taken.taken) * 1e3,
        )
    ]


def _until_ticked(session: LeadingHost, clock: _Ahead) -> Sample:
    due = clock.now()
    rows = session.service.engine.state.schedule_state.rows
    triggers = session.triggers
    assert triggers is not None

    def work() -> None:
        until = time.monotonic() + LIMIT
        while any(due - row.low_water >= timedelta(days=1) for row in list(rows.values())):
            _ = triggers.look()
            assert time.monotonic() < until
            time.sleep(0.005)

    return timed(work)


def _until_quiet(session: LeadingHost) -> None:
    until = time.monotonic() + LIMIT
    while session.open_runs():
        assert time.monotonic() < until
        time.sleep(0.05)


def idle_pass(scratch: Scratch, *, quick: bool) -> list[Result]:
    """`servo tick` when nothing is due: processor time, and not a byte written."""
    folder = scratch.folder()
    code = _SCHEDULES.format(size=5)
    (folder / "assets.py").write_text(code)
    command = [sys.executable, "-m", "servo.cli.main", "tick", "assets.py"]
    _ = subprocess.run(command, cwd=folder, check=True, capture_output=True)
    before = _files(folder)
    rounds = 2 if quick else 7
    taken, floors = list[float](), list[float]()
    for _ in range(rounds):
        taken.append(cpu_seconds(command, folder) * 1e3)
        floors.append(cpu_seconds([sys.executable, "-c", "pass"], folder) * 1e3)
    assert _files(folder) == before, "an idle pass wrote to the store"
    value, floor = median(taken), median(floors)
    return [
        Result(
            name="idle_pass",
            value=value,
            unit="ms",
            floor=floor,
            ratio=value / floor,
            target="<= 1,000 ms of CPU",
            met=value <= 1_000,
            best=min(taken),
        )
    ]


def _files(folder: Path) -> dict[str, int]:
    found = (folder / ".servo").rglob("*")
    return {str(path): path.stat().st_mtime_ns for path in found if path.is_file()}
