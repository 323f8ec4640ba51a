"""The processes of a pool: which takes which execution, which ends, and how many to start.

A process is replaced after a number of executions, or when it uses too much memory, always between
two executions: its successor is started first and takes over when it is ready, so no task waits. An
isolated execution gets a process that was never used, and that ends afterwards.

No more executions run at once than the pool's size, however many processes there are. The caller
holds the pool's lock.
"""

from collections.abc import Iterable

from servo.config import WorkerSettings
from servo.leader.assignments import Assignment
from servo.workers.local_pool.worker_process import WorkerProcess


class ProcessTable:
    """The processes of a pool."""

    def __init__(self, size: int, limits: WorkerSettings) -> None:
        self.size = size
        self.children: list[WorkerProcess] = []
        self._limits = limits
        self.isolating = limits.isolate

    @property
    def ready(self) -> bool:
        """Whether any process can take an execution."""
        return any(child.ready and child.stays for child in self.children)

    def idle(self, now: float) -> bool:
        """Whether an idle process can take an execution."""
        return bool(self._free(1, now))

    def fewest(self, depth: int, now: float) -> int:
        """The fewest executions of any process that can take more; `depth` if none can."""
        had = [len(child.running) for child in self.children if child.takes(depth, now)]
        return min(had, default=depth)

    def wants_own(self, assignment: Assignment) -> bool:
        """Whether an execution needs an unused process."""
        return assignment.isolated or self._limits.isolate

    def match(
        self, waiting: Iterable[Assignment], depth: int, now: float
    ) -> tuple[Assignment, WorkerProcess] | None:
        """A waiting execution and a process that can take it now."""
        free = self._free(depth, now)
        if not free:
            return None
        for assignment in waiting:
            child = self._for(assignment, free, depth)
            if child is not None:
                child.once = self.wants_own(assignment)
                return assignment, child
            if not self.isolating and not assignment.isolated:
                return None  # no process can take it, or any after it
            self.isolating = True
        return None

    def _free(self, depth: int, now: float) -> list[WorkerProcess]:
        """The processes that can take an execution; no idle ones while enough are busy."""
        free = [child for child in self.children if child.takes(depth, now)]
        if len(self.children) > self.size and self._busy() >= self.size:
            return [child for child in free if child.running]
        return free

    def _for(
        self, assignment: Assignment, free: list[WorkerProcess], depth: int
    ) -> WorkerProcess | None:
        if self.wants_own(assignment):
            return next((child for child in free if child.fresh and depth == 1), None)
        # Keep unused processes for the executions that need one.
        return min(free, key=lambda child: child.fresh) if self.isolating else free[0]

    def busy_since(self, instant: float) -> bool:
        """Whether as many executions as may run at once have run since an instant."""
        long = [c for c in self.children if c.running and not c.interrupted and c.since < instant]
        return len(long) >= self.size

    def _busy(self) -> int:
        """How many processes run an execution and are not about to end."""
        return sum(1 for child in self.children if child.running and not child.interrupted)

    def used(self, child: WorkerProcess) -> bool:
        """After an execution: whether the process has to be replaced."""
        most, memory = self._limits.max_executions, self._limits.max_memory_bytes
        worn = bool(most and child.done >= most)
        child.worn = child.worn or worn or bool(memory and child.resident_bytes() > memory)
        return not child.stays or child.worn

    def rearrange(self, waiting: Iterable[Assignment]) -> int:
        """End the processes that are replaced; how many to start."""
        self._make_room(sum(1 for assignment in waiting if self.wants_own(assignment)))
        staying = self._staying()
        worn = [child for child in staying if child.worn]
        if worn and len(staying) > self.size and all(child.ready for child in staying):
            min(worn, key=lambda child: len(child.running)).leave()
            staying = self._staying()
        # One more than the size while a process is being replaced.
        wanted = self.size + any(child.worn for child in staying)
        return max(wanted - len(staying), 0)

    def _make_room(self, wanted: int) -> None:
        """End used idle processes, one for each unused process that is needed."""
        staying = self._staying()
        short = min(wanted, self.size) - sum(1 for child in staying if child.fresh)
        idle = [c for c in staying if c.ready and not c.running and not c.fresh]
        for child in idle[: max(short, 0)]:
            child.leave()

    def _staying(self) -> list[WorkerProcess]:
        return [child for child in self.children if child.stays]
