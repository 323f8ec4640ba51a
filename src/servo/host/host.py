"""Who carries out what a command asks for.

`LeadingHost` leads the workspace in this process; `AttachedHost` has the process that leads do the
work, and takes over when that process ends. Commands cannot tell them apart.
"""

from typing import Protocol, overload

from servo.code.backfills.view import Backfill
from servo.core.state.rows.automation import BackfillRow
from servo.core.state.rows.execution import RunRow, TaskRow
from servo.leader.lease import HostedTriggers
from servo.workspace.workspace import Workspace


class Host(Protocol):
    """Carries out runs and backfills, here or in another process."""

    def __enter__(self) -> "Host": ...

    def __exit__(self, *raised: object) -> None: ...

    @property
    def workspace(self) -> Workspace:
        """The workspace, as operations take it. Runs that are requested here can be waited for."""
        ...

    @property
    def leads(self) -> bool:
        """Whether the work is done in this process."""
        ...

    def hosts(self, triggers: HostedTriggers) -> bool:
        """Whether the process that does the work hosts these triggers."""
        ...

    def start_triggers(self) -> None:
        """Start the triggers of this process, now if it leads or when it takes over."""
        ...

    def begun_runs(self) -> list[str]:
        """Runs that have not ended and can be carried out here, oldest first."""
        ...

    def left_runs(self) -> list[RunRow]:
        """Runs that have not ended and wait for code that this process leads without."""
        ...

    def open_runs(self) -> list[RunRow]:
        """Runs that have not ended, oldest first."""
        ...

    @overload
    def wait(self, run: str) -> RunRow: ...
    @overload
    def wait(self, run: str, timeout: float) -> RunRow | None: ...

    def wait(self, run: str, timeout: float | None = None) -> RunRow | None:
        """Until a run has ended, or for so many seconds; its last row, None if it goes on."""
        ...

    def row(self, run: str) -> RunRow | None:
        """A run as it stands."""
        ...

    def tasks(self, run: str) -> list[TaskRow]:
        """The tasks of a run, as they stand."""
        ...

    def running(self) -> list[TaskRow]:
        """The tasks that run now."""
        ...

    def backfill(self, name: str) -> Backfill | None:
        """A backfill as it stands."""
        ...

    def open_backfills(self) -> list[BackfillRow]:
        """Backfills that have not ended, oldest first."""
        ...

    def check(self) -> None:
        """Raise what keeps the work from being done."""
        ...

    def interrupt(self) -> str:
        """Stop, after Ctrl-C; what to tell the person who did it."""
        ...

    def finish(self) -> None:
        """Let what runs here for others end, before leaving."""
        ...
