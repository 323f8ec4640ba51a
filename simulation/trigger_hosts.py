"""Hosts of triggers: the real schedules, sensors and conditions, in a simulated environment.

In a real workspace they run in the leader's process, read its state and commit through it. Some do
so here. Others run in separate processes, follow the ledger, and reach the leader over a network
that loses and doubles messages: no guarantee may depend on a single host, or on its being near.

The evaluator is the real code of an evaluator process, but it answers late, or ends without an
answer and loses its memory.
"""

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from typing import Any, TypeVar, cast

from msgspec.structs import replace

from servo.code.evaluator.answering import answer_to
from servo.code.evaluator.history import History
from servo.code.evaluator.loaded_location import EvaluatorEnvironment, LoadedLocation
from servo.code.evaluator.messages import (
    ConditionsEvaluated,
    Evaluated,
    EvaluatedMany,
    RequestedRun,
)
from servo.code.evaluator.plan_store import PlanStore
from servo.core.events.envelope import Answer, Batch
from servo.core.state.state import State
from servo.errors import ServoError, Unavailable
from servo.leader.requests import ReadRequest, request
from servo.ports.object_store import ObjectStore
from servo.projection.read.cold import ColdRows
from servo.projection.read.follower import Follower
from servo.projection.read.reader import Reader
from servo.sdk.definitions.project import Project
from servo.triggers.conditions import Conditions
from servo.triggers.host import LONGEST_PAUSE, TriggerContext, TriggerKind
from servo.triggers.schedules import Schedules
from servo.triggers.sensors import Sensors
from simulation.kernel import Process, SimClock, SimEntropy
from simulation.network import LeaderEndpoint
from simulation.oracle import LEASE_MS
from simulation.swarm import Triggering
from simulation.trigger_project import project_of
from simulation.waiting import Waker
from simulation.world import RETRY, SimulatedWorld

SALT = b"the salt of a simulated workspace"
Submit = Callable[[Batch], "Future[Answer]"]
T = TypeVar("T")

# --- committing -----------------------------------------------------------------------------------


class Promise(Future[Answer]):
    """An answer that is waited for in virtual time."""

    def __init__(self, process: Process) -> None:
        super().__init__()
        self._process = process

    def keep(self, value: Answer | ServoError) -> None:
        """Settle it, unless it is."""
        if self.done():
            return
        if isinstance(value, Answer):
            self.set_result(value)
        else:
            self.set_exception(value)

    def result(self, timeout: float | None = None) -> Answer:
        """The answer, as soon as it is there."""

        def register(callback: Callable[[Any], None]) -> None:
            self.add_done_callback(callback)
            if timeout is not None:
                self._process.kernel.at(timeout * 1000, lambda: callback(None))

        if not self.done():
            self._process.wait_for(register)
        return super().result(0)


class Threads:
    """Threads of a simulated process."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def submit(self, work: Callable[..., None], *arguments: Any) -> None:
        """Do something on a thread."""
        self._process.spawn(lambda: work(*arguments))


class TriggerService:
    """Where batches go: to the leader in the same process, or over the network to some leader."""

    def __init__(
        self, world: SimulatedWorld, process: Process, endpoint: LeaderEndpoint | None
    ) -> None:
        self._world = world
        self._process = process
        self._endpoint = endpoint
        self.follower: Follower | None = None

    def read(self, look: Callable[[State], T]) -> T:
        """What is found in the leader's state, or in the one that follows the ledger here."""
        endpoint = self._endpoint
        if endpoint is None:
            return look(self._followed())
        found: list[T] = []

        def register(callback: Callable[[Any], None]) -> None:
            def show(state: State) -> None:
                found.append(look(state))
                callback(None)

            endpoint.engine.inbox.put_read(ReadRequest(look=show, fail=callback))
            endpoint.wake()

        failed = self._process.wait_for(register)
        if failed is not None:
            raise failed
        return found[0]

    def _followed(self) -> State:
        if self.follower is None:
            raise Unavailable("this host does not follow the ledger now", may_have_applied=False)
        return self.follower.state

    def submit(self, batch: Batch) -> Promise:
        """Send a batch on its way."""
        promise = Promise(self._process)
        endpoint = self._endpoint
        if endpoint is None:
            network, process = self._world.network, self._process
            process.spawn(lambda: promise.keep(network.submit(process, batch)))
            return promise

        reply = self._world.oracle.judging(batch, promise.keep)
        endpoint.engine.inbox.put(request(batch, reply))
        endpoint.wake()
        return promise


class SimMeans(TriggerContext):
    """The means of a kind of trigger, with threads that live in virtual time."""

    def __init__(self, service: TriggerService, evaluators: "Evaluators", process: Process) -> None:
        clock, entropy = SimClock(process), SimEntropy(process.kernel)
        super().__init__(service, cast("Any", evaluators), clock, entropy)
        self._threads = cast("ThreadPoolExecutor", Threads(process))
        self.say = lambda words: process.kernel.note("said", process.name, words)


# --- evaluating -----------------------------------------------------------------------------------


