"""Worlds of commands: `servo dev`, `materialize`, `resume` and `tick` on two machines, one bucket.

Each command is a process with the real hosts, leader service, lock, lease, socket, pool, reports,
recovery and outputs. They are started, suspended and killed at any moment, and so are their worker
processes. Then the faults stop, and what is left is finished by whoever comes next.
"""

import logging
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import timedelta
from random import Random
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from servo.code.process_setup import ProcessSetup
from servo.config import WorkerSettings
from servo.core.declared import Declared
from servo.core.events.runs import PlanCreated, RunRequested
from servo.errors import ServoError
from servo.host import leading, one_pass
from servo.host.host import Host
from servo.host.leading import LeadingHost
from servo.host.one_pass import do_what_is_due
from servo.host.opening import lead_once_free, open_leading_or_attached
from servo.leader import service
from servo.leader.leases.lease import HostedTriggers, LeaderAdvert, LeaderLease
from servo.leader.requests import Reply, Request, request
from servo.leader.takeover import take_over
from servo.ports.world import World
from servo.workers.local_pool import pool
from servo.workspace.address import Address
from servo.workspace.channels import AnyChannel
from servo.workspace.code_location import CodeLocation
from servo.workspace.workspace import Workspace
from simulation.kernel import Process, SimClock, SimEntropy, this_process
from simulation.machines import Machine, simulated_system
from simulation.planting import swap
from simulation.swarm import Commands, Swarm, draw, idle
from simulation.told_law import is_no
from simulation.worker_children import starting_in
from simulation.world import SimulatedWorld

LOCATION = CodeLocation(name="sim", code="sim.py", folder="/sim")
TICK_WAITS_S = 4.0
MOST_TASKS = 4
TASK_LEASE_MS = 120_000
"""Longer than anything may take to end: nobody waits for the lease of a task that is lost."""


def world_of_commands(seed: int) -> Swarm:
    """The world of a seed, in which every leader is a command and ends with it."""
    rng = Random(f"commands-{seed}")
    world = draw(seed)
    mild = replace(
        world.store,
        lost=min(world.store.lost, 0.003),
        answer_lost=min(world.store.answer_lost, 0.003),
        late=min(world.store.late, 0.005),
        refused=min(world.store.refused, 0.005),
        damaged_read=0.0,
        asleep=0.0,
    )
    perfect = replace(mild, lost=0, answer_lost=0, late=0, refused=0)
    unsure = replace(mild, answer_lost=0.04, late=0.01)
    lease = rng.choice((6, 30, 30))
    settings = replace(
        world.settings,
        publish_every=timedelta(milliseconds=rng.choice((500, 1500))),
        sweep_every=timedelta(seconds=1),
        inbox_every=timedelta(milliseconds=500),
        close_after=timedelta(hours=1),
        gc_min_age=timedelta(hours=24),
        archive_after=timedelta(days=7),
        entries_per_segment=2_000,
        keep_all_for=timedelta(hours=24),
        keep_hourly_for=timedelta(days=30),
        keep_daily_for=timedelta(days=365),
        gc_every=timedelta(minutes=10),
        lease_for=timedelta(seconds=lease),
        renew_every=timedelta(seconds=lease / 3),
    )
    return replace(
        idle(world),
        store=rng.choice((mild, mild, perfect, unsure)),
        settings=settings,
        faulty_ms=rng.choice((12_000, 20_000)),
        chaos_every_ms=rng.choice((800, 2500)),
        skew_ms=rng.choice((0, 0, 300)),
        clock_jumps=0.0,
        workers=0,
        local_slots=0,
        task_cap=None,
        pool_limit=None,
        longest_task_ms=rng.choice((300, 2_000, 6_000)),
        failure_rate=rng.choice((0.0, 0.1)),
        cancel_rate=0.0,
        given_back=0.0,
        commands=Commands(
            machines=rng.choice((1, 2, 2)),
            every_ms=rng.choice((800, 2_000)),
            dev=rng.random() < 0.5,
            kill=rng.choice((0.0, 0.2, 0.4)),
            kill_worker=rng.choice((0.0, 0.2)),
            suspend=rng.choice((0.0, 0.0, 0.3)),
        ),
    )


class SimulatedCode(msgspec.Struct, frozen=True):
    """The code of a project, as far as hosts ask for it."""

    location: CodeLocation = LOCATION
    place: str = "/sim/sim.py"
    declared: Declared = Declared()

    @property
    def name(self) -> str:
        return self.location.name


