"""Bugs in what commands are made of: reports, recovery, leases, channels and the local store."""

# pyright: reportPrivateUsage=false

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeVar

from servo.core.events.envelope import Answer, Batch
from servo.core.state.rows.execution import TaskRow
from servo.core.state.state import State
from servo.errors import ServoError, Unavailable
from servo.execution.outputs.store import OutputStore, StagedOutput
from servo.host.recovery import Recovery
from servo.leader.assignments import Assignment, TaskResult
from servo.leader.leases.keeper import LeaseKeeper
from servo.leader.leases.lease import LeaderAdvert, LeaderLease, Lease
from servo.leader.service import Service
from servo.ports.world import World
from servo.storage import local_files
from servo.storage.local_folders import Folder
from servo.workers.endings import ended_with_process
from servo.workers.local_pool.pool import Pool
from servo.workers.local_pool.reports import Reports
from servo.workers.local_pool.worker_process import WorkerProcess
from servo.workspace import leading
from servo.workspace.channels import AnyChannel, _Tries
from servo.workspace.receipt import Receipt
from simulation.kernel import this_process
from simulation.planting import Bug, swap

T = TypeVar("T")


def _sent_once(self: Reports, batch: Batch) -> None:
    """A report that the leader could not take is dropped."""

    def answered(answer: Answer | ServoError) -> None:
        del answer

    try:
        self._leader.send(batch, answered)
    except Unavailable:
        return


def _last_try_counts(self: AnyChannel, batch: Batch) -> Receipt:
    """The error of the last try is told, whatever became of those before it."""
    return self._insist(batch, _Tries())


def _committed_later(self: OutputStore, staged: Sequence[StagedOutput], result: TaskResult) -> None:
    """The markers are created in the background, so that the result is reported sooner."""
    this_process().spawn(lambda: _commit(self, staged, result))


_commit = OutputStore.commit


def _read_at_once(self: Service, look: Callable[[State], T]) -> T:
    """A reader does not wait for the leader's thread."""
    return look(self.engine.state)


def _reported_and_held(self: Pool, child: WorkerProcess, assignment: Assignment, code: int) -> None:
    """An execution that ended with its process is reported, and stays among those that run."""
    told = ended_with_process(child, assignment, code, setup=self._setup, store=self._store)
    if told is not None:
        self._reports.tell(told)


def _nothing_committed(self: Recovery, row: TaskRow) -> None:
    del self, row


def _not_held(self: LeaderLease, lease: Lease) -> bool:
    del self, lease
    return False


def _only_here(lease: Lease, here: LeaderAdvert | None, world: World) -> LeaderAdvert | None:
    """A lease that a process of another machine holds counts for nothing."""
    del lease, world
    return here


def _silent(self: LeaseKeeper) -> None:
    del self


def _not_flushed(self: Folder) -> None:
    del self


def _no_flush(fd: int) -> None:
    del fd


BUGS: Mapping[str, Bug] = MappingProxyType(
    {
        "folder_not_flushed": Bug(
            what="the local store acknowledges a name before its folder is flushed",
            plant=swap((Folder, "flush", _not_flushed)),
            seed=0,
            world="disks",
        ),
        "file_not_flushed": Bug(
            what="the local store gives a file its name before its bytes are flushed",
            plant=swap((local_files, "durable", _no_flush)),
            seed=0,
            world="disks",
        ),
        "nothing_adopted": Bug(
            what="a new leader does not look for results that were committed before it led",
            plant=swap((Recovery, "_committed", _nothing_committed)),
            seed=4,
            world="commands",
        ),
        "lease_ignored": Bug(
            what="a process takes over although another one holds the lease",
            plant=swap((LeaderLease, "_is_held", _not_held), (leading, "_named", _only_here)),
            seed=6,
            world="commands",
        ),
        "question_not_answered": Bug(
            what="a living leader does not answer whoever asks it through its lease",
            plant=swap((LeaseKeeper, "look", _silent)),
            seed=55,
            world="commands",
        ),
        "report_sent_once": Bug(
            what="a report that the leader could not take is not sent again",
            plant=swap((Reports, "send", _sent_once)),
            seed=42,
            world="commands",
        ),
        "marker_after_the_report": Bug(
            what="an execution reports its result before its output counts",
            plant=swap((OutputStore, "commit", _committed_later)),
            seed=0,
            world="commands",
        ),
        "read_before_durable": Bug(
            what="another thread reads what the leader has folded and not yet written",
            plant=swap((Service, "read", _read_at_once)),
            seed=0,
            world="commands",
        ),
        "lost_worker_keeps_its_slot": Bug(
            what="a pool counts an execution that was lost with its worker process as running",
            plant=swap((Pool, "_ended_with_process", _reported_and_held)),
            seed=23,
            world="commands",
        ),
        "last_try_counts": Bug(
            what="callers are told that a request was not applied because its last attempt was not",
            plant=swap((AnyChannel, "send", _last_try_counts)),
            seed=45,
            world="commands",
        ),
    }
)
