"""Worker processes of real pools, in virtual time.

The pool's side of a process is the real one, except for how a process is started and ended. The
process runs the real loop of a worker, with user code that takes a while, may fail, and stages and
commits its output as the real one does.
"""

import logging
import signal
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from msgspec.structs import replace

from servo.core.events.tasks import TaskError, TaskOutcome
from servo.errors import Corrupt, NotFound
from servo.execution.messages import Ready, frame, from_worker
from servo.execution.outputs.patience import Patience, StoreOutage
from servo.execution.outputs.store import OutputStore
from servo.leader.assignments import Assignment, TaskResult
from servo.processes.frames import Frames
from servo.processes.stopping import STOPPED
from servo.workers.local_pool import process as worker_main
from servo.workers.local_pool.worker_process import LEAVE_SECONDS, WorkerProcess
from simulation.kernel import Process, SimClock, Violation, this_process
from simulation.sockets import connected
from simulation.threads import Event
from simulation.world import SimulatedWorld

LARGE = 4_000
"""So often its id makes an output too large for its marker, so that it is a file beside it."""
_quiet = logging.getLogger("servo.simulation.worker")
_quiet.disabled = True


class Permits:
    """The pipe with permits, both ends of it."""

    def __init__(self) -> None:
        self._numbers: deque[int] = deque()
        self._arrived = self._drawn = 0

    def put(self, numbers: Iterable[int]) -> None:
        self._numbers.extend(numbers)

    def take_back(self) -> int:
        count = len(self._numbers)
        self._numbers.clear()
        return count

    def may_begin(self) -> bool:
        self._arrived += 1
        if self._drawn < self._arrived:
            if not self._numbers:
                return False
            self._drawn = self._numbers.popleft()
        return self._drawn == self._arrived

    def close(self) -> None:
        return


class CrashRecord:
    """What a pool still learns about a process that died."""

    checking = None
    knew_secrets = False

    def __init__(self) -> None:
        self.begun = 0

    def one_more(self) -> None:
        self.begun += 1

    def close(self) -> None:
        return


class Child(WorkerProcess):
    """A worker process, as its pool sees it; the process is simulated."""

    def __init__(self, world: SimulatedWorld, mark: str) -> None:
        parent = this_process()
        self._parent = parent
        self._exit: int | None = None
        self._exited = Event()
        child = Process(parent.kernel, mark, lambda process: self._main(world, process))
        parent.machine.add(child)
        self._child = child
        self.socket, self._theirs = connected(parent, child)
        self.frames = Frames(from_worker)
        self.ready = False
        self.running: dict[str, Assignment] = {}
        self.sent = self.done = self._permitted = 0
        self.once = self.worn = self.leaving = self.interrupted = False
        self.target = self.report = None
        self.since = 0.0
        self._unsent: list[bytes] = []
        self._permits = Permits()
        self._ends: dict[str, int] = {}
        self._sent_bytes = self._read_bytes = 0
        self._kill_at = None
        self._crash_record = CrashRecord()
        child.start()
        world.children.append(child)
        # As `die_with` does, as soon as the system has told it.
        parent.at_end.append(self._lose_parent)
        child.at_end.append(self._on_exit)

    def _main(self, world: SimulatedWorld, process: Process) -> None:
        process.sleep(world.kernel.random.uniform(20, 200))
        runner: Any = Runner(world, process)
        drawing: Any = self._permits
        record: Any = self._crash_record
        theirs: Any = self._theirs
        try:
            theirs.sendall(frame(Ready(pid=process.pid)))
            self._exit = worker_main.serve(theirs, runner, record, drawing)
        except BrokenPipeError:
            self._exit = 0  # the pool is gone

    def _die(self) -> None:
        # Nothing is killed from inside another process: it would never be continued.
        self._child.kernel.at(0, self._child.crash)

    def _lose_parent(self) -> None:
        kernel = self._child.kernel
        kernel.at(kernel.random.uniform(0, 30), self._die)

    def _on_exit(self) -> None:
        if self._exit is None:
            self._exit = -signal.SIGKILL
        self._exited.set()

    def crash_output(self) -> tuple[bytes | None, str]:
        return b"", ""

    def resident_bytes(self) -> int:
        return 0

    def forget(self) -> None:
        return

    def _signal(self, number: signal.Signals) -> None:
        if number == signal.SIGKILL:
            self._die()
            return
        kernel = self._child.kernel
        heeds = kernel.random.random() < 0.8

        def stop() -> None:
            if self._child.alive:
                self._exit = STOPPED
                self._child.crash()

        if heeds:
            kernel.at(kernel.random.uniform(1, 500), stop)

    def _gone(self) -> int:
        if self._child.alive and not self._exited.wait(LEAVE_SECONDS):
            self._die()
            self._exited.wait()
        return self._exit if self._exit is not None else -signal.SIGKILL


class Runner:
    """Runs user code: it reads its inputs, takes a while, and commits what it made."""

    def __init__(self, world: SimulatedWorld, process: Process) -> None:
        self._world = world
        self._process = process
        clock = SimClock(process)
        patience = Patience(clock, _quiet, pause=lambda seconds: process.sleep(seconds * 1000))
        self._outputs = OutputStore(world.store_of(process), world.paths, patience=patience)

    def run(self, work: Assignment) -> TaskResult:
        """How an execution ended."""
        world, rng = self._world, self._world.kernel.random
        world.oracle.started(work.attempt_id, work.exec_id, work.run_id, work.task_key)
        try:
            for pinned in work.inputs.values():
                _ = self._outputs.read(pinned.uri, pinned.content_hash)
            self._process.sleep(rng.uniform(5, world.swarm.longest_task_ms))
            if world.kernel.faulty and rng.random() < world.swarm.failure_rate:
                return _failed(work, TaskError(code="UserCodeException", types=("ValueError",)))
            return self._commit(work)
        except StoreOutage as error:
            return _failed(work, TaskError(code="StoreOutage", message=str(error)))
        except (NotFound, Corrupt) as error:
            raise Violation(f"an input of {work.task_key} cannot be read: {error}") from error

    def _commit(self, work: Assignment) -> TaskResult:
        size = LARGE if self._world.kernel.random.random() < 0.1 else 1
        staged = [
            self._outputs.stage(key, work.exec_id, work.exec_id * size)
            for key in (work.asset_key, *work.also_makes)
        ]
        keys = ("", *work.also_makes)
        made = tuple(
            replace(
                one.output,
                asset_key=keys[number],
                materialization_id=f"{work.exec_id}-{number}" if number else work.exec_id,
            )
            for number, one in enumerate(staged)
        )
        result = TaskResult(
            exec_id=work.exec_id,
            outcome=TaskOutcome.SUCCEEDED,
            output=made[0] if len(made) == 1 else None,
            outputs=made if len(made) > 1 else (),
        )
        self._outputs.commit(staged, result)
        return result


def _failed(work: Assignment, error: TaskError) -> TaskResult:
    return TaskResult(exec_id=work.exec_id, outcome=TaskOutcome.FAILED, error=error)


Starting = Callable[[Any, str], Child]


def starting_in(world: SimulatedWorld) -> Starting:
    """In place of `WorkerProcess`: starts simulated processes of a world."""

    def start(setup: Any, mark: str) -> Child:
        del setup
        return Child(world, mark)

    return start