class CommandLine:
    """What processes of one world run."""

    def __init__(self, world: SimulatedWorld, address: Address) -> None:
        self.world = world
        self.address = address
        self.waited: dict[str, str] = {}
        self.refused: dict[str, str] = {}
        self.promised: dict[str, None] = {}
        self.owners: dict[str, str] = {}
        """By process, who it is as a leader, until it releases its lease."""

    # --- commands -------------------------------------------------------------------------------

    def dev(self, process: Process) -> None:
        """Lead until killed or replaced."""
        with lead_once_free(
            lambda: self._lead("dev", triggers=HostedTriggers.ALL, stays=True),
            self._workspace(process),
            self._warn,
        ) as host:
            while True:
                process.sleep(500)
                host.check()

    def materialize(self, process: Process, number: int) -> None:
        """Request a run and wait for it."""
        run_id = f"run_m{number}"
        specs = tuple(
            replace(spec, heartbeat_timeout_ms=TASK_LEASE_MS)
            for spec in self.world.tasks(f"m{number}", 4)
        )
        request_ = RunRequested(
            run_id=run_id, run_key=f"m{number}", request_fingerprint="fp", location=LOCATION.name
        )
        plan = PlanCreated(run_id=run_id, fingerprint="plan", tasks=specs)
        with self._open("materialize") as host:
            try:
                receipt = host.workspace.submit(request_, plan, request_id=f"m{number}")
            except ServoError as error:
                if is_no(error):
                    self.refused[run_id] = str(error)
                raise
            process.kernel.note("receipt", run_id, receipt.status)
            if not receipt.applied and not receipt.queued:
                self.refused[run_id] = receipt.reason
                return
            self.promised[run_id] = None
            self._wait(host, run_id)

    def resume(self, process: Process) -> None:
        """Finish what others have begun."""
        del process
        with self._open("resume") as host:
            for run in host.begun_runs():
                self._wait(host, run)

    def tick(self, process: Process) -> None:
        """Do what is due, once."""
        watcher: Any = self
        code: Any = SimulatedCode()
        report = do_what_is_due(
            self._workspace(process),
            [LOCATION.name],
            lambda: [code],
            workers=2,
            watcher=watcher,
            wait_seconds=TICK_WAITS_S,
        )
        for row in report.runs:
            self.world.oracle.reported(row)

    def _wait(self, host: Host, run: str) -> None:
        self.world.oracle.reported(host.wait(run))

    # --- hosts ----------------------------------------------------------------------------------

    @contextmanager
    def _open(self, command: str) -> Generator[Host]:
        code: Any = SimulatedCode()
        host = open_leading_or_attached(
            [code],
            self._workspace(this_process()),
            lambda: cast("Host", self._lead(command)),
            warn=self._warn,
            plans=False,
        )
        with host:
            yield host
            host.finish()

    def _lead(
        self,
        command: str,
        *,
        triggers: HostedTriggers = HostedTriggers.NONE,
        stays: bool = False,
    ) -> LeadingHost:
        process = this_process()
        return LeadingHost(
            ProcessSetup(location=LOCATION, address=self.address, stays=stays),
            workers=2,
            settings=self.world.swarm.settings,
            limits=WorkerSettings(),
            world=self._ports(process),
            triggers=triggers,
            command=command,
        )

    def _lead_for_pass(self, *_: Any, command: str, **__: Any) -> LeadingHost:
        return self._lead(command)

    def _workspace(self, process: Process) -> Workspace:
        ports = self._ports(process)
        return Workspace(
            self.address, ports, AnyChannel(self.address, ports), actor=f"user:{process.name}"
        )

    def _ports(self, process: Process) -> World:
        return World(
            self.world.store_of(process),
            SimClock(process),
            SimEntropy(process.kernel),
            identity=f"leader:{process.name}",
        )

    def _warn(self, words: str) -> None:
        this_process().kernel.note("warned", words)

    # --- a pass, and who watches it -------------------------------------------------------------

    def waiting(self, leader: LeaderAdvert) -> None:
        this_process().kernel.note("tick waits for", leader.pid)

    @contextmanager
    def leading(self, host: LeadingHost) -> Generator[LeadingHost]:
        with host:
            yield host

    @contextmanager
    def installed(self) -> Generator[None]:
        """Within this, commands run on simulated machines."""
        changes: list[tuple[Any, str, Any]] = [
            (pool, "WorkerProcess", starting_in(self.world)),
            (service, "take_over", self._taken_over),
            (LeaderLease, "release", self._releasing(LeaderLease.release)),
            (service, "request", self._judged),
            (leading.LeadingHost, "_triggers", _none),
            (one_pass, "lead_with", self._lead_for_pass),
            (one_pass, "_changed_conditions", _unchanged),
        ]
        changes.append((logging.getLogger(leading.__name__), "disabled", True))
        with simulated_system(), swap(*changes)():
            yield

    def _taken_over(self, ports: Any, paths: Any, may_claim: Callable[[], bool]) -> Any:
        leadership = take_over(ports, paths, may_claim=may_claim)
        process = this_process()
        self.owners[process.name] = leadership.owner
        process.kernel.note("leads", process.name, leadership.epoch)
        return leadership

    def _releasing(self, release: Callable[[LeaderLease], None]) -> Callable[[LeaderLease], None]:
        def released(lease: LeaderLease) -> None:
            self.owners.pop(this_process().name, None)
            release(lease)

        return released

    def _judged(self, batch: Any, reply: Reply) -> Request:
        return request(batch, self.world.oracle.judging(batch, reply))


def _none(*_: Any) -> None:
    return


def _unchanged(*_: Any) -> str:
    return ""


def one_command(line: CommandLine, number: int) -> tuple[str, Callable[[Process], None]]:
    """Some command, and its name."""
    kind = line.world.kernel.random.choice(("materialize", "materialize", "resume", "tick"))
    if kind == "materialize":
        return f"materialize{number}", telling(lambda p: line.materialize(p, number))
    return f"{kind}{number}", telling(line.resume if kind == "resume" else line.tick)


def telling(command: Callable[[Process], None]) -> Callable[[Process], None]:
    """A command that ends with an error of Servo as it does on a terminal: with its message."""

    def main(process: Process) -> None:
        try:
            command(process)
        except ServoError as error:
            process.kernel.note("failed", process.name, type(error).__name__, error)
        else:
            process.kernel.note("done", process.name)

    return main


def new_machines(world: SimulatedWorld, count: int) -> list[Machine]:
    """The machines of a world."""
    return [Machine(world.kernel, f"machine{number}") for number in range(count)]
