"""Bugs in what commands are made of: pools, reports, recovery, outputs, leases and channels."""

# pyright: reportPrivateUsage=false

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from servo.core.events.envelope import Answer, Batch
from servo.core.state.state import State
from servo.errors import ServoError, Unavailable
from servo.execution.outputs.store import OutputStore, StagedOutput
from servo.host.recovery import Recovery
from servo.leader.assignments import TaskResult
from servo.leader.lease import LeaderLease
from servo.leader.service import Service
from servo.ledger.paths import MARKER
from servo.workers.local_pool.pool import Pool
from servo.workers.local_pool.reports import Reports
from servo.workspace.channels import AnyChannel, _Tries
from servo.workspace.receipt import Receipt
from simulation.planting import Bug, swap

T = TypeVar("T")


def _first_marker_first(
    self: OutputStore, staged: Sequence[StagedOutput], result: TaskResult
) -> None:
    """The marker with the result is created before the others."""
    for number, one in enumerate(staged):
        marker = one.marker if number else replace(one.marker, result=result)
        _ = self._insist(
            lambda uri=one.output.uri, marker=marker: self._store.create(
                f"{uri}{MARKER}", msgspec.json.encode(marker)
            ),
            "commit",
        )


def _read_here(self: Service, look: Callable[[State], T]) -> T:
    """Callers look at the state themselves, also while an entry is being written."""
    return look(self._current().state)


def _sent_once(self: Reports, batch: Batch) -> None:
    """A report that the leader could not take is dropped."""

    def answered(answer: Answer | ServoError) -> None:
        del answer

    try:
        self._leader.send(batch, answered)
    except Unavailable:
        return


def _meet_without_giving_back(self: Pool, state: State) -> None:
    self._state = state
    self._places.forget()


def _last_try_counts(self: AnyChannel, batch: Batch) -> Receipt:
    """The error of the last try is told, whatever became of those before it."""
    return self._insist(batch, _Tries())


BUGS: Mapping[str, Bug] = MappingProxyType(
    {
        "nothing_adopted": Bug(
            what="a new leader does not look for results that were committed before it led",
            plant=swap((Recovery, "_committed", lambda *_: None)),
            seed=2,
            world="commands",
        ),
        "result_before_outputs": Bug(
            what="the marker with the result is created before the other outputs are committed",
            plant=swap((OutputStore, "commit", _first_marker_first)),
            seed=0,
            world="commands",
        ),
        "lease_ignored": Bug(
            what="a process takes over although another one holds the lease",
            plant=swap((LeaderLease, "_is_held", lambda *_: False)),
            seed=0,
            world="commands",
        ),
        "report_sent_once": Bug(
            what="a report that the leader could not take is not sent again",
            plant=swap((Reports, "send", _sent_once)),
            seed=0,
            world="commands",
        ),
        "grant_not_given_back": Bug(
            what="a pool keeps quiet about grants that were never handed over to it",
            plant=swap((Pool, "_meet", _meet_without_giving_back)),
            seed=0,
            world="commands",
        ),
        "undurable_state_read": Bug(
            what="threads beside the leader's read state that is not durable yet",
            plant=swap((Service, "read", _read_here)),
            seed=0,
            world="commands",
        ),
        "last_try_counts": Bug(
            what="a request is told as not applied because its last try was not",
            plant=swap((AnyChannel, "send", _last_try_counts)),
            seed=9,
            world="commands",
        ),
    }
)
