"""What everybody who lives in a simulated world shares."""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Protocol

from servo.core.events.envelope import Answer, Batch, Event
from servo.core.ids import TaskKeyStr
from servo.core.plan import TaskSpec, normalize
from servo.core.retry import RetryRules
from servo.errors import ServoError
from servo.leader.heartbeats import BeatReply
from servo.leader.requests import Beat
from servo.ledger.paths import Paths
from simulation.faults import FaultyQueue, FaultyStore
from simulation.kernel import Kernel, Process
from simulation.network import Network
from simulation.oracle import LEASE_MS, Oracle
from simulation.swarm import Swarm
from simulation.workloads import GRAPHS

BEAT_MS = 1_000
POOL = "scarce"
RETRY = RetryRules(max_attempts=6, max_infra_retries=50, delay_ms=300, cap_ms=2_000)
PATIENT = RetryRules(max_attempts=1, max_infra_retries=1_000)


class Link(Protocol):
    """A way to reach a leader."""

    def beat(self, process: Process, beat: Beat) -> BeatReply | ServoError: ...

    def insist(self, process: Process, batch: Batch, *, tries: int = 1) -> Answer | None: ...


class SimulatedWorld:
    """What actors share."""

    def __init__(
        self, kernel: Kernel, swarm: Swarm, network: Network, queue: FaultyQueue, paths: Paths
    ) -> None:
        self.kernel = kernel
        self.swarm = swarm
        self.network = network
        self.oracle: Oracle = network.oracle
        self.queue = queue
        self.paths = paths
        self.items = 0
        self.requested_runs: dict[str, None] = {}
        self.hosts: dict[str, Any] = {}
        self.children: list[Process] = []
        self.store_of: Callable[[Process], FaultyStore] = _unset

    def nonce(self) -> str:
        return self.kernel.random.randbytes(8).hex()

    def batch(self, *events: Event, key: str = "") -> Batch:
        return Batch(id=f"b-{self.nonce()}", events=events, request_id=key, actor="user:sim")

    def dice(self, *names: object) -> Random:
        """Choices of an actor that it makes again when it is started again."""
        return Random(f"{self.kernel.seed}-{names}")

    def also_makes(self, task_key: str) -> tuple[str, ...]:
        """Now and then a task makes a second asset."""
        second = self.dice("also", task_key).random() < 0.2
        return (f"{task_key.partition(':')[0].partition('[')[0]}_too",) if second else ()

    def tasks(self, name: str, most: int) -> tuple[TaskSpec, ...]:
        """A small graph, the same whenever it is asked for."""
        rng = self.dice("tasks", name)
        workload = GRAPHS.get(self.swarm.workload)
        count = rng.randint(1, most) if workload is None else len(workload)
        keys = [TaskKeyStr(f"sim/{name}_{i}:materialize") for i in range(count)]

        def above(i: int) -> Sequence[int]:
            if workload is None:
                return rng.sample(range(i), rng.randint(0, min(i, 2)))
            return workload[i]

        specs = [
            TaskSpec(
                task_key=keys[i],
                asset_key=f"sim/{name}_{i}",
                also_makes=self.also_makes(keys[i]),
                upstream=tuple(keys[up] for up in above(i)),
                retry=RETRY if workload is None else PATIENT,
                heartbeat_timeout_ms=LEASE_MS,
                dispatch_ack_timeout_ms=self.swarm.ack_timeout_ms,
                priority=rng.choice((0, 0, 5)),
                pool=self._pool(keys[i]),
            )
            for i in range(count)
        ]
        return normalize(specs).tasks

    def _pool(self, task_key: str) -> str:
        """Where pools are limited, every other task is in one."""
        limited = self.swarm.pool_limit is not None
        return POOL if limited and self.dice("pool", task_key).random() < 0.5 else ""


def _unset(process: Process) -> FaultyStore:
    raise NotImplementedError(process.name)
