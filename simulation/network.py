"""Calls to the leader: lost, doubled, slow, and sometimes to a process that no longer leads."""

from collections.abc import Callable
from typing import Any

from servo.core.events.envelope import Answer, Batch
from servo.errors import ServoError, Unavailable
from servo.leader.engine import Engine
from servo.leader.heartbeats import BeatReply
from servo.leader.requests import Beat, BeatRequest, request
from simulation.kernel import Kernel, Process
from simulation.oracle import Oracle
from simulation.swarm import Swarm

RPC_TIMEOUT_MS = 1500


class LeaderEndpoint:
    """A process that leads or thinks so, and how to wake it."""

    def __init__(self, process: Process, engine: Engine, wake: Callable[[], None]) -> None:
        self.process = process
        self.engine = engine
        self.wake = wake


class Network:
    """Carries requests from processes to leaders and answers back."""

    def __init__(self, kernel: Kernel, swarm: Swarm, oracle: Oracle) -> None:
        self.kernel = kernel
        self.swarm = swarm
        self.oracle = oracle
        self.endpoints: dict[str, LeaderEndpoint] = {}

    def submit(self, process: Process, batch: Batch) -> Answer | ServoError:
        """Send a batch to some leader and wait for its answer, or for nothing."""

        def deliver(endpoint: LeaderEndpoint, answer: Callable[[Any], None]) -> None:
            endpoint.engine.inbox.put(request(batch, self.oracle.judging(batch, answer)))

        return self._round_trip(process, deliver)

    def beat(self, process: Process, beat: Beat) -> BeatReply | ServoError:
        """Tell some leader that an execution lives."""

        def deliver(endpoint: LeaderEndpoint, answer: Callable[[Any], None]) -> None:
            def reply(value: str | ServoError) -> None:
                if value is BeatReply.GO_ON:
                    self.oracle.beat_acknowledged(beat.attempt_id, beat.exec_id)
                answer(value)

            endpoint.engine.inbox.beats.append(BeatRequest(beat=beat, reply=reply))

        return self._round_trip(process, deliver)

    def insist(self, process: Process, batch: Batch, *, tries: int = 10_000) -> Answer | None:
        """Send the same batch until it is answered."""
        for _ in range(tries):
            value = self.submit(process, batch)
            if isinstance(value, Answer):
                return value
            process.sleep(self.kernel.random.uniform(20, 400))
        return None

    def _round_trip(
        self, process: Process, deliver: Callable[[LeaderEndpoint, Callable[[Any], None]], None]
    ) -> Any:
        def register(callback: Callable[[Any], None]) -> None:
            self.kernel.at(RPC_TIMEOUT_MS, lambda: callback(Unavailable("no answer")))
            for _ in range(2 if self._strikes("rpc_duplicated", self.swarm.rpc_duplicated) else 1):
                self._send(deliver, callback)

        return process.wait_for(register)

    def _send(
        self,
        deliver: Callable[[LeaderEndpoint, Callable[[Any], None]], None],
        callback: Callable[[Any], None],
    ) -> None:
        endpoints = [endpoint for endpoint in self.endpoints.values() if endpoint.process.alive]
        if not endpoints or self._strikes("rpc_lost", self.swarm.rpc_lost):
            return
        endpoint = self.kernel.random.choice(endpoints)

        def arrive() -> None:
            if endpoint.process.alive and self.endpoints.get(endpoint.process.name) is endpoint:
                deliver(endpoint, lambda value: self._answer(callback, value))
                endpoint.wake()

        self.kernel.at(self._latency(), arrive)

    def _answer(self, callback: Callable[[Any], None], value: Any) -> None:
        if not self._strikes("answer_lost", self.swarm.rpc_lost):
            self.kernel.at(self._latency(), lambda: callback(value))

    def _latency(self) -> float:
        slow = self._strikes("rpc_slow", self.swarm.rpc_slow)
        return self.kernel.random.uniform(200, 1400) if slow else self.kernel.random.uniform(1, 20)

    def _strikes(self, name: str, probability: float) -> bool:
        if self.kernel.chance(probability):
            self.kernel.fault(name)
            return True
        return False