class SimulatedLocation(LoadedLocation):
    """Where evaluations are made, with randomness and pauses that are the world's."""

    def __init__(
        self,
        world: SimulatedWorld,
        process: Process,
        project: Project,
        store: ObjectStore | None = None,
    ) -> None:
        records = PlanStore(store=store or world.store_of(process), paths=world.paths, salt=SALT)
        around = EvaluatorEnvironment(
            clock=SimClock(process),
            entropy=SimEntropy(process.kernel),
            log=logging.getLogger("servo.simulation"),
            environ={},
            instance=_NoDynamicPartitions,
        )
        super().__init__(project, records, around)
        self._process = process

    @cached_property
    def history(self) -> History:
        """What the workspace has recorded; waiting for it takes virtual time."""
        store, paths = self.records.store, self.records.paths
        return History(Reader(store, paths), ColdRows(store), self.clock, self._pause)

    def _pause(self, seconds: float) -> None:
        self._process.sleep(seconds * 1000)


class _NoDynamicPartitions:
    def get_dynamic_partitions(self, partitions_def_name: str) -> list[str]:
        del partitions_def_name
        return []


class Evaluators:
    """Answers questions as evaluator processes would, in place of their pool."""

    generation = 0

    def __init__(self, world: SimulatedWorld, process: Process, options: Triggering) -> None:
        self._world = world
        self._process = process
        self._options = options
        self.loaded = self._new_location()

    def _new_location(self) -> SimulatedLocation:
        return SimulatedLocation(self._world, self._process, project_of(self._world, self._options))

    def ask(self, question: Any, seconds: float) -> Any:
        """The answer to a question, after a while, or that there is none."""
        del seconds
        kernel = self._world.kernel
        slow = kernel.chance(self._options.evaluator_slow)
        self._process.sleep(kernel.random.uniform(200, 2500) if slow else 10)
        if kernel.chance(self._options.evaluator_dies):
            kernel.fault("evaluator_dies")
            self.loaded = self._new_location()
            return Evaluated(error="the evaluator process ended with -9")
        return self._hasty(answer_to(self.loaded, question))

    def _hasty(self, answer: Any) -> Any:
        """An answer whose runs retry and time out as fast as everything does here."""
        if isinstance(answer, EvaluatedMany):
            return replace(answer, answers=tuple(self._hasty(one) for one in answer.answers))
        if isinstance(answer, Evaluated | ConditionsEvaluated):
            return replace(answer, runs=tuple(self._quick(run) for run in answer.runs))
        return answer

    def _quick(self, run: RequestedRun) -> RequestedRun:
        tasks = tuple(
            replace(
                task,
                also_makes=self._world.also_makes(task.task_key),
                retry=RETRY,
                heartbeat_timeout_ms=LEASE_MS,
                dispatch_ack_timeout_ms=self._world.swarm.ack_timeout_ms,
            )
            for task in run.planned.tasks
        )
        return replace(run, planned=replace(run.planned, tasks=tasks))


# --- hosting --------------------------------------------------------------------------------------


class Host:
    """Hosts all kinds of triggers in a process."""

    def __init__(
        self, world: SimulatedWorld, process: Process, endpoint: LeaderEndpoint | None = None
    ) -> None:
        self._process = process
        self._clock = SimClock(process)
        self._waker = Waker(process)
        self.evaluator_pools: list[Evaluators] = []
        options = world.swarm.triggers
        self._kinds: list[TriggerKind] = []
        self.service = TriggerService(world, process, endpoint)
        if options is not None:
            self._kinds = [kind(self._context(world, options)) for kind in _kinds(options)]

    def _context(self, world: SimulatedWorld, options: Triggering) -> SimMeans:
        evaluators = Evaluators(world, self._process, options)
        self.evaluator_pools.append(evaluators)
        context = SimMeans(self.service, evaluators, self._process)
        context.on_change = self._waker.wake
        return context

    def look(self) -> None:
        """Begin whatever is due, and wait until something may be again."""
        try:
            self.service.read(self._look_at)
        except ServoError:
            self._process.sleep(300)
            return
        now = self._clock.now()
        due = [at - now for kind in self._kinds if (at := kind.next_due()) is not None]
        shortest = min([LONGEST_PAUSE, *due])
        self._waker.wait(max(shortest.total_seconds() * 1000, 20))

    def _look_at(self, state: State) -> None:
        for kind in self._kinds:
            _ = kind.look(state, self._clock.now())

    def wake(self) -> None:
        """Something has happened."""
        self._waker.wake()


def _kinds(options: Triggering) -> Sequence[Callable[[TriggerContext], TriggerKind]]:
    wanted: list[tuple[bool, Callable[[TriggerContext], TriggerKind]]] = [
        (options.schedules, Schedules),
        (options.polls or options.pushes or options.echoes, Sensors),
        (options.conditions, Conditions),
    ]
    return [kind for is_wanted, kind in wanted if is_wanted]


def beside_leader(
    world: SimulatedWorld, process: Process, endpoint: LeaderEndpoint
) -> Callable[[], None]:
    """Look after triggers in a process that leads; what to call when something has happened."""
    options = world.swarm.triggers
    if options is None or not options.beside_leaders:
        return lambda: None
    host = Host(world, process, endpoint)

    def main() -> None:
        while True:
            host.look()

    world.hosts[process.name] = host
    process.spawn(main)
    return host.wake


def elsewhere(world: SimulatedWorld, process: Process) -> None:
    """Look after triggers in a process that follows the ledger."""
    host = Host(world, process)
    world.hosts[process.name] = host
    service = host.service
    while True:
        try:
            if service.follower is None:
                service.follower = Follower(world.store_of(process), world.paths)
            _ = service.follower.catch_up()
        except ServoError:
            service.follower = None
            process.sleep(300)
        else:
            host.look()
