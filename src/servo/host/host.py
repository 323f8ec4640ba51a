"""The host of a command: the process that executes its runs.

`LeadingHost` leads the workspace in this process; `AttachedHost` sends requests to another leader,
and takes over when that leader ends. Commands use both in the same way.
"""

from typing import Protocol, overload

from servo.code.backfills.view import Backfill
from servo.core.state.rows.automation import BackfillRow
from servo.core.state.rows.execution import RunRow, TaskRow
from servo.leader.leases.lease import HostedTriggers
from servo.workspace.workspace import Workspace


class Host(Protocol):
    """Executes runs and backfills, here or in another process."""

    def __enter__(self) -> "Host": ...

    def __exit__(self, *raised: object) -> None: ...

    @property
    def workspace(self) -> Workspace:
        """The workspace, as operations take it. Runs that are requested here can be waited for."""
        ...

    @property
    def leads(self) -> bool:
        """Whether this process executes the runs."""
        ...

    def hosts(self, triggers: HostedTriggers) -> bool:
        """Whether the process that does the work hosts these triggers."""
        ...

    def start_triggers(self) -> None:
        """Start the triggers of this process, now if it leads or when it takes over."""
        ...

    def begun_runs(self) -> list[str]:
        """Unfinished runs that this host can execute, oldest first."""
        ...

    def left_runs(self) -> list[RunRow]:
        """Runs that have not ended and wait for code that this process leads without."""
        ...

    def open_runs(self) -> list[RunRow]:
        """Unfinished runs, oldest first."""
        ...

    @overload
    def wait(self, run: str) -> RunRow: ...
    @overload
    def wait(self, run: str, timeout: float) -> RunRow | None: ...

    def wait(self, run: str, timeout: float | None = None) -> RunRow | None:
        """Wait until a run has finished, at most `timeout` s; its last row, or None."""
        ...

    def row(self, run: str) -> RunRow | None:
        """The current state of a run."""
        ...

    def tasks(self, run: str) -> list[TaskRow]:
        """The current state of a run's tasks."""
        ...

    def running(self) -> list[TaskRow]:
        """The tasks that run now."""
        ...

    def backfill(self, name: str) -> Backfill | None:
        """The current state of a backfill."""
        ...

    def open_backfills(self) -> list[BackfillRow]:
        """Unfinished backfills, oldest first."""
        ...

    def check(self) -> None:
        """Raise the error that keeps the host from working, if there is one."""
        ...

    def interrupt(self) -> str:
        """Stop after Ctrl-C; return the message for the user."""
        ...

    def finish(self) -> None:
        """Let tasks that run here for other processes finish before exiting."""
        ...
