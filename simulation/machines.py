"""Machines: each has its processes, its disk with the registry, and its sockets.

`simulated_system` lets the code of Servo that talks to the operating system talk to them. Nothing
of Servo is replaced: only `threading`, `socket`, `selectors`, `os`, `fcntl` and `Path` are, in the
modules that use them, and the start of worker processes.
"""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from servo.execution.outputs import patience
from servo.host import attached, leading, one_pass, opening, recovery, waiting
from servo.leader import service
from servo.leader.leases import keeper
from servo.workers.local_pool import pool
from servo.workspace import (
    answering,
    channels,
    leader_lock,
    lock_and_lease,
    workspace,
)
from servo.workspace.leader_socket import connection, server
from simulation.disk import Disk, Locks, SimPath, System
from simulation.kernel import Kernel, Process, this_process
from simulation.planting import swap
from simulation.sockets import Selectors, SimSocket, Sockets
from simulation.threads import Background, SimFuture, Threading

REGISTRY = "/run/servo"
MOST_WAITING = 64


class Machine:
    """A computer: what its processes share and those of others do not see."""

    def __init__(self, kernel: Kernel, name: str) -> None:
        self.kernel = kernel
        self.name = name
        self.disk = Disk(kernel)
        self.disk.make_folders(REGISTRY)
        self.listeners: dict[str, SimSocket] = {}
        self.most_waiting = MOST_WAITING
        self.processes: list[Process] = []

    def add(self, process: Process) -> Process:
        """A process of this machine, not yet started."""
        process.machine = self
        process.pid = 1000 + len(self.processes)
        self.processes.append(process)
        return process

    def is_suspended(self, pid: int) -> bool:
        """Whether a process is stopped."""
        return any(one.pid == pid and one.alive and one.is_paused for one in self.processes)


_WITH_THREADS = (
    service,
    keeper,
    recovery,
    waiting,
    leading,
    opening,
    attached,
    one_pass,
    channels,
    workspace,
    lock_and_lease,
    leader_lock,
    server,
    patience,
    pool,
)
_WITH_SOCKETS = (leader_lock, server, connection, pool)
_WITH_FILES = (leader_lock, server)


def _is_suspended(pid: int) -> bool:
    return this_process().machine.is_suspended(pid)


@contextmanager
def simulated_system() -> Generator[None]:
    """Within this, Servo's threads, files, locks and sockets are those of simulated machines."""
    system, folder = System(), SimPath(REGISTRY)
    changes: list[tuple[Any, str, Any]] = [
        *((module, "threading", Threading) for module in _WITH_THREADS),
        *((module, "socket", Sockets) for module in _WITH_SOCKETS),
        *((module, "os", system) for module in (*_WITH_FILES, pool)),
        *((module, "Path", SimPath) for module in _WITH_FILES),
        *((module, "made_registry_folder", lambda: folder) for module in _WITH_FILES),
        (leader_lock, "registry_folder", lambda: folder),
        (leader_lock, "machine_id", lambda: this_process().machine.name),
        (leader_lock, "fcntl", Locks),
        (answering, "is_suspended", _is_suspended),
        (service, "Future", SimFuture),
        (service, "ThreadBackground", Background),
        (service, "look_for_cycles_less_often", lambda: None),
        (pool, "selectors", Selectors),
    ]
    with swap(*changes)():
        yield
