"""A world of commands from beginning to end: see `simulation.commands`."""

from collections.abc import Callable, Generator
from contextlib import contextmanager

from servo.workspace.address import Address
from simulation.commands import CommandLine, new_machines, one_command, telling
from simulation.kernel import Process, Violation
from simulation.output_laws import HealthLaw, OutputLaw
from simulation.planting import swap
from simulation.run import Simulation
from simulation.shown_law import ShownLaw
from simulation.swarm import Commands, Swarm

QUIET_BOUND_MS = 45_000
"""A lease, the tasks of a run one after the other, and some retries."""
TROUBLE_LASTS_MS = 10_000
"""After a fault, a leader may lose its lease for so long."""
NEXT_COMMAND_MS = 2_000
MOST_AT_ONCE = 4


class CommandSimulation(Simulation):
    """Starts commands on machines, and kills and suspends them."""

    def __init__(self, seed: int, swarm: Swarm, *, trace: bool = False) -> None:
        super().__init__(seed, swarm, trace=trace)
        options = swarm.commands
        if options is None:
            raise ValueError("this world has no commands")
        self._options: Commands = options
        self.machines = new_machines(self.world, options.machines)
        address = Address("s3://sim/bucket", "sim", "world")
        self.line = CommandLine(self.world, address)
        self.outputs = OutputLaw(self.bucket, self.oracle.paths)
        self._trouble: dict[str, float] = {}
        self._shown = ShownLaw(self.oracle)
        self.oracle.laws += [self.outputs, HealthLaw(self._is_healthy)]
        self._started = 0

    @contextmanager
    def environment(self) -> Generator[None]:
        with self.line.installed(), swap(*self._shown.changes())():
            yield

    def _populate(self) -> None:
        if self._options.dev:
            self._start_command("dev", telling(self.line.dev))
        self.kernel.at(200, self._next_command)

    def _next_command(self) -> None:
        """Somebody starts a command; after the faults, whoever finishes what is left."""
        live = sum(process.alive for process in self.others)
        if self.kernel.faulty and live < MOST_AT_ONCE:
            self._start_command(*one_command(self.line, self._started))
        elif not self.kernel.faulty and not live and self.oracle.unfinished():
            self._start_command(f"resume{self._started}", telling(self.line.resume))
        gap = self._options.every_ms if self.kernel.faulty else NEXT_COMMAND_MS
        self.kernel.at(self.kernel.random.uniform(gap / 2, gap), self._next_command)

    def _start_command(self, name: str, main: Callable[[Process], None]) -> None:
        self._started += 1
        process = Process(self.kernel, name, main)
        self._set_skew(process)
        self.kernel.random.choice(self.machines).add(process)
        self.others.append(process)
        process.start()

    # --- faults ---------------------------------------------------------------------------------

    def _chaos(self) -> None:
        if not self.kernel.faulty:
            return
        options, kernel = self._options, self.kernel
        live = [process for process in self.others if process.alive]
        if live and kernel.chance(options.kill):
            kernel.fault("kill")
            kernel.random.choice(live).crash()
        if live and kernel.chance(options.suspend):
            kernel.fault("suspend")
            self._suspend(kernel.random.choice(live), kernel.random.choice((500, 4000, 12_000)))
        workers = [child for child in self.world.children if child.alive]
        if workers and kernel.chance(options.kill_worker):
            kernel.fault("kill_worker")
            kernel.random.choice(workers).crash()
        if live and kernel.chance(self.swarm.outages):
            kernel.fault("outage")
            victim, length = kernel.random.choice(live), kernel.random.uniform(200, 3000)
            self._troubled(victim, length)
            victim.cut_off_until = kernel.now + int(length * 1000)
        gap = self.swarm.chaos_every_ms
        kernel.at(kernel.random.uniform(gap / 4, gap), self._chaos)

    def _suspend(self, process: Process, length_ms: float) -> None:
        """Its workers go on: only the process itself was stopped."""
        self._troubled(process, length_ms)
        process.pause(length_ms)

    def _troubled(self, process: Process, length_ms: float) -> None:
        until = self.kernel.ms + length_ms + TROUBLE_LASTS_MS
        self._trouble[process.name] = max(until, self._trouble.get(process.name, 0.0))

    def _is_healthy(self, owner: str) -> bool:
        """Whether nothing is wrong with a leader: it leads, and nothing happened to it lately."""
        for process in self.others:
            if process.alive and self.line.owners.get(process.name) == owner:
                return self._trouble.get(process.name, 0.0) < self.kernel.ms
        return False

    # --- rest -----------------------------------------------------------------------------------

    @property
    def _bound_ms(self) -> float:
        return QUIET_BOUND_MS

    def _at_work(self) -> list[str]:
        return [p.name for p in self.others if p.alive and p.name != "dev"]

    def _check_requests(self) -> None:
        runs = self.oracle.live.state.runs.rows
        for run in self.line.promised:
            if run not in runs:
                raise Violation(f"{run} was accepted, but it is not in the ledger")
        for run, why in self.line.refused.items():
            if run in runs:
                raise Violation(f"{run} was refused, but it is in the ledger: {why}")
        if busy := self._at_work():
            raise Violation(f"commands never end: {busy[:5]}")
