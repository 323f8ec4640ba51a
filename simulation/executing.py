"""Workers that do exactly what a real worker must do to be safe, and no more."""

from servo.core.events.tasks import (
    CommittedOutput,
    TaskError,
    TaskFinished,
    TaskOutcome,
    TaskStarted,
)
from servo.leader.assignments import Assignment
from servo.leader.heartbeats import BeatReply
from servo.leader.requests import Beat
from servo.ports.task_queue import Delivery
from simulation.kernel import Process
from simulation.world import BEAT_MS, Link, SimulatedWorld


def worker(world: SimulatedWorld, process: Process) -> None:
    """Takes deliveries, claims, beats, reports."""
    while True:
        delivery = world.queue.take()
        if delivery is None:
            process.sleep(60)
            continue
        exec_id = f"x-{world.nonce()}"
        if claim(world, process, delivery, exec_id):
            execute(world, process, world.network, delivery, exec_id)


def claim(world: SimulatedWorld, process: Process, delivery: Delivery, exec_id: str) -> bool:
    """Ask to be the one that runs an attempt."""
    event = TaskStarted(
        run_id=delivery.run_id,
        task_key=delivery.task_key,
        attempt_id=delivery.attempt_id,
        exec_id=exec_id,
        worker_id=process.name,
    )
    answer = world.network.insist(process, world.batch(event), tries=5)
    return answer is not None and answer.data.get("grant") == "granted"


def execute(
    world: SimulatedWorld, process: Process, link: Link, task: Delivery | Assignment, exec_id: str
) -> None:
    """Run user code for a while, beating, and report how it ended; or give it back unbegun."""
    if world.swarm.given_back and world.kernel.random.random() < world.swarm.given_back:
        world.oracle.given_back(task.attempt_id, exec_id)
        link.insist(process, world.batch(_unbegun(task, exec_id)), tries=40)
        return
    world.oracle.started(task.attempt_id, exec_id, task.run_id, task.task_key)
    longest = 12_000 if world.kernel.random.random() < 0.25 else 2_500
    longest = world.swarm.longest_task_ms or longest
    remaining = world.kernel.random.uniform(20, longest)
    while remaining > 0:
        nap = min(BEAT_MS, remaining)
        process.sleep(nap)
        remaining -= nap
        verdict = link.beat(process, _beat(task, exec_id, process.name))
        if verdict is BeatReply.LOST:
            return
        if verdict is BeatReply.CANCEL:
            break
    report = world.batch(finished(world, task, exec_id))
    link.insist(process, report, tries=40)


def _beat(task: Delivery | Assignment, exec_id: str, worker_id: str) -> Beat:
    return Beat(
        run_id=task.run_id,
        task_key=task.task_key,
        attempt_id=task.attempt_id,
        exec_id=exec_id,
        worker_id=worker_id,
    )


def _unbegun(task: Delivery | Assignment, exec_id: str) -> TaskFinished:
    return TaskFinished(
        run_id=task.run_id,
        task_key=task.task_key,
        attempt_id=task.attempt_id,
        exec_id=exec_id,
        outcome=TaskOutcome.INTERRUPTED,
        began=False,
    )


def finished(world: SimulatedWorld, task: Delivery | Assignment, exec_id: str) -> TaskFinished:
    """A report, sometimes of a failure."""
    failed = world.kernel.faulty and world.kernel.random.random() < world.swarm.failure_rate
    outcome = TaskOutcome.FAILED if failed else TaskOutcome.SUCCEEDED
    first = CommittedOutput(materialization_id=exec_id, uri="sim", row_count=1)
    more = [
        CommittedOutput(materialization_id=f"{exec_id}-{n}", asset_key=key, uri="sim")
        for n, key in enumerate(world.also_makes(task.task_key))
    ]
    return TaskFinished(
        run_id=task.run_id,
        task_key=task.task_key,
        attempt_id=task.attempt_id,
        exec_id=exec_id,
        outcome=outcome,
        output=None if failed or more else first,
        outputs=(first, *more) if more and not failed else (),
        error=TaskError(code="UserCodeException", types=("ValueError",)) if failed else None,
    )
