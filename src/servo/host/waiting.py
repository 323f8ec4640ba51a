"""Waiting for runs to finish."""

import threading

from servo.core.events.envelope import Batch
from servo.core.events.runs import RunRequested
from servo.core.state.rows.execution import RunRow
from servo.core.state.state import State
from servo.core.state.states import TERMINAL_RUN_STATES
from servo.leader.protocols import LeaderOfRuns
from servo.workspace.channels import LeaderInThisProcess
from servo.workspace.receipt import Receipt


class Waiting:
    """Runs that callers wait for, checked after every entry on the leader's thread."""

    def __init__(self, service: LeaderOfRuns) -> None:
        self._service = service
        self._changed = threading.Condition()
        self._ended: dict[str, RunRow] = {}
        self._waited: set[str] = set()
        self._begun: list[str] | None = None
        service.watch(self._look)

    @property
    def begun(self) -> list[str]:
        """The runs that were unfinished when the leader took over, oldest first.

        Recorded before it does anything: they may have finished by the time of this call.
        """
        return list(self._begun or ())

    def add(self, run: str) -> None:
        """Remember how this run finishes. Call it before the run can finish."""
        self._waited.add(run)

    def ended(self, run: str) -> RunRow | None:
        """The last row of a run, if it has finished; raises the error that ended the leader."""
        if run in self._ended:
            return self._ended[run]
        if self._service.over and self._service.failure is not None:
            raise self._service.failure
        return None

    def wait(self, run: str, timeout: float | None = None) -> RunRow | None:
        """Wait until a run has finished, at most `timeout` s; its last row, or None."""
        with self._changed:
            self._changed.wait_for(lambda: run in self._ended or self._service.over, timeout)
            return self.ended(run)

    def _look(self, state: State) -> None:
        if self._begun is None:
            rows = [row for row in state.runs.values() if row.state not in TERMINAL_RUN_STATES]
            self._begun = [row.run_id for row in sorted(rows, key=lambda row: row.created_at)]
            self._waited.update(self._begun)
        over = state.index.runs_over
        ended = [run for run in list(self._waited) if run in over]
        if ended:
            with self._changed:
                for run in ended:
                    self._waited.discard(run)
                    self._ended[run] = state.runs.rows[run]
                self._changed.notify_all()


class FollowingChannel:
    """Straight to the leader; the runs that are requested are remembered when they end."""

    def __init__(self, leader: LeaderInThisProcess, waiting: Waiting) -> None:
        self._leader = leader
        self._waiting = waiting

    def send(self, batch: Batch) -> Receipt:
        for event in batch.events:
            if isinstance(event, RunRequested):
                self._waiting.add(event.run_id)
        return self._leader.send(batch)
