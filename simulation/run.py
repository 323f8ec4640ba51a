"""One world from beginning to end."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta

import msgspec

from servo.core.events.runs import ScheduleSource
from servo.ledger.paths import Paths
from simulation import (
    asking,
    backfilling,
    chunking,
    executing,
    racing,
    trigger_hosts,
    triggering,
)
from simulation.condition_evaluators import check_condition_evaluators
from simulation.condition_laws import ConditionLaw, FreshnessLaw
from simulation.faults import Bucket, FaultyQueue, FaultyStore, PlainStore
from simulation.kernel import Kernel, Process, Violation
from simulation.leader import leader
from simulation.network import Network
from simulation.oracle import Oracle
from simulation.schedule_laws import ScheduleLaw
from simulation.sensor_laws import EchoLaw, SensorLaw
from simulation.swarm import Swarm, Triggering, draw
from simulation.world import SimulatedWorld

QUIET_BOUND_MS = 240_000
QUIET_FOR_S = 6
SCRIPTS = (
    "client",
    "dropper",
    "limiter",
    "backfiller",
    "meddler",
    "owner",
    "deployer",
    "sender",
    "pauser",
)
REVIVED = ("worker", "sensor", "host", "triggers")


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a world."""

    seed: int
    violation: str | None
    fingerprint: str
    virtual_ms: int
    steps: int
    entries: int
    publishes: int
    runs: int
    faults: dict[str, int]


