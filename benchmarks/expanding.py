"""A plan of a hundred thousand tasks, from its specifications to rows that are ready to run."""

import time

from benchmarks import plans
from benchmarks.leader import PATHS, ByHand, ports
from benchmarks.measure import Result
from benchmarks.scratch import Scratch
from servo.core.events.envelope import Batch
from servo.core.ids import TenantId, WorkspaceId
from servo.core.plan import TaskSpec, fingerprint, normalize
from servo.storage.local import LocalStore

SEGMENT = 1_000
RUN = "run_1"


def big_plan(scratch: Scratch, *, quick: bool) -> list[Result]:
    """Plan, store, request, expand; the leader publishes meanwhile, as always."""
    tasks, width = (2_000, 100) if quick else (100_000, 1_000)
    specs = plans.layered(tasks, width)
    store = LocalStore(scratch.folder())
    with ports(store) as held:
        leader = ByHand(held)
        clock = _Watch()
        batch = _planned(store, specs)
        planned = clock.read()
        leader.submit(batch)
        ready = expanded = 0.0
        while not expanded:
            clock.step(leader)
            run = leader.engine.state.runs.rows[RUN]
            if not ready and leader.engine.state.index.ready_count:
                ready = clock.read()
            if run.segments_expanded == len(run.plan_segments):
                expanded = clock.read()
        _ = leader.answer()
        assert len(leader.engine.state.tasks) == tasks
    return [
        _seconds("big_plan.planned", planned, None),
        _seconds("big_plan.first_ready", ready, 10),
        _seconds("big_plan.expanded", expanded, None),
        _seconds("big_plan.longest_step", clock.longest, 1),
        _seconds("big_plan.longest_step_cpu", clock.longest_cpu, None),
    ]


def _planned(store: LocalStore, specs: list[TaskSpec]) -> Batch:
    plan = normalize(specs)
    _ = fingerprint(TenantId(PATHS.tenant), WorkspaceId(PATHS.workspace), plan)
    return plans.stored(store, PATHS, RUN, plan, SEGMENT)


class _Watch:
    """Time since the beginning, and the longest step."""

    def __init__(self) -> None:
        self._began = time.perf_counter()
        self.longest = self.longest_cpu = 0.0

    def read(self) -> float:
        return time.perf_counter() - self._began

    def step(self, leader: ByHand) -> None:
        wall, cpu = time.perf_counter(), time.thread_time()
        _ = leader.engine.step()
        self.longest = max(self.longest, time.perf_counter() - wall)
        self.longest_cpu = max(self.longest_cpu, time.thread_time() - cpu)


def _seconds(name: str, value: float, most: float | None) -> Result:
    return Result(
        name=name,
        value=value,
        unit="s",
        target="" if most is None else f"<= {most}",
        met=None if most is None else value <= most,
    )
