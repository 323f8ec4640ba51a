"""Simulated leaders: the real takeover and the real engine, on simulated ports."""

from collections.abc import Callable, Sequence
from copy import copy
from datetime import timedelta
from functools import partial
from typing import Any

from servo.controllers.dispatch import IdleWorker
from servo.core.events.envelope import Answer, Batch
from servo.errors import Fenced, ServoError
from servo.leader.assignments import Assignment
from servo.leader.engine import Engine
from servo.leader.heartbeats import BeatReply
from servo.leader.ports import Ports
from servo.leader.requests import Beat, BeatRequest, request
from servo.leader.takeover import Leadership, take_over
from simulation.executing import execute
from simulation.faults import QueueOf
from simulation.kernel import Process, SimBackground, SimClock, SimEntropy
from simulation.network import LeaderEndpoint
from simulation.oracle import Oracle
from simulation.trigger_hosts import beside_leader
from simulation.waiting import Waker
from simulation.world import SimulatedWorld


class Direct:
    """How workers inside the leader's process reach it: nothing is lost on the way."""

    def __init__(self, endpoint: LeaderEndpoint, oracle: Oracle) -> None:
        self._endpoint = endpoint
        self._oracle = oracle

    def beat(self, process: Process, beat: Beat) -> BeatReply | ServoError:
        def register(callback: Callable[[Any], None]) -> None:
            def reply(value: str | ServoError) -> None:
                if value is BeatReply.GO_ON:
                    self._oracle.beat_acknowledged(beat.attempt_id, beat.exec_id)
                callback(value)

            self._endpoint.engine.inbox.beats.append(BeatRequest(beat=beat, reply=reply))
            self._endpoint.wake()

        return process.wait_for(register)

    def insist(self, process: Process, batch: Batch, *, tries: int = 1) -> Answer | None:
        for _ in range(tries):
            value = process.wait_for(lambda callback: self._put(batch, callback))
            if isinstance(value, Answer):
                return value
            process.sleep(50)
        return None

    def _put(self, batch: Batch, callback: Callable[[Any], None]) -> None:
        self._endpoint.engine.inbox.put(request(batch, self._oracle.judging(batch, callback)))
        self._endpoint.wake()


class LocalPool:
    """Workers in the leader's process: a task is handed over with its grant."""

    def __init__(self, world: SimulatedWorld, process: Process, slots: int) -> None:
        self._world = world
        self._process = process
        self._free = [f"{process.name}-w{n}" for n in range(slots)]
        self.link: Direct | None = None

    def idle(self) -> Sequence[IdleWorker]:
        return [
            IdleWorker(worker_id=name, exec_id=f"x-{self._world.nonce()}") for name in self._free
        ]

    def assign(self, assignments: Sequence[Assignment]) -> None:
        for assignment in assignments:
            self._free.remove(assignment.worker_id)
            self._process.spawn(partial(self._work, assignment))

    def _work(self, assignment: Assignment) -> None:
        if self.link is not None:
            execute(self._world, self._process, self.link, assignment, assignment.exec_id)
        self._free.append(assignment.worker_id)


def leader(world: SimulatedWorld, process: Process) -> None:
    """Take over, lead until it ends, and leave."""
    waker = Waker(process)
    ports = Ports(
        store=world.store_of(process),
        clock=SimClock(process),
        entropy=SimEntropy(world.kernel),
        background=SimBackground(process, waker.wake),
        queue=QueueOf(world.queue, process) if world.swarm.workers else None,
    )
    leadership = _take_over(world, process, ports)
    if leadership is None:
        return
    pool = LocalPool(world, process, world.swarm.local_slots)
    engine = Engine(ports, world.paths, world.swarm.settings, leadership, workers=pool)
    endpoint = LeaderEndpoint(process, engine, waker.wake)
    pool.link = Direct(endpoint, world.oracle)
    world.network.endpoints[process.name] = endpoint
    world.kernel.note("leads", process.name, leadership.epoch)
    world.oracle.believed(leadership.owner, leadership.state.seq)
    changed = beside_leader(world, process, endpoint)
    process.on_wake = lambda slept_ms: _woken(world, engine, slept_ms)
    try:
        while True:
            if engine.step():
                world.oracle.believed(leadership.owner, engine.state.seq)
                changed()
            if not len(engine.inbox):
                waker.wait(_pause_ms(engine))
    except ServoError as error:
        world.kernel.note("resigns", process.name, type(error).__name__)
        engine.shut_down(error)
    finally:
        process.on_wake = None
        world.network.endpoints.pop(process.name, None)


def _woken(world: SimulatedWorld, engine: Engine, slept_ms: float) -> None:
    if timedelta(milliseconds=slept_ms) > engine.settings.stall_after:
        # A copy: reading the clock of a term may adopt the wall clock.
        world.oracle.woke_up(engine.ownership.owner, copy(engine.clock).now())


def _take_over(world: SimulatedWorld, process: Process, ports: Ports) -> Leadership | None:
    for _ in range(100):
        try:
            return take_over(ports, world.paths)
        except Fenced:
            return None
        except ServoError as error:
            world.kernel.note("takeover failed", process.name, type(error).__name__)
            process.sleep(world.kernel.random.uniform(50, 500))
    return None


def _pause_ms(engine: Engine) -> float:
    due = engine.next_due()
    if due is None:
        return 1000
    return min(max((due - engine.clock.now()).total_seconds() * 1000, 1), 1000)