class Simulation:
    """Builds the world of a seed, runs it with faults and then without, and checks it."""

    def __init__(self, seed: int, swarm: Swarm | None = None, *, trace: bool = False) -> None:
        self.swarm = draw(seed) if swarm is None else swarm
        self.kernel = Kernel(seed)
        self.kernel.trace = [] if trace else None
        self.bucket = Bucket(self.kernel)
        paths = Paths("sim", "world")
        self.oracle = Oracle(self.kernel, self.bucket, paths)
        network = Network(self.kernel, self.swarm, self.oracle)
        queue = FaultyQueue(self.kernel, self.swarm.queue)
        self.world = SimulatedWorld(self.kernel, self.swarm, network, queue, paths)
        self.world.store_of = self._store_of
        self.leaders: list[Process] = []
        self.others: list[Process] = []

    def _store_of(self, process: Process) -> FaultyStore:
        return FaultyStore(self.bucket, process, self.swarm.store)

    def run(self) -> Outcome:
        """The whole life of the world; a broken rule ends it."""
        violation: str | None = None
        Violation.first = None
        try:
            with self.environment():
                self._live()
        except Violation as found:
            violation = str(found)
        except Exception as error:  # noqa: BLE001 - code that fails where it must not is a finding
            violation = f"{type(error).__name__}: {error}"
        if Violation.first is not None:
            violation = str(Violation.first)
        return Outcome(
            seed=self.kernel.seed,
            violation=violation,
            fingerprint=self.kernel.fingerprint(),
            virtual_ms=int(self.kernel.ms),
            steps=self.kernel.steps,
            entries=len(self.oracle.slots),
            publishes=self.oracle.publishes,
            runs=len(self.oracle.live.state.runs.rows),
            faults=dict(sorted(self.kernel.faults.items())),
        )

    def environment(self) -> AbstractContextManager[None]:
        """What surrounds the life of the world."""
        return nullcontext()

    def _live(self) -> None:
        try:
            self._populate()
            self._suffer()
            self._rest()
            self.oracle.final()
            self._check_requests()
            check_condition_evaluators(
                self.world, [*self.leaders, *self.others], PlainStore(self.bucket)
            )
        finally:
            for process in (*self.leaders, *self.others, *self.world.children):
                process.crash()

    def _populate(self) -> None:
        world, swarm = self.world, self.swarm
        self._new_leader()
        for n in range(swarm.workers):
            self._actor(f"worker{n}", lambda p: executing.worker(world, p))
        for n in range(swarm.runs):
            self._actor(f"client{n}", lambda p, n=n: asking.client(world, p, n))
        for n in range(swarm.sensors):
            self._actor(f"sensor{n}", lambda p: racing.sensor(world, p))
        for n in range(swarm.tickers):
            self._actor(f"ticker{n}", lambda p: racing.ticker(world, p))
        for n in range(swarm.backfills):
            self._actor(f"backfiller{n}", lambda p, n=n: chunking.backfiller(world, p, n))
            self._actor(f"meddler{n}", lambda p, n=n: chunking.meddler(world, p, n))
        for n in range(swarm.inbox_items):
            self._actor(f"dropper{n}", lambda p, n=n: asking.dropper(world, p, n))
        self._populate_backfills()
        if swarm.triggers is not None:
            self._populate_triggers(swarm.triggers)
        if swarm.task_cap is not None or swarm.pool_limit is not None:
            self._actor("limiter", lambda p: asking.limiter(world, p))
        if swarm.sensors:
            self.kernel.at(500, self._new_item)

    def _populate_backfills(self) -> None:
        world = self.world
        for n in range(self.swarm.hosts):
            self._actor(f"host{n}", lambda p: backfilling.host(world, p))
        for n in range(self.swarm.owners):
            self._actor(f"owner{n}", lambda p, n=n: backfilling.owner(world, p, n))

    def _populate_triggers(self, options: Triggering) -> None:
        world = self.world
        self.oracle.laws += [
            ScheduleLaw(self.kernel, self.swarm),
            SensorLaw(self.oracle.acked),
            EchoLaw(),
            ConditionLaw(),
            FreshnessLaw(),
        ]
        self._actor("deployer", lambda p: triggering.deployer(world, p, options))
        for n in range(options.hosts):
            self._actor(f"triggers{n}", lambda p: trigger_hosts.elsewhere(world, p))
        for n in range(options.senders if options.pushes else 0):
            self._actor(f"sender{n}", lambda p, n=n: triggering.sender(world, p, n))
        for n in range(options.pausers):
            self._actor(f"pauser{n}", lambda p: triggering.pauser(world, p))
        if options.polls:
            self.kernel.at(500, self._new_item)

    def _actor(self, name: str, main: Callable[[Process], None]) -> None:
        process = Process(self.kernel, name, main)
        self._set_skew(process)
        self.others.append(process)
        self.kernel.at(self.kernel.random.uniform(0, 300), process.start)

    def _new_leader(self) -> None:
        name = f"leader{len(self.leaders)}"
        process = Process(self.kernel, name, lambda p: leader(self.world, p))
        self._set_skew(process)
        self.leaders.append(process)
        process.start()

    def _set_skew(self, process: Process) -> None:
        skew = self.swarm.skew_ms
        process.skew = timedelta(milliseconds=self.kernel.random.uniform(-skew, skew))

    def _new_item(self) -> None:
        if self.kernel.faulty:
            self.world.items += 1
            self.kernel.at(self.kernel.random.uniform(800, 4000), self._new_item)

    # --- faults -----------------------------------------------------------------------------

    def _suffer(self) -> None:
        self.kernel.at(200, self._chaos)
        self.kernel.run_until(self.swarm.faulty_ms)
        self.kernel.faulty = False
        for process in (*self.leaders, *self.others):
            process.unpause()
            process.cut_off_until = 0

    def _chaos(self) -> None:
        if self.kernel.faulty:
            self._strike()
        if not any(process.alive for process in self.leaders):
            self._new_leader()
        for process in self.others:
            if not process.alive and process.name.startswith(REVIVED):
                process.start()
        gap = self.swarm.chaos_every_ms if self.kernel.faulty else 500
        self.kernel.at(self.kernel.random.uniform(gap / 4, gap), self._chaos)

    def _strike(self) -> None:
        kernel, swarm = self.kernel, self.swarm
        live = [process for process in self.leaders if process.alive]
        if live and kernel.chance(swarm.crash_leader):
            kernel.fault("leader_crash")
            kernel.random.choice(live).crash()
        if live and kernel.chance(swarm.pause_leader):
            kernel.fault("leader_pause")
            kernel.random.choice(live).pause(kernel.random.choice((300, 3000, 25_000)))
        if len(live) < swarm.max_leaders and kernel.chance(swarm.extra_leader):
            kernel.fault("extra_leader")
            self._new_leader()
        if kernel.chance(swarm.crash_other):
            kernel.fault("crash")
            victim = kernel.random.choice(self.others)
            victim.crash()
            kernel.at(kernel.random.uniform(50, 3000), lambda: _revive(victim))
        if kernel.chance(swarm.pause_other):
            kernel.fault("pause")
            kernel.random.choice(self.others).pause(kernel.random.choice((200, 2000, 6000)))
        if live and kernel.chance(swarm.outages):
            kernel.fault("outage")
            length = kernel.random.uniform(200, 3000)
            kernel.random.choice(live).cut_off_until = kernel.now + int(length * 1000)
        if live and kernel.chance(swarm.clock_jumps):
            kernel.fault("clock_jump")
            kernel.random.choice(live).skew += timedelta(seconds=kernel.random.uniform(-20, 20))

    # --- rest -------------------------------------------------------------------------------

    def _rest(self) -> None:
        """With faults off, everything ends within a time limit."""
        bound = self.kernel.ms + self._bound_ms
        quiet = 0
        while self.kernel.ms < bound and quiet < QUIET_FOR_S:
            known = len(self.oracle.slots)
            self.kernel.run_until(self.kernel.ms + 1000)
            busy = self.oracle.unfinished() or self._missing() or self._at_work()
            # What triggers have just caused may be the cause of more.
            caused = self.swarm.triggers is not None and len(self.oracle.slots) > known
            quiet = 0 if busy or caused else quiet + 1

    @property
    def _bound_ms(self) -> float:
        return QUIET_BOUND_MS

    def _at_work(self) -> list[str]:
        """Scripts that have not come to their end."""
        return [p.name for p in self.others if p.alive and p.name.startswith(SCRIPTS)]

    def _missing(self) -> list[str]:
        """What was requested outside and has not reached the workspace."""
        state = self.oracle.live.state
        runs = [run for run in self.world.requested_runs if run not in state.runs]
        done = {run.labels.get("item") for run in state.runs.values()}
        return [*runs, *(f"item {n}" for n in range(self.world.items) if str(n) not in done)]

    def _check_requests(self) -> None:
        if missing := self._missing():
            raise Violation(f"requested but never run: {missing[:5]}")
        items = [
            run.labels["item"]
            for run in self.oracle.live.state.runs.values()
            if "item" in run.labels
        ]
        if len(items) != len(set(items)):
            raise Violation(f"{len(items)} runs for {self.world.items} items")
        ticks = [
            run.source.tick_id
            for run in self.oracle.live.state.runs.values()
            if isinstance(run.source, ScheduleSource) and run.source.schedule_id == "pulse"
        ]
        if len(ticks) != len(set(ticks)):
            raise Violation("a tick has two runs")


def _revive(process: Process) -> None:
    if not process.alive:
        process.start()
